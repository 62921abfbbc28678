"""How well predictions match measurements."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from buran.modeling.numerics.tuning import FLOOR
from buran.modeling.pmnf.terms import Array

_SAME = 1e-12  # of the largest value: differences below are rounding


def smape(predicted: Array, actual: Array) -> Array:
    """Symmetric mean absolute percentage error over the last axis, in percent (0 to 200).

    ``mean(2 |p - a| / (|a| + |p|)) * 100``; a pair that is equal but for rounding at the scale of the row,
    such as two zeros, counts 0. NaN where `actual` is NaN at every point; other NaN points are left out.
    """
    gap = np.abs(predicted - actual)
    size = np.abs(actual) + np.abs(predicted)
    present = np.isfinite(actual)
    scale = np.max(np.where(present, np.abs(actual), 0.0), axis=-1, keepdims=True, initial=0.0)
    same = gap <= _SAME * scale
    parts = np.divide(2 * gap, size, out=np.zeros_like(gap), where=present & ~same & (size > 0))
    number = present.sum(axis=-1)
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


def relative_weights(values: Array) -> Array:
    """Weights for noise that is a share of the value.

    ``1 / max(|value|, 0.001 of the call path's largest)``: a value of 0 among larger ones counts like one of
    a thousandth of the largest, instead of infinitely. 1 for call paths of zeros.

    Returns
    -------
    array
        Shape (call path, point); NaN where `values` are.
    """
    size = np.abs(values)
    largest = np.max(np.where(np.isfinite(size), size, 0.0), axis=1, keepdims=True, initial=0.0)
    return np.asarray(1 / np.where(largest > 0, np.maximum(size, FLOOR * largest), 1.0 + 0 * size))
