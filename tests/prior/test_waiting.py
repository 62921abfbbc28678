"""Waiting is told from noise, and named with how it grows."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from buran.errors import UsageError
from buran.model.terms import ModelFunction
from buran.prior.algebra import added, multiplied, power, scaled
from buran.prior.communication import operation_of
from buran.prior.noise import PointNoise
from buran.prior.prior import communication_prior, computation_prior
from buran.prior.tuning import COEFFICIENTS
from buran.prior.waiting import Verdict, diagnose
from buran_studies.noise import inject

POINTS = np.array([(p, n) for p in (64, 144, 256, 400, 576) for n in (8, 12, 16, 20, 24)], dtype=float)
BYTES = scaled(power(1, 2), 100.0)
OPERATION = operation_of("MPI_Recv")
assert OPERATION is not None
PRIOR = communication_prior(
    OPERATION, name="MPI_Recv", visits=ModelFunction(32.0), size=None, sent=ModelFunction(0.0), received=BYTES
)
EFFORT = added((ModelFunction(1.0), scaled(BYTES, 1e-4)))
WORK = power(1, 3).terms[0]
FRONT = added((power(0, Fraction(1, 2)), ModelFunction(-1.0)))  # one process waits for nobody
WAIT = multiplied(FRONT, power(1, 3))


def noisy(waiting: float, draws: int = 60) -> np.ndarray:
    effort, wait = EFFORT.evaluate(POINTS), WAIT.evaluate(POINTS)
    true = effort + waiting * effort.mean() / wait.mean() * wait
    return np.median(inject(true, 10, "mixed", repetitions=draws * 5, seed=2).reshape(25, draws, 5), axis=2).T


def test_a_wavefront_is_named_with_its_exponent() -> None:
    found = diagnose(POINTS, noisy(3.0), [PRIOR] * 60, 0, companions=[WORK])
    assert sum(own is not None and own.verdict is Verdict.WAITING for own in found) == 60
    right = [
        own for own in found if own is not None and own.term is not None and own.term.lead(0) == (Fraction(1, 2), 0)
    ]
    assert len(right) >= 54
    assert all(own.share > 0.5 and own.share_error < 0.2 and own.p_value <= 0.01 for own in right)
    assert abs(sum(weight for _, weight in right[0].candidates) - 1) < 0.1


def test_waiting_begins_with_the_second_process() -> None:
    points = np.array([(p, n) for p in (4, 9, 16, 25, 36) for n in (4, 6, 8)], dtype=float)
    values = (EFFORT.evaluate(points) + 3 * WAIT.evaluate(points))[None]
    own = diagnose(points, values, [PRIOR], 0, companions=[WORK])[0]
    assert own is not None and own.verdict is Verdict.WAITING
    far = np.array([[1024.0, 24.0]])
    assert own.waiting_part.evaluate(far) == pytest.approx(3 * WAIT.evaluate(far), rel=1e-3)
    assert own.waiting_part.evaluate(np.array([[1.0, 24.0]])) == pytest.approx(0.0, abs=1e-9)


def test_noise_alone_is_not() -> None:
    found = diagnose(POINTS, noisy(0.0), [PRIOR] * 60, 0, companions=[WORK])
    named = [own for own in found if own is not None and own.verdict is not Verdict.NONE]
    assert len(named) <= 3
    assert all(own is not None and 0.01 < own.noise < 0.1 for own in found)


def test_growth_without_processes_is_no_waiting() -> None:
    true = EFFORT.evaluate(POINTS) * (1 + (POINTS[:, 1] / 8) ** 1.5)
    own = diagnose(POINTS, inject(true, 2, repetitions=1, seed=1).T, [PRIOR], 0)[0]
    assert own is not None and own.verdict is Verdict.BEYOND


def dearer(share: float, seed: int) -> np.ndarray:
    """Repetitions of times whose price of a unit of work rises by a share with each doubling of n."""
    points = np.array([(p, n) for p in (1, 2) for n in (8, 16, 32, 64)], dtype=float)
    true = 1e-6 * points[:, 1] ** 3 * (1 + share * np.log2(points[:, 1] / 8))
    return inject(true, 2, repetitions=3, seed=seed).reshape(1, len(points), 3)


def test_units_of_work_that_get_dearer_are_growth_beyond_effort() -> None:
    points = np.array([(p, n) for p in (1, 2) for n in (8, 16, 32, 64)], dtype=float)
    prior = computation_prior(power(1, 3), "basic_blocks")
    named = 0
    for seed in range(20):
        repetitions = dearer(0.15, seed)
        noise = PointNoise.of(repetitions, "median")
        own = diagnose(points, np.median(repetitions, axis=2), [prior], 0, noise=noise)[0]
        assert own is not None and own.verdict is not Verdict.WAITING
        if own.verdict is Verdict.BEYOND:
            named += 1
            whole = added((own.effort_part, own.waiting_part))
            assert whole.evaluate(np.array([[2.0, 128.0]]))[0] == pytest.approx(1e-6 * 128**3 * 1.6, rel=0.15)
    assert named >= 18
    flat = dearer(0.0, 3)
    own = diagnose(points, np.median(flat, axis=2), [prior], 0, noise=PointNoise.of(flat, "median"))[0]
    assert own is not None and own.verdict is Verdict.NONE


def test_repetitions_tell_noise_where_few_points_do_not() -> None:
    points = np.array([(1.0, n) for n in (8, 16, 64)])
    prior = computation_prior(power(1, 3), "basic_blocks")
    repetitions = np.repeat((1e-6 * points[:, 1] ** 3 * np.array([1, 1, 2.0]))[None, :, None], 3, axis=2)
    values = repetitions[:, :, 0]
    without = diagnose(points, values, [prior], 0)[0]
    assert without is not None and without.verdict is Verdict.UNKNOWN
    told = diagnose(points, values, [prior], 0, noise=PointNoise.of(repetitions, "mean"))[0]
    assert told is not None and told.verdict is Verdict.BEYOND


@given(st.integers(1, 6), st.sampled_from(["mean", "median", "min"]), st.integers(0, 99))
def test_points_with_more_repetitions_are_worth_more_but_never_all(number: int, repetition: str, seed: int) -> None:
    values = np.random.default_rng(seed).uniform(1, 2, (2, 3, 6))
    values[:, 0, number:] = np.nan
    noise = PointNoise.of(values, repetition)  # type: ignore[arg-type]
    assert (
        (noise.deviation >= COEFFICIENTS.discrepancy).all()
        and (noise.worth <= 1).all()
        and (noise.worth.max(axis=1) == 1).all()
    )
    assert noise.degrees.tolist() == [10.0 + number - 1] * 2
    assert (noise.worth[:, 0] <= noise.worth[:, 1] + 1e-12).all() or 3 > number > 1


def test_few_points_tell_nothing() -> None:
    own = diagnose(POINTS[:4], EFFORT.evaluate(POINTS[:4])[None], [PRIOR], 0)[0]
    assert own is not None and own.verdict is Verdict.UNKNOWN and np.isnan(own.p_value)


def test_call_paths_without_prior_or_value_have_no_verdict() -> None:
    values = np.stack([EFFORT.evaluate(POINTS), np.full(25, np.nan)])
    assert diagnose(POINTS, values, [None, PRIOR], 0) == (None, None)


def test_the_level_is_a_probability() -> None:
    with pytest.raises(UsageError, match="between 0 and 1"):
        diagnose(POINTS, EFFORT.evaluate(POINTS)[None], [PRIOR], 0, level=0)


def test_what_cannot_wait_does_dearer_work() -> None:
    values = noisy(3.0, 2)
    found = diagnose(POINTS, values, [PRIOR, PRIOR], 0, companions=[WORK], can_wait=[True, False])
    waiting, computing = found
    assert waiting is not None and waiting.verdict is Verdict.WAITING
    assert computing is not None and computing.verdict is Verdict.DEARER and computing.term is not None
    quiet = diagnose(POINTS, noisy(0.0, 1), [PRIOR], 0, companions=[WORK], can_wait=[False])[0]
    assert quiet is not None and quiet.verdict is Verdict.NONE


CACHED = np.array([(p, n) for p in (1, 2) for n in (16, 24, 32, 40, 48)], dtype=float)
LOOP = computation_prior(ModelFunction(0.0, (2.0,), (power(1, 3).terms[0],)), "basic_blocks")


def dearer_from(size: float, factor: float, draws: int, seed: int) -> np.ndarray:
    price = np.where(CACHED[:, 1] >= size, factor, 1.0)
    return price * CACHED[:, 1] ** 3 * np.random.default_rng(seed).normal(1, 0.01, (draws, len(CACHED)))


@pytest.mark.parametrize("size", [32.0, 40.0, 48.0])
def test_work_that_leaves_a_cache_is_dearer_from_there_on(size: float) -> None:
    own = diagnose(CACHED, dearer_from(size, 1.5, 20, 5), [LOOP] * 20, 0, can_wait=[False] * 20)
    far = np.array([[2.0, 192.0]])
    predicted = [float((each.effort_part.evaluate(far) + each.waiting_part.evaluate(far))[0]) for each in own if each]
    assert all(each is not None and each.verdict is Verdict.DEARER for each in own)
    assert np.array(predicted) == pytest.approx(1.5 * 192.0**3, rel=0.1)


@settings(max_examples=10)
@given(st.floats(1.1, 3.0), st.sampled_from([24.0, 32.0, 40.0, 48.0]), st.integers(0, 10**6))
def test_units_of_work_never_get_dearer_by_a_power_of_the_size(factor: float, size: float, seed: int) -> None:
    own = diagnose(CACHED, dearer_from(size, factor, 1, seed), [LOOP], 0, can_wait=[False])[0]
    assert own is not None and all(term.lead(1) <= (Fraction(3), 1) for term, _ in own.candidates)


def test_work_that_is_no_dearer_is_rarely_called_so() -> None:
    own = diagnose(CACHED, dearer_from(16.0, 1.0, 200, 6), [LOOP] * 200, 0, can_wait=[False] * 200)
    assert sum(each is not None and each.verdict is Verdict.DEARER for each in own) <= 6
