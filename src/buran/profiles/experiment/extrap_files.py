"""Extra-P's two formats with one file for all runs: JSON, and text with keywords."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from pydantic import BaseModel, Field

from buran.errors import UsageError
from buran.files import write_bytes, write_text
from buran.profiles.experiment.collect import Collector, coordinates, export_names
from buran.profiles.experiment.formats import Reader, Sample, Writer, read_text, wrong
from buran.profiles.experiment.jsonl import DEFAULT_METRIC, ROOT_CALL_PATH, Coordinates, Values, refused
from buran.profiles.experiment.table import Aggregate, Experiment

MOST_PARAMETERS = 4
"""Extra-P's limit for the text format."""

_JSON = 'JSON such as {"parameters":["x"],"measurements":{"main":{"time":[{"point":[4],"values":[1.5]}]}}}'
_TEXT = "lines such as PARAMETER x, POINTS ( 4 ) ( 8 ), REGION main, METRIC time, DATA 1.5 1.6"
_TUPLES = re.compile(r"\(([^()]*)\)")


class _Entry(BaseModel, strict=True):
    point: Coordinates
    values: Values


class _File(BaseModel, strict=True):
    parameters: list[str] = Field(min_length=1)
    measurements: dict[str, dict[str, list[_Entry]]]


def _parameters(names: Sequence[str]) -> tuple[str, ...]:
    if not all(names) or len(set(names)) != len(names):
        raise ValueError(f"the parameters have no different names: {', '.join(map(repr, names))}")
    return tuple(names)


def _point(collector: Collector, numbers: Sequence[float]) -> int:
    names = collector.parameters
    if len(numbers) != len(names):
        raise ValueError(f"a point has {len(numbers)} numbers for the parameters {', '.join(names)}")
    return collector.point(numbers)


def read_extrap_json(path: Path) -> Experiment:
    """Read Extra-P's JSON; values are taken as exclusive, ``null`` and ``NaN`` are missing values.

    Raises
    ------
    FormatError
        Names the line of a mistake in the syntax, or the key of one in the content.
    """
    key: str | None = None
    try:
        data = _File.model_validate_json(read_text(path))
        key = "parameters"
        collector = Collector(_parameters(data.parameters))
        for name, metrics in data.measurements.items():
            call_path = collector.call_path(name)
            for metric, entries in metrics.items():
                for number, entry in enumerate(entries):
                    key = f"measurements.{name}.{metric}.{number}"
                    point = _point(collector, entry.point)
                    for value in entry.values:
                        collector.add_value(call_path, metric, point, value)
    except ValueError as error:
        raise refused(path, error, key=key, expected=_JSON) from error
    if not len(collector):
        raise wrong(path, "there are no values", key="measurements", expected=_JSON)
    return collector.finish(path)


def write_extrap_json(experiment: Experiment, path: Path, aggregate: Aggregate = "mean") -> None:
    """Write Extra-P's JSON format, with one value over locations for each repetition.

    Points without a value are left out of the call path's list.
    """
    points = [coordinates(point) for point in experiment.points]
    measurements: dict[str, dict[str, list[dict[str, list[float]]]]] = {}
    for call_path, name in enumerate(export_names(experiment.tree)):
        by_metric: dict[str, list[dict[str, list[float]]]] = {}
        for metric in experiment.metrics:
            values = experiment.over_locations(metric, aggregate)[call_path]
            is_measured = ~np.isnan(values)
            entries = [
                {"point": points[i], "values": values[i][is_measured[i]].tolist()}
                for i in np.flatnonzero(is_measured.any(axis=1))
            ]
            if entries:
                by_metric[metric] = entries
        if by_metric:
            measurements[name] = by_metric
    data = {"parameters": list(experiment.parameters), "measurements": measurements}
    write_text(path, json.dumps(data, indent=1) + "\n")


def _numbers(text: str, *, missing: bool = False) -> list[float]:
    numbers = [float(word) for word in text.split()]
    if any(math.isinf(number) or (math.isnan(number) and not missing) for number in numbers):
        raise ValueError(f"a number is not finite: {text}")
    return numbers


