"""The points of a campaign: combinations of values, lists, CSV files, and what constraints leave of them."""

from __future__ import annotations

import csv
import io
import itertools
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from buran.budget import POINTS_BYTES
from buran.campaign.expressions import Expression, ExpressionError
from buran.campaign.mistakes import KeyPath, Mistake, did_you_mean, listed
from buran.campaign.point import Point, Value, canonical
from buran.campaign.sections import ParameterKeys, Range
from buran.campaign.steps import step_values
from buran.campaign.values import LARGEST, WORD
from buran.campaign.yaml_document import read_text
from buran.wording import Category

MOST_VALUES = 10_000
MOST_POINTS = 1_000_000


@dataclass(frozen=True)
class WrittenPoint:
    """A point as somebody wrote it down, and where."""

    values: Mapping[str, Value]
    path: KeyPath
    file: Path | None = None
    line: int = 0

    def mistake(self, what: str, why: str | None = None, hint: str | None = None) -> Mistake:
        """Return a mistake that stands where the point does."""
        return Mistake(self.path, what, why, hint, self.file, self.line)


def range_values(span: Range) -> tuple[Value, ...]:
    """Return the values of a range, exactly as decimal arithmetic gives them.

    Raises
    ------
    ValueError
        If the range is not well formed or has more than `MOST_VALUES` values.
    """
    start, stop = Decimal(repr(span.start)), Decimal(repr(span.stop))
    if (span.step is None) == (span.factor is None):
        raise ValueError("a range needs either step or factor")
    if span.factor is not None and span.factor <= 1:
        raise ValueError(f"the factor must be above 1, not {span.factor}")
    if stop < start:
        raise ValueError(f"the range is empty: it stops at {stop}, below its start {start}")
    out: list[Value] = []
    value = start
    while value <= stop:
        if len(out) == MOST_VALUES:
            raise ValueError(f"the range has more than {MOST_VALUES} values")
        out.append(canonical(float(value)))
        if span.factor is not None:
            value *= Decimal(repr(span.factor))
        else:
            value = start + len(out) * Decimal(repr(span.step))
    return tuple(out)


def parameter_values(parameter: ParameterKeys) -> tuple[Value, ...]:
    """Return a parameter's values in the order of writing; empty if it has none of its own.

    Raises
    ------
    ValueError
        If its range is not well formed.
    """
    if parameter.value is not None:
        return step_values(parameter.value)
    if parameter.values is not None:
        return parameter.values
    return () if parameter.range is None else range_values(parameter.range)


def product(values: Mapping[str, Sequence[Value]]) -> Iterator[dict[str, Value]]:
    """Yield all combinations of values."""
    names = tuple(values)
    for combination in itertools.product(*values.values()):
        yield dict(zip(names, combination, strict=True))


def read_points(path: Path, key: KeyPath, parameters: Sequence[str]) -> tuple[list[WrittenPoint], list[Mistake]]:
    """Read points from a CSV file whose first row names the parameters, in any order."""
    rows = csv.reader(io.StringIO(read_text(path, POINTS_BYTES), newline=""), skipinitialspace=True, strict=True)
    points: list[WrittenPoint] = []
    mistakes: list[Mistake] = []
    try:
        header = [name.strip() for name in next(rows, [])]
        mistakes += _header_mistakes(path, key, header, parameters)
        if mistakes:
            return [], mistakes
        for row in rows:
            if not any(cell.strip() for cell in row):
                continue
            try:
                if len(row) != len(header):
                    raise ValueError(f"the row has {len(row)} cells, but the first row has {len(header)}")
                values = {name: _cell(text) for name, text in zip(header, row, strict=True)}
                points.append(WrittenPoint(values, key, path, rows.line_num))
            except ValueError as error:
                mistakes.append(Mistake(key, str(error), file=path, line=rows.line_num))
    except csv.Error as error:
        mistakes.append(Mistake(key, f"the file is not valid CSV: {error}", file=path, line=rows.line_num))
    if not points and not mistakes:
        mistakes.append(Mistake(key, "the file has no points", file=path))
    return points, mistakes


