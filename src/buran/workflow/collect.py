"""From finished runs to the measurement tables that models are made from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from buran.campaign.plan import Mode
from buran.campaign.point import Point
from buran.campaign.records import RECORD
from buran.features import sampled_metrics
from buran.measurement.attempt import PROFILE
from buran.modeling.exact.effort import effort_of
from buran.modeling.pmnf.terms import Array, predict
from buran.modeling.priors.paths import taken_up
from buran.profiles.call_paths import read_profile
from buran.profiles.experiment.build import Run, experiment_from_profiles, unique_points
from buran.profiles.experiment.table import AGGREGATES, Experiment
from buran.profiles.profile import CallTree, Region
from buran.workflow.history import FinishedRun


def lost(runs: Iterable[FinishedRun]) -> list[FinishedRun]:
    """Return the runs that were measured, but are gone from the store: their record, or the profile they had."""
    return [run for run in runs if not _is_whole(run)]


def in_store(runs: Iterable[FinishedRun]) -> list[FinishedRun]:
    """Return the runs whose record and profile are in the store; what others cost and took is still known."""
    return [run for run in runs if _is_whole(run)]


def _is_whole(run: FinishedRun) -> bool:
    files = (RECORD,) if run.mode is Mode.VANILLA else (RECORD, PROFILE)
    return all((run.folder / name).is_file() for name in files)


def experiment_of(runs: Sequence[FinishedRun], parameters: Sequence[str]) -> Experiment | None:
    """Read the profiles of some runs, one after the other, into one table; None without runs."""
    return experiment_from_profiles(profiles_of(runs, parameters)) if runs else None


def counts_of(runs: Sequence[FinishedRun], parameters: Sequence[str]) -> Experiment | None:
    """Read the profiles of runs that count into one table, whatever they tell beside; None without runs."""
    met: Counter[Point] = Counter()
    sampled = sampled_metrics()

    def numbered() -> Iterator[Run]:
        for run, (point, _, profile) in zip(runs, profiles_of(runs, parameters), strict=True):
            yield point, met[run.point], profile.without(sampled)
            met[run.point] += 1

    return experiment_from_profiles(numbered()) if runs else None


def profiles_of(runs: Iterable[FinishedRun], parameters: Sequence[str]) -> Iterator[Run]:
    """Read the profiles of some runs, one after the other."""
    for run in runs:
        yield {name: run.point[name] for name in parameters}, run.repetition, read_profile(run.folder / PROFILE)


def only(experiment: Experiment, metrics: Iterable[str]) -> Experiment:
    """Return the table with some of its metrics."""
    names = [name for name in metrics if name in experiment.values]
    return replace(
        experiment,
        values={name: experiment.values[name] for name in names},
        units={name: experiment.units[name] for name in names},
    )


def unsteady_call_paths(experiment: Experiment, metrics: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return, by metric, the call paths whose counts are not the same in all repetitions of a point."""
    unsteady: dict[str, tuple[str, ...]] = {}
    for metric in (name for name in metrics if name in experiment.values):
        rows = np.flatnonzero(differing(experiment, metric))
        if len(rows):
            unsteady[metric] = tuple(experiment.tree.names[row] for row in rows.tolist())
    return unsteady


def differing(experiment: Experiment, metric: str, factor: float = 1.0) -> NDArray[np.bool_]:
    """Return shape (call path,): whether repetitions of a point differ by more than a factor, on any location."""
    values = experiment.values[metric]
    # A call path that no repetition of a point has is NaN throughout, which is no difference.
    lowest = np.nanmin(np.where(np.isnan(values), np.inf, values), axis=2)
    highest = np.nanmax(np.where(np.isnan(values), -np.inf, values), axis=2)
    differs = ((highest > factor * lowest) & np.isfinite(lowest)).any(axis=(1, 2))
    return np.asarray(differs, dtype=np.bool_)


def as_array(points: Iterable[Point], parameters: Sequence[str]) -> Any:
    """Return shape (point, parameter)."""
    return np.array([[point[name] for name in parameters] for point in points], dtype=np.float64)


def of_whole_program(
    numbers: Mapping[str, Mapping[Point, Sequence[float]]],
    units: Mapping[str, str],
    parameters: Sequence[str],
    tree: CallTree | None,
) -> Experiment:
    """Return a table of numbers of the whole program, by metric, point and repetition.

    Parameters
    ----------
    tree
        Tree of the other metrics: the whole program is its root, if there is one root.
    """
    everywhere = list(dict.fromkeys(point for by_point in numbers.values() for point in by_point))
    points, at = unique_points(as_array(everywhere, parameters))
    column = dict(zip(everywhere, at.tolist(), strict=True))
    most = max(len(repeated) for by_point in numbers.values() for repeated in by_point.values())
    values = {name: np.full((1, len(points), most, len(AGGREGATES)), np.nan) for name in numbers}
    for name, by_point in numbers.items():
        for point, repeated in by_point.items():
            values[name][0, column[point], : len(repeated)] = np.array(repeated)[:, None]
    root = Region("program", paradigm="measurement", role="artificial")
    if tree is not None and np.count_nonzero(tree.parent < 0) == 1:
        root = tree.regions[tree.region[0]]
    whole = CallTree((root,), region=np.zeros(1, dtype=np.int64), parent=np.full(1, -1, dtype=np.int64))
    return Experiment(tuple(parameters), points, whole, values, dict(units))


def counts_at(counted: Sequence[Run], metric: str, tree: CallTree, points: Array) -> Array | None:
    """Return a count, mean over ranks, shape (call path of `tree`, point); None where it was not counted."""
    runs = [run for run in counted if metric in run[2].metrics]
    if not runs:
        return None
    table = only(experiment_from_profiles(runs), [metric])
    counts = taken_up(table.over_locations(metric, "mean"), table.tree, tree)
    return predict(effort_of(table.points, counts, metric=metric, exact=True).functions, points)
