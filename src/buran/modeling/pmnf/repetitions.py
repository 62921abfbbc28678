"""From repeated measurements to one value for each point, and what they tell of noise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from buran.errors import UsageError
from buran.modeling.functions.terms import Array
from buran.modeling.numerics.tuning import FLOOR, NOISE, WORTH


@dataclass(frozen=True, eq=False)
class Scatter:
    """Noise of the values of each call path, known from repetitions.

    Attributes
    ----------
    share
        Shape (call path,): standard deviation of a value times its weight; with relative weights its relative
        standard deviation.
    degrees
        Shape (call path,): degrees of freedom behind it; 0 where nothing was measured twice.
    """

    share: Array
    degrees: NDArray[np.int64]

    @classmethod
    def unknown(cls, calls: int) -> Scatter:
        """Return the scatter of call paths without repetitions."""
        return cls(np.zeros(calls), np.zeros(calls, dtype=np.int64))

    def of(self, calls: NDArray[np.int64] | NDArray[np.bool_] | slice) -> Scatter:
        """Return the part for some call paths."""
        return Scatter(self.share[calls], self.degrees[calls])


def noise_level(repetitions: Array) -> Array:
    """Mean absolute deviation of repetitions from their mean, in percent of it.

    As the paper on cost-effective modelling estimates noise: the divergence from the arithmetic mean.

    Parameters
    ----------
    repetitions
        Shape (..., repetition); NaN where there is none.

    Returns
    -------
    array
        Shape (...): NaN with fewer than two repetitions or a mean of 0; 0 where all are equal.
    """
    values = np.asarray(repetitions, dtype=np.float64)
    present = np.isfinite(values)
    number = present.sum(axis=-1)
    scale = np.max(np.where(present, np.abs(values), 0.0), axis=-1, initial=0.0)
    scale = np.where(scale > 0, scale, 1.0)  # sums of huge values overflow
    shares = np.where(present, values, 0.0) / scale[..., None]
    mean = shares.sum(axis=-1) / np.maximum(number, 1)
    gap = np.where(present, np.abs(shares - mean[..., None]), 0.0).sum(axis=-1) / np.maximum(number, 1)
    is_defined = (number > 1) & (mean != 0)
    return np.asarray(100 * np.divide(gap, np.abs(mean), out=np.full(mean.shape, np.nan), where=is_defined))


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


@dataclass(frozen=True, eq=False)
class PointNoise:
    """Noise of values that repetitions became.

    Attributes
    ----------
    deviation
        Shape (call path, point): relative standard deviation, `NOISE` included.
    degrees
        Shape (call path,): degrees of freedom of the repetitions behind it.
    """

    deviation: Array
    degrees: Array

    @classmethod
    def of(cls, repetitions: Array, repetition: Repetition) -> PointNoise:
        """Estimate it, one relative noise of a run for all points of a call path.

        Parameters
        ----------
        repetitions
            Shape (call path, point, repetition); NaN where there is none.
        repetition
            How they become one value; what minima and maxima are off by is taken as that of means.
        """
        present = np.isfinite(repetitions)
        number = present.sum(axis=2)
        mean = np.nan_to_num(over_repetitions(repetitions, "mean"))
        safe = np.where(mean > 0, mean, 1.0)[..., None]
        gaps = np.where(present & (mean > 0)[..., None], np.nan_to_num(repetitions) / safe - 1, 0.0)
        degrees = np.maximum(number - 1, 0).sum(axis=1).astype(np.float64)
        run = ((gaps**2).sum(axis=(1, 2)) + WORTH * NOISE**2) / (degrees + WORTH)
        wider = np.where((number >= 3) & (repetition == "median"), np.pi / 2, 1.0)  # of the variance of a median
        variance = run[:, None] * wider / np.maximum(number, 1) + NOISE**2
        return cls(np.sqrt(variance), degrees)

    def of_rows(self, rows: list[int]) -> PointNoise:
        """Return that of some call paths."""
        return PointNoise(self.deviation[rows], self.degrees[rows])

    @property
    def worth(self) -> Array:
        """Shape (call path, point): weights, 1 for the surest points."""
        return np.asarray(self.deviation.min(axis=1, keepdims=True) / self.deviation)
