"""Profiles that Caliper writes as ``.cali``: a run in each file, its parameters in the metadata that Adiak collects."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from buran.errors import BuranError, FormatError
from buran.experiment.collect import Collector
from buran.experiment.formats import Reader, Sample
from buran.experiment.table import Experiment
from buran.plugins import from_extra
from buran.profile.metrics import metric_of
from buran.profile.profile import SEPARATOR, Region

_MAGIC = b"__rec="
_RANKS = ("jobsize", "mpi.world.size")
_OF_THE_MACHINE = frozenset(
    {"cluster", "hostlist", "hostname", "launchdate", "launchday", "numhosts", "uid", "walltime"}
)
"""What Adiak collects by itself and no program is given."""
_OF_CALIPER = ("cali.", "opts:", "spot.", "starttime.")
_ACROSS = {"avg": "mean", "min": "min", "max": "max", "sum": "sum"}
_OURS = {"time": "time", "time.duration": "time", "time.duration.ns": "time", "count": "visits", "rc.count": "visits"}
_UNITS = {"sec": 1.0, "usec": 1e-6, "nsec": 1e-9}
_ROUNDING = 1e-3
"""Share of an inclusive value; files have six digits behind the point, so differences below zero are rounding."""

_CallPath = tuple[str, ...]
_Cell = dict[str | int, float]
"""Of a call path: what is known over all ranks, by its name, or the values of ranks, by their number."""


@dataclass(frozen=True)
class _Column:
    """What an attribute of a record is: ``avg#inclusive#sum#time.duration`` is a mean over ranks of inclusive times."""

    metric: str
    unit: str
    scale: float
    inclusive: bool
    over_ranks: str


@dataclass(frozen=True)
class _CaliperRun:
    """What a file has.

    Attributes
    ----------
    metadata
        Of the run, as text.
    cells
        Exclusive values, by metric and call path.
    """

    path: Path
    metadata: Mapping[str, str]
    cells: Mapping[str, Mapping[_CallPath, _Cell]]
    units: Mapping[str, str]

    @property
    def ranks(self) -> int:
        """Their number; 1 if the metadata do not tell."""
        return next((int(self.metadata[name]) for name in _RANKS if self.metadata.get(name, "").isdigit()), 1)

    @property
    def program(self) -> Region:
        """The root that stands for the program."""
        name = Path(self.metadata.get("executablepath") or self.metadata.get("executable") or "program").name
        return Region(name, paradigm="measurement", role="artificial")


def recognises(sample: Sample) -> bool:
    """Tell whether a file, or a file in a folder, is Caliper's."""
    return sample.head.startswith(_MAGIC) or (sample.path.is_dir() and bool(_files(sample.path)))


def _files(folder: Path) -> list[Path]:
    return sorted({*folder.glob("*.cali"), *folder.glob("*/*.cali")})


def read_caliper(path: Path, problems: list[BuranError] | None = None) -> Experiment:
    """Read a file, or the files of a folder, into one table; runs with the same parameters are repetitions.

    Parameters are the metadata that are whole numbers and differ between runs. A call path that a run lacks is 0.

    Raises
    ------
    ToolError
        The package caliper-reader is not installed.
    FormatError
        A file cannot be read, runs differ in what is no number, or lack metadata that others have.
    """
    runs = []
    for file in _files(path) if path.is_dir() else [path]:
        try:
            runs.append(_read_run(file))
        except FormatError as error:
            if problems is None:
                raise
            problems.append(error)
    if not runs:
        raise FormatError("no profile can be read", where=path, why=str(problems[0]) if problems else None)
    parameters = _parameters(runs)
    table = Collector(tuple(parameters))
    paths = {(run.program, path) for run in runs for cells in run.cells.values() for path in cells}
    repetitions: Counter[int] = Counter()
    for run in runs:
        point = table.point([float(run.metadata[name]) for name in parameters])
        repetition = repetitions[point]
        repetitions[point] += 1
        for metric, cells in run.cells.items():
            unit = run.units[metric]
            if any(other.units.get(metric, unit) != unit for other in runs):
                raise FormatError(f"runs have {metric} in different units", where=run.path, why=f"it is {unit} here")
            table.set_unit(metric, unit)
            for program, names in sorted(paths, key=lambda each: (each[1], each[0].name)):
                regions = (program, *(Region(name, paradigm=_paradigm(name)) for name in names))
                number = table.call_path(SEPARATOR.join(region.name for region in regions), regions)
                values = _statistics(cells.get(names, {}) if program == run.program else {}, run.ranks)
                table.add(number, metric, point, values, repetition)
    return table.finish(path)


def _paradigm(region: str) -> Any:
    return "mpi" if region.startswith("MPI_") else "compiler"


