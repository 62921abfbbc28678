"""Counts of two campaigns compared number by number: they are exact, so that a difference is certain."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from buran.modeling.numerics.intervals import ROUNDING
from buran.modeling.pmnf.model_set import ModelSet
from buran.plugins.versions.difference import Change
from buran.plugins.versions.fold import Indices, fold, indices_of
from buran.plugins.versions.measured import Measured, measured_in_both
from buran.plugins.versions.side import Side
from buran.profiles.experiment.table import Experiment

Array = NDArray[np.float64]
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
