"""Names of array types, the smallest of many numbers, and numbers that are spread evenly."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]


def best(values: Array, count: int) -> NDArray[np.int64]:
    """Places of the `count` smallest values of each row, in ascending order of the values."""
    count = min(count, values.shape[1])
    if count == 0:
        return np.zeros((len(values), 0), dtype=np.int64)
    indices = np.argpartition(values, count - 1, axis=1)[:, :count]
    indices.sort(axis=1)  # ties keep their order
    order = np.argsort(np.take_along_axis(values, indices, axis=1), axis=1, kind="stable")
    return np.take_along_axis(indices, order, axis=1)


def spread_evenly(count: int, size: int) -> Array:
    """Return evenly spread numbers in the unit box, shape (number, size).

    They are multiples of powers of the generalised golden ratio, as in Roberts's sequence R_d (2018).
    """
    ratio = 2.0
    for _ in range(40):
        ratio = (1 + ratio) ** (1 / (size + 1))
    return np.asarray((0.5 + np.arange(1, count + 1)[:, None] * ratio ** -np.arange(1.0, size + 1)) % 1.0)
