"""Expressions over parameters, as in ``is_cube(p) and p * n <= 4096``.

The text is parsed with `ast`, every node is checked against what is allowed, and Python evaluates the rest. Powers stay
below ``2**1024``, and length is limited, so no text can run for long.
"""

from __future__ import annotations

import ast
import copy
import math
import re
import warnings
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cache
from types import CodeType, MappingProxyType
from typing import Literal

from buran.campaign.mistakes import TextError, did_you_mean, listed
from buran.campaign.point import Value, canonical
from buran.wording import Category, word_of

Kind = Literal["number", "condition"]
Values = Mapping[str, Value]

LONGEST = 500
MOST_NODES = 200
MOST_BITS = 1024
MOST_EVALUATED = 2000  # parts of an expression and of the named values in it: these may use one another
LARGEST_GRID = 10**9  # number whose divisors are looked for one by one

_QUANTITY = re.compile(r"(\d+-)?\d+(:\d+)+|\d[\d.]*\s*[A-Za-z]{1,3}")  # 1-00:10:00, 30min, 4G


class ExpressionError(TextError):
    """An expression that is not allowed, or that cannot be computed at a point."""


@dataclass(frozen=True, eq=False)
class Expression:
    """A compiled expression.

    Attributes
    ----------
    text
        As written.
    names
        The parameters it uses, through named values too.
    tree
        What is computed, with named values in place of their names.
    numbers
        The parameters that it computes with, so that they must not be words.
    """

    text: str
    names: frozenset[str]
    tree: ast.expr
    numbers: frozenset[str]
    _code: CodeType

    def __call__(self, values: Values) -> Value:
        """Compute the expression; a condition gives True or False.

        Raises
        ------
        ExpressionError
            If it cannot be computed there: division by zero, logarithm of zero, too large.
        """
        for name in self.numbers:
            if isinstance(values[name], Category):  # its number means nothing
                raise self._failed(f"{values[name]} is a word: it can be compared by == and !=", values)
        try:
            result = eval(self._code, _GLOBALS, values)
        except ExpressionError as error:
            raise self._failed(error.what, values) from None
        except ZeroDivisionError:
            raise self._failed("division by zero", values) from None
        except OverflowError:
            raise self._failed("the result is too large", values) from None
        except ValueError as error:
            raise self._failed(str(error), values) from None
        if isinstance(result, bool):
            return result
        if isinstance(result, float) and not math.isfinite(result):
            raise self._failed("the result is not a finite number", values)
        return canonical(result)

    def _failed(self, reason: str, values: Values) -> ExpressionError:
        at = ", ".join(f"{name} = {values[name]}" for name in sorted(self.names))
        return ExpressionError(f"{self.text!r} cannot be computed{f' at {at}' if at else ''}: {reason}")


def compile_expression(
    text: str | float, parameters: Collection[str], kind: Kind, named: Mapping[str, Expression] = MappingProxyType({})
) -> Expression:
    """Compile an expression over parameters.

    Parameters
    ----------
    text
        The expression, or a plain number.
    parameters
        Names it may use.
    kind
        Whether it must give a number or a truth value.
    named
        Numbers that it may use by their names too.

    Raises
    ------
    ExpressionError
        If it is not an expression, or uses a name, operator or size that is not allowed.
    """
    text = (text if isinstance(text, str) else repr(text)).strip()
    if not text:
        raise ExpressionError("the expression is empty")
    if len(text) > LONGEST:
        raise ExpressionError(f"the expression is too long: {len(text)} characters, at most {LONGEST} are allowed")
    tree = _parse(text)
    if _size(tree) > MOST_NODES:
        raise ExpressionError(f"the expression is too long: it has more than {MOST_NODES} parts")
    tree = _Named({name: expression.tree for name, expression in named.items()}).visit(tree)
    if _size(tree) > MOST_EVALUATED:
        raise ExpressionError(f"{text!r} is too long with the values it names: more than {MOST_EVALUATED} parts")
    whitelist = _Whitelist((*parameters,), (*named,))
    try:
        actual = whitelist.kind_of(tree, words=True)
        code = compile(ast.fix_missing_locations(ast.Expression(_Bounded().visit(copy.deepcopy(tree)))), "", "eval")
    except RecursionError:
        raise ExpressionError(f"{text!r} is nested too deeply with the values it names") from None
    if actual != kind:
        if kind == "condition":
            raise ExpressionError(f"{text!r} is a number, not a condition", "compare it, as in `p * n <= 4096`")
        raise ExpressionError(f"{text!r} is a condition, not a number", "write `1 if p <= 4 else 2` to choose a number")
    expression = Expression(text, frozenset(whitelist.used), tree, frozenset(whitelist.numbers), code)
    if not expression.names:
        expression({})
    return expression