@dataclass
class _Text:
    """What was read of a file in text format so far; its methods raise ValueError for a line that does not fit."""

    collector: Collector = field(default_factory=lambda: Collector(()))
    points: list[int] = field(default_factory=list)
    region: str = ROOT_CALL_PATH
    metric: str = DEFAULT_METRIC
    position: int = 0

    def take(self, keyword: str, text: str) -> None:
        """Read a line."""
        if not text:
            raise ValueError(f"there is nothing behind {keyword}")
        match keyword:
            case "PARAMETER":
                if self.points:
                    raise ValueError("a parameter stands behind points")
                self.collector.parameters = _parameters([*self.collector.parameters, *text.split()])
            case "POINTS":
                self.points += [_point(self.collector, row) for row in self.rows(text)]
            case "REGION":
                self.region, self.position = text, 0
            case "METRIC":
                self.metric, self.position = text, 0
            case "DATA":
                self.take_data(_numbers(text, missing=True))
            case _:
                raise ValueError(f"{keyword[:40]!r} is no keyword")

    def rows(self, text: str) -> list[list[float]]:
        """Return the coordinates of points; with one parameter Extra-P writes ``( 20 )``, some tools ``( 20 30 )``."""
        if not self.collector.parameters:
            raise ValueError("points stand before parameters")
        if "(" in text and _TUPLES.sub("", text).strip():
            raise ValueError(f"there is text outside of parentheses: {text}")
        rows = [_numbers(row) for row in _TUPLES.findall(text)] if "(" in text else [[each] for each in _numbers(text)]
        return [[each] for row in rows for each in row] if len(self.collector.parameters) == 1 else rows

    def take_data(self, numbers: Sequence[float]) -> None:
        """Add the repetitions of the next point."""
        if self.position >= len(self.points):
            raise ValueError(f"there are more DATA lines than the {len(self.points)} points")
        call_path = self.collector.call_path(self.region)
        for number in numbers:
            self.collector.add_value(call_path, self.metric, self.points[self.position], number)
        self.position += 1


def read_extrap_text(path: Path) -> Experiment:
    """Read Extra-P's text format; values are taken as exclusive.

    Points whose ``DATA`` line is missing at the end of a block, and numbers ``nan``, are missing values. The
    same point, or the same region and metric, again means more repetitions.

    Raises
    ------
    FormatError
        Names the line and what is expected.
    """
    state = _Text()
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        keyword, *words = line.split() or [""]
        if not keyword or line.startswith("#"):
            continue
        try:
            state.take(keyword, " ".join(words))
        except ValueError as error:
            raise refused(path, error, line=number, expected=_TEXT) from error
    if not len(state.collector):
        raise wrong(path, "there is no DATA line", expected=_TEXT)
    return state.collector.finish(path)


def _number(value: float) -> str:
    return repr(int(value)) if value.is_integer() and abs(value) < 2**53 else repr(value)


def write_extrap_text(experiment: Experiment, path: Path, aggregate: Aggregate = "mean") -> None:
    """Write Extra-P's text format, which has one value for each repetition.

    Regions and metrics without any value are left out. A point without values gets ``DATA nan``, so that the
    others keep their places; Extra-P cannot model such a call path.

    Parameters
    ----------
    experiment
        At most four parameters, whose names have no blanks.
    path
        The file; replaced if it exists.
    aggregate
        Which value over locations.

    Raises
    ------
    UsageError
        The format cannot hold the parameters.
    """
    if len(experiment.parameters) > MOST_PARAMETERS or any(len(name.split()) != 1 for name in experiment.parameters):
        raise UsageError(
            "Extra-P's text format cannot hold these parameters",
            where=", ".join(repr(name) for name in experiment.parameters),
            why=f"it has at most {MOST_PARAMETERS}, and their names have no blanks",
            hint="write JSON Lines: a file name that ends with .jsonl",
        )
    lines = [f"PARAMETER {name}" for name in experiment.parameters]
    lines += [f"POINTS ( {' '.join(map(str, coordinates(point)))} )" for point in experiment.points]
    for call_path, name in enumerate(export_names(experiment.tree, one_line=True)):
        for metric in experiment.metrics:
            values = experiment.over_locations(metric, aggregate)[call_path]
            if np.isnan(values).all():
                continue
            lines += ["", f"REGION {name}", f"METRIC {' '.join(metric.split())}"]
            for row in values:
                numbers = [_number(value) for value in row[~np.isnan(row)].tolist()]
                lines.append(f"DATA {' '.join(numbers) or 'nan'}")
    write_bytes(path, "\n".join([*lines, ""]).encode("utf-8", "backslashreplace"))


def begins_with_object(sample: Sample) -> bool:
    """Tell whether a file may be JSON; other formats that begin so are tried first."""
    return sample.first_line.startswith("{")


def begins_with_keyword(sample: Sample) -> bool:
    """Tell whether a file begins with a keyword of the text format, after comments."""
    lines = (line.strip() for line in sample.head.decode(errors="replace").split("\n"))
    first = next((line for line in lines if line.strip("\ufeff") and not line.startswith("#")), sample.first_line)
    return first.strip("\ufeff").startswith(("PARAMETER", "POINTS", "REGION", "METRIC", "DATA", "#"))


JSON_READER = Reader(
    "a JSON file of Extra-P", begins_with_object, lambda path, problems: read_extrap_json(path), is_last=True
)
JSON_WRITER = Writer(".json", "Extra-P's JSON", write_extrap_json)
TEXT_READER = Reader("a text file of Extra-P", begins_with_keyword, lambda path, problems: read_extrap_text(path))
TEXT_WRITER = Writer(".txt", "Extra-P's text format", write_extrap_text)
