"""How well predictions match measurements."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from buran.model.terms import Array, ModelFunction

_SAME = 1e-12  # of the largest value: differences below are rounding


def smape(predicted: Array, actual: Array) -> Array:
    """Symmetric mean absolute percentage error over the last axis, in percent (0 to 200).

    ``mean(2 |p - a| / (|a| + |p|)) * 100``; a pair that is equal but for rounding at the scale of the row,
    such as two zeros, counts 0. NaN where `actual` is NaN at every point; other NaN points are left out.
    """
    gap = np.abs(predicted - actual)
    size = np.abs(actual) + np.abs(predicted)
    here = np.isfinite(actual)
    scale = np.max(np.where(here, np.abs(actual), 0.0), axis=-1, keepdims=True, initial=0.0)
    same = gap <= _SAME * scale
    parts = np.divide(2 * gap, size, out=np.zeros_like(gap), where=here & ~same & (size > 0))
    number = here.sum(axis=-1)
    out = np.full(number.shape, np.nan)
    return np.asarray(np.divide(100 * parts.sum(axis=-1), number, out=out, where=number > 0))


def rss(predicted: Array, actual: Array) -> Array:
    """Residual sum of squares over the last axis, without NaN points."""
    return np.asarray(np.nansum((predicted - actual) ** 2, axis=-1))


def adjusted_r2(predicted: Array, actual: Array, coefficients: int | NDArray[np.int64]) -> Array:
    """Share of the variance over the last axis that is explained, corrected for the number of coefficients.

    NaN where no degree of freedom remains or all values are equal.
    """
    number = np.isfinite(actual).sum(axis=-1)
    mean = np.divide(np.nansum(actual, axis=-1), number, out=np.zeros(number.shape), where=number > 0)
    total = np.nansum((actual - mean[..., None]) ** 2, axis=-1)
    free = number - coefficients
    ratio = np.divide(
        rss(predicted, actual) * (number - 1),
        total * free,
        out=np.full(total.shape, np.nan),
        where=(total > 0) & (free > 0),
    )
    return np.asarray(1 - ratio)


def mape(predicted: Array, actual: Array) -> Array:
    """Mean absolute percentage error over the last axis, in percent; NaN points and zeros are left out.

    NaN where no value remains.
    """
    here = np.isfinite(actual) & np.isfinite(predicted) & (actual != 0)
    return 100 * _mean_where(np.abs(predicted - actual), np.abs(actual), here)


def relative_error(predicted: Array, actual: Array) -> Array:
    """Mean relative error over the last axis, signed positive, as a share (Eq. 5 of the noise-resilient priors paper).

    ``mean(|prediction - measurement| / measurement)``: `mape` without the factor 100.
    """
    return mape(predicted, actual) / 100


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


def share_within(predicted: Array, actual: Array, percent: float) -> Array:
    """Share of predictions over the last axis within +-`percent` of the value; NaN points are left out.

    A missing prediction of a known value is a miss; NaN where no value is known.
    """
    here = np.isfinite(actual)
    gap = np.abs(np.where(np.isfinite(predicted), predicted, np.inf) - np.where(here, actual, 0.0))
    inside = here & (gap <= percent / 100 * np.abs(np.where(here, actual, 0.0)))
    number = here.sum(axis=-1)
    out = np.full(number.shape, np.nan)
    return np.asarray(np.divide(inside.sum(axis=-1), number, out=out, where=number > 0))


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
