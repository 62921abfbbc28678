"""The default preset's model inside the measured range: CP parts, and boosted trees on what they leave over.

Trees are grown by scikit-learn and kept as arrays. They split by parameters and by sums and differences of two: on
logarithmic scales these are products and ratios, which is where codes change their behaviour (a working set that leaves
a cache, work for each rank).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from buran.modeling.tensor.axes import Array, Axis, Whole
from buran.modeling.tensor.smooth import Basis, Coordinates, CPPart, PartOptions, between, fit_part, make_basis

if TYPE_CHECKING:
    from sklearn.ensemble import GradientBoostingRegressor

Nodes = NDArray[np.int32]
Values = NDArray[np.float32]

# CP parts, each fitted without one part of the observations. Tuned: no record of its own; choices were made under
# seeds other than the reported one (evidence/tensor.md).
MEMBERS = 8
# Observations that nodes, ranks and penalties are chosen on, and the number and share of trees; trees are grown on
# twice as many. Tuned: no record of its own; choices were made under seeds other than the reported one
# (evidence/tensor.md).
MOST_CHOOSING = 4000
# Numbers that are tried, of nodes and of the rank. Tuned: no record of its own; choices were made under seeds other
# than the reported one (evidence/tensor.md).
SHAPES = (4, 8, 16, 24)
# Of the products in the CP parts, which are tried with trees. Tuned: no record of its own; choices were made under
# seeds other than the reported one (evidence/tensor.md).
SHARES = (0.0, 0.5, 1.0)

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

_CHUNK = 1 << 16  # points that are predicted at once: memory
_FEWEST = 32  # observations that trees are grown on


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


@dataclass(frozen=True)
class Choices:
    """What the user fixed; None is chosen on observations that are left out, of trees up to so many are taken."""

    nodes: int | None
    rank: int | None
    ridge: float | None
    members: int
    trees: int


@dataclass(frozen=True, eq=False)
class Blend:
    """``log t = centre + spread * (mean of CP parts + trees)``.

    Attributes
    ----------
    bases
        One for each parameter.
    parts
        Each is fitted without another part of the observations.
    orders
        Of categories, which trees ask for; see `category_orders`.
    options
        How the parts were fitted.
    share
        Of their products; main effects alone have the rest.
    residuals
        Shape (quantile,): of the absolute errors of ``log t`` at observations that were left out, ascending.
    """

    axes: tuple[Axis, ...]
    bases: tuple[Basis, ...]
    centre: float
    spread: float
    parts: tuple[CPPart, ...]
    orders: tuple[Array, ...]
    trees: Trees
    options: PartOptions
    share: float
    residuals: Array

    def predict_log(self, points: Array) -> tuple[Array, Array]:
        """Return logarithms of times and their standard deviation among the CP parts, both of shape (point,).

        Parameters
        ----------
        points
            Shape (point, parameter), encoded; a little beyond the ends, functions go on linearly.
        """
        chunks = [self._predict(points[i : i + _CHUNK]) for i in range(0, max(len(points), 1), _CHUNK)]
        return np.concatenate([f[0] for f in chunks]), np.concatenate([f[1] for f in chunks])

    def _predict(self, points: Array) -> tuple[Array, Array]:
        coordinates = Coordinates.of(points, self.bases)
        several = np.stack([part.predict(coordinates) for part in self.parts])
        trees = (
            self.trees.predict(features(points, self.axes, self.orders))
            if len(self.trees.roots)
            else np.zeros(len(points))
        )
        return self.centre + self.spread * (several.mean(axis=0) + trees), self.spread * several.std(axis=0)


def fit_blend(
    points: Array, logs: Array, axes: tuple[Axis, ...], choices: Choices, random: np.random.Generator
) -> Blend:
    """Fit to observations; everything that is not given is chosen on observations that are left out.

    Parameters
    ----------
    points
        Shape (point, parameter), encoded.
    logs
        Shape (point,): logarithms of times.
    """
    centre, spread = float(logs.mean()), float(logs.std()) or 1.0
    values = (logs - centre) / spread
    order = random.permutation(len(values))
    folds = np.empty(len(values), dtype=np.int64)
    folds[order] = np.arange(len(values)) % choices.members
    options = choose(points, values, axes, choices, order[:MOST_CHOOSING], int(random.integers(2**31)))
    bases = _bases(points, axes, options)
    coordinates = Coordinates.of(points, bases)
    # each part, and main effects alone, predict the observations that they were fitted without
    parts, mains = [], []
    whole, main = np.empty(len(values)), np.empty(len(values))
    for fold in np.unique(folds):
        inside, outside = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
        used, there = coordinates.take(inside), coordinates.take(outside)
        parts.append(fit_part(used, values[inside], bases, options, random))
        mains.append(fit_part(used, values[inside], bases, replace(options, rank=0), random))
        whole[outside], main[outside] = parts[-1].predict(there), mains[-1].predict(there)
    seed = int(random.integers(2**31))
    number, share, residuals = 0, 1.0, values - whole
    orders = category_orders(mains[0], parts[0], axes)
    inputs, some = features(points, axes, orders), order[: 2 * MOST_CHOOSING]
    if choices.trees and len(values) >= _FEWEST:
        tried = order[:MOST_CHOOSING]
        rests = {share: (values - share * whole - (1 - share) * main)[tried] for share in SHARES}
        tries = [(*_try_trees(inputs[tried], own, choices.trees, seed), share) for share, own in rests.items()]
        number, residuals, share = min(tries, key=lambda each: float(np.abs(each[1]).mean()))
    rest = values - share * whole - (1 - share) * main
    grown = grow(inputs[some], rest[some], number, seed) if number else None
    return Blend(
        axes,
        bases,
        centre,
        spread,
        tuple(between(one, other, share) for one, other in zip(mains, parts, strict=True)),
        orders,
        tree_arrays(grown),
        options,
        share,
        np.quantile(np.abs(residuals) * spread, np.linspace(0, 1, 101)),
    )


def _try_trees(inputs: Values, rest: Array, most: int, seed: int) -> tuple[int, Array]:
    """Return the number of trees with the smallest error at a quarter that is left out, and the errors there."""
    outside = np.arange(len(rest)) % 4 == 0
    grown = grow(inputs[~outside], rest[~outside], most, seed)
    errors = [rest[outside], *(rest[outside] - found for found in grown.staged_predict(inputs[outside]))]
    number = int(np.argmin([np.abs(each).mean() for each in errors]))
    return number, errors[number]


def _bases(points: Array, axes: Sequence[Axis], options: PartOptions) -> tuple[Basis, ...]:
    """Return nodes along each parameter; no more than values where there are few observations for each."""

    def nodes(column: Array) -> int:
        few = len(column) < 10 * options.nodes
        return max(min(options.nodes, len(np.unique(column))) if few else options.nodes, 2)

    return tuple(make_basis(axis, nodes(points[:, j])) for j, axis in enumerate(axes))


def choose(
    points: Array, values: Array, axes: tuple[Axis, ...], choices: Choices, rows: Whole, seed: int
) -> PartOptions:
    """Choose what is not given, one choice at a time, on two quarters of some observations that are left out."""
    points, values = points[rows], values[rows]
    given = {name: getattr(choices, name) for name in ("nodes", "rank", "ridge")}
    options = PartOptions(**{name: value for name, value in given.items() if value is not None})
    quarter = np.arange(len(rows)) % 4
    if np.count_nonzero(quarter) < 8:
        return replace(options, rank=choices.rank or 0)
    seen: dict[PartOptions, float] = {}

    def error(options: PartOptions) -> float:
        if options not in seen:
            bases = _bases(points, axes, options)
            coordinates = Coordinates.of(points, bases)
            gaps = []
            for part in range(2):
                inside, outside = np.flatnonzero(quarter != part), np.flatnonzero(quarter == part)
                used, random = coordinates.take(inside), np.random.default_rng(seed + part)
                fitted = fit_part(used, values[inside], bases, options, random)
                gaps.append(np.abs(fitted.predict(coordinates.take(outside)) - values[outside]).mean())
            seen[options] = float(np.mean(gaps))
        return seen[options]

    shapes = {(choices.nodes or n, n if choices.rank is None else choices.rank) for n in SHAPES}
    options = min((replace(options, nodes=n, rank=r) for n, r in sorted(shapes)), key=error)
    for name in ("smooth", "ridge") if choices.ridge is None else ("smooth",):
        for factor in (0.3, 3.0):
            other = replace(options, **{name: factor * getattr(options, name)})
            while error(other) < error(options) and getattr(other, name) < 1:
                options = other
                other = replace(options, **{name: factor * getattr(options, name)})
    return options


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
