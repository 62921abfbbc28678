"""The default preset's model inside the measured range: CP parts, and boosted trees on what they leave over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from buran.modeling.tensor.axes import Array, Axis, Whole
from buran.modeling.tensor.smooth import Basis, Coordinates, CPPart, PartOptions, between, fit_part, make_basis
from buran.modeling.tensor.trees import Trees, Values, category_orders, features, grow, tree_arrays

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

_CHUNK = 1 << 16  # points that are predicted at once: memory
_FEWEST = 32  # observations that trees are grown on


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
