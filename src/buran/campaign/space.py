"""The points of a campaign: combinations of values, lists, CSV files, and what constraints leave of them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from buran.campaign.expressions import Expression, ExpressionError
from buran.campaign.mistakes import KeyPath, Mistake, listed
from buran.campaign.point import Point, Value, canonical
from buran.campaign.sections import ParameterKeys, Range
from buran.campaign.steps import step_values

MOST_VALUES = 10_000
MOST_POINTS = 1_000_000


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
