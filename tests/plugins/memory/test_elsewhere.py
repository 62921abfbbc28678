"""Times on another machine: of a made-up program whose costs on both machines are known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from test_memory import BLOCKS, CHEAP, DEAR, MIDDLE, POINTS, STREAMED, account

from buran.modeling.pmnf.model import predict_models
from buran.modeling.priors.resilient import fit_priors
from buran.plugins.memory.account import CacheCost, MemoryAccount, MissCost
from buran.plugins.memory.elsewhere import Drawing, Elsewhere, Speed, carried
from buran.plugins.memory.reuse import LINE

SMALL = POINTS[:, 0]
FAR = np.array([[24.0], [60.0]])
EQUAL = Speed({"chain": 1.0, "calls": 1.0, "loops": 1.0}, 0.0, 1.0)
SEEN = 2 * 14.0**3 * LINE  # a cache that is left at n = 14, between the points
MISS = 40e-9
HERE = (CHEAP, MIDDLE, DEAR)


def predicted(size: float, speed: Speed = EQUAL, seconds: tuple[float, float, float] = HERE, here: float = SEEN):
    """Predict a program whose blocks take 0.1 us and misses 40 ns, from a machine with a cache of `here` bytes."""
    memory = account(here)
    noise = 1 + 0.01 * np.random.default_rng(7).normal(size=len(SMALL))
    values = ((1e-7 * SMALL**3 + MISS * memory.distances.misses(POINTS, here)[0]) * noise)[None]
    (prior,) = memory.added_to([BLOCKS], [True], POINTS, values)
    (whole,) = fit_priors(POINTS, values, [prior])
    assert whole is not None
    there = MemoryAccount(memory.distances, [CacheCost(2, size, MissCost(seconds), STREAMED)], FAR)
    (other,) = there.added_to([BLOCKS], [True], POINTS, values)
    assert other is not None
    drawing = Drawing(speed, there, FAR, 1)
    drawing.compute(0, whole, [column for column in other.columns if column.level], {2: HERE})
    return whole, drawing.done


def width(found: Elsewhere) -> float:
    _, low, high = found.program(0.9)
    return float(high[1] - low[1])


def test_the_same_machine_takes_the_same_time() -> None:
    whole, found = predicted(SEEN)
    assert found.predicted[0] == pytest.approx(predict_models([whole.model], FAR)[0], rel=1e-9)
    assert found.program(0.9)[0] == pytest.approx(found.predicted[0])


@pytest.mark.parametrize("factor", [0.25, 4.0])
def test_another_cache_has_other_misses_at_the_same_cost(factor: float) -> None:
    _, found = predicted(factor * SEEN)
    misses = account().distances.misses(FAR, factor * SEEN)[0]
    assert found.predicted[0] == pytest.approx(1e-7 * FAR[:, 0] ** 3 + MISS * misses, rel=0.1)
    low, high = found.interval(0.9)
    # misses as a function of the parameters are near those of the distances, not the same
    assert (0.99 * low[0] <= 1e-7 * FAR[:, 0] ** 3 + MISS * misses).all()
    assert (1e-7 * FAR[:, 0] ** 3 + MISS * misses <= 1.01 * high[0]).all()


def test_cores_that_are_slower_make_blocks_dearer_and_not_misses() -> None:
    _, equal = predicted(SEEN)
    _, slower = predicted(SEEN, Speed({"chain": 2.0, "calls": 2.0, "loops": 2.0}, 0.0, 1.0))
    assert slower.misses == pytest.approx(equal.misses)
    blocks = equal.predicted - equal.misses.sum(axis=0)
    assert slower.predicted - slower.misses.sum(axis=0) == pytest.approx(2 * blocks, rel=0.03)


def test_kinds_of_code_that_differ_and_busy_calibrations_widen() -> None:
    _, equal = predicted(SEEN)
    _, apart = predicted(SEEN, Speed({"chain": 1.0, "calls": 1.5, "loops": 0.67}, 0.0, 1.0))
    _, busy = predicted(SEEN, replace(EQUAL, noise=0.3))
    assert width(apart) > 1.2 * width(equal) and width(busy) > 1.1 * width(equal)
    reach = apart.reach(0.9)
    assert reach["how fast cores are"][1] > 1e-3 > 1e-9 > equal.reach(0.9)["how fast cores are"][1]


def test_what_no_point_has_seen_here_may_cost_anything_there() -> None:
    # here nothing but first touches misses, there all that is swept
    _, found = predicted(SEEN, here=1e15)
    assert found.reach(0.9)["what misses cost"][1] > 0
    first = 2 * 60.0**3
    misses = float(account().distances.misses(FAR, SEEN)[0, 1])
    seen = 1e-7 * 60.0**3 + MISS * first
    _, low, high = found.program(0.9)
    assert low[1] < seen + 3 * CHEAP * (misses - first) and high[1] > seen + 0.5 * DEAR * (misses - first)
    assert low[1] < 1e-7 * 60.0**3 + MISS * misses < high[1]


def test_costs_stay_as_far_between_their_ends() -> None:
    there = (2 * CHEAP, 4 * MIDDLE, 2 * DEAR)
    assert [carried(cost, HERE, there) for cost in HERE] == pytest.approx(there)
    assert carried(DEAR * 3, HERE, there) == pytest.approx(6 * DEAR)
    assert carried(0.0, HERE, there) == carried(1e-9, HERE, (0.0, 0.0, 0.0)) == 0.0
    assert carried(3e-9, HERE, HERE) == pytest.approx(3e-9, rel=1e-12)


def test_what_is_kept_and_what_follows_speed_alone() -> None:
    speed = Speed({"chain": 4.0, "calls": 4.0, "loops": 4.0}, 0.0, 1.0)
    drawing = Drawing(speed, MemoryAccount(account().distances, [], FAR), FAR, 2)
    drawing.keep(0, np.array([1.0, 2.0]), np.array([0.1, 0.1]))
    drawing.scale(1, np.array([1.0, 1.0]), np.zeros(2))
    found = drawing.done
    assert found.predicted[0].tolist() == [1.0, 2.0] and found.predicted[1] == pytest.approx([2.0, 2.0])
    low, high = found.interval(0.9)
    assert low[1, 0] < 1.2 and high[1, 0] > 3.3 and high[0, 0] == pytest.approx(1.164, abs=0.01)


def test_a_further_kind_of_code_is_as_far_off_as_the_others() -> None:
    speed = Speed({"chain": 1.0, "calls": 2.0, "loops": 4.0}, 0.0, 1.0)
    assert speed.middle == pytest.approx(2.0)
    low, middle, high = speed.at(np.array([0.05, 0.5, 0.95])).tolist()
    assert middle == pytest.approx(2.0) and low * high == pytest.approx(4.0)
    assert high == pytest.approx(2 * np.exp(2.92 * np.log(2) * np.sqrt(4 / 3)), rel=1e-3)
