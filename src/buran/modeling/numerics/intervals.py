"""Intervals: of mixtures, means, sums and logarithms."""

from __future__ import annotations

from collections.abc import Sequence
from math import comb

import numpy as np

from buran.modeling.numerics.least_squares import Array

ROUNDING = 1e-9
"""Relative difference that arithmetic may leave between numbers that are the same."""

_TOLERANCES = {"xatol": 0.0, "xrtol": ROUNDING, "fatol": ROUNDING, "frtol": 0.0}
"""Tolerances of the search for quantiles: a probability is met within rounding."""


def of_mixture(
    middle: Array, scale: Array, degrees: Array, weight: Array, level: float, above: Array | None = None
) -> tuple[Array, Array]:
    """Return the ends that hold the middle `level` of mixtures of t distributions, whose halves may differ in scale.

    Parameters
    ----------
    middle, scale
        Shape (mixture, part, point).
    degrees
        Degrees of freedom, shape (mixture, part) or (mixture, part, point).
    weight
        Shape (mixture, part); they add up to 1.
    level
        Between 0 and 1.
    above
        The scale of each upper half where it is not that of the lower one.

    Returns
    -------
    lower, upper
        Shape (mixture, point); infinite where a part has no degree of freedom or no scale.
    """
    from scipy.special import stdtrit

    freedom = np.broadcast_to(degrees if degrees.ndim == scale.ndim else degrees[..., None], scale.shape)
    upper = scale if above is None else above
    has_scale = (freedom > 0) & np.isfinite(scale) & np.isfinite(upper)
    usable, halves = np.maximum(freedom, 1.0), [np.where(has_scale, half, 0.0) for half in (scale, upper)]
    bounds = []
    for half, target in zip(halves, ((1 - level) / 2, (1 + level) / 2), strict=True):
        quantiles = middle + stdtrit(usable, target) * half
        one = quantiles.shape[1] == 1
        bounds.append(quantiles[:, 0] if one else _of_mixture(quantiles, target, middle, halves, usable, weight))
    void = ~has_scale.all(axis=1)
    return np.where(void, -np.inf, bounds[0]), np.where(void, np.inf, bounds[1])


def _of_mixture(
    quantiles: Array, target: float, middle: Array, halves: Sequence[Array], degrees: Array, weight: Array
) -> Array:
    """Return the quantile of mixtures, shape (mixture, point), from those of their parts (mixture, part, point)."""
    from scipy.optimize.elementwise import find_root  # it takes long, and few verbs need it
    from scipy.special import stdtr

    share = np.broadcast_to(weight[..., None], middle.shape)
    safe = [np.maximum(half, np.finfo(np.float64).tiny) for half in halves]
    parts = [part for array in (degrees, share, middle, *safe) for part in np.moveaxis(array, 1, 0)]

    def below(at: Array, *arrays: Array) -> Array:
        freedoms, shares, middles, lower, upper = np.array(arrays).reshape(5, -1, *at.shape)
        scales = np.where(at < middles, lower, upper)
        with np.errstate(over="ignore"):
            return np.asarray((shares * stdtr(freedoms, (at - middles) / scales)).sum(axis=0) - target)

    # A quantile of a mixture lies between those of its parts.
    low, high = quantiles.min(axis=1), quantiles.max(axis=1)
    room = ROUNDING * (np.maximum(*halves).max(axis=1) + np.abs(low) + np.abs(high)) + np.finfo(np.float64).tiny
    root = find_root(below, (low - room, high + room), args=tuple(parts), tolerances=_TOLERANCES)
    found = np.where(root.success, root.x, np.copysign(np.inf, target - 0.5))
    # All parts say the same where nothing is uncertain, as for MPI on one rank: there is no root between.
    return np.asarray(np.where(high - low <= room, (low + high) / 2, found))


def of_mean(values: Array, level: float) -> tuple[Array, Array]:
    """Return means over the last axis and how far their intervals reach to both sides.

    By the t distribution, from the scatter of the values. NaN values are left out; the reach is NaN where fewer than
    two are there, the mean where none is.
    """
    from scipy.special import stdtrit

    present = np.isfinite(values)
    count = present.sum(axis=-1)
    safe = np.maximum(count, 2)
    mean = np.where(present, values, 0.0).sum(axis=-1) / np.maximum(count, 1)
    squares = (np.where(present, values - mean[..., None], 0.0) ** 2).sum(axis=-1)
    reach = stdtrit(safe - 1.0, (1 + level) / 2) * np.sqrt(squares / (safe - 1) / safe)
    return np.where(count > 0, mean, np.nan), np.where(count > 1, reach, np.nan)


def of_median(values: Array, level: float) -> tuple[float, float] | None:
    """Return the interval of the median of some values, shape (value,); None for fewer than two.

    Between ordered values, whatever they are distributed like; by the t distribution where these are too few for that.
    """
    count = len(values)
    if count < 2:
        return None
    tails = np.cumsum([comb(count, below) for below in range(count)]) / 2.0**count
    cut = int((tails <= (1 - level) / 2).sum())
    if cut:
        ordered = np.sort(values)
        return float(ordered[cut - 1]), float(ordered[-cut])
    mean, reach = of_mean(values[None], level)
    return float((mean - reach)[0]), float((mean + reach)[0])


def of_sum(middle: Array, below: Array, above: Array) -> tuple[Array, Array]:
    """Return the ends for sums of independent numbers: distances of parts from their ends add up in quadrature.

    Parameters
    ----------
    middle
        Shape (...): of the sum.
    below, above
        Shape (part, ...): distances of the parts' ends from their middles.
    """
    return middle - np.sqrt((below**2).sum(axis=0)), middle + np.sqrt((above**2).sum(axis=0))


def of_logarithm(values: Array, error: float | Array, spread: Array) -> tuple[Array, Array]:
    """Return the ends for values that are known in logarithms.

    Parameters
    ----------
    values
        Shape (value,).
    error
        What the wanted share of the logarithms' absolute errors stays below, for all values or shape (value,).
    spread
        Shape (value,): standard deviations of the logarithms beside that; two of them count, in quadrature.
    """
    half = np.sqrt(error**2 + (2 * spread) ** 2)
    return values * np.exp(-half), values * np.exp(half)
