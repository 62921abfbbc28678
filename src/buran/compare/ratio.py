"""Intervals of ratios, from the intervals of both numbers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
ROUNDING = 1e-9
"""Relative difference that arithmetic may leave between numbers that are the same."""


def ratio_interval(
    first: Array, first_ends: tuple[Array, Array], second: Array, second_ends: tuple[Array, Array]
) -> tuple[Array, Array]:
    """Return the ends of intervals for ``second / first``, all arrays of one shape.

    The interval has the level of the ones it is made from, and takes the two numbers as independent: an end is the
    ratio r at which ``second - r * first`` lies as far from zero as the distances of both numbers from their ends,
    added in quadrature (the MOVER method of Donner and Zou for ratios).

    Parameters
    ----------
    first, second
        Not negative; NaN where there is no number.
    first_ends, second_ends
        Lower and upper ends; those below zero count as zero, for nothing measured is negative.

    Returns
    -------
    lower, upper
        0 and infinite where nothing can be said; NaN where a number is missing, or both are 0.
    """
    low_1, low_2 = (np.maximum(ends[0], 0.0) for ends in (first_ends, second_ends))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        lower = _end(first, second, first_ends[1] - first, second - low_2, -1.0)
        upper = _end(first, second, first - low_1, second_ends[1] - second, 1.0)
        missing = ~(np.isfinite(first) & np.isfinite(second)) | ((first == 0) & (second == 0))
        lower = np.where(np.isfinite(first_ends[1]), lower, 0.0)
        upper = np.where(np.isfinite(second_ends[1]) & (low_1 > 0), upper, np.inf)
    return np.where(missing, np.nan, lower), np.where(missing, np.nan, upper)


def _end(first: Array, second: Array, first_reach: Array, second_reach: Array, side: float) -> Array:
    product = first * second
    root = np.sqrt(
        np.maximum((first * second_reach) ** 2 + (second * first_reach) ** 2 - (first_reach * second_reach) ** 2, 0.0)
    )
    if side > 0:
        return np.asarray((product + root) / (first**2 - first_reach**2))
    return np.asarray((second**2 - second_reach**2) / (product + root))
