"""Profiles of single runs, brought together in one measurement table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from buran.errors import UsageError
from buran.profiles.cubex_read import BELOW_ZERO
from buran.profiles.experiment.table import AGGREGATES, Experiment
from buran.profiles.metrics import WORKING_THREADS, Metric, metric_of
from buran.profiles.profile import Location, Profile
from buran.profiles.regroup import TreeUnion, combine
from buran.profiles.symbols import is_program
from buran.wording import named

_NAMED_RANKS = 8
_HASH, _SPAN = 2654435761, 2**32  # of call paths, so that what two of them swap shows (Knuth's multiplier)
_LONELY = 0.5  # share of a run's time in call paths of its own: a switch of algorithms leaves more in common


Run = tuple[Mapping[str, float], int, Profile]
"""The point, the number of the repetition, and what was measured."""


def unique_points(
    points: Sequence[Sequence[float]] | NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the points sorted and without duplicates, shape (point, parameter), and where each one went."""
    unique, index = np.unique(np.array(points, dtype=np.float64), axis=0, return_inverse=True)
    return unique, index.reshape(-1).astype(np.int64)


def aggregate_set(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return shape (call path, aggregate) from shape (call path, rank), in the order of `AGGREGATES`."""
    columns = (values.mean(axis=1), np.median(values, axis=1), values.min(axis=1), values.max(axis=1))
    return np.stack([*columns, values.sum(axis=1)], axis=1)


def _exclusive(profile: Profile, metric: str) -> NDArray[np.float64]:
    values = profile.exclusive(metric)
    # Score-P marks extremes of what was never visited with an infinity; here that is 0.
    return np.where(np.isfinite(values), values, 0.0)


def _of_ranks(profile: Profile, row: NDArray[np.int64], rows: int) -> Iterator[tuple[Metric, NDArray[np.float64]]]:
    """Yield each metric with its values in rows of a table, shape (row, rank)."""
    # Several call paths of one profile may be the same in the union: two static functions of a name,
    # or Score-P's parameters of call paths.
    for name, metric in profile.metrics.items():
        values = combine(_exclusive(profile, name), row, rows, metric.combination)
        yield metric, of_ranks(values.astype(np.float64), profile.locations, metric)
    threads = working_threads(profile)
    if threads is not None:
        yield WORKING_THREADS, combine(threads, row, rows, WORKING_THREADS.combination).astype(np.float64)


def of_ranks(values: NDArray[np.float64], locations: Sequence[Location], metric: Metric) -> NDArray[np.float64]:
    """Return shape (call path, rank) of exclusive values from shape (call path, location).

    Counts of a rank are sums over its threads, so that they depend neither on the number of threads nor on who did
    what. Its time in a call path is that of its first thread, which opens parallel regions and waits for their end;
    where this thread never came, as in work of threads that the program has started itself, it is the longest of any
    thread.
    """
    ranks = np.array([location.rank for location in locations])
    first = np.flatnonzero(np.diff(ranks, prepend=-1))
    if len(first) == len(locations):
        return values
    if metric.of_threads == "first":
        opener = values[:, first]
        return np.where(opener != 0, opener, np.maximum.reduceat(values, first, axis=1))
    if metric.combination == "add":
        return np.add.reduceat(values, first, axis=1)
    extreme, neutral = (np.minimum, np.inf) if metric.combination == "min" else (np.maximum, -np.inf)
    out = extreme.reduceat(np.where(values == 0, neutral, values), first, axis=1)  # 0 stands for "not visited"
    return np.where(out == neutral, 0.0, out)


def working_threads(profile: Profile) -> NDArray[np.float64] | None:
    """Return shape (call path, rank): how many threads share the work; None where nothing was counted or all had one.

    What several threads of a team came to is the whole team's, even if one found nothing left to do: a dynamic loop
    gives its rounds to whoever asks first.
    """
    counts = [profile.values[name] != 0 for name in ("visits", "basic_blocks") if name in profile.values]
    if not counts or all(location.thread == 0 for location in profile.locations):
        return None
    came = np.logical_or.reduce(counts).astype(np.float64)
    threads, tree = of_ranks(came, profile.locations, metric_of("visits")), profile.tree
    for depth in range(1, int(tree.depth.max(initial=0)) + 1):
        level = np.flatnonzero(tree.depth == depth)
        above = threads[tree.parent[level]]
        threads[level] = np.where(threads[level] > 1, np.maximum(threads[level], above), threads[level])
    return threads


def _point(point: Mapping[str, float], parameters: tuple[str, ...]) -> tuple[float, ...]:
    if set(point) != set(parameters):
        raise UsageError(
            "the runs do not have the same parameters",
            where=named(point),
            why=f"another run has the parameters {', '.join(parameters)}",
        )
    return tuple(float(point[name]) for name in parameters)


def experiment_from_profiles(runs: Iterable[Run]) -> Experiment:
    """Merge the profiles of runs into a table of exclusive values.

    The threads of a rank are one; see `of_ranks`.
    Call trees are united by the names of the call paths. A call path that a run did not visit is 0 in this
    run; a metric that a run did not measure, and a run that is missing, are NaN. Profiles are reduced one by
    one, so `runs` may produce them one at a time.

    Parameters
    ----------
    runs
        All points have the same parameters; those of the first run give the order.

    Raises
    ------
    UsageError
        There are no runs, points have different parameters, a repetition of a point is there twice, or the runs are
        not of one program: hardly any call path of theirs is the same.
    """
    union = TreeUnion()
    parameters: tuple[str, ...] = ()
    keys: dict[tuple[tuple[float, ...], int], int] = {}
    nodes: list[NDArray[np.int64]] = []
    metrics_of_runs: list[dict[str, NDArray[np.float64]]] = []
    units: dict[str, str] = {}
    programs: list[str] = []
    fallen: dict[str, list[Mapping[str, float]]] = {}
    ranks = _UnsteadyRanks()
    for point, repetition, profile in runs:
        parameters = parameters or tuple(point)
        key = (_point(point, parameters), repetition)
        if key in keys:
            raise UsageError(
                "a repetition is there twice",
                where=named(point),
                why=f"two runs have the repetition {repetition}",
            )
        keys[key] = len(keys)
        programs.append(_program(profile))
        for name in filter(None, profile.attributes.get(BELOW_ZERO, "").split(", ")):
            fallen.setdefault(name, []).append(point)
        visited, row = np.unique(union.add(profile.tree), return_inverse=True)
        nodes.append(visited)
        metrics: dict[str, NDArray[np.float64]] = {}
        # Some locations may stand for all: then the sum is theirs, scaled.
        there = len(profile.locations)
        scale = int(profile.attributes.get("represents_locations", there)) / there
        for metric, rows in _of_ranks(profile, row, len(visited)):
            units.setdefault(metric.name, metric.unit)
            metrics[metric.name] = aggregate_set(rows)
            metrics[metric.name][:, -1] *= scale
            if metric.role == "exact":
                ranks.add(point, metric.name, visited, rows)
        metrics_of_runs.append(metrics)
    if not keys or not parameters:
        raise UsageError("there are no runs with parameters to make a measurement table of")
    tree, index = union.arrange()
    points, at_point = unique_points([point for point, _ in keys])
    column = {number: n for n, number in enumerate(sorted({number for _, number in keys}))}
    at_repetition = [column[number] for _, number in keys]
    shape = (len(tree), len(points), len(column), len(AGGREGATES))
    values = {name: np.full(shape, np.nan) for name in units}
    for run, metrics in enumerate(metrics_of_runs):
        for name, rows in metrics.items():
            cell = values[name][:, at_point[run], at_repetition[run]]
            cell[:] = 0.0
            cell[index[nodes[run]]] = rows
    notes = tuple(
        f"the counter {name} fell below zero in {len(at)} of {len(keys)} runs, such as the one at {named(at[0])}: "
        "it is left out there"
        for name, at in fallen.items()
    )
    table = Experiment(parameters, points, tree, values, units, (*notes, *ranks.notes()))
    _check_overlap(table, at_point, programs)
    return table


class _UnsteadyRanks:
    """Which ranks count something else in another repetition of a point, from one number for each rank and metric."""

    def __init__(self) -> None:
        self._first: dict[tuple[str, tuple[tuple[str, float], ...]], NDArray[np.float64]] = {}
        self._differ: dict[str, tuple[Mapping[str, float], set[int], int]] = {}

    def add(
        self, point: Mapping[str, float], metric: str, call_paths: NDArray[np.int64], rows: NDArray[np.float64]
    ) -> None:
        """Compare the counts of a run, shape (call path, rank), with those of the first one of its point."""
        sums = (1 + call_paths * _HASH % _SPAN) @ rows
        first = self._first.setdefault((metric, tuple(sorted(point.items()))), sums)
        if len(first) == len(sums) and (first != sums).any():
            at, earlier, _ = self._differ.get(metric, (point, set(), 0))
            self._differ[metric] = (at, earlier | set(np.flatnonzero(first != sums).tolist()), len(sums))

    def notes(self) -> list[str]:
        """Return a sentence for each metric."""
        out = []
        for name, (at, ranks, size) in self._differ.items():
            numbers = ", ".join(map(str, sorted(ranks)[:_NAMED_RANKS])) + (", ..." if len(ranks) > _NAMED_RANKS else "")
            who = f"on rank{'s' * (len(ranks) > 1)} {numbers} of {size}"
            out.append(f"{name} is not the same in all repetitions, such as at {named(at)}: it differs {who}")
        return out


def _program(profile: Profile) -> str:
    """Return the name of the program that a profile is of; empty if it does not say."""
    regions = (profile.tree.regions[number] for number in profile.tree.region[profile.tree.parent < 0].tolist())
    return next((region.name for region in regions if is_program(region)), "")


def _check_overlap(table: Experiment, at_point: NDArray[np.int64], programs: Sequence[str]) -> None:
    """Refuse runs without common call paths: models of each would be made from a single point.

    Parameters
    ----------
    at_point
        Shape (run,): its point.
    programs
        Name of the program of each run.
    """
    metric = next((name for name in ("time", "visits") if name in table.values), None)
    if metric is None or len(table.points) < 2:
        return
    weight = np.nan_to_num(table.over_locations(metric)).max(axis=2)
    regions = [table.tree.regions[number] for number in table.tree.region.tolist()]
    weight[[region.paradigm == "mpi" for region in regions]] = 0.0  # every program starts and ends MPI
    total = np.maximum(weight.sum(axis=0), np.finfo(np.float64).tiny)
    alone = (weight > 0).sum(axis=1) == 1
    share = weight[alone].sum(axis=0) / total
    if len(table.points) > 2 and (share > _LONELY).all():
        first = int(np.flatnonzero(alone)[np.argmax(weight[alone, 0])]) if alone.any() else 0
        raise UsageError(
            "the runs have hardly a call path in common",
            where=_at(table, 0),
            why=f"{100 * share[0]:.0f} % of its {metric} are in call paths that no other point has, such as "
            f"{table.tree.names[first]}",
            hint="look whether all runs are of one program, and whether names in the profiles contain its arguments",
        )
    kinds = np.array([programs.index(name) for name in programs])
    for kind in np.unique(kinds)[1:].tolist():
        inside = np.zeros(len(table.points), dtype=bool)
        inside[at_point[kinds == kind]] = True
        common = (weight[:, inside] > 0).any(axis=1) & (weight[:, ~inside] > 0).any(axis=1)
        apart = 1.0 - weight[common].sum(axis=0) / total
        if not inside.all() and (apart > _LONELY).all():
            raise UsageError(
                "the runs are of different programs",
                where=f"{programs[int(np.flatnonzero(kinds != kind)[0])]} and {programs[kind]}",
                why="most of their time is in call paths that only one of them has",
                hint="give each program a folder, or a campaign, of its own",
            )


def _at(table: Experiment, point: int) -> str:
    return named(dict(zip(table.parameters, table.points[point].tolist(), strict=True)))
