"""JSON Lines: an object a line for each value.

They are what Extra-P reads: ``params``, ``callpath``, ``metric``, ``value``. Buran writes the mean over
locations as the value, and more keys, which Extra-P passes over, so that nothing is lost:

``repetition``
    Position in the table.
``locations``
    Median, minimum, maximum and sum over locations; absent where the value stands for all locations.
``path``
    The regions from the root, in the first line of a call path.
``unit``
    In the first line of a metric.
"""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, get_args

import numpy as np

from buran.errors import FormatError
from buran.files import write_bytes
from buran.profiles.experiment.collect import Collector
from buran.profiles.experiment.formats import Reader, Sample, Writer
from buran.profiles.experiment.source import as_number, coordinates, export_names, read_text, wrong
from buran.profiles.experiment.table import AGGREGATES, Experiment
from buran.profiles.profile import CallTree, Paradigm, Region

ROOT_CALL_PATH = "<root>"
DEFAULT_METRIC = "<default>"

_LINE = '{"params":{"x":4},"callpath":"main->solve","metric":"time","value":1.5}'
_FAST = 1  # of the levels of gzip
_TYPES: Mapping[str, type] = {"name": str, "mangled": str, "file": str, "line": int, "paradigm": str, "role": str}
_DEFAULTS = {field.name: field.default for field in fields(Region) if field.default is not MISSING}


def json_object(line: str) -> dict[str, Any]:
    """Return the object that a line is; an empty one for any other line."""
    try:
        data = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return data if isinstance(data, dict) else {}


def recognises(sample: Sample) -> bool:
    """Tell whether the first line is an object with parameters."""
    return "params" in json_object(sample.first_line)


def _regions(path: Any) -> list[Region] | None:
    """Return the regions of a ``path``, or None if it is malformed."""
    if not isinstance(path, list) or not path:
        return None
    regions: list[Region] = []
    for entry in path:
        record = {"name": entry} if isinstance(entry, str) else entry
        if not isinstance(record, dict) or "name" not in record or not record.keys() <= _TYPES.keys():
            return None
        if any(type(value) is not _TYPES[key] for key, value in record.items()):
            return None
        if record.get("paradigm", "compiler") not in get_args(Paradigm):
            return None
        regions.append(Region(**record))
    return regions


class _Lines:
    """Checks the objects of a file and puts them into a collector."""

    def __init__(self, path: Path, params: str, example: str) -> None:
        self.path = path
        self.params = params
        self.example = f"lines such as {example}"
        self.collector: Collector | None = None
        self.points: dict[str, int] = {}  # by the parameters as Python writes them

    def error(self, line: int, why: str) -> FormatError:
        return wrong(self.path, why, line=line, expected=self.example)

    def point(self, data: dict[str, Any], line: int) -> tuple[Collector, int]:
        params = data.get(self.params)
        written = repr(params)
        if self.collector is not None and written in self.points:
            return self.collector, self.points[written]
        if not isinstance(params, dict) or not params:
            raise self.error(line, f"{self.params!r} is missing or has no parameters")
        if self.collector is None:
            self.collector = Collector(tuple(params))
        names = self.collector.parameters
        if set(params) != set(names):
            raise self.error(line, f"the parameters are {', '.join(params)}, but {', '.join(names)} in the first line")
        values = [value for name in names if (value := as_number(params[name])) is not None and not math.isnan(value)]
        if len(values) < len(names):
            raise self.error(line, f"a parameter is no finite number: {params}")
        self.points[written] = self.collector.point(values)
        return self.collector, self.points[written]

    def name(self, data: dict[str, Any], key: str, default: str | None, line: int) -> str:
        name = data.get(key, default)
        if not isinstance(name, str) or not name:
            raise self.error(line, f"{key!r} is missing or no text")
        return name

    def add(self, data: Any, line: int, default_path: str | None, default_metric: str | None) -> None:
        if not isinstance(data, dict):
            raise self.error(line, "the line is no JSON object")
        collector, point = self.point(data, line)
        metric = self.name(data, "metric", default_metric, line)
        path = self.name(data, "callpath", default_path, line)
        regions = _regions(data["path"]) if "path" in data else None
        if "path" in data and regions is None:
            raise self.error(line, "'path' is no list of regions")
        call_path = collector.call_path(path, regions)
        if isinstance(data.get("unit"), str):
            collector.set_unit(metric, data["unit"])
        if "value" not in data:
            raise self.error(line, "'value' is missing")
        entries = data["value"] if isinstance(data["value"], list) else [data["value"]]
        numbers = [number for value in entries if (number := as_number(value)) is not None]
        if not numbers or len(numbers) < len(entries):
            raise self.error(line, f"'value' is no finite number or list of them: {data['value']!r}")
        if "repetition" not in data and "locations" not in data:
            for number in numbers:
                collector.add_value(call_path, metric, point, number)
            return
        self.add_set(data, line, call_path, metric, point, numbers)

    def add_set(
        self, data: dict[str, Any], line: int, call_path: int, metric: str, point: int, numbers: list[float]
    ) -> None:
        repetition = data.get("repetition")
        if len(numbers) != 1 or not (repetition is None or (type(repetition) is int and 0 <= repetition < 1_000_000)):
            raise self.error(line, "'repetition' is no small number, or there are several values with it")
        locations = data.get("locations")
        if locations is None:
            aggregates = numbers * 4 + [math.nan]
        else:
            if not isinstance(locations, dict) or not locations.keys() <= set(AGGREGATES[1:]):
                raise self.error(line, f"'locations' is no object with some of {', '.join(AGGREGATES[1:])}")
            rest = [as_number(locations.get(name)) for name in AGGREGATES[1:]]
            if None in rest:
                raise self.error(line, f"'locations' has a value that is no finite number: {locations}")
            aggregates = numbers + [value for value in rest if value is not None]
        assert self.collector is not None
        if not self.collector.add(call_path, metric, point, aggregates, repetition):
            raise self.error(line, f"repetition {repetition} of this call path, metric and point is there twice")

    def finish(self) -> Experiment:
        if self.collector is None:
            raise wrong(self.path, "there are no values in it", expected=self.example)
        try:
            return self.collector.finish(self.path)
        except ValueError as error:
            raise wrong(self.path, str(error), expected=self.example) from error


