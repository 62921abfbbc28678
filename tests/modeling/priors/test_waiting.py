"""Waiting is told from noise, and named with how it grows."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from buran.modeling.functions.terms import ModelFunction, added, multiplied, power, scaled
from buran.modeling.numerics.tuning import NOISE
from buran.modeling.pmnf.repetitions import PointNoise
from buran.modeling.priors.communication import operation_of
from buran.modeling.priors.prior import communication_prior
from buran.modeling.priors.waiting import Verdict, diagnose
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
    assert all(own.share > 0.5 and own.p_value <= 0.01 for own in right)


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


@given(st.integers(1, 6), st.sampled_from(["mean", "median", "min"]), st.integers(0, 99))
def test_points_with_more_repetitions_are_worth_more_but_never_all(number: int, repetition: str, seed: int) -> None:
    values = np.random.default_rng(seed).uniform(1, 2, (2, 3, 6))
    values[:, 0, number:] = np.nan
    noise = PointNoise.of(values, repetition)  # type: ignore[arg-type]
    assert (noise.deviation >= NOISE).all() and (noise.worth <= 1).all() and (noise.worth.max(axis=1) == 1).all()
    assert noise.degrees.tolist() == [10.0 + number - 1] * 2
    assert (noise.worth[:, 0] <= noise.worth[:, 1] + 1e-12).all() or 3 > number > 1


def test_few_points_tell_nothing() -> None:
    own = diagnose(POINTS[:4], EFFORT.evaluate(POINTS[:4])[None], [PRIOR], 0)[0]
    assert own is not None and own.verdict is Verdict.UNKNOWN and np.isnan(own.p_value)


def test_call_paths_without_prior_or_value_have_no_verdict() -> None:
    values = np.stack([EFFORT.evaluate(POINTS), np.full(25, np.nan)])
    assert diagnose(POINTS, values, [None, PRIOR], 0) == (None, None)


def test_growth_without_processes_and_what_cannot_wait_are_no_waiting() -> None:
    rising = EFFORT.evaluate(POINTS) * (1 + (POINTS[:, 1] / 8) ** 1.5)
    own = diagnose(POINTS, inject(rising, 2, repetitions=1, seed=1).T, [PRIOR], 0)[0]
    assert own is not None and own.verdict is Verdict.NONE
    waiting, computing = diagnose(POINTS, noisy(3.0, 2), [PRIOR, PRIOR], 0, companions=[WORK], can_wait=[True, False])
    assert waiting is not None and waiting.verdict is Verdict.WAITING
    assert computing is None
