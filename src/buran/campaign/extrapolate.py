"""Where models are extrapolated to, from the values a parameter was given."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from buran.campaign.expressions import ExpressionError, compile_expression
from buran.campaign.mistakes import TextError
from buran.campaign.point import Value

KINDS = ("linear", "geometric")


def extrapolated(wish: Value | str, name: str, values: Mapping[str, Sequence[Value]]) -> Value:
    """Return the value of a parameter that a campaign file asks for.

    Parameters
    ----------
    wish
        A number, which is the value; ``linear``: the largest value and the mean distance of neighbours (PIRA II,
        Section V-B2); ``geometric``: the largest value times the mean factor; or an expression in which every parameter
        stands for its largest value.
    values
        Of each parameter, sorted, all different.

    Raises
    ------
    TextError
        The expression has a mistake, or its value or a mean factor cannot be had.
    """
    own = values[name]
    if not isinstance(wish, str):
        return wish
    if wish == "linear":
        return own[-1] + (own[-1] - own[0]) / max(len(own) - 1, 1)
    if wish == "geometric":
        return float(own[-1] * (own[-1] / own[0]) ** (1 / max(len(own) - 1, 1)))
    largest = {parameter: each[-1] for parameter, each in values.items()}
    value = compile_expression(wish, largest, "number")(largest)
    if not (math.isfinite(value) and value > 0):
        raise ExpressionError(f"{wish!r} gives {value}, and must be greater than zero")
    return value


def check_wish(wish: Value | str, parameters: Sequence[str]) -> None:
    """Raise `TextError` for a text that is no kind and no expression."""
    if not isinstance(wish, str) and wish <= 0:
        raise ExpressionError("must be greater than zero")
    if isinstance(wish, str) and wish not in KINDS:
        try:
            compile_expression(wish, parameters, "number")
        except TextError as error:
            raise ExpressionError(f"{error.what}; or one of {', '.join(KINDS)}") from None
