"""Profiles of single runs, brought together in one measurement table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from buran.errors import UsageError
from buran.experiment.table import AGGREGATES, Experiment
from buran.profile.profile import METRICS, Profile
from buran.profile.regroup import TreeUnion, combination, combine

Run = tuple[Mapping[str, float], int, Profile]
"""The point, the number of the repetition, and what was measured."""


def unique_points(
    points: Sequence[Sequence[float]] | NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the points sorted and without duplicates, shape (point, parameter), and where each one went."""
    unique, index = np.unique(np.array(points, dtype=np.float64), axis=0, return_inverse=True)
    return unique, index.reshape(-1).astype(np.int64)


def aggregate_set(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return shape (call path, aggregate) from shape (call path, location), in the order of `AGGREGATES`."""
    columns = (values.mean(axis=1), np.median(values, axis=1), values.min(axis=1), values.max(axis=1))
    return np.stack([*columns, values.sum(axis=1)], axis=1)


def _exclusive(profile: Profile, metric: str) -> NDArray[np.float64]:
    values = profile.exclusive(metric)
    # Score-P marks extremes of what was never visited with an infinity; here that is 0.
    return np.where(np.isfinite(values), values, 0.0)


def _point(given: Mapping[str, float], parameters: tuple[str, ...]) -> tuple[float, ...]:
    if set(given) != set(parameters):
        raise UsageError(
            "the runs do not have the same parameters",
            where=", ".join(f"{name}={value}" for name, value in given.items()),
            why=f"another run has the parameters {', '.join(parameters)}",
        )
    return tuple(float(given[name]) for name in parameters)


def experiment_from_profiles(runs: Iterable[Run]) -> Experiment:
    """Merge the profiles of runs into a table of exclusive values.

    Call trees are united by the names of the call paths. A call path that a run did not visit is 0 in this
    run; a metric that a run did not measure, and a run that is missing, are NaN. Profiles are reduced one by
    one, so `runs` may produce them one at a time.

    Parameters
    ----------
    runs
        Point, number of the repetition, profile. All points have the same parameters; those of the first run
        give the order. Repetitions stand in the table in the order of their numbers.

    Raises
    ------
    UsageError
        There are no runs, points have different parameters, or a repetition of a point is there twice.
    """
    union = TreeUnion()
    parameters: tuple[str, ...] = ()
    keys: dict[tuple[tuple[float, ...], int], int] = {}
    nodes: list[NDArray[np.int64]] = []
    found: list[dict[str, NDArray[np.float64]]] = []
    units: dict[str, str] = {}
    for given, repetition, profile in runs:
        parameters = parameters or tuple(given)
        key = (_point(given, parameters), repetition)
        if key in keys:
            raise UsageError(
                "a repetition is there twice",
                where=", ".join(f"{name}={value}" for name, value in given.items()),
                why=f"two runs have the repetition {repetition}",
            )
        keys[key] = len(keys)
        own, row = np.unique(union.add(profile.tree), return_inverse=True)
        nodes.append(own)
        found.append({})
        for name, metric in profile.metrics.items():
            units.setdefault(name, metric.unit)
            # Several call paths of one profile may be the same in the union: two static functions of a name,
            # or Score-P's parameters of call paths.
            rows = combine(_exclusive(profile, name), row, len(own), combination(name, metric.dtype))
            found[-1][name] = aggregate_set(rows.astype(np.float64))
            # Some locations may stand for all: then the sum is theirs, scaled.
            found[-1][name][:, -1] *= int(profile.attributes.get("represents_locations", rows.shape[1])) / rows.shape[1]
    if not keys or not parameters:
        raise UsageError("there are no runs with parameters to make a measurement table of")
    tree, index = union.arrange()
    points, at_point = unique_points([point for point, _ in keys])
    _, at_repetition = np.unique([repetition for _, repetition in keys], return_inverse=True)
    shape = (len(tree), len(points), int(at_repetition.max()) + 1, len(AGGREGATES))
    values = {name: np.full(shape, np.nan) for name in units}
    for run, metrics in enumerate(found):
        for name, rows in metrics.items():
            cell = values[name][:, at_point[run], at_repetition[run]]
            cell[:] = 0.0
            cell[index[nodes[run]]] = rows
    return Experiment(parameters, points, tree, values, units)


def default_unit(metric: str) -> str:
    """Return the unit of a metric that a file names without one; empty if unknown."""
    return METRICS[metric].unit if metric in METRICS else ""
