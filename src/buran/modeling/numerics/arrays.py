"""Names of array types, and the smallest of many numbers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

_FEW = 3  # values in a group, at least, for the minima of groups to save time


def best(values: Array, count: int) -> NDArray[np.int64]:
    """Places of the `count` smallest values of each row, in ascending order of the values."""
    calls, size = values.shape
    count = min(count, size)
    if count == 0:
        return np.zeros((calls, 0), dtype=np.int64)
    members = int((size / count) ** 0.5)
    if members >= _FEW:
        # the smallest values are in the groups with the smallest minima
        groups = size // members
        minima = values[:, : members * groups].reshape(calls, members, groups).min(axis=1)
        near = np.argpartition(minima, count - 1, axis=1)[:, :count]
        near = (near[:, None] + groups * np.arange(members)[:, None]).reshape(calls, -1)
        rest = np.broadcast_to(np.arange(members * groups, size), (calls, size - members * groups))
        near = np.concatenate([near, rest], axis=1)
        near.sort(axis=1)
        values = np.take_along_axis(values, near, axis=1)
    indices = np.argpartition(values, count - 1, axis=1)[:, :count]
    indices.sort(axis=1)  # ties keep their order
    order = np.argsort(np.take_along_axis(values, indices, axis=1), axis=1, kind="stable")
    indices = np.take_along_axis(indices, order, axis=1)
    return np.take_along_axis(near, indices, axis=1) if members >= _FEW else indices
