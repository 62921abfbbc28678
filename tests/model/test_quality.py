"""Measures of accuracy."""

from fractions import Fraction as F

import numpy as np
import pytest

from buran.model.powers import PowerLog
from buran.model.quality import (
    adjusted_r2,
    exponent_deviation,
    mape,
    mlogq,
    relative_error,
    rss,
    share_within,
    smape,
)
from buran.model.terms import Factor, ModelFunction, Term


def test_smape():
    assert smape(np.array([3.0, 1.0]), np.array([1.0, 1.0])) == pytest.approx(50)
    assert smape(np.array([0.0, 1.0]), np.array([0.0, 1.0])) == 0
    assert smape(np.array([0.0]), np.array([2.0])) == pytest.approx(200)


def test_smape_of_rounding_beside_zero_is_zero():
    assert smape(np.array([1e-17, 1.0]), np.array([0.0, 1.0])) == 0


def test_missing_points_are_left_out():
    actual = np.array([[1.0, np.nan], [np.nan, np.nan]])
    predicted = np.array([[3.0, 7.0], [1.0, 1.0]])
    assert smape(predicted, actual) == pytest.approx([100, np.nan], nan_ok=True)
    assert rss(predicted, actual)[0] == 4


def test_adjusted_r2():
    actual = np.array([1.0, 2.0, 3.0, 4.0])
    assert adjusted_r2(actual, actual, 2) == 1
    assert adjusted_r2(np.full(4, 2.5), actual, 1) == pytest.approx(0)
    assert np.isnan(adjusted_r2(actual, actual, 4))
    assert np.isnan(adjusted_r2(np.ones(4), np.ones(4), 1))


def test_mape_and_relative_error_leave_out_zeros_and_missing_values():
    predicted, actual = np.array([[11.0, 3, 5, 1], [1, 1, 1, 1]]), np.array([[10.0, 4, np.nan, 0], [np.nan] * 4])
    assert mape(predicted, actual)[0] == pytest.approx((10 + 25) / 2)
    assert np.isnan(mape(predicted, actual)[1])
    assert relative_error(predicted, actual)[0] == pytest.approx(0.175)


def test_mlogq_is_symmetric_in_the_ratio():
    actual = np.array([4.0, 4.0])
    assert mlogq(np.array([8.0, 2.0]), actual) == pytest.approx(np.log(2))
    assert mlogq(np.array([4.0, -1.0]), actual) == np.inf
    assert np.isnan(mlogq(np.array([4.0, 1.0]), np.array([0.0, np.nan])))


def test_share_within_counts_a_missing_prediction_as_a_miss():
    predicted, actual = np.array([104.0, 106, np.nan, 1]), np.array([100.0, 100, 100, np.nan])
    assert share_within(predicted, actual, 5) == pytest.approx(1 / 3)
    assert share_within(predicted, actual, 10) == pytest.approx(2 / 3)
    assert np.isnan(share_within(predicted, np.full(4, np.nan), 5))


def test_exponent_deviation_ignores_logarithms():
    def function(*factors):
        return ModelFunction(1.0, (1.0,), (Term(tuple(Factor(each[0], PowerLog(*each[1:])) for each in factors)),))

    found = function((0, F(3, 2), 1), (1, F(0), 2))
    true = function((0, F(1), 0))
    assert exponent_deviation(found, true, 2).tolist() == [0.5, 0]
