"""Formulas of base models: the expressions of campaign files as sympy's, computed for all points at once."""

from __future__ import annotations

import ast
import functools
import operator
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import sympy
from numpy.typing import NDArray
from sympy.codegen.cfunctions import log2

from buran.campaign.expressions import FUNCTIONS, ExpressionError, compile_expression
from buran.errors import UsageError

Array = NDArray[np.float64]


def parse_formula(text: str | float, symbols: Mapping[str, sympy.Expr], where: str) -> sympy.Expr:
    """Read a formula.

    Parameters
    ----------
    text
        An expression, or a number.
    symbols
        What it may use: each name, and what stands for it.
    where
        What the formula is, for messages.

    Raises
    ------
    UsageError
        If it is no expression, or uses a name, call or size that is not allowed.
    """
    try:
        tree = compile_expression(text, symbols, "number").tree
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                raise ExpressionError(f"{node.value!r} is a word", "formulas of base models have numbers")
    except ExpressionError as error:
        raise UsageError(
            "a formula of the base model is not allowed", where=where, why=error.what, hint=error.hint
        ) from None
    return _expression(tree, symbols)


def exact(value: float) -> sympy.Expr:
    """Return a number with all its digits; a whole one as such, which powers of it need."""
    return sympy.Integer(int(value)) if float(value).is_integer() and abs(value) < 1e9 else sympy.Float(value, 17)


def compiled(names: Sequence[sympy.Symbol], expressions: Sequence[sympy.Expr]) -> Callable[..., list[Any]]:
    """Return a function of arrays that broadcast, for the symbols; where a formula has no value, its value is NaN."""
    function = sympy.lambdify(names, list(expressions), [_ARRAYS, "numpy"], cse=True)

    def call(*values: Any) -> list[Any]:
        with np.errstate(all="ignore"):
            return [np.nan if np.iscomplexobj(value) else value for value in function(*values)]

    return call


def _expression(node: ast.expr, symbols: Mapping[str, sympy.Expr]) -> Any:
    """Translate a node that `compile_expression` has allowed."""

    def inner(child: ast.expr) -> Any:
        return _expression(child, symbols)

    match node:
        case ast.Constant(value=value):
            return exact(value)  # type: ignore[arg-type]
        case ast.Name(id=name):
            return symbols[name]
        case ast.UnaryOp(op=op, operand=operand):
            return _OPERATORS[type(op)](inner(operand))
        case ast.BinOp(left=left, op=op, right=right):
            return _OPERATORS[type(op)](inner(left), inner(right))
        case ast.BoolOp(op=op, values=values):
            return _OPERATORS[type(op)](*map(inner, values))
        case ast.Compare(left=left, ops=ops, comparators=others):
            sides = [inner(side) for side in (left, *others)]
            return sympy.And(*(_OPERATORS[type(op)](sides[i], sides[i + 1]) for i, op in enumerate(ops)))
        case ast.IfExp(test=test, body=body, orelse=orelse):
            return sympy.Piecewise((inner(body), inner(test)), (inner(orelse), True))
        case ast.Call(func=ast.Name(id=name), args=arguments):
            return _CALLS[name](*map(inner, arguments))


def _condition(name: str) -> Callable[..., Any]:
    return lambda *arguments: sympy.Ne(sympy.Function(name)(*arguments), 0)


_MOD = sympy.Function("mod")
_OPERATORS: Mapping[type[ast.AST], Callable[..., Any]] = {
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
    ast.Not: sympy.Not,
    ast.And: sympy.And,
    ast.Or: sympy.Or,
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: sympy.Function("floor_divide"),
    ast.Mod: _MOD,
    ast.Pow: operator.pow,
    ast.Eq: sympy.Eq,
    ast.NotEq: sympy.Ne,
    ast.Lt: sympy.Lt,
    ast.LtE: sympy.Le,
    ast.Gt: sympy.Gt,
    ast.GtE: sympy.Ge,
}
_CALLS: Mapping[str, Callable[..., Any]] = {
    **{name: (_condition if each.gives == "condition" else sympy.Function)(name) for name, each in FUNCTIONS.items()},
    "abs": sympy.Abs,
    "ceil": sympy.ceiling,
    "divides": lambda divisor, value: sympy.Eq(_MOD(value, divisor), 0),
    "exp": sympy.exp,
    "floor": sympy.floor,
    "log": sympy.log,
    "log2": log2,
    "max": sympy.Max,
    "min": sympy.Min,
    "sqrt": sympy.sqrt,
}


def _folded(pick: Callable[[Any, Any], Any]) -> SimpleNamespace:
    """Return what combines arrays of different shapes, as numpy's own reduction does not."""
    return SimpleNamespace(reduce=lambda parts: functools.reduce(pick, parts))


_ARRAYS = {
    # what numpy does not have by these names is computed number by number
    **{name: np.vectorize(each.call, otypes=[float]) for name, each in FUNCTIONS.items() if not hasattr(np, name)},
    "logical_and": _folded(np.logical_and),
    "logical_or": _folded(np.logical_or),
}
