"""Numbers that are spread evenly."""

from __future__ import annotations

import numpy as np

from buran.modeling.numerics.arrays import Array


def spread_evenly(count: int, size: int) -> Array:
    """Return evenly spread numbers in the unit box, shape (number, size).

    They are multiples of powers of the generalised golden ratio, as in Roberts's sequence R_d (2018).
    """
    ratio = 2.0
    for _ in range(40):
        ratio = (1 + ratio) ** (1 / (size + 1))
    return np.asarray((0.5 + np.arange(1, count + 1)[:, None] * ratio ** -np.arange(1.0, size + 1)) % 1.0)