def written_out(values: Mapping[str, str | float]) -> dict[str, str]:
    """Return named values as expressions of parameters alone, but for those that become too long.

    Each may use those above it.
    """
    trees: dict[str, ast.expr] = {}
    for name, text in values.items():
        trees[name] = _Named(trees).visit(_parse(str(text).strip()))
    texts = {name: ast.unparse(tree) for name, tree in trees.items() if _size(tree) <= MOST_NODES}
    return {name: text for name, text in texts.items() if len(text) <= LONGEST}


class _Named(ast.NodeTransformer):
    """Puts trees in the place of the names that stand for them."""

    def __init__(self, trees: Mapping[str, ast.expr]) -> None:
        self.trees = trees

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self.trees.get(node.id, node)


class _Bounded(ast.NodeTransformer):
    """Makes of a tree what Python computes: powers that stay small, and the numbers of words."""

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        self.generic_visit(node)
        if not isinstance(node.op, ast.Pow):
            return node
        return ast.Call(ast.Name(_power.__name__, ast.Load()), [node.left, node.right], [])

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        return ast.Constant(float(_word(node.value))) if isinstance(node.value, str) else node


def _size(tree: ast.expr) -> int:
    return sum(1 for _ in ast.walk(tree))


def _parse(text: str) -> ast.expr:
    if "&&" in text or "||" in text:
        hint = "write `and` and `or`"
    elif "!" in text.replace("!=", ""):
        hint = "write `not`"
    elif wrong := re.search("=[<>]", text):
        hint = f"write `{wrong[0][::-1]}`"
    elif "=" in text and not any(two in text for two in ("==", "<=", ">=", "!=")):
        hint = "write `==` to compare"
    elif _QUANTITY.fullmatch(text.strip()):
        hint = "write a time as 10min or in seconds, memory as a number of megabytes"
    else:
        hint = "write it as in Python, such as p * n <= 4096 or ceil(p / 48)"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return ast.parse(text, mode="eval").body
    except SyntaxError as error:
        reason = error.msg.partition(". Perhaps")[0]
        raise ExpressionError(f"{text!r} is not an expression: {reason}", hint) from None
    except (ValueError, MemoryError, RecursionError, Warning):
        raise ExpressionError(f"{text!r} is not an expression", hint) from None


def _power(base: Value, exponent: Value) -> Value:
    if isinstance(base, int) and isinstance(exponent, int) and exponent > 0:
        if base.bit_length() * exponent > MOST_BITS:
            raise ExpressionError(f"a power above 2**{MOST_BITS} is too large")
    elif base < 0 and not float(exponent).is_integer():
        raise ValueError("a negative number to a broken power")
    result: Value = base**exponent
    return result


def _root(number: Value, degree: int) -> int | None:
    """Return the whole root of a whole number, or nothing if there is none."""
    if number < 0 or not float(number).is_integer():
        return None
    if number >= 2**100:  # beyond it the floating-point guess is too coarse
        raise ExpressionError("numbers above 2**100 have no root here")
    guess = round(float(number) ** (1 / degree))
    return next((root for root in (guess - 1, guess, guess + 1) if root**degree == number), None)


def _exact_root(number: Value, degree: int) -> Value:
    root = _root(number, degree)
    return (math.sqrt if degree == 2 else math.cbrt)(number) if root is None else root


def _is_power_of_two(number: Value) -> bool:
    return number >= 1 and float(number).is_integer() and int(number).bit_count() == 1


