"""Reading measurements of any format."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from buran.errors import BuranError, FormatError, UsageError
from buran.profiles.cubex_read import read_profile
from buran.profiles.experiment import TABLE
from buran.profiles.experiment.formats import READERS, Sample, read_text, wrong
from buran.profiles.experiment.table import Experiment
from buran.profiles.metrics import Metric, metric_of
from buran.profiles.profile import Location, Profile


def detect_format(path: Path) -> str:
    """Tell the format of a file or folder from its content.

    Raises
    ------
    FormatError
        No reader knows it.
    UsageError
        Several do, or it is a single profile.
    """
    sample = Sample(path)
    recognised = [name for name in READERS.names if READERS.load(name).recognises(sample)]
    fitting = [name for name in recognised if not READERS.load(name).is_last] or recognised
    if len(fitting) > 1:
        raise UsageError(
            f"the format may be {' or '.join(fitting)}",
            where=path,
            why="several readers recognise it",
            hint=f"choose one: buran convert --from {fitting[0]} {path} OUT.jsonl",
        )
    if fitting:
        return fitting[0]
    expected = "".join(f"\n- {reader.what}" for reader in READERS)
    expected += "".join(
        f"\n- {name}, once the plug-in {plugin!r} is installed" for name, plugin in READERS.missing.items()
    )
    tables = (folder / TABLE for folder in (path, path / "latest"))
    if (table := next((each for each in tables if each.is_file()), None)) is not None:
        raise FormatError(
            "these are the results of a campaign",
            where=path,
            why="a folder is read as one of profiles",
            hint=f"its measurements: {table}",
        )
    if path.is_dir():
        why = "no folder in it has a cubex file, and no other reader knows it"
        raise FormatError("there are no profiles", where=path, why=why, hint=f"expected: {expected}")
    first = next(line.strip() for line in read_text(path).split("\n") if line.strip())
    raise wrong(path, f"it begins with {first[:40]!r}", line=1, expected=expected)


def read_experiment(path: Path, format: str | None = None, problems: list[BuranError] | None = None) -> Experiment:
    """Read measurements from a file or a folder of runs.

    Parameters
    ----------
    path
        What to read.
    format
        Name of one of `buran.profiles.experiment.formats.READERS`; found out from the content by default.
    problems
        Takes the errors of single runs that cannot be read, and the others make the table; without it the
        first one is raised.

    Raises
    ------
    FormatError
        The content is not what it should be; names file, line or key, and what is expected.
    UsageError
        There is no such format.
    PluginError
        A reader that another package brings does not work.
    """
    return READERS.load(format or detect_format(path)).read(path, problems)


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
