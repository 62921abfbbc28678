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
import re
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, FiniteFloat, ValidationError

from buran.errors import FormatError
from buran.files import write_bytes
from buran.profiles.experiment.collect import Collector, coordinates, export_names
from buran.profiles.experiment.formats import Reader, Sample, Writer, read_text, wrong
from buran.profiles.experiment.table import AGGREGATES, Experiment
from buran.profiles.profile import CallTree, Region

ROOT_CALL_PATH = "<root>"
DEFAULT_METRIC = "<default>"

_EXPECTED = 'lines such as {"params":{"x":4},"callpath":"main->solve","metric":"time","value":1.5}'
_POSITION = re.compile(r" at line (\d+) column \d+$")  # in what the parser of JSON says
_FAST = 1  # of the levels of gzip
_KEYS = tuple(field.name for field in fields(Region))
_DEFAULTS = {field.name: field.default for field in fields(Region) if field.default is not MISSING}


def _or_missing(value: object) -> object:
    return math.nan if value is None else value


def _not_infinite(value: float) -> float:
    if math.isinf(value):
        raise ValueError("it is not finite")
    return value


def _as_list(value: object) -> object:
    return value if isinstance(value, list) else [value]


Value = Annotated[float, BeforeValidator(_or_missing), AfterValidator(_not_infinite)]
"""A number; null and NaN are missing ones."""

Values = Annotated[list[Value], Field(min_length=1), BeforeValidator(_as_list)]
"""Numbers, or a single one."""

Coordinates = Annotated[list[FiniteFloat], BeforeValidator(_as_list)]


class _Line(BaseModel, strict=True):
    params: dict[str, FiniteFloat] = Field(min_length=1)
    callpath: str = Field(ROOT_CALL_PATH, min_length=1)
    metric: str = Field(DEFAULT_METRIC, min_length=1)
    value: Values
    repetition: int | None = Field(None, ge=0, lt=1_000_000)
    locations: dict[Literal["median", "min", "max", "sum"], Value] | None = None
    path: list[str | Region] | None = Field(None, min_length=1)
    unit: str | None = None

    def add_to(self, collector: Collector) -> None:
        """Put the values into a table; ValueError if they do not fit into it."""
        names = collector.parameters
        if self.params.keys() != set(names):
            raise ValueError(f"the parameters are {', '.join(self.params)}, but {', '.join(names)} in the first line")
        point = collector.point([self.params[name] for name in names])
        regions = [Region(each) if isinstance(each, str) else each for each in self.path or ()]
        call_path = collector.call_path(self.callpath, regions or None)
        if self.unit is not None:
            collector.set_unit(self.metric, self.unit)
        if self.repetition is None and self.locations is None:
            for number in self.value:
                collector.add_value(call_path, self.metric, point, number)
            return
        (value,) = self.value if len(self.value) == 1 else (None,)
        if value is None:
            raise ValueError("there are several values with 'repetition' or 'locations'")
        others = [value] * 3 + [math.nan]
        if self.locations is not None:
            others = [self.locations.get(name, math.nan) for name in AGGREGATES if name != "mean"]
        if not collector.add(call_path, self.metric, point, [value, *others], self.repetition):
            raise ValueError(f"repetition {self.repetition} of this call path, metric and point is there twice")


def refused(
    path: Path, error: ValueError, *, line: int | None = None, key: str | None = None, expected: str
) -> FormatError:
    """Return the error for JSON that is none, or whose content is not as expected; it names the line or the key."""
    if not isinstance(error, ValidationError):
        return wrong(path, str(error), line=line, key=key, expected=expected)
    first = error.errors(include_url=False)[0]
    why, position = first["msg"], _POSITION.search(first["msg"])
    if position:
        why, line = why[: position.start()], line or int(position[1])
    return wrong(path, why, line=line, key=".".join(map(str, first["loc"])) or None, expected=expected)


def read_jsonl(path: Path) -> Experiment:
    """Read JSON Lines of Extra-P or of `write_jsonl`.

    Lines without ``callpath`` or ``metric`` belong to ``<root>`` and ``<default>``, as in Extra-P. A value
    may be a list of repetitions; ``null`` and ``NaN`` are missing values.

    Raises
    ------
    FormatError
        Names the line and what is expected.
    """
    collector: Collector | None = None
    for number, text in enumerate(read_text(path).split("\n"), start=1):
        if not text.strip():
            continue
        try:
            line = _Line.model_validate_json(text)
            collector = collector or Collector(tuple(line.params))
            line.add_to(collector)
        except ValueError as error:
            raise refused(path, error, line=number, expected=_EXPECTED) from error
    assert collector is not None, "an empty text is refused before"
    try:
        return collector.finish(path)
    except ValueError as error:
        raise refused(path, error, expected=_EXPECTED) from error


def _region_record(region: Region) -> dict[str, object]:
    record = {key: getattr(region, key) for key in _KEYS}
    return {key: value for key, value in record.items() if key not in _DEFAULTS or value != _DEFAULTS[key]}


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


def recognises(sample: Sample) -> bool:
    """Tell whether the first line is an object with parameters."""
    try:
        data: Any = json.loads(sample.first_line)
    except (ValueError, RecursionError):
        return False
    return isinstance(data, dict) and "params" in data


READER = Reader("a JSON Lines file of Extra-P or Buran", recognises, lambda path, problems: read_jsonl(path))
WRITER = Writer(
    ".jsonl",
    "JSON Lines, which keep everything",
    lambda experiment, path, aggregate: write_jsonl(experiment, path),
    all_locations=True,
)