def _divides(divisor: Value, number: Value) -> bool:
    return number % divisor == 0


@cache
def _edges(number: Value, dimensions: int) -> tuple[int, ...]:
    """Return the whole edges, largest first, of the most compact box with so many cells: those of the smallest sum."""
    if not float(number).is_integer() or not 1 <= number <= LARGEST_GRID:
        raise ExpressionError(f"grids are for whole numbers from 1 to {LARGEST_GRID}")
    cells = int(number)
    if dimensions == 1:
        return (cells,)
    largest = 1 + int(cells ** (1 / dimensions))  # one more than the root may be rounded down to
    divisors = (edge for edge in range(1, largest + 1) if cells % edge == 0)
    boxes = ((*_edges(cells // edge, dimensions - 1), edge) for edge in divisors)
    edges = min(boxes, key=lambda box: (sum(box), max(box)))
    return tuple(sorted(edges, reverse=True))


def _grid_edge(number: Value, edge: Value, dimensions: int) -> Value:
    if edge not in range(1, dimensions + 1):
        raise ExpressionError(f"a grid of {dimensions} dimensions has no edge {edge}; the first one is 1")
    return _edges(number, dimensions)[int(edge) - 1]


@dataclass(frozen=True)
class _Function:
    call: Callable[..., Value]
    meaning: str
    least: int = 1
    most: int = 1
    gives: Kind = "number"


_GRID2 = "edges of the most compact grid of p cells in two dimensions, the larger one first"
FUNCTIONS: Mapping[str, _Function] = {
    "abs": _Function(abs, "absolute value"),
    "cbrt": _Function(lambda x: _exact_root(x, 3), "cube root; exact for cubes"),
    "ceil": _Function(math.ceil, "next whole number above"),
    "divides": _Function(_divides, "`divides(a, b)`: b is a multiple of a", 2, 2, "condition"),
    "exp": _Function(math.exp, "e to a power"),
    "floor": _Function(math.floor, "next whole number below"),
    "grid2": _Function(lambda p, edge: _grid_edge(p, edge, 2), f"`grid2(p, 1)`, `grid2(p, 2)`: {_GRID2}", 2, 2),
    "grid3": _Function(
        lambda p, edge: _grid_edge(p, edge, 3), "`grid3(p, 1)` to `grid3(p, 3)`: in three dimensions", 2, 2
    ),
    "is_cube": _Function(lambda x: _root(x, 3) is not None, "1, 8, 27, ...", gives="condition"),
    "is_power_of_two": _Function(_is_power_of_two, "1, 2, 4, 8, ...", gives="condition"),
    "is_square": _Function(lambda x: _root(x, 2) is not None, "1, 4, 9, ...", gives="condition"),
    "isqrt_factor": _Function(lambda p: _grid_edge(p, 2, 2), "largest divisor that is not above the square root"),
    "log": _Function(math.log, "natural logarithm"),
    "log2": _Function(math.log2, "logarithm to base 2"),
    "max": _Function(max, "largest of 2 to 8 numbers", 2, 8),
    "min": _Function(min, "smallest of 2 to 8 numbers", 2, 8),
    "sqrt": _Function(lambda x: _exact_root(x, 2), "square root; exact for squares"),
}

_GLOBALS = {
    "__builtins__": {},
    _power.__name__: _power,
    **{name: function.call for name, function in FUNCTIONS.items()},
}
_ARITHMETIC = ast.Add | ast.Sub | ast.Mult | ast.Div | ast.FloorDiv | ast.Mod | ast.Pow
_EQUALITY = ast.Eq | ast.NotEq
_COMPARISONS = _EQUALITY | ast.Lt | ast.LtE | ast.Gt | ast.GtE
ALLOWED = (
    "numbers, words in quotes, parameters, + - * / // % **, comparisons, and, or, not, `a if condition else b` and "
    "functions"
)


class _Whitelist:
    """Refuses whatever is not allowed in a tree, and notes the parameters that it uses."""

    def __init__(self, parameters: tuple[str, ...], named: tuple[str, ...]) -> None:
        self.parameters = parameters
        self.named = named
        self.used: set[str] = set()
        self.numbers: set[str] = set()

    def kind_of(self, node: ast.expr, *, words: bool) -> Kind:
        """Return what a node gives; `words`: whether words may stand for its number."""
        match node:
            case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
                if number.bit_length() > MOST_BITS if isinstance(number, int) else not math.isfinite(number):
                    raise ExpressionError("a number is too large")
            case ast.Constant(value=str() as text):
                if not words:
                    raise ExpressionError(f"{text!r} is a word: it can be compared by == and !=")
                _word(text)
            case ast.Name(id=name):
                self._check_parameter(name)
                self.numbers |= set() if words else {name}
            case ast.IfExp(test=test, body=body, orelse=orelse):
                self._need("condition", [test], "if")
                self._need("number", [body, orelse], "if", words=words)
            case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]):
                return self._check_call(name, arguments)
            case _:
                return self._check_operator(node)
        return "number"

    def _check_operator(self, node: ast.expr) -> Kind:
        match node:
            case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=operand):
                self._need("number", [operand], "-")
                return "number"
            case ast.BinOp(left=left, op=op, right=right) if isinstance(op, _ARITHMETIC):
                self._need("number", [left, right], "arithmetic")
                return "number"
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                self._need("condition", [operand], "not")
            case ast.BoolOp(values=operands):
                self._need("condition", operands, "and, or")
            case ast.Compare(left=left, ops=ops, comparators=others) if all(isinstance(op, _COMPARISONS) for op in ops):
                words = all(isinstance(op, _EQUALITY) for op in ops)
                self._need("number", [left, *others], "a comparison", words=words)
            case _:
                raise _not_allowed(node)
        return "condition"

    def _need(self, kind: Kind, operands: list[ast.expr], user: str, *, words: bool = False) -> None:
        for operand in operands:
            if (actual := self.kind_of(operand, words=words)) != kind:
                raise ExpressionError(f"`{ast.unparse(operand)}` is a {actual}, but {user} needs a {kind}")

    def _check_parameter(self, name: str) -> None:
        if name not in self.parameters:
            if name in FUNCTIONS:
                raise ExpressionError(f"{name!r} is a function", f"call it, as in `{name}(...)`")
            parameters = listed([*self.parameters, *self.named]) or "none"
            hint = did_you_mean(name, [*self.parameters, *self.named, *FUNCTIONS])
            raise ExpressionError(f"unknown name {name!r}; the parameters here are: {parameters}", hint)
        self.used.add(name)

    def _check_call(self, name: str, arguments: list[ast.expr]) -> Kind:
        if name in self.parameters:
            raise ExpressionError(f"{name!r} is a parameter, not a function", f"write `{name} * (...)` to multiply")
        function = FUNCTIONS.get(name)
        if function is None:
            what = f"unknown function {name!r}; the functions are: {', '.join(FUNCTIONS)}"
            raise ExpressionError(what, did_you_mean(name, FUNCTIONS))
        if not function.least <= len(arguments) <= function.most:
            takes = str(function.least) if function.least == function.most else f"{function.least} to {function.most}"
            raise ExpressionError(f"{name} takes {takes} arguments, not {len(arguments)}")
        self._need("number", arguments, name)
        return function.gives


def _word(text: str) -> Category:
    if (word := word_of(text)) is None:
        raise ExpressionError(f"no parameter has the value {text!r}")
    return word


def _not_allowed(node: ast.expr) -> ExpressionError:
    piece = ast.unparse(node)
    piece = piece if len(piece) <= 60 else piece[:57] + "..."
    hint = f"allowed are {ALLOWED}"
    match node:
        case ast.BinOp(op=ast.BitXor()):
            hint = "write `**` for a power"
        case ast.BinOp(op=ast.BitAnd() | ast.BitOr()):
            hint = "write `and` or `or`"
        case ast.Compare(ops=ops) if any(isinstance(op, ast.In | ast.NotIn) for op in ops):
            hint = "compare one by one, as in `p == 1 or p == 8`"
    return ExpressionError(f"`{piece}` is not allowed in an expression", hint)
