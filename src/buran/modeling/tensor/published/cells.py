"""The paper's grid: nodes along each parameter, and means of the times that fall to each grid point."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from buran.modeling.tensor.axes import Array, Axis, Whole


@dataclass(frozen=True, eq=False)
class TensorMode:
    """One mode of the tensor.

    Attributes
    ----------
    axis
        The parameter.
    nodes
        Shape (node,), ascending values; places for categories.
    bounds
        Shape (node - 1,): a value up to the bound falls to the node on its left.
    """

    axis: Axis
    nodes: Array
    bounds: Array

    @property
    def size(self) -> int:
        """Number of nodes."""
        return len(self.nodes)

    def nearest(self, x: Array) -> Whole:
        """Return the place of the node that each value falls to."""
        if self.axis.is_categorical:
            return np.maximum(x, 0).astype(np.int64)
        return np.searchsorted(self.bounds, x, side="left").astype(np.int64)


def make_mode(axis: Axis, cells: int) -> TensorMode:
    """Return the nodes of a parameter, both ends included.

    Parameters
    ----------
    axis
        The parameter.
    cells
        Number of nodes where there are more distinct values than `FEW_NODES`.
    """
    if axis.is_categorical:
        return TensorMode(axis, np.arange(len(axis.categories), dtype=np.float64), np.empty(0))
    if len(axis.values):
        nodes = axis.values
    else:
        limits = axis.position(np.array([axis.low, axis.high]))
        nodes = np.linspace(limits[0], limits[1], max(cells, 2))
        nodes = np.exp(nodes) if axis.scale == "log" else nodes
        nodes[0], nodes[-1] = axis.low, axis.high
        if axis.whole:
            nodes = np.rint(nodes)
            steps = np.arange(len(nodes))
            nodes = np.maximum.accumulate(nodes - steps) + steps
    pairs = nodes[:-1], nodes[1:]
    bounds = np.sqrt(pairs[0] * pairs[1]) if axis.scale == "log" else (pairs[0] + pairs[1]) / 2
    return TensorMode(axis, nodes, np.floor(bounds) if axis.whole else bounds)


@dataclass(frozen=True, eq=False)
class Elements:
    """Observed elements of the tensor.

    Attributes
    ----------
    index
        Shape (element, mode).
    mean
        Shape (element,): mean time.
    count
        Shape (element,): observations in it.
    """

    index: Whole
    mean: Array
    count: Whole


def fill_cells(points: Array, times: Array, modes: Sequence[TensorMode]) -> Elements:
    """Average the times that fall to one grid point (Section 5.1 of the CPR paper)."""
    index = np.stack([mode.nearest(points[:, j]) for j, mode in enumerate(modes)], axis=1)
    rows, position = unique_rows(index)
    count = np.bincount(position, minlength=len(rows))
    return Elements(rows, np.bincount(position, times, minlength=len(rows)) / count, count)


def unique_rows(index: Whole) -> tuple[Whole, Whole]:
    """Return the distinct rows and, for each row, the place of its like; without a number for the whole grid."""
    position = np.zeros(len(index), dtype=np.int64)
    for column in index.T:
        _, position = np.unique(position * (int(column.max(initial=0)) + 1) + column, return_inverse=True)
    first = np.unique(position, return_index=True)[1]
    return index[first], position
