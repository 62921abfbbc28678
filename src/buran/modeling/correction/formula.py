"""Formulas over arrays: the expressions of campaign files, computed for all points and candidates at once."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from buran.campaign.expressions import FUNCTIONS, ExpressionError, compile_expression
from buran.errors import UsageError

Array = NDArray[np.float64]
Values = Mapping[str, Array | float]  # arrays broadcast
_Evaluator = Callable[[Values], Any]


@dataclass(frozen=True)
class Formula:
    """A formula that was checked against the whitelist of expressions.

    Attributes
    ----------
    text
        As written.
    names
        What it uses.
    tree
        Its syntax tree, of allowed nodes only.
    """

    text: str
    names: frozenset[str]
    tree: ast.expr
    _evaluator: _Evaluator

    def __call__(self, values: Values) -> Any:
        """Compute the formula; where it has no value, the result is NaN or infinite."""
        with np.errstate(all="ignore"):
            return self._evaluator(values)


def parse_formula(text: str | float, names: Collection[str], where: str) -> Formula:
    """Read a formula.

    Parameters
    ----------
    text
        An expression, or a number.
    names
        What it may use.
    where
        What the formula is, for messages.

    Raises
    ------
    UsageError
        If it is no expression, or uses a name, call or size that is not allowed.
    """
    try:
        checked = compile_expression(text, names, "number")
    except ExpressionError as error:
        raise UsageError(
            "a formula of the base model is not allowed", where=where, why=error.what, hint=error.hint
        ) from None
    tree = ast.parse(checked.text, mode="eval").body
    words = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    if words:
        why = f"{words[0]!r} is a word, and formulas have numbers"
        raise UsageError("a formula of the base model is not allowed", where=where, why=why)
    return Formula(checked.text, checked.names, tree, _compiled(tree))


def _power(base: Any, exponent: Any) -> Any:
    return np.power(np.asarray(base, dtype=np.float64), exponent)


_ARITHMETIC: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: np.add,
    ast.Sub: np.subtract,
    ast.Mult: np.multiply,
    ast.Div: np.divide,
    ast.FloorDiv: np.floor_divide,
    ast.Mod: np.mod,
    ast.Pow: _power,
}
_COMPARISONS: Mapping[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: np.equal,
    ast.NotEq: np.not_equal,
    ast.Lt: np.less,
    ast.LtE: np.less_equal,
    ast.Gt: np.greater,
    ast.GtE: np.greater_equal,
}


def _whole(number: Any) -> Any:
    return np.equal(np.floor(number), number)


def _is_root(number: Any, degree: int) -> Any:
    return (number >= 0) & _whole(number) & np.equal(np.round(number ** (1 / degree)) ** degree, number)


_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "abs": np.abs,
    "cbrt": np.cbrt,
    "ceil": np.ceil,
    "divides": lambda divisor, number: np.equal(np.mod(number, divisor), 0),
    "exp": np.exp,
    "floor": np.floor,
    "is_cube": lambda x: _is_root(x, 3),
    "is_power_of_two": lambda x: (x >= 1) & _whole(np.log2(np.maximum(x, 1))),
    "is_square": lambda x: _is_root(x, 2),
    "log": np.log,
    "log2": np.log2,
    "max": lambda *numbers: _reduced(np.maximum, numbers),
    "min": lambda *numbers: _reduced(np.minimum, numbers),
    "sqrt": np.sqrt,
    # Of a few whole numbers: no need for array forms of their own.
    **{name: np.vectorize(FUNCTIONS[name].call, otypes=[float]) for name in ("grid2", "grid3", "isqrt_factor")},
}


def _reduced(pick: Callable[[Any, Any], Any], numbers: tuple[Any, ...]) -> Any:
    out = numbers[0]
    for number in numbers[1:]:
        out = pick(out, number)
    return out


def _compiled(node: ast.expr) -> _Evaluator:
    """Return a closure for a node that the whitelist allowed."""
    match node:
        case ast.Constant(value=value):
            number = float(value)  # type: ignore[arg-type]
            return lambda values: number
        case ast.Name(id=name):
            return lambda values: values[name]
        case ast.UnaryOp(op=op, operand=operand):
            inner = _compiled(operand)
            if isinstance(op, ast.Not):
                return lambda values: np.logical_not(inner(values))
            return (lambda values: -inner(values)) if isinstance(op, ast.USub) else inner
        case ast.BinOp(left=left, op=op, right=right):
            apply, one, two = _ARITHMETIC[type(op)], _compiled(left), _compiled(right)
            return lambda values: apply(one(values), two(values))
        case ast.BoolOp(op=op, values=operands):
            parts = [_compiled(operand) for operand in operands]
            join = np.logical_and if isinstance(op, ast.And) else np.logical_or
            return lambda values: _reduced(join, tuple(part(values) for part in parts))
        case ast.Compare(left=left, ops=ops, comparators=others):
            sides = [_compiled(side) for side in (left, *others)]
            signs = [_COMPARISONS[type(op)] for op in ops]
            return lambda values: _chained(signs, [side(values) for side in sides])
        case ast.IfExp(test=test, body=body, orelse=orelse):
            condition, then, otherwise = _compiled(test), _compiled(body), _compiled(orelse)
            return lambda values: np.where(condition(values), then(values), otherwise(values))
        case ast.Call(func=ast.Name(id=name), args=arguments):
            call, evaluators = _FUNCTIONS[name], [_compiled(argument) for argument in arguments]
            return lambda values: call(*(argument(values) for argument in evaluators))
        case _:
            raise AssertionError(f"a node that the whitelist does not allow: {ast.dump(node)}")


def _chained(signs: list[Callable[[Any, Any], Any]], sides: list[Any]) -> Any:
    pairs = zip(signs, itertools.pairwise(sides), strict=True)
    return _reduced(np.logical_and, tuple(sign(*pair) for sign, pair in pairs))
