"""Where models are extrapolated to, from the values a parameter was given."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from buran.campaign.expressions import ExpressionError, compile_expression
from buran.campaign.mistakes import TextError
from buran.campaign.point import Value
from buran.wording import Category, word_of

LINEAR = "linear"


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
