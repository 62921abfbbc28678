"""Profiles of Caliper, ``.cali`` and json-split: a run in each file, its parameters in the metadata of Adiak."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from buran.errors import BuranError, FormatError
from buran.extensions import from_extra
from buran.plugins.formats.run_metadata import difference_note, parameters_of
from buran.profiles.experiment.collect import Collector
from buran.profiles.experiment.formats import Reader, Sample
from buran.profiles.experiment.table import Experiment
from buran.profiles.metrics import metric_of
from buran.profiles.profile import SEPARATOR, Region

_MAGIC = b"__rec="
_RANKS = ("jobsize", "mpi.world.size")
_ACROSS = {"avg": "mean", "min": "min", "max": "max", "sum": "sum"}
_OURS = {"time": "time", "time.duration": "time", "time.duration.ns": "time", "count": "visits", "rc.count": "visits"}
_UNITS = {"sec": 1.0, "usec": 1e-6, "nsec": 1e-9}
_ROUNDING = 1e-3
"""Share of an inclusive value; files have six digits behind the point, so differences below zero are rounding."""

_CallPath = tuple[str, ...]
_Cell = dict[str | int, float]
"""What is known of a call path: over all ranks, by its name, or the values of ranks, by their number."""


@dataclass(frozen=True)
class _Column:
    """What an attribute of a record is: ``avg#inclusive#sum#time.duration`` is a mean over ranks of inclusive times."""

    metric: str
    unit: str
    scale: float
    inclusive: bool
    over_ranks: str


@dataclass(frozen=True)
class _Contents:
    """What a file of either kind holds.

    Attributes
    ----------
    records
        Each with the values of attributes, and its call path under ``path``.
    units
        Of the attributes that are numbers.
    """

    records: Iterable[Mapping[str, Any]]
    units: Mapping[str, str | None]
    metadata: Mapping[str, Any]


@dataclass(frozen=True)
class _CaliperRun:
    """What a file has.

    Attributes
    ----------
    metadata
        Metadata of the run, as text.
    cells
        Exclusive values, by metric and call path.
    """

    path: Path
    metadata: Mapping[str, str]
    cells: Mapping[str, Mapping[_CallPath, _Cell]]
    units: Mapping[str, str]

    @property
    def described(self) -> Mapping[str, str]:
        """The metadata, with the number of ranks last."""
        names = sorted(self.metadata, key=lambda name: 1 + _RANKS.index(name) if name in _RANKS else 0)
        return {name: self.metadata[name] for name in names}

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
    if sample.path.is_dir():
        return bool(_files(sample.path))
    return sample.head.startswith(_MAGIC) or _is_json(sample)


def _is_json(sample: Sample) -> bool:
    return sample.first_key == "data"


def _files(folder: Path) -> list[Path]:
    """Return the profiles in a folder and two levels below it, as benchmarks sort theirs."""
    levels = ("", "*/", "*/*/")
    cali = {path for level in levels for path in folder.glob(f"{level}*.cali")}
    return sorted(
        cali or {path for level in levels[:2] for path in folder.glob(f"{level}*.json") if _is_json(Sample(path))}
    )


