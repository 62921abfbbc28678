"""Model functions as text and Python."""

from __future__ import annotations

import keyword
import re
from collections.abc import Mapping, Sequence

import numpy as np

from buran.errors import UsageError
from buran.modeling.functions.powers import NO_GROWTH, PRODUCT, Style
from buran.modeling.functions.terms import Cases, ModelFunction, Term

_READ, _SHOWN = 8, 4  # terms of a formula: more are not read, and then so many are shown


def format_function(function: ModelFunction, parameters: Sequence[str], style: Style = "text") -> str:
    """Write a model function.

    Parameters
    ----------
    function
        The model function.
    parameters
        Names, by column of the points.
    style
        ``text`` with 4 significant digits, or ``python`` with all digits: an expression of `python_names` and ``log2``.

    Returns
    -------
    str
        As in ``2.5 + 0.1 n^3 * log2(p)``.
    """
    names = parameters if style == "text" else python_names(parameters)
    parts: list[tuple[bool, str]] = []
    for coefficient, term in zip(function.coefficients, function.terms, strict=True):
        number = _number(abs(coefficient), style)
        body = PRODUCT.join(factor.written(names, style) for factor in term.factors)
        joint = " " if style == "text" else " * "
        parts.append((coefficient < 0, body if number == "1" else number + joint + body))
    if function.constant or not parts:
        parts.insert(0, (function.constant < 0, _number(abs(function.constant), style)))
    minus, first = parts[0]
    return ("-" if minus else "") + first + "".join(f" {'-' if m else '+'} {part}" for m, part in parts[1:])


def format_largest(function: ModelFunction, parameters: Sequence[str], at: Mapping[str, float]) -> str:
    """Write a model function for people: of one with very many terms, those that are largest at a point.

    Where misses of caches are an account of the time, there are dozens.
    """
    left_out = len(function.terms) - _SHOWN if len(function.terms) > _READ else 0
    if left_out:
        point = np.array([at[name] for name in parameters], dtype=np.float64)
        terms = sorted(
            zip(function.coefficients, function.terms, strict=True),
            key=lambda term: -abs(term[0] * float(term[1].evaluate(point))),
        )
        kept = sorted(terms[:_SHOWN], key=lambda term: term[1].growth_order, reverse=True)
        function = ModelFunction(function.constant, *map(tuple, zip(*kept, strict=True)))
    text = format_function(function, parameters)
    return f"{text} + {left_out} terms that matter less" if left_out else text


def format_leading(function: ModelFunction, parameters: Sequence[str]) -> str:
    """Write the terms of the growth class with their coefficients, as in ``4 p^2``; a constant where nothing grows."""
    leading = set(function.dominating_terms())
    growing = {term for term in leading if _grows(term)}
    kept = growing or (set() if function.constant else leading)
    pairs = [pair for pair in zip(function.coefficients, function.terms, strict=True) if pair[1] in kept]
    constant = 0.0 if pairs else function.constant
    return format_function(ModelFunction(constant, *map(tuple, zip(*pairs, strict=True))), parameters)


def growth_class(function: ModelFunction, parameters: Sequence[str]) -> str:
    """Return how the function grows, as in ``n^3 * log2(p)`` or ``n^2 + p``; ``1`` for a constant.

    Terms that another one outgrows in every parameter are left out, and so are falling terms beside a
    constant. From where on an outgrown cache matters is not said. A term that grows as another one,
    times a derived value that does not grow (ranks of a node), is left out next to it.
    """
    last = [(term, term.lasting) for term in function.dominating_terms()]
    level = function.constant or any(lasting is None for _, lasting in last)
    leading = dict.fromkeys(lasting for term, lasting in last if lasting is not None and (_grows(term) or not level))
    shown = dict.fromkeys(_in_the_end(term, parameters) for term in leading if _bare(term) not in leading)
    return " + ".join(text for text in shown if text not in ("", "1")) or "1"


def _in_the_end(term: Term, parameters: Sequence[str]) -> str:
    """Return how a term grows, where a value of cases has the last of them; empty where that is 0."""
    parts = []
    for factor in term.factors:
        if not isinstance(factor.variable, Cases):
            parts.append(factor.written(parameters, "text"))
            continue
        last = factor.variable.cases[-1][2]
        if last.is_zero:
            return ""
        growth = growth_class(last, parameters)
        parts += [f"({growth})" if " + " in growth else growth] * (growth != "1")
    return PRODUCT.join(parts) or "1"


def python_names(parameters: Sequence[str]) -> list[str]:
    """Return Python identifiers for parameter names.

    Raises
    ------
    UsageError
        If two become the same.
    """
    out = []
    for name in parameters:
        safe = re.sub(r"\W", "_", name)
        if not safe or safe[0].isdigit() or keyword.iskeyword(safe) or safe == "log2":
            safe = f"p_{safe}"
        out.append(safe)
    if len(set(out)) < len(out):
        raise UsageError("two parameters have the same name in Python", why=", ".join(parameters))
    return out


def _bare(term: Term) -> Term | None:
    """Return a term without its derived values that do not grow; None if it has none, or nothing else."""
    kept = tuple(f for f in term.factors if f.variable is None or any(f.lead(c) != NO_GROWTH for c in f.columns))
    return Term(kept) if kept and kept != term.factors else None


def _grows(term: Term) -> bool:
    return any(factor.lead(column) > NO_GROWTH for factor in term.factors for column in factor.columns)


def _number(value: float, style: Style) -> str:
    return repr(float(value)) if style == "python" else f"{value:.4g}"
