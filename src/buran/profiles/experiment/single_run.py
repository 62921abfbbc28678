"""Files with a single run, and single runs of tables, as profiles."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from buran.errors import FormatError
from buran.profiles.cubex_read import read_profile
from buran.profiles.experiment.read import read_experiment
from buran.profiles.experiment.table import Experiment
from buran.profiles.metrics import Metric, metric_of
from buran.profiles.profile import Location, Profile


def read_single_run(path: Path, format: str | None = None) -> Profile:
    """Read a profile from a cubex file, or a file of any format that has the values of one run.

    Raises
    ------
    FormatError
        It cannot be read, or has several runs.
    """
    if path.suffix == ".cubex" and format in (None, "cubex"):
        return read_profile(path)
    table = read_experiment(path, format)
    runs = max(values.shape[2] for values in table.values.values())
    if len(table.points) != 1 or runs != 1:
        why = f"it has {len(table.points)} points with up to {runs} repetitions"
        raise FormatError("the file is not that of one run", where=path, why=why)
    return profile_of_run(table, 0, 0)


def profile_of_run(table: Experiment, point: int, repetition: int) -> Profile:
    """Return a run of a table as a profile with one location, which stands for the mean of all.

    Parameters
    ----------
    point, repetition
        Its position in the table.

    Raises
    ------
    FormatError
        Values are missing for call paths that others have.
    """
    metrics: dict[str, Metric] = {}
    values: dict[str, Any] = {}
    for name in table.metrics:
        means = table.over_locations(name, "mean")
        column = means[:, point, repetition]
        measured = np.isfinite(means).any(axis=(1, 2))  # other call paths only lead to these
        missing = np.flatnonzero(measured & ~np.isfinite(column))
        if not measured.any() or len(missing) == measured.sum():
            continue
        if len(missing):
            raise FormatError("the run is incomplete", why=f"no {name} of {table.tree.names[missing[0]]}")
        column = np.where(np.isfinite(column), column, 0.0)
        metric = metric_of(name)
        metrics[name] = replace(metric, unit=metric.unit or table.units.get(name, ""), dtype="DOUBLE")
        values[name] = (table.tree.inclusive(column) if metric.kind == "inclusive" else column)[:, None]
    return Profile(table.tree, (Location(0),), metrics, values, {})
