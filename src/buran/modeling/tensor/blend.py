"""The default preset's model inside the measured range: CP parts, main effects, and boosted trees on the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from buran.modeling.numerics.tuning import STEPS
from buran.modeling.tensor.axes import Array, Axis, Whole
from buran.modeling.tensor.boost import Boosting, Features, Trees, grow, join, make_features
from buran.modeling.tensor.smooth import Basis, Coordinates, CPPart, PartOptions, fit_part, make_basis
from buran.modeling.tensor.trial import Room, Trial, UserChoices

# Parts that are left out in turn. Tuned: no record of its own; choices were made under seeds other than the reported
# one (evidence/tensor.md).
FOLDS = 4
# Observations that nodes, ranks and penalties are chosen on. Tuned: no record of its own; choices were made under
# seeds other than the reported one (evidence/tensor.md).
MOST_CHOOSING = 4000
# Numbers that are tried, of nodes and of the rank. Tuned: no record of its own; choices were made under seeds other
# than the reported one (evidence/tensor.md).
SHAPES = (4, 8, 16, 24)
# Of the CP parts' share by least squares, which are tried with trees. Tuned: no record of its own; choices were made
# under seeds other than the reported one (evidence/tensor.md).
SHARES = (0.0, 0.5, 1.0)

CHUNK = 1 << 16  # points that are predicted at once: memory


@dataclass(frozen=True, eq=False)
class Blend:
    """``log t = centre + spread * (w * mean of CP parts + (1 - w) * main effects + trees)``.

    Attributes
    ----------
    bases
        One for each parameter.
    parts
        CP parts that differ in their random start.
    main
        Shape (node,) for each parameter: main effects alone.
    share
        w.
    residuals
        Shape (quantile,): of the absolute errors of ``log t`` at observations that were left out, ascending.
    """

    axes: tuple[Axis, ...]
    bases: tuple[Basis, ...]
    centre: float
    spread: float
    parts: tuple[CPPart, ...]
    main: CPPart
    share: float
    features: Features
    trees: Trees
    options: PartOptions
    residuals: Array

    def predict_log(self, points: Array) -> tuple[Array, Array]:
        """Return logarithms of times and their standard deviation among the CP parts, both of shape (point,).

        Parameters
        ----------
        points
            Shape (point, parameter), encoded; a little beyond the ends, functions go on linearly.
        """
        chunks = [self._predict(points[i : i + CHUNK]) for i in range(0, max(len(points), 1), CHUNK)]
        return np.concatenate([f[0] for f in chunks]), np.concatenate([f[1] for f in chunks])

    def _predict(self, points: Array) -> tuple[Array, Array]:
        coordinates = Coordinates.of(points, self.bases)
        several = np.zeros((1, len(points)))
        if self.parts:
            several = np.stack([part.predict(coordinates) for part in self.parts])
        out = self.share * several.mean(axis=0) + (1 - self.share) * self.main.predict(coordinates)
        if len(self.trees.values):
            out += self.trees.predict(self.features.bins(points, self.axes))
        return self.centre + self.spread * out, self.spread * self.share * several.std(axis=0)


def fit_blend(
    points: Array, logs: Array, axes: tuple[Axis, ...], choices: UserChoices, random: np.random.Generator
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
    folds[order] = np.arange(len(values)) % FOLDS
    options = choose(points, values, axes, choices, folds, order, random)
    bases = tuple(make_basis(axis, _nodes(points[:, j], options.nodes)) for j, axis in enumerate(axes))
    coordinates = Coordinates.of(points, bases)
    room = Room.of(bases, options, choices)
    main = fit_part(coordinates, values, bases, replace(options, rank=0), random)
    # Trees, and what they are beside, are learned from some: with more, a fit takes longer and predicts no better.
    some = np.sort(order[: FOLDS * MOST_CHOOSING])
    points, seen, folds = points[some], values[some], folds[some]
    several, alone = _left_out(coordinates.take(some), seen, bases, options, folds, room.members(0), random)
    apart = several.mean(axis=0) - alone
    best = float(np.clip((seen - alone) @ apart / max(apart @ apart, 1e-300), 0, 1))
    features = make_features(points, axes, main.main, seen - alone)
    share, trees, residuals = best, join([]), seen - alone - best * apart
    if room.most_trees and len(seen) >= 8 * FOLDS and len(features.weights) + len(features.orders):
        inside, outside = np.flatnonzero(folds != 0), np.flatnonzero(folds == 0)
        bins = make_features(points[inside], axes, main.main, (seen - alone)[inside]).bins(points, axes)
        tried = Trial(bins, seen, several, alone, inside, outside)
        tries = {share: tried.attempt(share, room, random) for share in (weight * best for weight in SHARES)}
        share = min(tries, key=lambda tested: float(np.abs(tries[tested][1]).mean()))
        number, residuals = tries[share]
        rest = seen - alone - share * apart
        trees = grow(features.bins(points, axes), rest, Boosting(number), random)
    members = room.members(len(trees.values)) if share else 0
    parts = tuple(fit_part(coordinates, values, bases, options, random) for _ in range(members))
    quantiles = np.quantile(np.abs(residuals) * spread, np.linspace(0, 1, 101))
    return Blend(axes, bases, centre, spread, parts, main, share, features, trees, options, quantiles)


def _nodes(column: Array, count: int) -> int:
    return max(min(count, len(np.unique(column)) if len(column) < 10 * count else count), 2)


def _left_out(
    coordinates: Coordinates,
    values: Array,
    bases: Sequence[Basis],
    options: PartOptions,
    folds: Whole,
    members: int,
    random: np.random.Generator,
) -> tuple[Array, Array]:
    """Return predictions by what has not seen the observation: CP parts, (part, point), and main effects, (point,)."""
    several = int(np.clip(FOLDS * MOST_CHOOSING // len(values), 1, min(members, FOLDS)))
    ranks = [*[options.rank] * several, 0]  # of many observations, one part takes long enough
    out = np.full((len(ranks), len(values)), values.mean())
    for fold in range(FOLDS):
        inside, outside = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
        if len(inside) and len(outside):
            used, there = coordinates.take(inside), coordinates.take(outside)
            for row, rank in enumerate(ranks):
                part = fit_part(used, values[inside], bases, replace(options, rank=rank), random)
                out[row, outside] = part.predict(there)
    return out[:-1], out[-1]


def choose(
    points: Array,
    values: Array,
    axes: tuple[Axis, ...],
    choices: UserChoices,
    folds: Whole,
    order: Whole,
    random: np.random.Generator,
) -> PartOptions:
    """Choose what is not given, one choice at a time, on the first fold."""
    keep = order[:MOST_CHOOSING]
    points, values, folds = points[keep], values[keep], folds[keep]
    given = {name: getattr(choices, name) for name in ("nodes", "rank", "ridge", "smooth")}
    options = PartOptions(**{name: value for name, value in given.items() if value is not None})
    if np.count_nonzero(folds) < 8:
        return replace(options, rank=choices.rank or 0)
    seed = int(random.integers(2**31))
    seen: dict[PartOptions, tuple[float, int]] = {}

    def error(options: PartOptions) -> float:
        if options not in seen:
            tried = [
                _validate(
                    points, values, axes, options, np.flatnonzero(folds != k), np.flatnonzero(folds == k), seed + k
                )
                for k in range(2)
            ]
            mean = np.mean([trial_error for trial_error, _ in tried])
            seen[options] = float(mean), int(np.ceil(np.mean([sweeps for _, sweeps in tried])))
        return seen[options][0]

    shapes = {(choices.nodes or n, n if choices.rank is None else choices.rank) for n in SHAPES}
    options = min((replace(options, nodes=n, rank=r) for n, r in sorted(shapes)), key=error)
    for name, free in (("smooth", choices.smooth is None), ("ridge", choices.ridge is None)):
        for factor in (0.3, 3.0) if free else ():
            other = replace(options, **{name: factor * getattr(options, name)})
            while error(other) < error(options) and 1e-5 < getattr(other, name) < 1:
                options = other
                other = replace(options, **{name: factor * getattr(options, name)})
    return replace(options, sweeps=seen[options][1])


def _validate(
    points: Array, values: Array, axes: tuple[Axis, ...], options: PartOptions, inside: Whole, outside: Whole, seed: int
) -> tuple[float, int]:
    """Return the smallest error at observations that are left out, and the sweeps it takes."""
    bases = [make_basis(axis, _nodes(points[:, j], options.nodes)) for j, axis in enumerate(axes)]
    coordinates = Coordinates.of(points, bases)
    there = coordinates.take(outside)
    errors: list[float] = []

    def watch(sweep: int, part: CPPart) -> bool:
        errors.append(float(np.abs(part.predict(there) - values[outside]).mean()))
        return sweep > STEPS + int(np.argmin(errors)) + 1

    part = fit_part(coordinates.take(inside), values[inside], bases, options, np.random.default_rng(seed), watch=watch)
    if not errors:  # main effects alone
        watch(options.sweeps, part)
    best = int(np.argmin(errors))
    return errors[best], best + 1 if options.rank else options.sweeps
