"""How well predictions match what is true, in the measures of the literature."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from buran.modeling.functions.terms import Array, ModelFunction


def mape(predicted: Array, actual: Array) -> Array:
    """Mean absolute percentage error over the last axis, in percent; NaN points and zeros are left out.

    NaN where no value remains.
    """
    here = np.isfinite(actual) & np.isfinite(predicted) & (actual != 0)
    return 100 * _mean_where(np.abs(predicted - actual), np.abs(actual), here)


def mlogq(predicted: Array, actual: Array) -> Array:
    """Mean absolute logarithm of the ratio over the last axis: ``mean(|ln(p / a)|)`` (MLogQ).

    Too large and too small by the same factor count the same. Infinite where a prediction for a positive value is
    zero or negative; actual values that are not positive are left out; NaN where none remains.
    """
    here = np.isfinite(actual) & np.isfinite(predicted) & (actual > 0)
    fine = here & (predicted > 0)
    ratio = np.divide(predicted, actual, out=np.ones(fine.shape), where=fine)
    logs = np.where(fine, np.abs(np.log(ratio)), np.inf)
    return _mean_where(np.where(here, logs, 0.0), np.ones(here.shape), here)


def exponent_deviation(found: ModelFunction, true: ModelFunction, parameters: int) -> Array:
    """Return shape (parameter,): |lead exponent found - true| (Eq. 4 of the noise-resilient priors paper).

    Logarithms count as exponent 0.
    """
    return np.array([abs(float(found.lead(p)[0] - true.lead(p)[0])) for p in range(parameters)])


def _mean_where(numerator: Array, denominator: Array, here: NDArray[np.bool_]) -> Array:
    parts = np.divide(numerator, denominator, out=np.zeros(here.shape), where=here)
    number = here.sum(axis=-1)
    out = np.full(number.shape, np.nan)
    return np.asarray(np.divide(parts.sum(axis=-1), number, out=out, where=number > 0))