def _parameters(runs: Sequence[_CaliperRun]) -> list[str]:
    """Return the metadata that are parameters: whole numbers that vary, one of those that vary together."""
    first = runs[0].metadata
    usual = [
        name
        for name in first
        if not name.startswith(("cali.", "opts:", "spot.", "starttime.")) and name not in _OF_THE_MACHINE
    ]
    names = [*(name for name in usual if name not in _RANKS), *(name for name in _RANKS if name in first)]
    columns: dict[str, tuple[int, ...]] = {}
    for name in names:
        texts = [run.metadata.get(name) for run in runs]
        if None in texts and any(text is not None and text.lstrip("-").isdigit() for text in texts):
            at = runs[texts.index(None)].path
            raise FormatError(f"the run has no {name}", where=at, why="others have it in their metadata")
        if all(text is not None and text.lstrip("-").isdigit() for text in texts):
            columns[name] = tuple(int(str(text)) for text in texts)
    varied = {column: name for name, column in reversed(columns.items()) if len(set(column)) > 1}
    if varied:
        return [name for name in columns if name in varied.values()]
    if len(runs) == 1:
        return list(columns)
    if not columns:
        raise FormatError(
            "the runs do not say what was varied",
            where=runs[0].path,
            why="no whole number is in their metadata",
            hint="let the program tell its parameters with adiak, or cali_set_global_int_byname",
        )
    return list(columns)[-1:]


def _read_run(path: Path) -> _CaliperRun:
    library = from_extra("caliperreader", "caliper", "files of Caliper")
    reader = library.CaliperReader()
    try:
        reader.read(str(path))
        columns = {name: column for name in reader.attributes() if (column := _column(reader.attribute(name), name))}
        cells, units = _cells(reader.records, columns)
    except BuranError:
        raise
    except Exception as error:  # the library checks nothing
        why = f"caliper-reader ends with {type(error).__name__}: {error}"
        raise FormatError("the profile cannot be read", where=path, why=why, hint="is it whole?") from error
    if not cells:
        raise FormatError("the profile has no values", where=path, why="no attribute of its records is a number")
    return _CaliperRun(path, {name: str(value) for name, value in reader.globals.items()}, cells, units)


def _column(attribute: Any, name: str) -> _Column | None:
    """Return what an attribute measures; None if it is no number to be added up."""
    *steps, base = name.split("#")
    if attribute.attribute_type() not in ("double", "int", "uint") or base in ("aggregate.slot", "mpi.rank"):
        return None
    if not attribute.is_value() or {"scale", "iscale", "ratio", "percent_total"} & set(steps):
        return None
    inclusive = "inclusive" in steps or ".inclusive." in base
    steps = [step for step in steps if step != "inclusive"]
    across = _ACROSS.get(steps[0]) if len(steps) > 1 else ""
    if across is None or base.startswith(("cali.", "spot.")):
        return None
    metric = _OURS.get(base.replace(".inclusive.", "."), base.replace(".", "_"))
    unit = attribute.get("attribute.unit") or ("nsec" if base.endswith(".ns") else metric_of(metric).unit)
    return _Column(metric, "sec" if unit in _UNITS else unit, _UNITS.get(unit, 1.0), inclusive, across)


def _cells(
    records: Iterable[Mapping[str, Any]], columns: Mapping[str, _Column]
) -> tuple[dict[str, dict[_CallPath, _Cell]], dict[str, str]]:
    """Return exclusive values and units by metric; those of records with the same call path come together."""
    taken: dict[tuple[str, bool], dict[_CallPath, _Cell]] = {}
    for record in records:
        path = record.get("path", ())
        call_path = (path,) if isinstance(path, str) else tuple(path)
        for name in record.keys() & columns.keys():
            column, value = columns[name], float(record[name])
            if not math.isfinite(value):
                raise FormatError(f"{name} is no number", why=f"it is {value} at {'->'.join(call_path) or 'the root'}")
            place: str | int = column.over_ranks or int(record.get("mpi.rank", -1))
            cell = taken.setdefault((column.metric, column.inclusive), {}).setdefault(call_path, {})
            cell[place] = cell.get(place, 0.0) + value * column.scale
    cells = {metric: found for (metric, inclusive), found in taken.items() if not inclusive}
    for (metric, inclusive), found in taken.items():
        if inclusive and metric not in cells:
            cells[metric] = _exclusive(found)
    return cells, {column.metric: column.unit for column in columns.values()}


def _exclusive(inclusive: Mapping[_CallPath, _Cell]) -> dict[_CallPath, _Cell]:
    """Subtract the values of callees; extremes over ranks are not known after that."""
    out = {
        path: {place: value for place, value in cell.items() if place not in ("min", "max")}
        for path, cell in inclusive.items()
    }
    for path, cell in inclusive.items():
        caller = out.get(path[:-1]) if path[:-1] else None
        for place, value in cell.items():
            if caller is not None and place in caller:
                caller[place] -= value
    for path, cell in out.items():
        for place, value in cell.items():
            if -_ROUNDING * inclusive[path][place] <= value < 0:
                cell[place] = 0.0
    return out


def _statistics(cell: _Cell, ranks: int) -> tuple[float, ...]:
    """Return a value in the order of `AGGREGATES`; what the file does not tell is missing."""
    if not cell:
        return (0.0,) * 5
    of_ranks = [value for place, value in cell.items() if isinstance(place, int) and place >= 0]
    if of_ranks:
        values = np.zeros(max(ranks, len(of_ranks)))
        values[: len(of_ranks)] = of_ranks
        return tuple(map(float, (values.mean(), np.median(values), values.min(), values.max(), values.sum())))
    if -1 in cell or ranks == 1:
        value = cell.get(-1, cell.get("mean", cell.get("sum", math.nan)))
        return (value, value, value, value, math.nan)
    mean = cell.get("mean", cell.get("sum", math.nan) / ranks)
    return (mean, math.nan, cell.get("min", math.nan), cell.get("max", math.nan), cell.get("sum", mean * ranks))


READER = Reader("a .cali file of Caliper, or a folder of them", recognises, read_caliper)
