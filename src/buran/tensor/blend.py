"""The default preset's model inside the measured range: CP parts, main effects, and boosted trees on the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from buran.tensor.axes import Array, Axis, Whole
from buran.tensor.boost import Boosting, Features, Trees, grow, join, make_features
from buran.tensor.smooth import Basis, CPPart, PartOptions, Places, fit_part, make_basis
from buran.tensor.trial import Room, Trial, UserChoices, choose_trees
from buran.tensor.tuning import BLEND

_CHUNK = 1 << 16


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
        chunks = [self._predict(points[i : i + _CHUNK]) for i in range(0, max(len(points), 1), _CHUNK)]
        return np.concatenate([f[0] for f in chunks]), np.concatenate([f[1] for f in chunks])

    def _predict(self, points: Array) -> tuple[Array, Array]:
        places = Places.of(points, self.bases)
        several = np.zeros((1, len(points)))
        if self.parts:
            several = np.stack([part.predict(places) for part in self.parts])
        out = self.share * several.mean(axis=0) + (1 - self.share) * self.main.predict(places)
        if len(self.trees.values):
            out += self.trees.predict(self.features.bins(points, self.axes))
        return self.centre + self.spread * out, self.spread * self.share * several.std(axis=0)


@dataclass(eq=False)
class Training:
    """Observations and what was learnt about choices; kept for updates with new observations."""

    points: Array
    logs: Array
    left_out: Array  # standardised predictions of CP parts that had not seen the observation
    base: float  # trees are grown on what this share of CP parts, and main effects for the rest, leave over
    mixed: float  # share of CP parts alone in the final mean with base and trees
    boosting: Boosting


def fit_blend(
    points: Array, logs: Array, axes: tuple[Axis, ...], choices: UserChoices, random: np.random.Generator
) -> tuple[Blend, Training]:
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
    folds[order] = np.arange(len(values)) % BLEND.folds
    options = choose(points, values, axes, choices, folds, order, random)
    bases = tuple(make_basis(axis, _nodes(points[:, j], options.nodes)) for j, axis in enumerate(axes))
    places = Places.of(points, bases)
    room = Room.of(bases, options, choices, len(values))
    several = _left_out(places, values, bases, options, folds, room.members(0), random)
    left_out = several.mean(axis=0)
    main = fit_part(places, values, bases, replace(options, rank=0), random)
    alone = main.predict(places)
    features = make_features(points, axes, main.main, values - alone)
    boosting = Boosting(room.most_trees, room.depth, bins=features.count)
    base, mixed, residuals = 1.0, 0.0, values - left_out
    trees = join([], boosting.depth)
    if boosting.trees and len(values) >= 8 * BLEND.folds and len(features.weights) + len(features.orders):
        inside, outside = np.flatnonzero(folds != 0), np.flatnonzero(folds == 0)
        inside, outside = inside[: BLEND.most_choosing], outside[: BLEND.most_choosing]
        inside_features = make_features(points[inside], axes, main.main, (values - alone)[inside])
        tried = Trial(inside_features.bins(points, axes), values, several, alone, inside, outside)
        base, mixed, boosting, residuals = choose_trees(tried, boosting, room, random)
        grown = grow(features.bins(points, axes), values - base * left_out - (1 - base) * alone, boosting, random)
        trees = grown.scaled(1 - mixed)
    share = mixed + (1 - mixed) * base
    members = room.members(boosting.trees) if share else 0
    parts = tuple(fit_part(places, values, bases, options, random) for _ in range(members))
    quantiles = np.quantile(np.abs(residuals) * spread, np.linspace(0, 1, 101))
    blend = Blend(axes, bases, centre, spread, parts, main, share, features, trees, options, quantiles)
    return blend, Training(points, logs, left_out, base, mixed, boosting)


def _nodes(column: Array, count: int) -> int:
    return max(min(count, len(np.unique(column)) if len(column) < 10 * count else count), 2)


def update_blend(
    blend: Blend, training: Training, points: Array, logs: Array, random: np.random.Generator
) -> tuple[Blend, Training]:
    """Go on with new observations inside the measured range.

    Before the new observations are learnt, they tell how well unseen ones are predicted; trees are then grown again on
    what is left over at all observations.

    Parameters
    ----------
    points
        Shape (point, parameter): the new ones, encoded.
    """
    new = (logs - blend.centre) / blend.spread
    before = blend.predict_log(points)[0]
    unseen = Places.of(points, blend.bases)
    several = [part.predict(unseen) for part in blend.parts] or [blend.main.predict(unseen)]
    left_out = np.concatenate([training.left_out, np.mean(several, axis=0)])
    points, logs = np.concatenate([training.points, points]), np.concatenate([training.logs, logs])
    values = (logs - blend.centre) / blend.spread
    places = Places.of(points, blend.bases)
    few = replace(blend.options, sweeps=BLEND.update_sweeps)
    parts = tuple(
        fit_part(places, values, blend.bases, few, random, start=CPPart(list(part.main), list(part.factors)))
        for part in blend.parts
    )
    main = fit_part(places, values, blend.bases, replace(few, rank=0), random)
    base = training.base * left_out + (1 - training.base) * main.predict(places)
    trees = grow(blend.features.bins(points, blend.axes), values - base, training.boosting, random)
    trees = trees.scaled(1 - training.mixed)
    quantiles = blend.residuals
    if len(new) >= BLEND.enough_new:
        quantiles = np.quantile(np.abs(before - logs[-len(new) :]), np.linspace(0, 1, 101))
    updated = replace(blend, parts=parts, main=main, trees=trees, residuals=quantiles)
    return updated, replace(training, points=points, logs=logs, left_out=left_out)


def _left_out(
    places: Places,
    values: Array,
    bases: Sequence[Basis],
    options: PartOptions,
    folds: Whole,
    members: int,
    random: np.random.Generator,
) -> Array:
    """Return predictions of each observation by CP parts that have not seen it, shape (part, point)."""
    part_of = folds % 2 if len(values) > BLEND.large else folds
    several = min(members, 1 if len(values) > BLEND.large else 3 if len(values) > BLEND.large // 4 else 4)
    out = np.full((several, len(values)), values.mean())
    for fold in range(int(part_of.max()) + 1):
        inside, outside = np.flatnonzero(part_of != fold), np.flatnonzero(part_of == fold)
        if len(inside) == 0 or len(outside) == 0:
            continue
        here, there = places.take(inside), places.take(outside)
        for member in range(several):
            out[member, outside] = fit_part(here, values[inside], bases, options, random).predict(there)
    return out


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
    if len(values) > BLEND.large:
        keep = order[: BLEND.large // 4]
        points, values, folds = points[keep], values[keep], folds[keep]
    inside, outside = np.flatnonzero(folds != 0), np.flatnonzero(folds == 0)
    few = len(values) < 1000
    options = PartOptions(
        choices.nodes or (8 if few else 16),
        8 if choices.rank is None and few else 16 if choices.rank is None else choices.rank,
        1e-2 if choices.ridge is None else choices.ridge,
        1e-2 if choices.smooth is None else choices.smooth,
    )
    if len(outside) == 0 or len(inside) < 8:
        return replace(options, rank=choices.rank or 0)
    seed = int(random.integers(2**31))
    number = 1 if len(values) > BLEND.one_fold_from else 2
    seen: dict[PartOptions, tuple[float, int]] = {}

    def error(options: PartOptions) -> float:
        if options not in seen:
            tried = [
                _validate(
                    points, values, axes, options, np.flatnonzero(folds != k), np.flatnonzero(folds == k), seed + k
                )
                for k in range(number)
            ]
            mean = np.mean([trial_error for trial_error, _ in tried])
            seen[options] = float(mean), int(np.ceil(np.mean([sweeps for _, sweeps in tried])))
        return seen[options][0]

    shapes = {
        (choices.nodes or nodes, rank if choices.rank is None else choices.rank)
        for nodes, rank in (BLEND.shapes_few if few else BLEND.shapes)
    }
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
    places = Places.of(points, bases)
    there = places.take(outside)
    errors: list[float] = []

    def watch(sweep: int, part: CPPart) -> bool:
        errors.append(float(np.abs(part.predict(there) - values[outside]).mean()))
        return sweep > BLEND.patience + int(np.argmin(errors)) + 1

    fit_part(places.take(inside), values[inside], bases, options, np.random.default_rng(seed), watch=watch)
    best = int(np.argmin(errors))
    return errors[best], best + 1
