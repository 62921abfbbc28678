"""Extra-P's text format."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from buran.errors import FormatError, UsageError
from buran.files import write_bytes
from buran.profiles.experiment.collect import Collector
from buran.profiles.experiment.formats import Reader, Sample, Writer
from buran.profiles.experiment.jsonl import DEFAULT_METRIC, ROOT_CALL_PATH
from buran.profiles.experiment.source import coordinates, export_names, read_text, wrong
from buran.profiles.experiment.table import Aggregate, Experiment

MOST_PARAMETERS = 4
"""Extra-P's limit for this format."""

_EXPECTED = "lines that begin with PARAMETER, POINTS, REGION, METRIC, DATA or #"
_TUPLES = re.compile(r"\(([^()]*)\)")


@dataclass
class _Parser:
    path: Path
    parameters: list[str] = field(default_factory=list)
    points: list[int] = field(default_factory=list)
    region: str = ROOT_CALL_PATH
    metric: str = DEFAULT_METRIC
    position: int = 0
    rows: int = 0
    collector: Collector = field(default_factory=lambda: Collector(()))

    def error(self, line: int, why: str, expected: str = _EXPECTED) -> FormatError:
        return wrong(self.path, why, line=line, expected=expected)

    def numbers(self, text: str, line: int, missing: bool) -> list[float]:
        try:
            numbers = [float(word) for word in text.split()]
        except ValueError as error:
            raise self.error(line, str(error), "numbers separated by blanks") from error
        if any(math.isinf(number) or (math.isnan(number) and not missing) for number in numbers):
            raise self.error(line, f"a number is not finite: {text}", "finite numbers")
        return numbers

    def read_parameters(self, text: str, line: int) -> None:
        if self.points:
            raise self.error(line, "a parameter stands behind points", "all PARAMETER lines before POINTS")
        for name in text.split():
            if name in self.parameters:
                raise self.error(line, f"parameter {name!r} is there twice", "different names")
            self.parameters.append(name)
        self.collector.parameters = tuple(self.parameters)

    def read_points(self, text: str, line: int) -> None:
        count = len(self.parameters)
        expected = f"points of {count} numbers, as in POINTS ( {' '.join('1' * max(count, 1))} )"
        if not count:
            raise self.error(line, "points stand before parameters", "PARAMETER lines before POINTS")
        if "(" in text:
            if _TUPLES.sub("", text).strip():
                raise self.error(line, f"there is text outside of parentheses: {text}", expected)
            rows = [self.numbers(row, line, False) for row in _TUPLES.findall(text)]
            if count == 1:  # Extra-P writes "( 20 )", and some tools "( 20 30 )"
                rows = [[number] for row in rows for number in row]
        else:
            rows = [[number] for number in self.numbers(text, line, False)]
        if not rows or any(len(row) != count for row in rows):
            raise self.error(line, f"a point does not have {count} numbers: {text}", expected)
        self.points += [self.collector.point(row) for row in rows]

    def read_data(self, text: str, line: int) -> None:
        if self.position >= len(self.points):
            raise self.error(
                line,
                f"there are more DATA lines than the {len(self.points)} points",
                "one DATA line for each point, in their order",
            )
        numbers = self.numbers(text, line, True)
        if not numbers:
            raise self.error(line, "there are no numbers", "DATA and the repetitions, nan where one is missing")
        call_path = self.collector.call_path(self.region)
        for number in numbers:
            self.collector.add_value(call_path, self.metric, self.points[self.position], number)
        self.position += 1
        self.rows += 1

    def read(self, text: str) -> None:
        for number, raw in enumerate(text.split("\n"), start=1):
            words = raw.split()
            if not words or raw.startswith("#"):
                continue
            keyword, rest = words[0], " ".join(words[1:])
            if not rest:
                raise self.error(number, f"there is nothing behind {keyword}")
            if keyword == "DATA":
                self.read_data(rest, number)
            elif keyword == "REGION":
                self.region, self.position = rest, 0
            elif keyword == "METRIC":
                self.metric, self.position = rest, 0
            elif keyword == "POINTS":
                self.read_points(rest, number)
            elif keyword == "PARAMETER":
                self.read_parameters(rest, number)
            else:
                raise self.error(number, f"{keyword[:40]!r} is no keyword")


def read_extrap_text(path: Path) -> Experiment:
    """Read Extra-P's text format; values are taken as exclusive.

    Points whose ``DATA`` line is missing at the end of a block, and numbers ``nan``, are missing values. The
    same point, or the same region and metric, again means more repetitions.

    Raises
    ------
    FormatError
        Names the line and what is expected.
    """
    parser = _Parser(path)
    parser.read(read_text(path))
    if not parser.rows:
        raise wrong(path, "there is no DATA line", expected=_EXPECTED)
    return parser.collector.finish(path)


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


def recognises(sample: Sample) -> bool:
    """Tell whether a file begins with a keyword of the format, after comments."""
    lines = (line.strip() for line in sample.head.decode(errors="replace").split("\n"))
    first = next((line for line in lines if line.strip("\ufeff") and not line.startswith("#")), sample.first_line)
    return first.strip("\ufeff").startswith(("PARAMETER", "POINTS", "REGION", "METRIC", "DATA", "#"))


READER = Reader("a text file of Extra-P", recognises, lambda path, problems: read_extrap_text(path))
WRITER = Writer(".txt", "Extra-P's text format", write_extrap_text)
