"""Noise levels and artificial noise."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from buran.errors import UsageError
from buran.model.noise import PATTERNS, inject, noise_level, summarise


def test_level_is_the_mean_deviation_from_the_mean_in_percent():
    assert noise_level(np.array([90.0, 110.0])) == pytest.approx(10)
    assert noise_level(np.array([[80.0, 100, 120], [5, 5, 5]])) == pytest.approx([40 / 3, 0])


def test_level_is_unknown_without_two_repetitions():
    levels = noise_level(np.array([[1.0, np.nan], [0, 0], [np.nan, np.nan], [1, 3]]))
    assert np.isnan(levels[:3]).all()
    assert levels[3] == pytest.approx(50)
    assert np.isnan(noise_level(np.array([7.0])))


@given(arrays(np.float64, st.tuples(st.integers(1, 4), st.integers(1, 4)), elements=st.floats(allow_infinity=True)))
def test_level_is_never_negative_and_never_fails(values):
    levels = noise_level(values)
    assert levels.shape == values.shape[:1]
    assert not (levels < 0).any()
    summary = summarise(levels)
    assert summary.count == np.isfinite(levels).sum()


def test_summary():
    summary = summarise(np.array([[1.0, 3.0], [np.nan, 8.0]]))
    assert (summary.mean, summary.median, summary.largest, summary.count) == (4, 3, 8, 3)
    assert summary.quantiles[2] == 3
    assert np.isnan(summarise(np.array([np.nan])).mean)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_injected_noise_is_unbiased_reproducible_and_independent(pattern):
    true = np.full((40, 25), 200.0)
    noisy = inject(true, 10, pattern, repetitions=20, seed=1)
    assert noisy.shape == (40, 25, 20)
    assert noisy.mean() == pytest.approx(200, rel=0.002)
    deviation = noisy.std() / 200
    assert deviation == pytest.approx(0.1 / 3**0.5 if pattern == "uniform" else 0.05, rel=0.06)
    assert (noisy == inject(true, 10, pattern, repetitions=20, seed=1)).all()
    assert (noisy != inject(true, 10, pattern, repetitions=20, seed=2)).any()
    flat = noisy.reshape(-1, 20) - 200
    assert abs(np.corrcoef(flat[:, 0], flat[:, 1])[0, 1]) < 0.15
    assert abs(np.corrcoef(noisy[0].ravel(), noisy[1].ravel())[0, 1]) < 0.15


def test_uniform_noise_stays_within_its_level():
    noisy = inject(np.array([100.0]), 5, "uniform", repetitions=500, seed=3)
    assert noisy.min() >= 95
    assert noisy.max() <= 105
    assert inject(np.array([3.0]), 0, "mixed", repetitions=4, seed=3).tolist() == [[3, 3, 3, 3]]


def test_no_level_turns_times_negative():
    assert (inject(np.ones(200), 300, "gaussian", repetitions=3, seed=4) >= 0).all()


@pytest.mark.parametrize(
    ("percent", "pattern", "repetitions"), [(-1, "uniform", 1), (np.nan, "uniform", 1), (1, "pink", 1), (1, "mixed", 0)]
)
def test_nonsense_is_refused(percent, pattern, repetitions):
    with pytest.raises(UsageError):
        inject(np.ones(3), percent, pattern, repetitions=repetitions, seed=1)