def read_lines(
    path: Path,
    params: str,
    example: str,
    to_json: Callable[[str], str] = str,
    default_path: str | None = None,
    default_metric: str | None = None,
) -> Experiment:
    """Read a file that has an object a line.

    Parameters
    ----------
    params
        Key of the parameters.
    example
        A line as it should be.
    to_json
        Makes JSON of a line.
    default_path, default_metric
        Those of lines that name none; None if they must.

    Raises
    ------
    FormatError
        Names the line and what is expected.
    """
    lines = _Lines(path, params, example)
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        if not line.strip():
            continue
        try:
            data = json.loads(to_json(line))
        except (ValueError, RecursionError) as error:
            raise lines.error(number, f"it is no JSON: {error}") from error
        lines.add(data, number, default_path, default_metric)
    return lines.finish()


def read_jsonl(path: Path) -> Experiment:
    """Read JSON Lines of Extra-P or of `write_jsonl`.

    Lines without ``callpath`` or ``metric`` belong to ``<root>`` and ``<default>``, as in Extra-P. A value
    may be a list of repetitions; ``null`` and ``NaN`` are missing values.

    Raises
    ------
    FormatError
        Names the line and what is expected.
    """
    return read_lines(path, "params", _LINE, default_path=ROOT_CALL_PATH, default_metric=DEFAULT_METRIC)


def _region_record(region: Region) -> dict[str, object]:
    return {
        key: getattr(region, key) for key in _TYPES if key not in _DEFAULTS or getattr(region, key) != _DEFAULTS[key]
    }


def _path_record(tree: CallTree, call_path: int) -> list[dict[str, object]]:
    regions: list[dict[str, object]] = []
    while call_path >= 0:
        regions.append(_region_record(tree.regions[tree.region[call_path]]))
        call_path = int(tree.parent[call_path])
    return regions[::-1]


def _value_record(aggregates: list[float]) -> dict[str, object]:
    value, *others, total = aggregates
    record: dict[str, object] = {"value": value}
    if not (math.isnan(total) and all(other == value for other in others)):
        pairs = zip(AGGREGATES[1:], aggregates[1:], strict=True)
        record["locations"] = {name: number for name, number in pairs if not math.isnan(number)}
    return record


def write_jsonl(experiment: Experiment, path: Path) -> None:
    """Write JSON Lines that Extra-P reads and that `read_jsonl` reads without loss.

    Only what was measured has lines: call paths, points and repetitions without a single value are lost. A path that
    ends with .gz is compressed.
    """
    tree = experiment.tree
    names = export_names(tree)
    points = [dict(zip(experiment.parameters, coordinates(row), strict=True)) for row in experiment.points]
    described: set[str] = set()
    lines: list[str] = []
    for call_path, name in enumerate(names):
        path_record: object = _path_record(tree, call_path)
        for metric, values in experiment.values.items():
            measured = np.argwhere(~np.isnan(values[call_path, :, :, 0]))
            for point, repetition in measured.tolist():
                record: dict[str, object] = {"params": points[point], "callpath": name, "metric": metric}
                record |= _value_record(values[call_path, point, repetition].tolist())
                record["repetition"] = repetition
                if path_record is not None:
                    record["path"], path_record = path_record, None
                if metric not in described:
                    record["unit"] = experiment.units.get(metric, "")
                    described.add(metric)
                lines.append(json.dumps(record, separators=(",", ":")))
    data = "".join(line + "\n" for line in lines).encode()
    write_bytes(path, gzip.compress(data, _FAST, mtime=0) if path.suffix == ".gz" else data)


READER = Reader("a JSON Lines file of Extra-P or Buran", recognises, lambda path, problems: read_jsonl(path))
WRITER = Writer(
    ".jsonl",
    "JSON Lines, which keep everything",
    lambda experiment, path, aggregate: write_jsonl(experiment, path),
    all_locations=True,
)
