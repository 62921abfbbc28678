"""Times under an earlier filter, corrected: a program with known costs gives the truth back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from buran.campaign.plan import Mode
from buran.instrumentation.pooling import EarlierRuns, HookCost, Pooled, hook_cost, pool
from buran.instrumentation.prediction import SCATTER
from buran.profiles.experiment.build import Run, experiment_from_profiles
from buran.profiles.experiment.table import Experiment
from buran_studies.simulate.program import program_of
from buran_studies.simulate.run import Variant

NAMES = ("main", "solve", "inner", "tiny", "setup", "other")
COST_S = 2e-7
SIZES = (1, 2, 3, 4)


def variant(hooked: frozenset[str], visits: float = 1e5, noise_percent: float = 0.0) -> Variant:
    described: dict[str, Any] = {
        "schema": "buran-program/1",
        "noise": {"percent": noise_percent},
        "instrumentation": {"visit_s": COST_S},
        "program": {
            "main": {
                "time_s": 0.1,
                "calls": {
                    "solve": {
                        "time_s": "n**2",
                        "visits": 10,
                        "calls": {
                            "inner": {
                                "time_s": "0.5 * n",
                                "visits": f"{visits:g} * n",
                                "calls": {"tiny": {"time_s": "0.3 * n", "visits": f"{visits:g} * n"}},
                            },
                            "MPI_Barrier": {"time_s": 0.2, "visits": 5},
                        },
                    },
                    "setup": {"time_s": "2 * n", "calls": {"other": {"time_s": 0.4, "visits": 100}}},
                },
            }
        },
    }
    return Variant(program_of(described, ("n",), "test"), Mode.TIME, hooked)


def runs(built: Variant, sizes: tuple[int, ...] = SIZES, repetitions: int = 1, key: str = "") -> Iterator[Run]:
    for n in sizes:
        for repetition in range(repetitions):
            yield {"n": float(n)}, repetition, built.profile({"n": n}, 4, f"{key} {n} {repetition}")


def pooled(
    now: frozenset[str],
    then: frozenset[str],
    cost: HookCost,
    sizes: tuple[int, ...] = (1, 2),
    repetitions: int = 1,
    **program: float,
) -> Pooled:
    earlier = EarlierRuns(
        runs(variant(then, **program), key="then"), lambda each: each.name in then, lambda each: each.name in now
    )
    return pool(runs(variant(now, **program), sizes, repetitions, key="now"), [earlier], cost)


def seconds(experiment: Experiment) -> dict[str, np.ndarray]:
    return dict(zip(experiment.tree.names, experiment.over_locations("time"), strict=True))


BLOCK_S = 1e-9


def counted_pool(block_s: float, both: int, percent: float = 0.0, bias: float = 1.0) -> Pooled:
    """Pool timed runs at the first points with counting runs at all, whose blocks cost so much."""
    described: dict[str, Any] = {
        "schema": "buran-program/1",
        "noise": {"percent": percent},
        "instrumentation": {"visit_s": COST_S, "block_s": block_s},
        "program": {
            "main": {
                "time_s": 0.01,
                "basic_blocks": "10",
                "calls": {
                    "solve": {"time_s": "n**2", "visits": 10, "basic_blocks": "4e7 * n**2"},
                    "setup": {"time_s": "2 * n", "visits": "1e5 * n", "basic_blocks": "3e7 * n"},
                    "MPI_Barrier": {"time_s": 0.2, "visits": 5},
                },
            }
        },
    }
    slower = {**described, "instrumentation": {"visit_s": COST_S, "block_s": bias * block_s}}
    timed, counting = (
        Variant(program_of(text, ("n",), "test"), mode, frozenset(hooked))
        for text, mode, hooked in (
            (described, Mode.TIME, {"main", "solve"}),
            (slower, Mode.EFFORT, {"main", "solve", "setup"}),
        )
    )
    earlier = EarlierRuns(
        runs(counting, key="counting"), lambda each: True, lambda each: each.name in {"main", "solve"}, counting=True
    )
    return pool(runs(timed, SIZES[:both], key="timed"), [earlier], HookCost(COST_S, 0.02 * COST_S))


@settings(max_examples=8)
@given(st.floats(0.0, 3e-9), st.integers(2, 4))
def test_counting_runs_tell_times_where_two_points_show_what_a_block_costs(block_s: float, both: int) -> None:
    found = counted_pool(block_s, both)
    assert found.proven == pytest.approx(1.0) and found.runs > 0
    truth = {"solve": [n**2 for n in SIZES], "main": [0.01 + 2 * n for n in SIZES]}  # main has the time of setup
    for name, values in seconds(found.table).items():
        if (own := truth.get(name.rpartition("->")[2])) is not None:
            corrected = values[both:, ~found.direct]
            assert np.allclose(corrected, np.array(own)[both:, None], rtol=2e-3)
    assert not any(name.startswith("correction") for name in found.table.metrics)


def test_counting_runs_tell_no_times_before_two_points_have_both() -> None:
    found = counted_pool(BLOCK_S, 1)
    assert found.runs == 0 and found.proven is None
    assert np.isnan(found.table.over_locations("time")[:, :, ~found.direct]).all()


@pytest.mark.parametrize("percent", [1.0, 5.0])
def test_noise_of_timed_runs_does_not_refute_counting_runs(percent: float) -> None:
    proven = [counted_pool(BLOCK_S, both, percent).proven for both in (2, 3, 4)]
    assert np.mean([1.0 if each is None else each for each in proven]) > 0.8


@pytest.mark.parametrize("block_s", [1e-7, 1e-6])
def test_what_counting_costs_beyond_the_time_itself_gives_no_negative_time(block_s: float) -> None:
    found = counted_pool(block_s, 2, percent=5.0)  # 4 to 40 times what the program takes
    for values in seconds(found.table).values():
        assert not (values[:, ~found.direct] < 0).any()


SETS = st.sets(st.sampled_from(NAMES)).map(frozenset)


@settings(max_examples=40)
@given(SETS, SETS)
def test_without_noise_corrected_times_are_those_of_the_newest_filter(
    now: frozenset[str], then: frozenset[str]
) -> None:
    found = pooled(now, then, HookCost(COST_S, 0.01 * COST_S))
    truth = seconds(experiment_from_profiles(runs(variant(now))))
    for name, values in seconds(found.table).items():
        own = truth.get(name)
        corrected = values[:, ~found.direct]
        if own is None:  # a call path that only the earlier filter had
            assert np.isnan(corrected).all()
        else:
            known = np.isfinite(corrected)
            assert np.allclose(corrected[known], np.broadcast_to(own, corrected.shape)[known], rtol=1e-9)
    if now <= then:
        # Nothing is measured now that was not then: every time is known at the points that only the earlier runs have.
        far = np.stack([values[2:, ~found.direct] for values in seconds(found.table).values()])
        assert np.isfinite(far).all()


def test_what_is_more_uncertain_than_allowed_is_left_out() -> None:
    now, then = frozenset({"main", "solve"}), frozenset(NAMES)
    sure = pooled(now, then, HookCost(COST_S, 0.08 * COST_S), visits=1e6)
    assert sure.lost == 0  # a single run may scatter by more
    assert 0.2 < sure.share < 0.25 and sure.uncertainty == pytest.approx(0.08 * sure.share)
    unsure = pooled(now, then, HookCost(COST_S, 0.5 * COST_S), visits=4e6)
    times = seconds(unsure.table)
    assert np.isnan(times["simulated->main->solve"][:, ~unsure.direct]).all()
    assert np.isfinite(times["simulated->main->solve->MPI_Barrier"][:, ~unsure.direct]).all()
    assert unsure.uncertainty <= SCATTER


@pytest.mark.parametrize(("percent", "lost"), [(0.0, True), (5.0, False)])
def test_beside_uncorrected_times_of_a_point_are_those_no_more_uncertain_than_runs_scatter(
    percent: float, lost: bool
) -> None:
    now, then = frozenset({"main", "solve"}), frozenset(NAMES)
    cost = HookCost(COST_S, 0.15 * COST_S)
    found = pooled(now, then, cost, repetitions=30, visits=1e6, noise_percent=percent)
    solve = seconds(found.table)["simulated->main->solve"][:, ~found.direct]
    assert np.isfinite(solve[2:]).all()  # where nothing else tells the time
    assert np.isnan(solve[:2]).all() == lost


def test_a_wrong_cost_is_noticed_where_both_filters_measured() -> None:
    now, then = frozenset({"main", "solve"}), frozenset(NAMES)
    right = pooled(now, then, HookCost(COST_S, 0.02 * COST_S), visits=1e6)
    wrong = pooled(now, then, HookCost(3 * COST_S, 0.02 * COST_S), visits=1e6)
    path = "simulated->main->solve"
    assert np.isfinite(seconds(right.table)[path][2:, ~right.direct]).all()
    assert np.isnan(seconds(wrong.table)[path][:, ~wrong.direct]).all()


def test_what_hooks_cost_beyond_the_time_itself_leaves_no_time() -> None:
    now, then = frozenset({"main", "solve"}), frozenset(NAMES)
    found = pooled(now, then, HookCost(50 * COST_S, 0.01 * COST_S), sizes=(1,), visits=1e6)  # 3 to 10 times the time
    times = seconds(found.table)
    assert np.isnan(times["simulated->main->solve"][:, ~found.direct]).all() and found.lost > 0
    assert all(not (values < 0).any() for values in times.values())


def test_functions_that_are_measured_only_now_cannot_be_told_from_their_callers() -> None:
    found = pooled(frozenset(NAMES), frozenset(NAMES) - {"inner"}, HookCost(COST_S, 0.01 * COST_S))
    known = {name for name, values in seconds(found.table).items() if np.isfinite(values[:, ~found.direct]).any()}
    lost = set(found.table.tree.names) - known
    assert {name.rpartition("->")[2] for name in lost} == {"solve", "inner", "tiny"}


def test_without_earlier_runs_the_table_is_that_of_the_runs() -> None:
    now = frozenset(NAMES)
    found = pool(runs(variant(now)), [], HookCost(COST_S, COST_S))
    assert found.runs == 0 and found.direct.all()
    assert np.array_equal(
        found.table.values["time"], experiment_from_profiles(runs(variant(now))).values["time"], equal_nan=True
    )


@settings(max_examples=30)
@given(st.floats(5e-8, 1e-6), st.floats(0.5, 2.0), st.integers(0, 1000))
def test_the_cost_of_a_visit_is_found_within_its_doubt(cost_s: float, wrong: float, seed: int) -> None:
    draw = np.random.default_rng(seed)
    plain = draw.uniform(1, 100, 8)
    visits = plain * draw.uniform(1e5, 1e6, 8)
    noise = 1 + 0.003 * draw.standard_normal((2, 8))
    found = hook_cost(wrong * cost_s, (plain + cost_s * visits) * noise[0], plain * noise[1], visits)
    assert abs(found.seconds - cost_s) < 4 * found.uncertainty_s
    assert found.uncertainty_s >= 0.2 * found.seconds * 0.999


@pytest.mark.parametrize("visits", [[], [0.0, 0.0, 0.0]])
def test_without_pairs_the_cost_is_that_of_the_loop(visits: list[float]) -> None:
    some = np.array(visits)
    found = hook_cost(1e-7, some + 1, some + 1, some)
    assert (found.seconds, found.uncertainty_s) == pytest.approx((1e-7, 5e-8))


def test_hooks_that_cost_nothing_cost_nothing_in_pairs_either() -> None:
    """On a simulated machine; what differs there is what the compiler made of the hooks."""
    plain, visits = np.array([1.0, 2.0, 3.0]), np.array([1e6, 2e6, 3e6])
    assert hook_cost(0.0, 1.01 * plain, plain, visits) == HookCost(0.0, 0.0)
