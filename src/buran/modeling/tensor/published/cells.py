"""The paper's grid: nodes along each parameter, means of the times that fall to each grid point, and interpolation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from buran.errors import UsageError
from buran.modeling.tensor.axes import Array, Axis, Whole

MOST_CORNERS = 12
_CHUNK = 1 << 16


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

    def between(self, x: Array) -> tuple[Whole, Array, NDArray[np.bool_], NDArray[np.bool_]]:
        """Return the node on the left, the share of the one on the right, and what is on a node, or in an edge cell."""
        low = np.clip(np.searchsorted(self.nodes, x, side="right") - 1, 0, self.size - 2)
        share = (x - self.nodes[low]) / (self.nodes[low + 1] - self.nodes[low])
        return low, share, (share == 0) | (share == 1), (x <= self.bounds[0]) | (x > self.bounds[-1])


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
    # cells end half-way between nodes, on the scale of the axis
    pairs = nodes[:-1], nodes[1:]
    bounds = np.sqrt(pairs[0] * pairs[1]) if axis.scale == "log" else (pairs[0] + pairs[1]) / 2
    return TensorMode(axis, nodes, np.floor(bounds) if axis.whole else bounds)


def fill_cells(points: Array, times: Array, modes: Sequence[TensorMode]) -> tuple[Whole, Array]:
    """Average the times that fall to one grid point (Section 5.1 of the CPR paper).

    Returns
    -------
    index
        Shape (element, mode): the observed elements of the tensor.
    mean
        Shape (element,): mean times.
    """
    index = np.stack([mode.nearest(points[:, j]) for j, mode in enumerate(modes)], axis=1)
    elements, position, count = np.unique(index, axis=0, return_inverse=True, return_counts=True)
    return elements, np.bincount(position.reshape(-1), times) / count


def predict_log_linear(points: Array, modes: Sequence[TensorMode], factors: Sequence[Array]) -> Array:
    """Interpolate elements exp(t) between grid points (Eq. 5 of the CPR paper and the paragraph below it).

    Between nodes the times at the corners are interpolated in the values themselves, as the reference
    implementation does; beyond the first and last bound, the rows of the factors instead.

    Parameters
    ----------
    points
        Shape (point, parameter), encoded.

    Returns
    -------
    Array
        Shape (point,): times.

    Raises
    ------
    UsageError
        More than `MOST_CORNERS` parameters lie between grid points: each doubles the work.
    """
    starts = range(0, max(len(points), 1), _CHUNK)
    return np.concatenate([_predict(points[start : start + _CHUNK], modes, factors) for start in starts])


def _predict(points: Array, modes: Sequence[TensorMode], factors: Sequence[Array]) -> Array:
    base = np.ones((len(points), factors[0].shape[1]))
    split: list[tuple[Array, Array, Array]] = []
    for j, (mode, factor) in enumerate(zip(modes, factors, strict=True)):
        x = points[:, j]
        if mode.axis.is_categorical or mode.size == 1:
            base *= np.where((x >= 0)[:, None], factor[mode.nearest(x)], factor.mean(axis=0))
            continue
        low, share, on_node, at_edge = mode.between(x)
        left, right, whole = factor[low], factor[low + 1], on_node | at_edge
        mixed = (1 - share)[:, None] * left + share[:, None] * right
        if whole.all():
            base *= mixed
            continue
        left[whole] = right[whole] = mixed[whole]
        split.append((left, right, share))
    if len(split) > MOST_CORNERS:
        raise UsageError(
            f"the published interpolation cannot predict between grid points of {len(split)} parameters",
            why=f"it adds up 2^{len(split)} corners",
            hint="choose preset='default'",
        )
    out = np.zeros(len(points))
    for corner in product((False, True), repeat=len(split)):
        rows, weight = base, np.ones(len(points))
        for upper, (left, right, share) in zip(corner, split, strict=True):
            rows = rows * (right if upper else left)
            weight = weight * (share if upper else 1 - share)
        out += weight * np.exp(np.minimum(rows.sum(axis=1), 700.0))
    return out
