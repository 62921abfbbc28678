"""From repeated measurements to one value and one weight for each point."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np

from buran.errors import UsageError
from buran.modeling.pmnf.quality import relative_weights
from buran.modeling.pmnf.scatter import Scatter
from buran.modeling.pmnf.terms import Array

Repetition = Literal["mean", "median", "min", "max"]
REPETITIONS: tuple[Repetition, ...] = get_args(Repetition)


def over_repetitions(values: Array, repetition: Repetition) -> Array:
    """Reduce the last axis, without NaN; NaN where nothing was measured."""
    if repetition not in REPETITIONS:
        raise UsageError(
            f"repetitions cannot be reduced by {repetition!r}", hint=f"choose from {', '.join(REPETITIONS)}"
        )
    missing = np.asarray(np.isnan(values).all(axis=-1))
    filled = np.where(missing[..., None], 0.0, values)  # keeps numpy from warning about empty slices
    if repetition == "mean":
        out = np.nanmean(filled, axis=-1)
    elif repetition == "median":
        out = np.nanmedian(filled, axis=-1)
    else:
        out = np.nanmin(filled, axis=-1) if repetition == "min" else np.nanmax(filled, axis=-1)
    return np.where(missing, np.nan, out)


def scatter_of(repetitions: Array, repetition: Repetition = "mean") -> Scatter:
    """Estimate from repetitions by how much the values made of them scatter by chance.

    All points of a call path share one relative scatter, weighted as in the fit. What a repetition has in common at all
    points, such as a slow first one, is no scatter: it moves all values alike. For medians it comes from the median
    of the points' variances, so that some outliers among the repetitions, which medians do not feel, do not count.
    For minima and maxima it stays unknown: what is left of skewed noise cannot be told from its width.

    Parameters
    ----------
    repetitions
        Shape (call path, point, repetition); NaN where there is none.
    repetition
        How they become one value.

    Returns
    -------
    Scatter
        Without a degree of freedom where no point was measured twice.
    """
    present = np.isfinite(repetitions)
    number = present.sum(axis=2)
    values = np.where(present, repetitions, 0.0)
    weights = relative_weights(over_repetitions(np.where(present, repetitions, np.nan), repetition))
    average: Repetition = "median" if repetition == "median" else "mean"
    centre = np.nan_to_num(over_repetitions(np.where(present, values, np.nan), average))
    gaps = np.where(present, (values - centre[..., None]) * np.nan_to_num(weights)[..., None], 0.0)
    several = present & (number > 1)[..., None]
    shared = np.nan_to_num(over_repetitions(np.where(several, gaps, np.nan).swapaxes(1, 2), average))
    gaps = np.where(several, gaps - shared[:, None], 0.0)
    squares, free = (gaps**2).sum(axis=2), np.maximum(number - 1, 0)
    common = np.maximum(several.any(axis=1).sum(axis=1) - 1, 0)  # degrees of freedom that went into what is shared
    degrees = np.maximum(free.sum(axis=1) - common, 0)
    squares = squares * (free.sum(axis=1) / np.maximum(degrees, 1))[:, None]
    if repetition == "mean":
        squares = squares / np.maximum(number, 1)
        return Scatter(np.sqrt(squares.sum(axis=1) / np.maximum(free.sum(axis=1), 1)), degrees)
    if repetition != "median":
        return Scatter.unknown(len(repetitions))
    shrinkage = np.where(number < 3, 1.0, np.pi / 2) / np.maximum(number, 1)  # of the variance, for Gaussian noise
    freedom = np.maximum(free, 1)
    typical = (1 - 2 / (9 * freedom)) ** 3  # median of the estimate of a variance, by its mean (Wilson and Hilferty)
    variances = np.where(free > 0, squares * shrinkage / freedom / typical, np.nan)
    return Scatter(np.sqrt(np.nan_to_num(over_repetitions(variances, "median"))), degrees)
