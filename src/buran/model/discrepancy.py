"""What no hypothesis says: how far models miss the largest values that they have not seen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from buran.model.candidates import Ids
from buran.model.terms import Array
from buran.model.together import pairs_apart, usual_values
from buran.model.tuning import UNCERTAINTY
from buran.numerics.discrepancy import LeftOut

Refit = Callable[[Array, Array, Ids], Callable[[Array], Array]]
"""Points, values and call paths to a function that predicts at other points: shape (call path, point)."""


@dataclass(frozen=True)
class Discrepancy:
    """Relative standard deviation of a prediction beyond the points, for one call path.

    Attributes
    ----------
    largest, before
        Of each parameter: the largest value that was measured, and where the last step begins: at the value before it,
        or farther away if these two are close.
    miss
        Of each parameter: what a step as from `before` to `largest` on a logarithmic scale adds.
    """

    largest: tuple[float, ...]
    before: tuple[float, ...]
    miss: tuple[float, ...]

    def at(self, points: Array) -> Array:
        """Return shape (point,) at `points` (point, parameter): 0 between the measured values."""
        largest, before = np.array(self.largest), np.array(self.before)
        known = (before > 0) & (before < largest)
        with np.errstate(divide="ignore"):
            rise = np.log(np.maximum(points, largest) / np.where(known, largest, 1.0))
        steps = np.where(known, rise / np.log(np.where(known, largest / np.where(known, before, 1.0), np.e)), 0.0)
        return np.asarray(np.sqrt(((np.array(self.miss) * steps) ** 2).sum(axis=1)))

    def to_json(self) -> dict[str, Any]:
        """Return plain lists."""
        return {"largest": list(self.largest), "before": list(self.before), "miss": list(self.miss)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Discrepancy:
        """Read what `to_json` gives; KeyError, TypeError or ValueError where it is damaged."""
        return cls(*(tuple(map(float, data[name])) for name in ("largest", "before", "miss")))


def discrepancies(points: Array, left_out: LeftOut) -> list[Discrepancy]:
    """Return what models say nothing of beyond `points`, by what `leave_largest_out` found there."""
    levels = [np.unique(column) for column in points.T]
    largest = tuple(float(column[-1]) for column in levels)
    before = tuple(_before(column) for column in levels)
    return [Discrepancy(largest, before, tuple(miss)) for miss in left_out.misses().tolist()]


def _before(levels: Array) -> float:
    """Return where the last step of ascending values begins.

    Two values that are close say little of what is farther away: a step is at least a share of the mean one.
    """
    positive = levels[levels > 0]
    if len(positive) < 2:
        return float(levels[max(len(levels) - 2, 0)])
    mean = np.log(positive[-1] / positive[0]) / (len(positive) - 1)
    return min(float(positive[-2]), float(positive[-1] * np.exp(-UNCERTAINTY.shortest * mean)))


def leave_largest_out(points: Array, values: Array, noise: Array, calls: Ids, refit: Refit) -> LeftOut:
    """Leave out the largest value of each parameter, model the rest, and see by how much the models miss.

    A parameter takes part from `UNCERTAINTY.values` values on.

    Parameters
    ----------
    points
        Shape (point, parameter).
    values
        Shape (call path, point), of `calls`; NaN where nothing was measured.
    noise
        Shape (call path,): relative standard deviation of a value.
    calls
        Their numbers.
    refit
        Models them from some of the points; NaN where it cannot.
    """
    levels = [np.unique(column) for column in points.T]
    floor = 1e-3 * np.nanmax(np.abs(values), axis=1, keepdims=True, initial=0.0)
    size = np.maximum(np.abs(values), np.where(floor > 0, floor, 1.0))
    squares = np.full((len(values), len(levels)), np.nan)
    apart, usual = pairs_apart(points), usual_values(points)
    for p, column in enumerate(levels):
        if len(column) < UNCERTAINTY.values:
            continue
        seen = points[:, p] <= _before(column)
        if len(np.unique(points[seen, p])) < UNCERTAINTY.values - 1:
            seen = points[:, p] < column[-1]
        judged = ~seen
        if len(pairs_apart(points[seen])) > len(apart):  # the rest no longer tells a sum from a product
            judged &= (np.delete(points, p, axis=1) == np.delete(usual, p)).all(axis=1)
        if not judged.any():
            squares[:, p] = 0.0
            continue
        gaps = (refit(points[seen], values[:, seen], calls)(points[judged]) - values[:, judged]) / size[:, judged]
        here = np.isfinite(gaps)
        mean = np.where(here, gaps**2, 0.0).sum(axis=1) / np.maximum(here.sum(axis=1), 1)
        squares[:, p] = np.minimum(mean, UNCERTAINTY.largest_miss**2)
    points_a_value = (len(points) - 1) / max(sum(len(column) - 1 for column in levels), 1)
    varied = (points != usual).sum(axis=1)
    alone = float((varied[varied > 0] == 1).mean()) if len(levels) > 1 and varied.any() else 0.0
    return LeftOut(squares, noise, points_a_value, alone)
