"""What two campaigns measured at the same points, brought together without any model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray

from buran.modeling.numerics.intervals import of_mean
from buran.modeling.numerics.tuning import FEW
from buran.modeling.pmnf.model_set import ModelSet
from buran.modeling.pmnf.repetitions import Repetition, over_repetitions
from buran.plugins.versions.fold import Indices
from buran.profiles.experiment.table import Aggregate, Experiment

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Measured:
    """Values of the common call paths at the common points.

    Attributes
    ----------
    points
        One tuple of values each, in the order of the models' parameters.
    values
        Of both sides, shape (call path, point, repetition); NaN where nothing was measured.
    repetition
        How repetitions become one value.
    """

    points: list[tuple[float, ...]]
    values: tuple[Array, Array]
    repetition: Repetition

    def ratios(self, level: float) -> tuple[Array, Array, Array]:
        """Return means of the ratios over points, and the bounds of their intervals: each of shape (call path,).

        The means are geometric, and the scatter of the ratios over points says how uncertain they are: noise of both
        sides is in it, and a difference that is not the same everywhere widens the interval. NaN with fewer than
        `FEW` points.
        """
        first, second = (over_repetitions(side, self.repetition) for side in self.values)
        present = (first > 0) & (second > 0)
        logs = np.log(np.where(present, second, 1.0)) - np.log(np.where(present, first, 1.0))
        mean, reach = of_mean(np.where(present, logs, np.nan), level)
        enough = present.sum(axis=1) >= FEW
        bounds = (np.where(enough, np.exp(logarithms), np.nan) for logarithms in (mean, mean - reach, mean + reach))
        return cast(tuple[Array, Array, Array], tuple(bounds))


def common_points(first: Sequence[Sequence[float]], second: Sequence[Sequence[float]]) -> list[tuple[float, ...]]:
    """Return the points that both lists have, in the order of the second."""
    of_first = {tuple(map(float, point)) for point in first}
    return [point for point in dict.fromkeys(tuple(map(float, point)) for point in second) if point in of_first]


def measured_in_both(
    tables: tuple[Experiment, Experiment],
    models: ModelSet,
    positions: tuple[Indices, Indices],
    size: int,
) -> Measured:
    """Return what two tables hold of the metric of `models`, reduced over ranks and repetitions as these are.

    Parameters
    ----------
    positions
        For each call path of a table the position of the one it counts to, of `size`; -1 where it counts to none.
    """
    metric, parameters = models.metric, models.parameters
    rows = [list(map(tuple, table.points_in(parameters).tolist())) for table in tables]
    points = common_points(*rows)
    values = []
    for table, of_table, to in zip(tables, rows, positions, strict=True):
        number = {point: row for row, point in enumerate(of_table)}
        chosen = table.over_locations(metric, cast(Aggregate, models.aggregate))
        values.append(folded_values(chosen[:, [number[point] for point in points]], to, size))
    return Measured(points, (values[0], values[1]), cast(Repetition, models.repetition))


def shares_of(values: Array) -> Array:
    """Return shape (call path, point): of the total of each point; 0 where that is 0."""
    total = values.sum(axis=0)
    return np.asarray(np.divide(values, total, out=np.zeros_like(values), where=total > 0))


def folded_values(values: Array, positions: NDArray[np.int64], size: int) -> Array:
    """Add what counts to the same call path; NaN where none of it was measured."""
    out, seen = np.zeros((size, *values.shape[1:])), np.zeros((size, *values.shape[1:]), dtype=bool)
    kept = positions >= 0
    there = np.isfinite(values[kept])
    np.add.at(out, positions[kept], np.where(there, values[kept], 0.0))
    np.logical_or.at(seen, positions[kept], there)
    return np.where(seen, out, np.nan)