def _header_mistakes(path: Path, key: KeyPath, header: Sequence[str], parameters: Sequence[str]) -> Iterator[Mistake]:
    for i, name in enumerate(header):
        if name in header[:i]:
            yield Mistake(key, f"the column {name!r} stands twice", file=path, line=1)
        elif name not in parameters:
            why = f"the parameters are: {', '.join(parameters)}"
            yield Mistake(key, f"{name!r} is no parameter", why, did_you_mean(name, parameters), path, 1)
    for name in parameters:
        if name not in header:
            yield Mistake(key, f"there is no column for the parameter {name!r}", file=path, line=1)


def _cell(text: str) -> Value:
    try:
        number = float(text)
    except ValueError:
        if re.fullmatch(WORD, text.strip()):
            return Category(text.strip())
        raise ValueError(f"{text.strip()!r} is neither a number nor a word") from None
    if "_" in text or not math.isfinite(number) or not 0 < number <= LARGEST:
        raise ValueError(f"{text.strip()} is not allowed: a value must be finite and greater than zero")
    return canonical(number)


def point_mistakes(points: Sequence[WrittenPoint], parameters: Sequence[str]) -> Iterator[Mistake]:
    """Check that each listed point has all parameters, no others, and stands there once."""
    first: dict[Point, WrittenPoint] = {}
    for point in points:
        for name in point.values:
            if name not in parameters:
                allowed = f"the parameters are: {', '.join(parameters)}"
                yield point.mistake(f"{name!r} is no parameter", allowed, did_you_mean(name, parameters))
        missing = [name for name in parameters if name not in point.values]
        if missing:
            yield point.mistake(f"the point has no value for {' and '.join(missing)}")
        key = Point.of(point.values)
        if key in first:
            before = first[key]
            why = f"it stands on line {before.line} too" if before.line else None
            yield point.mistake(f"the point {key} stands twice", why, "leave one of them out")
        first.setdefault(key, point)


@dataclass(frozen=True)
class Constraint:
    """A condition and where it stands."""

    expression: Expression
    path: KeyPath


def satisfying(
    points: Iterable[Mapping[str, Value]], constraints: Sequence[Constraint]
) -> tuple[list[Mapping[str, Value]], int, list[Mistake]]:
    """Keep the points that fulfil all constraints; earlier constraints guard later ones.

    Returns
    -------
    tuple
        The points, how many were dropped, and the mistakes: a constraint that cannot be computed, or
        nothing left.
    """
    everything = list(points)
    kept = everything
    for constraint in constraints:
        try:
            kept = [values for values in kept if constraint.expression(values)]
        except ExpressionError as error:
            return [], 0, [Mistake(constraint.path, error.what, hint=error.hint)]
    if kept or not everything:
        return kept, len(everything) - len(kept), []
    alone = [sum(holds(constraint.expression, values) for values in everything) for constraint in constraints]
    counts = [
        f"`{constraint.expression.text}` alone leaves {count}"
        for constraint, count in zip(constraints, alone, strict=True)
    ]
    path: KeyPath = constraints[alone.index(0)].path if 0 in alone else ("constraints",)
    what = f"none of the {len(everything)} points fulfils all constraints"
    return [], len(everything), [Mistake(path, what, listed(counts), "relax a constraint, or add values")]


def holds(expression: Expression, values: Mapping[str, Value]) -> bool:
    """Return whether a condition can be computed and is true."""
    try:
        return bool(expression(values))
    except ExpressionError:
        return False


def along_axes(points: Sequence[Point], parameters: Sequence[str], most: int) -> tuple[Point, ...]:
    """Return the first point and, along each parameter, the next ones that differ from it in nothing else.

    Parameters
    ----------
    points
        In the order of preference, such as cheapest first.
    most
        How many points each parameter gets, the first point included.
    """
    if not points:
        return ()
    origin = points[0]
    chosen = {origin: None}
    for name in parameters:
        others = [other for other in parameters if other != name]
        line = (point for point in points[1:] if all(point[other] == origin[other] for other in others))
        chosen.update(dict.fromkeys(itertools.islice(line, most - 1)))
    return tuple(chosen)
