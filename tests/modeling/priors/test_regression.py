"""Coefficients of priors: what the points cannot tell apart."""

from __future__ import annotations

import numpy as np
import pytest

from buran.modeling.price.regression import Belief, regress


@pytest.mark.parametrize("nonnegative", [True, False])
def test_columns_that_grow_alike_are_one_coefficient(nonnegative: bool) -> None:
    """Bytes sent and received are, for many operations: a latency and a bandwidth are all that times tell."""
    random = np.random.default_rng(7)
    p = np.repeat([2.0, 4.0, 8.0, 16.0], 3)
    apart = np.stack([np.ones(12), p], axis=1)
    alike = np.stack([np.ones(12), p, 3 * p - 1e-3], axis=1)  # a sum of the others
    values = (1 + 0.5 * p) * (1 + 0.2 * random.standard_normal((40, 12)))
    one, two = (regress(design, values, nonnegative=nonnegative, outliers=2.0) for design in (apart, alike))
    assert (two.degrees == one.degrees).all() and (one.degrees == 10).all()
    assert two.noise == pytest.approx(one.noise, rel=1e-4)
    assert two.coefficients @ alike.T == pytest.approx(one.coefficients @ apart.T, rel=1e-4)


def test_what_is_small_with_certainty_leaves_the_others_to_their_values() -> None:
    """A term of a nanosecond, known well, beside work of seconds: the work follows the times."""
    n = np.array([2048.0, 4096.0, 8192.0, 16384.0, 32768.0] * 2)
    p = np.repeat([1.0, 2.0], 5)
    design = np.stack([np.ones(10), p, n**2 / p, n * np.log2(n) / p, n / p, 1 / p], axis=1)
    effort = np.array([[0.0, 3.0, 1.0, 33.0, 8.0, 23.0]])
    belief = Belief(1.24e-9 * effort, np.where(effort > 0, 1.24e-9 * effort, np.inf))
    times = 1.27e-9 * n**2 / p + 4e-8 * n / p
    times = times * (1 + 0.02 * np.random.default_rng(3).standard_normal((1, 10)))
    fitted = regress(design, times, nonnegative=True, start=effort @ design.T, belief=belief, outliers=2.0)
    assert fitted.coefficients @ design.T == pytest.approx(times, rel=0.1)
    assert fitted.coefficients[0, 2] == pytest.approx(1.27e-9, rel=0.05)


def test_points_without_any_time_do_not_make_outliers_of_the_others() -> None:
    """A single rank waits for nobody: its zeros are met exactly, and say nothing of how far waiting scatters."""
    random = np.random.default_rng(5)
    p, n = np.repeat([1.0, 2.0], 5), np.array([2.0, 4, 8, 12, 16] * 2)
    design = np.stack([np.ones(10), np.log2(p), np.log2(p) * n], axis=1)
    times = 0.004 * np.log2(p) * n * np.exp(0.6 * random.standard_normal((50, 10)))
    fitted = regress(design, times, nonnegative=True, outliers=2.0)
    assert np.median(fitted.noise) < 1 and fitted.noise.max() < 3
    assert np.median(fitted.coefficients @ [1.0, 1.0, 16.0]) == pytest.approx(0.064 * np.exp(0.18), rel=0.25)


def test_a_column_that_no_point_has_is_open_and_its_variance_can_be_squared() -> None:
    """Only other points have more ranks than one; what a covariance is multiplied with later must not overflow."""
    p = np.array([1.0, 1, 1, 1, 1, 4])
    design = np.stack([np.ones(6), np.log2(p)], axis=1)
    values = np.array([[1e-8, 1.1e-8, 0.9e-8, 1e-8, 1.2e-8, np.nan]])
    fitted = regress(design, values, nonnegative=True)
    assert fitted.coefficients[0, 0] == pytest.approx(1e-8, rel=0.1)
    variance = fitted.covariance[0, 1, 1]
    assert variance > 1e50 and np.isfinite(variance**2)


def test_a_column_too_small_to_be_squared_is_no_column() -> None:
    n = np.array([10.0, 20.0, 30.0, 40.0])
    hardly = 1e-180 * np.array([1, -1, 1, -1]) * n**2
    fitted = regress(np.stack([n, hardly], axis=1), (2 * n + [0.1, -0.1, 0.2, 0.0])[None], nonnegative=True)
    assert fitted.coefficients[0, 0] == pytest.approx(2, rel=0.01) and np.isfinite(fitted.covariance).all()
