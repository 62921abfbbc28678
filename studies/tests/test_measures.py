"""Measures of accuracy, and artificial noise."""

from fractions import Fraction as F

import numpy as np
import pytest

from buran.errors import UsageError
from buran.modeling.functions.powers import PowerLog
from buran.modeling.functions.terms import Factor, ModelFunction, Term
from buran_studies.noise import PATTERNS, inject
from buran_studies.quality import exponent_deviation, mape, mlogq


def test_mape_leaves_out_zeros_and_missing_values():
    predicted, actual = np.array([[11.0, 3, 5, 1], [1, 1, 1, 1]]), np.array([[10.0, 4, np.nan, 0], [np.nan] * 4])
    assert mape(predicted, actual)[0] == pytest.approx((10 + 25) / 2)
    assert np.isnan(mape(predicted, actual)[1])


def test_mlogq_is_symmetric_in_the_ratio():
    actual = np.array([4.0, 4.0])
    assert mlogq(np.array([8.0, 2.0]), actual) == pytest.approx(np.log(2))
    assert mlogq(np.array([4.0, -1.0]), actual) == np.inf
    assert np.isnan(mlogq(np.array([4.0, 1.0]), np.array([0.0, np.nan])))


def test_exponent_deviation_ignores_logarithms():
    def function(*factors):
        return ModelFunction(
            1.0, (1.0,), (Term(tuple(Factor(factor[0], PowerLog(*factor[1:])) for factor in factors)),)
        )

    found = function((0, F(3, 2), 1), (1, F(0), 2))
    true = function((0, F(1), 0))
    assert exponent_deviation(found, true, 2).tolist() == [0.5, 0]


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
