"""Tables made of tables: several metrics of several builds, and fewer regions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from buran.errors import UsageError
from buran.profiles.experiment.build import unique_points
from buran.profiles.experiment.table import AGGREGATES, Experiment
from buran.profiles.metrics import metric_of
from buran.profiles.regroup import Keep, TreeUnion, combine, fold


def merge_metrics(first: Experiment, *others: Experiment) -> Experiment:
    """Put the metrics of several experiments into one table.

    A call path, point or repetition that only some experiments have is NaN in the metrics of the others:
    their build may not have measured it. Bring tables to the same regions with `project` before.

    Raises
    ------
    UsageError
        The parameters differ, or two experiments have the same metric.
    """
    union = TreeUnion()
    tables = (first, *others)
    numbers = [union.add(table.tree) for table in tables]
    tree, index = union.arrange()
    columns: list[NDArray[np.float64]] = []
    for table in tables:
        if set(table.parameters) != set(first.parameters):
            raise UsageError(
                "experiments with different parameters cannot be merged",
                why=f"one has {', '.join(first.parameters)}, another {', '.join(table.parameters)}",
            )
        columns.append(table.points_in(first.parameters))
    points, at_point = unique_points(np.concatenate(columns))
    positions = np.split(at_point, np.cumsum([len(table.points) for table in tables])[:-1])
    repetitions = max(array.shape[2] for table in tables for array in table.values.values())
    values: dict[str, NDArray[np.float64]] = {}
    units: dict[str, str] = {}
    for table, paths, at in zip(tables, numbers, positions, strict=True):
        for metric, array in table.values.items():
            if metric in values:
                raise UsageError(
                    "experiments with the same metric cannot be merged",
                    why=f"metric {metric} is in two of them",
                    hint="leave it out of one",
                )
            values[metric] = np.full((len(tree), len(points), repetitions, len(AGGREGATES)), np.nan)
            rows, target = np.unique(index[paths], return_inverse=True)
            merged = _fold_values(array, target, len(rows), metric)
            values[metric][rows[:, None], at[None, :], : array.shape[2]] = merged
            units[metric] = table.units.get(metric, "")
    return Experiment(first.parameters, points, tree, values, units)


def add_points(first: Experiment, other: Experiment) -> Experiment:
    """Add the points of another table that the first one lacks, with the metrics of the first.

    What only one of the tables knows, of call paths and metrics, is NaN at the other's points.
    """
    known = set(map(tuple, first.points.tolist()))
    there = other.points_in(first.parameters)
    new = np.array([tuple(row) not in known for row in there.tolist()], dtype=bool)
    union = TreeUnion()
    numbers = [union.add(table.tree) for table in (first, other)]
    tree, index = union.arrange()
    points, at = unique_points(np.concatenate([first.points, there[new]]))
    columns = (at[: len(first.points)], at[len(first.points) :])
    values: dict[str, NDArray[np.float64]] = {}
    for metric, array in first.values.items():
        cells = [array, other.values[metric][:, new]] if metric in other.values else [array]
        repetitions = max(each.shape[2] for each in cells)
        values[metric] = np.full((len(tree), len(points), repetitions, len(AGGREGATES)), np.nan)
        for each, paths, column in zip(cells, numbers, columns, strict=False):
            rows, target = np.unique(index[paths], return_inverse=True)
            merged = _fold_values(each, target, len(rows), metric)
            values[metric][rows[:, None], column[None, :], : each.shape[2]] = merged
    return replace(first, points=points, tree=tree, values=values)


def _fold_values(values: NDArray[np.float64], target: NDArray[np.int64], size: int, metric: str) -> NDArray[np.float64]:
    """Bring call paths with the same target together; shapes (call path, point, repetition, aggregate)."""
    if len(np.unique(target)) == len(target) == size:
        return values[np.argsort(target)]
    how = metric_of(metric).combination
    out = combine(values, target, size, how).astype(np.float64, copy=False)
    # Which location has the extreme or the middle is known for one call path, not for the sum of several that
    # differ between locations.
    lowest, highest = (values[..., AGGREGATES.index(name)] for name in ("min", "max"))
    uneven = np.zeros(out.shape[:-1], dtype=np.int64)
    np.add.at(uneven, target, lowest != highest)
    if how == "add":
        unknown = uneven > 1
        lost = [name for name in AGGREGATES if name not in ("mean", "sum")]
    else:
        several = np.zeros(out.shape[:-1], dtype=np.int64)
        np.add.at(several, target, (lowest != 0) | (highest != 0))
        unknown = (uneven > 0) & (several > 1)
        lost = [name for name in AGGREGATES if name != how]
    for name in lost:
        out[..., AGGREGATES.index(name)][unknown] = np.nan
    return out


def project(experiment: Experiment, keep: Keep) -> Experiment:
    """Return the table as it would be if only some regions had been measured.

    Call paths of other regions are folded into their nearest kept ancestor, which takes over their values;
    visits and communicator sizes describe the region's own visits and go with it. MPI operations and roots
    always stay. Mean and sum over locations are exact; median, minimum and maximum are NaN where call paths
    come together that differ between locations. `buran.profiles.regroup.project` on the profiles has no such
    loss.

    Parameters
    ----------
    experiment
        Measured with a broad filter.
    keep
        Predicate over regions, or shape (region,).
    """
    folding = fold(experiment.tree, keep)
    values: dict[str, NDArray[np.float64]] = {}
    for metric, array in experiment.values.items():
        source = folding.stays if metric_of(metric).is_per_visit else np.ones(len(array), dtype=bool)
        values[metric] = _fold_values(array[source], folding.target[source], len(folding.tree), metric)
    return replace(experiment, tree=folding.tree, values=values)
