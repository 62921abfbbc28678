"""The upper edge of the measured range: what is left out to see how well something extrapolates."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from buran.modeling.tensor.axes import Array, Axis, Whole


def cut_off(
    points: Array, axes: Sequence[Axis], free: tuple[int, ...], octaves: int, together: bool = True
) -> tuple[Whole, Whole]:
    """Return the observations with small and those with the largest values of the extrapolated parameters.

    The largest of all of them `together`, or of one of them at least.
    """
    inside, outside = np.ones(len(points), dtype=bool), np.full(len(points), together)
    for j in free:
        high = axes[j].high
        if high <= axes[j].low:
            continue
        step = high - axes[j].low
        bound = high / 2**octaves if axes[j].low > 0 else high - step * octaves / 4
        top = high / 2 if axes[j].low > 0 else high - step / 4
        inside &= points[:, j] <= bound
        outside = outside & (points[:, j] > top) if together else outside | (points[:, j] > top)
    return np.flatnonzero(inside), np.flatnonzero(outside)


def narrowed(points: Array, axes: tuple[Axis, ...], free: tuple[int, ...]) -> tuple[Axis, ...]:
    """Return the axes as they would be, had only these points been measured."""
    out = list(axes)
    for j in free:
        axis, column = axes[j], points[:, j]
        values = axis.values[axis.values <= column.max()] if len(axis.values) else axis.values
        out[j] = Axis(axis.name, axis.scale, float(column.min()), float(column.max()), values, axis.whole)
    return tuple(out)
