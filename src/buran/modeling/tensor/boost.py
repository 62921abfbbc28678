"""Boosted symmetric trees for what smooth functions leave over.

A symmetric tree asks the same question in all nodes of a level: one of depth D is D questions and 2^D values. It is
found from histograms without a loop over observations, and needs about a hundred bytes. Questions are about
parameters and about sums and differences of two: on logarithmic scales these are products and ratios, which is where
codes change their behaviour (a working set that leaves a cache, work for each rank).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from buran.modeling.tensor.axes import Array, Axis

# Parameters that sums and differences are made of. Tuned: no record of its own; choices were made under seeds other
# than the reported one (evidence/tensor.md).
MOST_PAIRED = 8
# Orders of a category. Tuned: no record of its own; choices were made under seeds other than the reported one
# (evidence/tensor.md).
ORDERS = 3
# Ends of the pieces that a parameter is cut into, for orders of categories. Tuned: no record of its own; choices were
# made under seeds other than the reported one (evidence/tensor.md).
PIECES = 7

Bins = NDArray[np.uint8]
_CHUNK = 1 << 14
BINS = 256  # what a byte distinguishes


@dataclass(frozen=True, eq=False)
class Features:
    """What trees may ask about.

    Attributes
    ----------
    weights
        Shape (feature, parameter): features are weighted sums of the numerical parameters' positions.
    low, high
        Shape (feature,): range, cut into equal bins.
    orders
        Further features: the place of a categorical parameter, and where each category stands, shape (category,).
    count
        Number of bins.
    """

    weights: Array
    low: Array
    high: Array
    orders: tuple[tuple[int, Array], ...]
    count: int

    def bins(self, points: Array, axes: Sequence[Axis]) -> Bins:
        """Return shape (feature, point)."""
        values = self.weights @ _positions(points, axes).T
        width = np.maximum(self.high - self.low, 1e-12)
        out = np.empty((len(self.weights) + len(self.orders), len(points)), dtype=np.uint8)
        out[: len(values)] = np.clip((values - self.low[:, None]) / width[:, None] * self.count, 0, self.count - 1)
        for row, (j, order) in enumerate(self.orders, len(values)):
            index = points[:, j].astype(np.int64)
            stand = np.where(index >= 0, order[np.maximum(index, 0)], (len(order) - 1) / 2)
            out[row] = stand * self.count // len(order)
        return out


def make_features(points: Array, axes: Sequence[Axis], main: Sequence[Array], rest: Array) -> Features:
    """Return every parameter, sums and differences of two numerical ones, and orders of categories.

    Categories are ordered by their main effect, and by what they have in common in what is left over at different
    values of the other parameters: trees ask for a part of them with one bound.

    Parameters
    ----------
    points
        Shape (point, parameter), encoded.
    main
        For each parameter its main effect; shape (category,) for categories.
    rest
        Shape (point,): what main effects leave over.
    """
    numeric = [j for j, axis in enumerate(axes) if not axis.is_categorical and axis.high > axis.low]
    rows = [np.eye(len(axes))[j] for j in numeric]
    for i, j in combinations(numeric[:MOST_PAIRED], 2):
        for sign in (1.0, -1.0):
            row = np.zeros(len(axes))
            row[i], row[j] = 1.0, sign
            rows.append(row)
    if 2 < len(numeric) <= MOST_PAIRED:
        rows.append(np.isin(np.arange(len(axes)), numeric).astype(np.float64))
    weights = np.stack(rows) if rows else np.zeros((0, len(axes)))
    values = weights @ _positions(points, axes).T
    pieces = [_pieces(points[:, j], axis) for j, axis in enumerate(axes)]
    orders: list[tuple[int, Array]] = []
    for j, axis in enumerate(axes):
        if axis.is_categorical:
            orders.append((j, _ranks(main[j])))
            orders += [(j, _ranks(profile)) for profile in _profiles(j, len(axis.categories), pieces, rest)]
    return Features(weights, values.min(axis=1), values.max(axis=1), tuple(orders), BINS)


def _positions(points: Array, axes: Sequence[Axis]) -> Array:
    out = np.zeros_like(points)
    for j, axis in enumerate(axes):
        if not axis.is_categorical:
            out[:, j] = axis.position(np.clip(points[:, j], axis.low, axis.high))
    return out


def _ranks(values: Array) -> Array:
    return np.asarray(np.argsort(np.argsort(values, kind="stable")), dtype=np.float64)


def _pieces(column: Array, axis: Axis) -> NDArray[np.int64]:
    """Cut a parameter into a few pieces with about as many observations."""
    if axis.is_categorical:
        return column.astype(np.int64)
    bounds = np.unique(np.quantile(column, np.linspace(0, 1, PIECES)[1:-1]))
    return np.searchsorted(bounds, column, side="right").astype(np.int64)


def _profiles(j: int, size: int, pieces: Sequence[NDArray[np.int64]], rest: Array) -> list[Array]:
    """Return the directions, shape (category,), in which categories differ most over the other parameters."""
    tables = []
    for i, other in enumerate(pieces):
        if i == j:
            continue
        width = int(other.max()) + 1
        cell = pieces[j] * width + other
        total = np.bincount(cell, rest, minlength=size * width)
        tables.append((total / np.sqrt(np.bincount(cell, minlength=size * width) + 5.0)).reshape(size, width))
    if not tables or size < 2:
        return []
    left = np.linalg.svd(np.concatenate(tables, axis=1), full_matrices=False)[0]
    return list(left.T[: min(ORDERS, size - 1)])


@dataclass(frozen=True, eq=False)
class Trees:
    """Symmetric trees.

    Attributes
    ----------
    feature, bound
        Shape (tree, depth): level k asks whether the bin of the feature is above the bound.
    values
        Shape (tree, 2^depth).
    """

    feature: Bins
    bound: Bins
    values: NDArray[np.float16]

    def predict(self, bins: Bins) -> Array:
        """Return shape (point,) for bins of shape (feature, point)."""
        out = np.zeros(bins.shape[1])
        for begin in range(0, bins.shape[1], _CHUNK):
            part = np.ascontiguousarray(bins[:, begin : begin + _CHUNK])
            for feature, bound, values in zip(self.feature, self.bound, self.values.astype(np.float64), strict=True):
                out[begin : begin + _CHUNK] += values[_leaves(part, feature, bound)]
        return out

    def first(self, number: int) -> Trees:
        """Return the trees that were grown first."""
        return Trees(self.feature[:number], self.bound[:number], self.values[:number])


def _leaves(bins: Bins, feature: Bins, bound: Bins) -> Bins:
    leaf = (bins[feature[0]] > bound[0]).view(np.uint8)
    for level in range(1, len(feature)):
        leaf = (leaf << 1) | (bins[feature[level]] > bound[level]).view(np.uint8)
    return np.asarray(leaf, dtype=np.uint8)


@dataclass(frozen=True)
class Boosting:
    """How trees are grown.

    Attributes
    ----------
    trees, depth, rate
        Number, questions of each, share of each that counts.
    ridge
        Observations of value 0 in each leaf.
    rows, features
        Shares of the observations and features that each tree sees.
    """

    trees: int = 200
    depth: int = 5
    rate: float = 0.1
    ridge: float = 2.0
    rows: float = 0.8
    features: float = 0.8
    most_rows: int = 1 << 15


def grow(
    bins: Bins,
    target: Array,
    boosting: Boosting,
    random: np.random.Generator,
    watch: Callable[[int, Trees], bool] | None = None,
) -> Trees:
    """Grow trees one after the other, each on what the earlier ones leave over.

    Parameters
    ----------
    bins
        Shape (feature, point).
    target
        Shape (point,).
    watch
        Called with each new tree; True ends.
    """
    features, count = bins.shape
    rest = target.copy()
    take = max(min(int(boosting.rows * count), boosting.most_rows), min(count, 8))
    choose = max(int(np.ceil(boosting.features * features)), min(features, 2))
    grown = []
    for number in range(boosting.trees):
        rows = random.permutation(count)[:take] if take < count else np.arange(count)
        chosen = np.sort(random.permutation(features)[:choose])
        indices, bound = _questions(bins[np.ix_(chosen, rows)], rest[rows], boosting)
        feature = chosen[indices].astype(np.uint8)
        leaf = _leaves(bins, feature, bound)
        total = np.bincount(leaf, rest, minlength=1 << boosting.depth)
        size = np.bincount(leaf, minlength=1 << boosting.depth)
        values = (boosting.rate * total / (size + boosting.ridge)).astype(np.float16)
        tree = Trees(feature[None], bound[None], values[None])
        rest -= values.astype(np.float64)[leaf]
        grown.append(tree)
        if watch is not None and watch(number + 1, tree):
            break
    return join(grown)


def join(grown: Sequence[Trees]) -> Trees:
    """Put trees together."""
    depth = Boosting.depth
    none = np.zeros((0, depth), dtype=np.uint8)
    return Trees(
        np.concatenate([none, *(t.feature for t in grown)]),
        np.concatenate([none, *(t.bound for t in grown)]),
        np.concatenate([np.zeros((0, 1 << depth), dtype=np.float16), *(t.values for t in grown)]),
    )


def _questions(bins: Bins, target: Array, boosting: Boosting) -> tuple[NDArray[np.int64], Bins]:
    """Choose the questions of a tree one by one, each the one that lowers the squared error most."""
    (features, count), width = bins.shape, BINS
    base = bins + (width * np.arange(features))[:, None]
    weights = np.broadcast_to(target, base.shape).ravel()
    leaf = np.zeros(count, dtype=np.int64)
    chosen, bounds = [], []
    for level in range(boosting.depth):
        index = (base + leaf * (features * width)).ravel()
        length = (1 << level) * features * width
        total = np.bincount(index, weights, minlength=length).reshape(-1, features, width).cumsum(axis=2)
        size = np.bincount(index, minlength=length).reshape(-1, features, width).cumsum(axis=2)
        right, right_size = total[:, :, -1:] - total, size[:, :, -1:] - size
        gain = (total**2 / (size + boosting.ridge) + right**2 / (right_size + boosting.ridge)).sum(axis=0)
        gain[:, -1] = -np.inf
        best = int(np.argmax(gain))
        feature, bound = divmod(best, width)
        chosen.append(feature)
        bounds.append(bound)
        leaf = 2 * leaf + (bins[feature] > bound)
    return np.array(chosen), np.array(bounds, dtype=np.uint8)