def read_caliper(path: Path, problems: list[BuranError] | None = None) -> Experiment:
    """Read a file, or the files of a folder, into one table; runs with the same parameters are repetitions.

    Parameters are the metadata that are whole numbers and differ between runs. What is missing in a run is 0.

    Raises
    ------
    ToolError
        The package caliper-reader is not installed.
    FormatError
        A file cannot be read, runs differ in what is no number, or are without metadata that others have.
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
    metadata = [run.described for run in runs]
    parameters = parameters_of(metadata, [run.path for run in runs])
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
    note = difference_note(metadata, parameters)
    return replace(table.finish(path), notes=() if note is None else (note,))


def _paradigm(region: str) -> Any:
    return "mpi" if region.startswith("MPI_") else "compiler"


def _read_run(path: Path) -> _CaliperRun:
    try:
        contents = _json_split(path) if _is_json(Sample(path)) else _cali(path)
        columns = {name: column for name, unit in contents.units.items() if (column := _column(name, unit))}
        cells, units = _cells(contents.records, columns)
    except BuranError:
        raise
    except Exception as error:  # neither file nor library is checked otherwise
        why = f"it ends with {type(error).__name__}: {error}"
        raise FormatError("the profile cannot be read", where=path, why=why, hint="is it whole?") from error
    if not cells:
        raise FormatError("the profile has no values", where=path, why="no attribute of its records is a number")
    return _CaliperRun(path, {name: str(value) for name, value in contents.metadata.items()}, cells, units)


def _cali(path: Path) -> _Contents:
    reader = from_extra("caliperreader", "caliper", "files of Caliper").CaliperReader()
    reader.read(str(path))
    numbers: dict[str, str | None] = {}
    for name in reader.attributes():
        attribute = reader.attribute(name)
        if attribute.is_value() and attribute.attribute_type() in ("double", "int", "uint"):
            numbers[name] = attribute.get("attribute.unit")
    return _Contents(reader.records, numbers, reader.globals)


def _json_split(path: Path) -> _Contents:
    """Read a file with a table of numbers, and nodes that are the rows' call paths."""
    document = json.loads(path.read_bytes())
    names, kinds, nodes, data = (document.pop(key) for key in ("columns", "column_metadata", "nodes", "data"))
    if len({len(names), len(kinds), *map(len, data)}) > 1:
        raise FormatError("the profile is damaged", where=path, why="its rows have different lengths")
    paths: list[_CallPath] = []
    for node in nodes:  # callers come first
        above = node.get("parent")
        paths.append((*(() if above is None else paths[above]), node["label"]))
    # Stacks of samples come as function names; without both, all is of the whole program.
    positions = [name for name in ("path", "source.function#callpath.address") if name in names]
    values = [column for column, kind in enumerate(kinds) if kind["is_value"]]
    records = []
    for row in data:
        record = {names[column]: row[column] for column in values if row[column] is not None}
        at = row[names.index(positions[0])] if positions else None
        records.append(record if at is None else {**record, "path": paths[at]})
    # Before Caliper 2.2, which wrote nothing of itself, times were microseconds.
    assumed = {} if document else dict.fromkeys((name for name in names if name.endswith("#time.duration")), "usec")
    numbers = [column for column in values if not any(isinstance(row[column], str) for row in data)]
    units = {names[c]: kinds[c].get("attribute.unit") or assumed.get(names[c]) for c in numbers}
    return _Contents(records, units, document)


def _column(name: str, assumed: str | None) -> _Column | None:
    """Return what an attribute measures; None if it is no number to be added up."""
    *steps, base = name.split("#")
    if base in ("aggregate.slot", "mpi.rank") or {"scale", "iscale", "ratio", "percent_total"} & set(steps):
        return None
    inclusive = "inclusive" in steps or ".inclusive." in base
    steps = [step for step in steps if step != "inclusive"]
    across = _ACROSS.get(steps[0]) if len(steps) > 1 else ""
    if across is None or base.startswith(("cali.", "spot.")):
        return None
    metric = _OURS.get(base.replace(".inclusive.", "."), base.replace(".", "_"))
    unit = assumed or ("nsec" if base.endswith(".ns") else metric_of(metric).unit)
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
            position: str | int = column.over_ranks or int(record.get("mpi.rank", -1))
            cell = taken.setdefault((column.metric, column.inclusive), {}).setdefault(call_path, {})
            cell[position] = cell.get(position, 0.0) + value * column.scale
    cells = {metric: found for (metric, inclusive), found in taken.items() if not inclusive}
    for (metric, inclusive), found in taken.items():
        if inclusive and metric not in cells:
            cells[metric] = _exclusive(found)
    return cells, {column.metric: column.unit for column in columns.values()}


def _exclusive(inclusive: Mapping[_CallPath, _Cell]) -> dict[_CallPath, _Cell]:
    """Subtract the values of callees; extremes over ranks are not known after that."""
    out = {
        path: {position: value for position, value in cell.items() if position not in ("min", "max")}
        for path, cell in inclusive.items()
    }
    for path, cell in inclusive.items():
        caller = out.get(path[:-1]) if path[:-1] else None
        for position, value in cell.items():
            if caller is not None and position in caller:
                caller[position] -= value
    for path, cell in out.items():
        for position, value in cell.items():
            if -_ROUNDING * inclusive[path][position] <= value < 0:
                cell[position] = 0.0
    return out


def _statistics(cell: _Cell, ranks: int) -> tuple[float, ...]:
    """Return a value in the order of `AGGREGATES`; what the file does not tell is missing."""
    if not cell:
        return (0.0,) * 5
    of_ranks = [value for position, value in cell.items() if isinstance(position, int) and position >= 0]
    if of_ranks:
        values = np.zeros(max(ranks, len(of_ranks)))
        values[: len(of_ranks)] = of_ranks
        return tuple(map(float, (values.mean(), np.median(values), values.min(), values.max(), values.sum())))
    if -1 in cell or ranks == 1:
        value = cell.get(-1, cell.get("mean", cell.get("sum", math.nan)))
        return (value, value, value, value, math.nan)
    mean = cell.get("mean", cell.get("sum", math.nan) / ranks)
    return (mean, math.nan, cell.get("min", math.nan), cell.get("max", math.nan), cell.get("sum", mean * ranks))


READER = Reader("a .cali or json-split file of Caliper, or a folder of them", recognises, read_caliper)
