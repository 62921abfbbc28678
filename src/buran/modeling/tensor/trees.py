"""Boosted trees for what smooth functions leave over: grown by scikit-learn, kept as arrays.

Splits are of parameters and of sums and differences of two: on logarithmic scales these are products and ratios,
which is where codes change their behaviour (a working set that leaves a cache, work for each rank).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from buran.modeling.tensor.axes import Array, Axis
from buran.modeling.tensor.smooth import CPPart

if TYPE_CHECKING:
    from sklearn.ensemble import GradientBoostingRegressor

Nodes = NDArray[np.int32]
Values = NDArray[np.float32]

# Trees, at most. Tuned: judgement, as more are hardly ever taken (evidence/tensor.md).
MOST_TREES = 300
# Splits from the root of a tree to a leaf. Tuned: as in the trees before, of no record (evidence/tensor.md).
DEPTH = 5
# Share of the observations that each tree sees, and of the features that each split sees. Tuned: scikit-learn's
# advice for stochastic boosting (evidence/tensor.md).
SEEN = 0.5
# Directions in which the products of categories differ. Tuned: amg, 4096 observations (evidence/tensor.md).
ORDERS = 3
# Parameters that sums and differences are made of. Tuned: no record of its own; choices were made under seeds other
# than the reported one (evidence/tensor.md).
MOST_PAIRED = 8


def category_orders(main: CPPart, part: CPPart, axes: Sequence[Axis]) -> tuple[Array, ...]:
    """Return numbers for the categories of each parameter, shape (category, order): alike ones lie side by side.

    The main effect, and the directions in which their products differ most: left singular vectors of the factor.
    """
    out = []
    for j, axis in enumerate(axes):
        orders = [main.main[j][:, None]]
        if part.factors:
            factor = part.factors[j]
            orders.append(np.linalg.svd(factor - factor.mean(axis=0), full_matrices=False)[0][:, :ORDERS])
        out.append(np.concatenate(orders, axis=1)[: len(axis.categories)])
    return tuple(out)


def features(points: Array, axes: Sequence[Axis], orders: Sequence[Array]) -> Values:
    """Return what trees split, shape (point, feature), of encoded points, shape (point, parameter).

    The position of each numerical parameter, sums and differences of two, an indicator of each category, and its
    orders.
    """
    numeric = [j for j, axis in enumerate(axes) if not axis.is_categorical]
    positions = [axes[j].position(np.clip(points[:, j], axes[j].low, axes[j].high)) for j in numeric]
    columns = list(positions)
    for one, two in combinations(positions[:MOST_PAIRED], 2):
        columns += [one + two, one - two]
    for j, axis in enumerate(axes):
        if axis.is_categorical:
            columns += [points[:, j] == category for category in range(len(axis.categories))]
            known = np.concatenate([orders[j], orders[j].mean(axis=0, keepdims=True)])  # -1, never measured: the mean
            columns += list(known[points[:, j].astype(np.int64)].T)
    return np.stack(columns, axis=1).astype(np.float32)


@dataclass(frozen=True, eq=False)
class Trees:
    """A sum of regression trees; all arrays have shape (node,), but `roots` (tree,).

    Attributes
    ----------
    feature, threshold
        A node sends points with at most this value of this feature to its left.
    left, right
        Children of a node; a leaf is its own.
    value
        What a leaf adds, the rate included.
    """

    roots: Nodes
    feature: Nodes
    threshold: Values
    left: Nodes
    right: Nodes
    value: Values

    def predict(self, values: Values) -> Array:
        """Return shape (point,) for `features`."""
        out, rows = np.zeros(len(values)), np.arange(len(values))
        for root in self.roots:
            node = np.full(len(values), root)
            for _ in range(DEPTH):
                goes_left = values[rows, self.feature[node]] <= self.threshold[node]
                node = np.where(goes_left, self.left[node], self.right[node])
            out += self.value[node]
        return out


def grow(values: Values, target: Array, number: int, seed: int) -> GradientBoostingRegressor:
    """Grow trees on `features`, each on what the earlier ones leave over of the target, shape (point,)."""
    from sklearn.ensemble import GradientBoostingRegressor

    return GradientBoostingRegressor(
        init="zero",
        n_estimators=number,
        max_depth=DEPTH,
        subsample=SEEN,
        max_features=SEEN,
        random_state=seed,
    ).fit(values, target)


def tree_arrays(grown: GradientBoostingRegressor | None) -> Trees:
    """Return the arrays of what `grow` returns; no trees for None."""
    trees = [] if grown is None else [each.tree_ for each in grown.estimators_[:, 0]]
    rate = 0.0 if grown is None else grown.learning_rate
    sizes = np.array([tree.node_count for tree in trees], dtype=np.int64)
    roots = np.cumsum(sizes) - sizes
    nodes = np.arange(sizes.sum(), dtype=np.int32)

    def joined(name: str) -> NDArray[Any]:
        return np.concatenate([np.zeros(0), *(getattr(tree, name).reshape(-1) for tree in trees)])

    # children are counted from the tree's root, and those of leaves are -1
    first, is_leaf = np.repeat(roots, sizes), joined("children_left") < 0
    return Trees(
        roots.astype(np.int32),
        np.where(is_leaf, 0, joined("feature")).astype(np.int32),
        joined("threshold").astype(np.float32),
        np.where(is_leaf, nodes, joined("children_left") + first).astype(np.int32),
        np.where(is_leaf, nodes, joined("children_right") + first).astype(np.int32),
        np.where(is_leaf, rate * joined("value"), 0.0).astype(np.float32),
    )
