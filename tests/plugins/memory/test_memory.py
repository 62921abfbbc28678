"""Misses as an account of times: of made-up programs whose costs are known."""

from __future__ import annotations

import re
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from prior_tables import table
from test_distances import SMALL, models_along

from buran.modeling.functions.terms import ModelFunction, power
from buran.modeling.pmnf.text import format_function
from buran.modeling.priors.campaign import models_from_priors
from buran.modeling.priors.prior import Prior, computation_prior, one_cost
from buran.modeling.priors.resilient import fit_priors
from buran.plugins.memory import costs as memory
from buran.plugins.memory.account import CacheCost, MemoryAccount, MissCost, PageAccount, expected_cost
from buran.plugins.memory.costs import cache_cost, scattered_s, streamed_s
from buran.plugins.memory.machine_file import Level, MachineFile
from buran.plugins.memory.outgrown import OUTGROWN, Outgrown
from buran.plugins.memory.reuse import LINE

MACHINE = MachineFile(
    *("node1", "a processor", "6.1", "cc 12", "2026-01-01T00:00:00+00:00"),
    cores=4,
    levels=(
        Level(2**15, 1, 1e-9, 1e-9, 1e-9, 1e-9, 100e9, 100e9),
        Level(2**23, 4, 20e-9, 40e-9, 20e-9, 40e-9, 30e9, 20e9),
        Level(None, 4, 100e-9, 160e-9, 100e-9, 160e-9, 12e9, 4e9),
    ),
    flops=50e9,
    flops_busy=40e9,
    codes={"chain": 1e-9},
    spread=0.1,
)
BLOCKS = computation_prior(ModelFunction(0.0, (100.0,), power(0, 3).terms))
CACHE = 2 * 30.0**3 * LINE  # the two arrays fill it at n = 30
CHEAP, MIDDLE, DEAR = 1e-9, 8e-9, 100e-9
POINTS = SMALL[:, None]


SCATTERED, STREAMED = MissCost((CHEAP, MIDDLE, DEAR)), MissCost((0.2e-9, 2e-9, 6e-9))


def account(size: float = CACHE, at: float = 60.0, streams: float = np.nan) -> MemoryAccount:
    distances = replace(models_along(SMALL), streams=np.array([streams]))
    return MemoryAccount(distances, [CacheCost(2, size, SCATTERED, STREAMED)], np.array([[at]]))


def prior_of(memory: MemoryAccount, values: np.ndarray) -> Prior:
    (prior,) = memory.added_to([BLOCKS], [True], POINTS, values)
    assert prior is not None
    return prior


def test_misses_are_a_function_of_the_parameters() -> None:
    memory = account()
    (*_, misses) = prior_of(memory, np.array([1e-7 * SMALL**3])).columns
    far = np.array([[12.0], [40.0], [60.0]])
    expected = memory.distances.misses(far, CACHE)[0]
    assert misses.function.evaluate(far) == pytest.approx(expected, rel=0.05)
    text = format_function(misses.function, ("n",))
    # bytes: the middle between the first misses and the last
    (middle,) = re.findall(r" > (\S+)\] \* n\^3", text)
    assert float(middle) == pytest.approx(3.8e6, rel=0.03)
    names = {"n": 60.0, "log2": np.log2}
    assert eval(format_function(misses.function, ("n",), "python"), names) == pytest.approx(expected[2], rel=0.05)
    assert ModelFunction.from_json(misses.function.to_json()) == misses.function


@pytest.mark.parametrize("seconds", [3e-9, 20e-9])
def test_a_miss_that_nobody_has_seen_costs_what_the_machine_lets_expect(seconds: float) -> None:
    rng = np.random.default_rng(20261123)
    memory = account()
    blocks = 1e-7 * SMALL**3
    first = 2 * SMALL**3  # lines that were never touched before miss everywhere
    values = ((blocks + seconds * first) * (1 + 0.02 * rng.normal(size=len(SMALL))))[None]
    prior = prior_of(memory, values)
    with_misses, without = (fit_priors(POINTS, values, [each])[0] for each in (prior, BLOCKS))
    assert with_misses is not None and without is not None
    at = np.array([[60.0]])
    truth = 1e-7 * 60.0**3 + seconds * float(memory.distances.misses(at, CACHE)[0, 0])
    low, high = with_misses.model.predict_interval(at)
    assert 0 < low[0] <= truth <= high[0]
    # the ends are those of the cost: the least is that of lines that were foreseen
    misses = float(memory.distances.misses(at, CACHE)[0, 0])
    assert high[0] < 1.5e-7 * 60.0**3 + 1.5 * DEAR * misses
    narrow = np.diff(np.array(without.model.predict_interval(at)), axis=0)
    assert high[0] - low[0] > narrow[0, 0]


