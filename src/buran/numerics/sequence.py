"""Numbers and indices that are spread evenly."""

from __future__ import annotations

import numpy as np

from buran.numerics.arrays import Array, Ids


def spread_evenly(count: int, size: int) -> Array:
    """Return evenly spread numbers in the unit box, shape (number, size).

    They are multiples of powers of the generalised golden ratio, as in Roberts's sequence R_d (2018).
    """
    ratio = 2.0
    for _ in range(40):
        ratio = (1 + ratio) ** (1 / (size + 1))
    return np.asarray((0.5 + np.arange(1, count + 1)[:, None] * ratio ** -np.arange(1.0, size + 1)) % 1.0)


def thinned(count: int, most: int) -> Ids:
    """Return at most so many of `count` indices, evenly spread, the first and the last among them."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(np.int64))
