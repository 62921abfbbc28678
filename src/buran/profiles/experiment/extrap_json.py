"""Extra-P's JSON format, the present one and the older one with ids."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from buran.errors import FormatError
from buran.files import write_text
from buran.profiles.experiment.collect import Collector
from buran.profiles.experiment.formats import Reader, Sample, Writer
from buran.profiles.experiment.source import as_number, coordinates, export_names, read_text, wrong
from buran.profiles.experiment.table import Aggregate, Experiment

_EXPECTED = '{"parameters":["x"],"measurements":{"main":{"time":[{"point":[4],"values":[1.5]}]}}}'


class _JsonReader:
    def __init__(self, path: Path) -> None:
        self.path = path

    def error(self, key: str, why: str) -> FormatError:
        return wrong(self.path, why, key=key, expected=f"JSON such as {_EXPECTED}")

    def get(self, holder: Any, key: str, kind: type, where: str) -> Any:
        """Return an entry of a certain type."""
        location = f"{where}.{key}" if where else key
        if not isinstance(holder, dict):
            raise self.error(where, "it is no object")
        if key not in holder:
            raise self.error(location, "it is missing")
        if not isinstance(holder[key], kind) or isinstance(holder[key], bool):
            raise self.error(location, f"{str(holder[key])[:80]!r} has the wrong type")
        return holder[key]

    def numbers(self, values: Any, where: str, missing: bool) -> list[float]:
        numbers: list[float] = []
        for value in values if isinstance(values, list) else [values]:
            number = as_number(value)
            if number is None or (math.isnan(number) and not missing):
                raise self.error(where, f"{str(value)[:80]!r} is no finite number")
            numbers.append(number)
        return numbers

    def point(self, collector: Collector, values: Any, where: str) -> int:
        numbers = self.numbers(values, where, False)
        if len(numbers) != len(collector.parameters):
            raise self.error(
                where, f"it has {len(numbers)} numbers for the parameters {', '.join(collector.parameters)}"
            )
        return collector.point(numbers)

    def names(self, entries: Sequence[Any], where: str) -> tuple[str, ...]:
        are_names = all(isinstance(name, str) and name for name in entries)
        if not entries or not are_names or len(set(entries)) != len(entries):
            raise self.error(where, "these are no different names")
        return tuple(entries)

    def new(self, data: Any) -> Collector:
        collector = Collector(self.names(self.get(data, "parameters", list, ""), "parameters"))
        for path, metrics in self.get(data, "measurements", dict, "").items():
            at = f"measurements[{path!r}]"
            if not isinstance(metrics, dict):
                raise self.error(at, "it is no object of metrics")
            call_path = collector.call_path(path)
            for metric in metrics:
                entries = self.get(metrics, metric, list, at)
                for number, entry in enumerate(entries):
                    where = f"{at}[{metric!r}][{number}]"
                    if not isinstance(entry, dict) or not {"point", "values"} <= entry.keys():
                        raise self.error(where, "'point' or 'values' is missing")
                    point = self.point(collector, entry["point"], f"{where}.point")
                    for value in self.numbers(entry["values"], f"{where}.values", True):
                        collector.add_value(call_path, metric, point, value)
        return collector

    def by_id(self, data: Any, key: str) -> dict[int, Any]:
        entries: dict[int, Any] = {}
        for position, entry in enumerate(self.get(data, key, list, "")):
            number = self.get(entry, "id", int, f"{key}[{position}]")
            if number in entries:
                raise self.error(f"{key}[{position}]", f"id {number} is there twice")
            entries[number] = entry
        return dict(sorted(entries.items()))

    def old(self, data: Any) -> Collector:
        parameters = self.by_id(data, "parameters")
        named = {
            key: {number: self.get(entry, "name", str, f"{key}, id {number}") for number, entry in entries.items()}
            for key, entries in ((key, self.by_id(data, key)) for key in ("callpaths", "metrics"))
        }
        names = [self.get(entry, "name", str, f"parameters, id {id_}") for id_, entry in parameters.items()]
        collector = Collector(self.names(names, "parameters"))
        points: dict[int, int] = {}
        for id_, entry in self.by_id(data, "coordinates").items():
            where = f"coordinates, id {id_}"
            pairs = self.get(entry, "parameter_value_pairs", list, where)
            values = {self.get(pair, "parameter_id", int, where): pair.get("parameter_value") for pair in pairs}
            if values.keys() != parameters.keys():
                raise self.error(where, "the parameters are not those of the file")
            points[id_] = self.point(collector, [values[number] for number in parameters], where)
        for number, entry in enumerate(self.get(data, "measurements", list, "")):
            where = f"measurements[{number}]"
            ids = {key: self.get(entry, f"{key}_id", int, where) for key in ("callpath", "metric", "coordinate")}
            tables = {"callpath": named["callpaths"], "metric": named["metrics"], "coordinate": points}
            for key, id_ in ids.items():
                if id_ not in tables[key]:
                    raise self.error(f"{where}.{key}_id", f"there is no {key} with the id {id_}")
            call_path = collector.call_path(named["callpaths"][ids["callpath"]])
            for value in self.numbers(entry.get("value", "nothing"), f"{where}.value", True):
                collector.add_value(call_path, named["metrics"][ids["metric"]], points[ids["coordinate"]], value)
        return collector


def read_extrap_json(path: Path) -> Experiment:
    """Read Extra-P's JSON; values are taken as exclusive, ``null`` and ``NaN`` are missing values.

    Raises
    ------
    FormatError
        Names the line of a mistake in the syntax, or the key of one in the content.
    """
    text = read_text(path)
    reader = _JsonReader(path)
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        why, line = (error.msg, error.lineno) if isinstance(error, json.JSONDecodeError) else (error, None)
        raise wrong(path, f"it is no JSON: {why}", line=line, expected=f"JSON such as {_EXPECTED}") from error
    old = isinstance(data, dict) and "callpaths" in data
    collector = reader.old(data) if old else reader.new(data)
    if not len(collector):
        raise reader.error("measurements", "there are no values")
    return collector.finish(path)


def write_extrap_json(experiment: Experiment, path: Path, aggregate: Aggregate = "mean") -> None:
    """Write Extra-P's present JSON format, with one value over locations for each repetition.

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


def recognises(sample: Sample) -> bool:
    """Tell whether a file begins with an object; other formats that do are tried first."""
    return sample.first_line.startswith("{")


READER = Reader("a JSON file of Extra-P", recognises, lambda path, problems: read_extrap_json(path), is_last=True)
WRITER = Writer(".json", "Extra-P's JSON", write_extrap_json)
