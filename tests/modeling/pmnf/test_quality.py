"""Measures of accuracy."""

import numpy as np
import pytest

from buran.modeling.pmnf.model import adjusted_r2, rss, smape


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