def test_a_miss_that_was_seen_costs_what_the_times_say() -> None:
    # The cache is left at n = 14, so that the points are on both sides of the cliff.
    memory = account(2 * 14.0**3 * LINE)
    misses = memory.distances.misses(POINTS, 2 * 14.0**3 * LINE)
    values = 1e-7 * SMALL**3 + 40e-9 * misses
    prior = prior_of(memory, values)
    fitted = fit_priors(POINTS, values, [prior])[0]
    assert fitted is not None
    assert fitted.coefficients[-1] == pytest.approx(40e-9, rel=0.25)
    assert np.isfinite(np.array(fitted.model.predict_interval(np.array([[60.0]])))).all()


def test_caches_that_do_not_matter_have_no_column() -> None:
    values = np.array([1e-7 * SMALL**3])
    memory = account(1e15)
    assert prior_of(memory, values * 1e6).columns == BLOCKS.columns
    assert memory.added_to([None], [True], POINTS, values) == [None]
    assert memory.added_to([BLOCKS], [False], POINTS, values) == [BLOCKS]


def test_ranks_that_share_a_cache_leave_it_earlier_and_pay_more() -> None:
    alone, shared = (cache_cost(MACHINE, 1, ranks, 4) for ranks in ("4", "n"))
    assert alone.crowding == alone.scattered.growth == alone.streamed.growth == "1" and alone.bytes == shared.bytes / 4
    for ranks in (1, 2, 3, 4, 8):
        names = {"n": ranks, "min": min, "max": max}
        divided, scattered, streamed = (
            eval(text, names) for text in (shared.crowding, shared.scattered.growth, shared.streamed.growth)
        )
        assert divided == min(ranks, 4)
        assert scattered == pytest.approx(
            sum(scattered_s(MACHINE, 1, ranks)) / sum(scattered_s(MACHINE, 1, 4)), rel=0.01
        )
        assert streamed == pytest.approx(streamed_s(MACHINE, 1, ranks)[1] / streamed_s(MACHINE, 1, 4)[1])
    # one core alone reads 12 GB/s of 16 that all have: bandwidth is used up by the second rank
    one, two, four = (streamed_s(MACHINE, 1, ranks)[1] + LINE / MACHINE.bandwidth_of(1, ranks) for ranks in (1, 2, 4))
    assert (one, two, four) == pytest.approx((LINE / 12e9, LINE / 8e9, LINE / 4e9))


def test_ranks_of_a_node_divide_the_caches_of_its_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    campaign: Any = SimpleNamespace(
        parameters=("p", "n"),
        target={"p": 8, "n": 10},
        placement=lambda _: SimpleNamespace(ranks_per_node=4),
    )
    monkeypatch.setattr(memory, "ranks_of_a_node", lambda _: "p")
    own, shared = memory.sharing(campaign, MACHINE, MACHINE.caches)
    points = np.array([[1.0, 10.0], [3.0, 10.0], [8.0, 10.0]])
    assert own(points).tolist() == [1, 1, 1] and shared(points).tolist() == [1, 3, 4]
    monkeypatch.setattr(memory, "ranks_of_a_node", lambda _: None)  # as at the target
    assert memory.sharing(campaign, MACHINE, MACHINE.caches)[1](points).tolist() == [4, 4, 4]
    assert memory.sharing(campaign, MACHINE, (2**15,)) == []  # other caches, of which nobody knows who shares them


def test_what_the_processor_foresees_is_cheap() -> None:
    mixed = CacheCost(2, CACHE, SCATTERED, STREAMED).of(0.75)
    ends = np.array([STREAMED.seconds, SCATTERED.seconds])
    assert mixed.seconds == pytest.approx([0.75, 0.25] @ ends)
    values = np.array([1e-7 * SMALL**3])
    at = np.array([[60.0]])
    reaches = []
    for streams in (1.0, 0.5, np.nan):
        fitted = fit_priors(POINTS, values, [prior_of(account(streams=streams), values)])[0]
        assert fitted is not None
        low, high = fitted.model.predict_interval(at)
        reaches.append((high - low)[0])
    assert reaches[0] < reaches[1] < reaches[2]


def test_costs_of_both_kinds_grow_together_where_ranks_share_a_node() -> None:
    cost = CacheCost(2, CACHE, MissCost((1.0, 2.0, 3.0), "p"), MissCost((1.0, 4.0, 5.0), "2")).of(0.5)
    assert eval(cost.growth, {"p": 5.0}) == pytest.approx((0.5 * 2 * 5 + 0.5 * 4 * 2) / 3)


