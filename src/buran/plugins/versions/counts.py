"""Counts of two campaigns compared number by number: they are exact, so that a difference is certain."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

import numpy as np
from numpy.typing import NDArray

from buran.modeling.numerics.intervals import ROUNDING, of_mean
from buran.modeling.numerics.tuning import FEW
from buran.modeling.pmnf.model import Model, add_models
from buran.modeling.pmnf.model_set import ModelSet
from buran.modeling.pmnf.repetitions import Repetition, over_repetitions
from buran.plugins.versions.difference import Change
from buran.plugins.versions.side import Side
from buran.profiles.experiment.collect import split_call_path
from buran.profiles.experiment.table import Aggregate, Experiment
from buran.profiles.profile import SEPARATOR

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


Indices = NDArray[np.int64]


def common_call_paths(first: Sequence[str], second: Sequence[str]) -> tuple[str, ...]:
    """Return the full call paths that two lists have, in the order of the second."""
    first_names = set(first)
    return tuple(name for name in second if name in first_names)


def fold(names: Sequence[str], common: Sequence[str]) -> Indices:
    """Return for each call path the index of the common one it counts to; -1 where there is none.

    That is itself, or the nearest caller that both campaigns have. Without this, a function that has hooks on one side
    only, or that was split in two, would look like time that came or went.
    """
    positions = {name: position for position, name in enumerate(common)}
    out = np.full(len(names), -1, dtype=np.int64)
    for row, name in enumerate(names):
        position = positions.get(name)
        if position is None:
            parts = split_call_path(name)
            above = (SEPARATOR.join(parts[:end]) for end in range(len(parts) - 1, 0, -1))
            position = next((positions[caller] for caller in above if caller in positions), -1)
        out[row] = position
    return out


def indices_of(names: Sequence[str], common: Sequence[str]) -> Indices:
    """Return for each call path the index of the same one among `common`; -1 where it is not there."""
    positions = {name: position for position, name in enumerate(common)}
    return np.array([positions.get(name, -1) for name in names], dtype=np.int64)


def fold_models(models: ModelSet, names: tuple[str, ...]) -> ModelSet:
    """Return a model for each common call path: its own, or the sum of those that count to it."""
    groups: list[list[Model | None]] = [[] for _ in names]
    for model, position in zip(models.models, fold(models.call_paths, names).tolist(), strict=True):
        if position >= 0:
            groups[position].append(model)
    nothing = np.zeros((0, len(models.parameters))), np.zeros(0)
    folded = tuple(
        group[0] if len(group) == 1 else add_models(group, *nothing)  # both have the call path: never empty
        for group in groups
    )
    return replace(models, call_paths=names, models=folded)


CALLS = "visits"


@dataclass(frozen=True, eq=False)
class Counted:
    """What two campaigns counted at the points that both measured.

    Attributes
    ----------
    points
        One tuple of values each.
    first, second
        Shape (call path, point): counts of the call paths that both have; NaN where one of the campaigns has none.
    steady
        Shape (call path,): whether the counts were the same in all repetitions, on both sides.
    through
        By the number of the call path: those of one campaign alone that it differs by, itself being the same.
    """

    points: list[tuple[float, ...]]
    first: Array
    second: Array
    steady: NDArray[np.bool_]
    through: Mapping[int, tuple[str, ...]] = field(default_factory=dict)

    @property
    def comparable(self) -> NDArray[np.bool_]:
        """Shape (call path,): whether counts can be compared somewhere, and do not depend on the run."""
        return np.asarray(self.steady & (np.isfinite(self.first) & np.isfinite(self.second)).any(axis=1))

    @property
    def differs(self) -> NDArray[np.int64]:
        """Shape (call path, point): 1 where the second has more, -1 where it has less, 0 else."""
        with np.errstate(invalid="ignore"):
            gap = self.second - self.first
            large = np.abs(gap) > ROUNDING * np.maximum(np.abs(self.first), np.abs(self.second))
        return np.asarray(np.where(large, np.sign(gap), 0), dtype=np.int64)

    def change(self, row: int) -> Change:
        """Return the counts at the point that says most.

        That is where they differ most; where they differ in both directions, the largest such point; else the largest.
        """
        first, second, differs = self.first[row], self.second[row], self.differs[row]
        both = np.isfinite(first) & np.isfinite(second)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where(both & (first > 0), second / first, np.where(both & (second > 0), np.inf, np.nan))
        if (differs > 0).any() and (differs < 0).any():
            position = int(np.nanargmax(np.where(differs != 0, np.maximum(first, second), np.nan)))
        elif (differs > 0).any():
            position = int(np.nanargmax(np.where(differs > 0, ratio, np.nan)))
        elif (differs < 0).any():
            position = int(np.nanargmin(np.where(differs < 0, ratio, np.nan)))
        else:
            position = int(np.nanargmax(np.where(both, second, np.nan)))
            ratio = np.where(first > 0, 1.0, np.nan)
        end = float(ratio[position])
        return Change(self.points[position], float(first[position]), float(second[position]), end, end, end)


def count_measured(both: Measured) -> Counted:
    """Take what was measured for counts; steady are those that all repetitions agree on."""
    bounds = [_bounds(values) for values in both.values]
    with np.errstate(invalid="ignore"):
        wobbly = [((most - least) > ROUNDING * np.abs(most)).any(axis=1) for least, most in bounds]
    return Counted(both.points, bounds[0][0], bounds[1][0], np.asarray(~(wobbly[0] | wobbly[1]), dtype=np.bool_))


def count_in_both(before: Side, after: Side, models: ModelSet, common: Sequence[str]) -> tuple[Counted, Measured]:
    """Return the counts of both campaigns, and what they are of; `models` are those of the metric.

    What only one campaign has counts to its nearest caller of `common`. Where a call path counts the same without
    these, they are what differs: `Counted.through`.
    """
    assert before.counts is not None and after.counts is not None
    tables, names = (before.counts, after.counts), (before.counted, after.counted)
    folded = fold(names[0], common), fold(names[1], common)
    alone = indices_of(names[0], common), indices_of(names[1], common)
    both = measured_in_both(tables, models, folded, len(common))
    counted = count_measured(both)
    themselves = count_measured(measured_in_both(tables, models, alone, len(common)))
    others = (counted.differs != 0).any(axis=1) & ~(themselves.differs != 0).any(axis=1)
    one_sided: dict[int, list[str]] = {}
    for side_names, to, itself in zip(names, folded, alone, strict=True):
        for row in np.flatnonzero((itself < 0) & (to >= 0) & others[np.maximum(to, 0)]).tolist():
            one_sided.setdefault(int(to[row]), []).append(side_names[row])
    return replace(counted, through={row: tuple(dict.fromkeys(paths)) for row, paths in one_sided.items()}), both


def mpi_operations(table: Experiment) -> dict[str, int]:
    """Return the rows of the call paths that are operations of MPI; they are measured whatever the filter."""
    tree = table.tree
    regions = (tree.regions[number] for number in tree.region.tolist())
    return {
        name: row
        for row, (name, region) in enumerate(zip(tree.names, regions, strict=True))
        if region.paradigm == "mpi"
    }


def operations_of_one(before: Side, after: Side) -> tuple[str, ...]:
    """Return the MPI operations that only one campaign calls at the points of both; none without measurements."""
    if before.counts is None or after.counts is None:
        return ()
    tables = before.counts, after.counts
    points = [list(map(tuple, table.points_in(before.parameters).tolist())) for table in tables]
    shared = set(points[0]) & set(points[1])
    out = []
    for side, other, table, own in zip((before, after), (after, before), tables, points, strict=True):
        missing = set(side.counted) - set(other.counted)
        at = [number for number, point in enumerate(own) if point in shared]
        for row in (row for row in mpi_operations(table).values() if side.counted[row] in missing):
            if any(np.nan_to_num(values[row][at][..., 0]).any() for values in table.values.values()):
                out.append(side.counted[row])
    return tuple(out)


def _bounds(values: Array) -> tuple[Array, Array]:
    """Return the least and the most over repetitions; NaN where there is none."""
    there = np.isfinite(values)
    none = ~there.any(axis=2)
    least = np.where(there, values, np.inf).min(axis=2)
    most = np.where(there, values, -np.inf).max(axis=2)
    return np.where(none, np.nan, least), np.where(none, np.nan, most)


def unsteady_rows(names: Collection[str], common: Sequence[str]) -> Indices:
    """Return the common call paths that call paths with unsteady counts count to."""
    positions = fold(tuple(names), common)
    return positions[positions >= 0]
