"""The points of a campaign: combinations of values, what constraints leave of them, and the target."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

from buran.campaign.expressions import Expression, ExpressionError, compile_expression
from buran.campaign.mistakes import KeyPath, Mistake, TextError
from buran.campaign.point import Point, Value, step_values
from buran.campaign.sections import ParameterKeys
from buran.wording import Category, word_of

LINEAR = "linear"
MOST_POINTS = 1_000_000


def parameter_values(parameter: ParameterKeys) -> tuple[Value, ...]:
    """Return a parameter's values in the order of writing; empty if it has none of its own."""
    if parameter.value is not None:
        return step_values(parameter.value)
    if parameter.values is not None:
        return parameter.values
    return () if parameter.range is None else parameter.range.listed


def product(values: Mapping[str, Sequence[Value]]) -> Iterator[dict[str, Value]]:
    """Yield all combinations of values."""
    names = tuple(values)
    for combination in itertools.product(*values.values()):
        yield dict(zip(names, combination, strict=True))


def satisfying(
    points: Iterable[Mapping[str, Value]], constraints: Mapping[KeyPath, Expression]
) -> tuple[list[Mapping[str, Value]], int, list[Mistake]]:
    """Keep the points that fulfil all constraints, by their keys; earlier constraints guard later ones.

    Returns
    -------
    tuple
        The points, how many were dropped, and the mistakes: a constraint that cannot be computed, or
        nothing left.
    """
    everything = list(points)
    kept = everything
    for path, constraint in constraints.items():
        try:
            left = [values for values in kept if constraint(values)]
        except ExpressionError as error:
            return [], 0, [Mistake(path, error.what, hint=error.hint)]
        if kept and not left:
            what = f"none of the {len(everything)} points fulfils all constraints"
            why = f"none of {len(kept)} that fulfil those before it fulfils `{constraint.text}`"
            return [], len(everything), [Mistake(path, what, why, "relax a constraint, or add values")]
        kept = left
    return kept, len(everything) - len(kept), []


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


def extrapolated(target: Value | str, name: str, values: Mapping[str, Sequence[Value]]) -> Value:
    """Return the value of a parameter that a campaign file asks for.

    Parameters
    ----------
    target
        A number or word, which is the value; ``linear``: the largest value and the mean distance of neighbours (PIRA
        II, Section V-B2); or an expression in which every parameter stands for its largest value.
    values
        Values of each parameter, sorted, all different.

    Raises
    ------
    TextError
        The expression has a mistake, or no value above zero.
    """
    ascending = values[name]
    if not isinstance(target, str):
        return target
    if any(isinstance(value, Category) for value in ascending):
        if (word := word_of(target)) is None or word not in ascending:
            raise ExpressionError(f"{target!r} is none of {', '.join(map(str, ascending))}")
        return word
    if target == LINEAR:
        return ascending[-1] + (ascending[-1] - ascending[0]) / max(len(ascending) - 1, 1)
    largest = {parameter: ascending[-1] for parameter, ascending in values.items()}
    value = compile_expression(target, largest, "number")(largest)
    if not (math.isfinite(value) and value > 0):
        raise ExpressionError(f"{target!r} gives {value}, and must be greater than zero")
    return value


def check_target_value(target: Value | str, parameters: Sequence[str]) -> None:
    """Raise `TextError` for a text that is no kind and no expression."""
    if not isinstance(target, str) and target <= 0:
        raise ExpressionError("must be greater than zero")
    if isinstance(target, str) and target != LINEAR:
        try:
            compile_expression(target, parameters, "number")
        except TextError as error:
            what = f"{target!r} is no number and no expression: {error.what}; or write {LINEAR}"
            raise ExpressionError(what) from None