def test_a_cost_is_expected_between_its_ends() -> None:
    expected = expected_cost((1e-9, 8e-9, 100e-9))
    assert expected is not None
    (middle, deviation), parts = expected
    uniform = np.random.default_rng(1).uniform(0, 1, 200_000)
    draws = np.exp(np.interp(uniform, [0, 0.5, 1], np.log([1e-9, 8e-9, 1e-7])))
    assert middle == pytest.approx(8e-9, rel=0.02)
    assert deviation == pytest.approx(np.sqrt(np.mean((draws - middle) ** 2)), rel=0.02)
    assert [median for median, _ in parts] == pytest.approx(np.quantile(draws, [0.1, 0.3, 0.5, 0.7, 0.9]), rel=0.03)
    assert expected_cost((0.0, 0.0, 0.0)) is None
    assert np.isfinite(np.array((expected_cost((0.0, 0.0, 1e-7)) or ((np.nan,),))[0])).all()


def test_costs_from_elsewhere_stay_where_points_are_few() -> None:
    prior = prior_of(account(), np.array([1e-7 * SMALL**3]))
    assert prior.fitted_count == 2 and len(prior.columns) == 3
    assert one_cost(prior).columns[2:] == prior.columns[2:]


def test_the_share_of_accesses_rises_from_0_to_1() -> None:
    basis = Outgrown(50.0, 200.0)
    x = np.array([-1.0, 0.0, 50.0, 100.0, 1e6])
    share = basis.evaluate(x)
    assert share == pytest.approx([0, 0, 0, 0.5, 1], abs=1e-12)
    written = eval(basis.written("x", "python"), {"x": x[2:], "log2": np.log2})
    assert written == pytest.approx(share[2:], abs=1e-12)
    assert basis.written("(12 + n^2)", "text") == "[12 + n^2 > 100]"
    assert basis.written("12 n^(2/3)", "text") == "[12 n^(2/3) > 100]"
    assert OUTGROWN.read(basis.to_json()) == basis


def test_misses_that_hardly_happen_do_not_spoil_the_others() -> None:
    memory = account(2 * 24.0**3 * LINE * 1.4)  # the last point has next to none
    values = np.array([1e-7 * SMALL**3 * (1.0, 1.02, 0.99, 1.01, 1.0)])
    fitted = fit_priors(POINTS, values, [prior_of(memory, values)])[0]
    assert fitted is not None
    assert fitted.model.function.evaluate(POINTS) == pytest.approx(values[0], rel=0.1)
    far = np.array([[60.0]])
    most = 1.2e-7 * 60.0**3 + DEAR * float(memory.distances.misses(far, LINE)[0, 0])
    assert 0 < fitted.model.function.evaluate(far)[0] < most


FAULT = MissCost((0.5e-6, 1e-6, 2e-6))


@pytest.mark.parametrize("blocks", [[7, 7, 7, 7, 7], [8, 10, 8, 10, 8]])
def test_page_faults_are_an_account_of_times_whose_blocks_do_not_grow(blocks: list[float]) -> None:
    """Half of the sizes lie in memory that is there already; the larger ones are new pages."""
    n = np.array([4.0, 8.0, 16.0, 32.0, 64.0])
    counted = table(
        {"app": {}, "app->f": {"basic_blocks": np.array(blocks), "minor_faults": 4 * n}}, n[:, None], ("n",)
    )
    timed = table({"app": {}, "app->f": {"time": 2e-6 + 1.2e-6 * 4 * n}}, n[:, None], ("n",))
    far = np.array([[256.0]])
    found = memory.faults_of(counted, timed.tree)
    assert found is not None and memory.faults_of(timed, timed.tree) is None
    account = PageAccount(found, FAULT, ("n",), far)
    made = models_from_priors(timed, counted, processes=None, accounts=[account])[1]
    assert made.resilient is not None and made.final is not None
    assert [column.name for column in made.resilient.prior.columns] == ["constant", "page faults"]
    assert any("page faults" in note for note in made.notes)
    assert float(made.final.function.evaluate(far)[0]) == pytest.approx(1.2e-6 * 1024, rel=0.05)


def test_page_faults_cost_what_the_calibration_says_and_more_where_cores_are_busy() -> None:
    machine = replace(MACHINE, fault_s=1e-6, fault_busy_s=1.6e-6)
    assert memory.fault_cost(machine, "4", 4) == MissCost((0.8e-6, 1.6e-6, 3.2e-6))
    shared = memory.fault_cost(machine, "n", 4)
    costs = [shared.seconds[1] * eval(shared.growth, {"n": n, "min": min}) for n in (1, 2, 4, 8)]
    assert costs == pytest.approx([1e-6, 1.2e-6, 1.6e-6, 1.6e-6])
    assert MACHINE.fault_s_of(2) == 0  # an older file does not have it
