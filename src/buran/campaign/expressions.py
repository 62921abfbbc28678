"""Expressions over parameters, as in ``is_cube(p) and p * n <= 4096``.

The text is parsed with `ast`; each allowed node becomes a small closure. Nothing is ever given to ``eval``,
powers stay below ``2**1024``, and length and depth are limited, so no text can run for long.
"""

from __future__ import annotations

import ast
import math
import operator
import re
import warnings
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Literal

from buran.campaign.mistakes import TextError, did_you_mean, listed
from buran.campaign.point import Value, canonical
from buran.wording import Category, word_of

Kind = Literal["number", "condition"]
Values = Mapping[str, Value]
# Numbers and truth values share one closure type: `Kind` keeps them apart when the text is compiled.
Evaluator = Callable[[Values], Value]

LONGEST = 500
MOST_NODES = 200
DEEPEST = 30
MOST_BITS = 1024
MOST_EVALUATED = 2000  # parts of an expression and of the named values in it: these may use one another
LARGEST_GRID = 10**9  # number whose divisors are looked for one by one

_QUANTITY = re.compile(r"(\d+-)?\d+(:\d+)+|\d[\d.]*\s*[A-Za-z]{1,3}")  # 1-00:10:00, 30min, 4G


class ExpressionError(TextError):
    """An expression that is not allowed, or that cannot be computed at a point."""


@dataclass(frozen=True)
class Expression:
    """A compiled expression.

    Attributes
    ----------
    text
        As written.
    names
        The parameters it uses, through named values too.
    parts
        How many parts are computed, those of named values too.
    """

    text: str
    names: frozenset[str]
    _evaluator: Evaluator
    parts: int = 1

    def __call__(self, values: Values) -> Value:
        """Compute the expression; a condition gives True or False.

        Raises
        ------
        ExpressionError
            If it cannot be computed there: division by zero, logarithm of zero, too large.
        """
        try:
            result = self._evaluator(values)
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
    if not isinstance(text, str):
        text = repr(text)
    text = text.strip()
    if not text:
        raise ExpressionError("the expression is empty")
    if len(text) > LONGEST:
        raise ExpressionError(f"the expression is too long: {len(text)} characters, at most {LONGEST} are allowed")
    tree = _parse(text)
    nodes = sum(1 for _ in ast.walk(tree))
    if nodes > MOST_NODES:
        raise ExpressionError(f"the expression is too long: it has more than {MOST_NODES} parts")
    compiler = _Compiler(tuple(parameters), named)
    evaluator, actual = compiler.compile(tree, 0)
    if actual != kind:
        if kind == "condition":
            raise ExpressionError(f"{text!r} is a number, not a condition", "compare it, as in `p * n <= 4096`")
        raise ExpressionError(f"{text!r} is a condition, not a number", "write `1 if p <= 4 else 2` to choose a number")
    names = frozenset(compiler.used)
    parts = nodes + compiler.parts_of_named
    if parts > MOST_EVALUATED:
        raise ExpressionError(f"{text!r} is too long with the values it names: more than {MOST_EVALUATED} parts")
    expression = Expression(text, names, evaluator, parts)
    if not names:
        constant = expression({})
        return Expression(text, names, lambda _: constant, parts)
    return expression


def listed_for(name: str, parameter: str, entries: Mapping[Value, Value]) -> Expression:
    """Return a named value that goes with those of a parameter, each with its own, and has none beyond them."""

    def look_up(values: Values) -> Value:
        if values[parameter] not in entries:
            raise ExpressionError(f"it is listed for {parameter} = {listed([*entries])}")
        return entries[values[parameter]]

    return Expression(name, frozenset((parameter,)), look_up)


def written_out(values: Mapping[str, str | float | Mapping[str, object]]) -> dict[str, str]:
    """Return named values as expressions of parameters alone; each may use those above it.

    Those that become too long are left out, and those of lists, which say nothing beyond them.
    """
    trees: dict[str, ast.expr] = {}
    lists = {name for name, text in values.items() if isinstance(text, Mapping)}

    class _Named(ast.NodeTransformer):
        def visit_Name(self, node: ast.Name) -> ast.expr:
            return trees.get(node.id, node)

    for name, text in values.items():
        tree = None if name in lists else _Named().visit(_parse(str(text).strip()))
        if tree is None or lists & {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}:
            lists.add(name)
        else:
            trees[name] = tree
    texts = {name: ast.unparse(tree) for name, tree in trees.items()}
    nodes = {name: sum(1 for _ in ast.walk(tree)) for name, tree in trees.items()}
    return {name: text for name, text in texts.items() if len(text) <= LONGEST and nodes[name] <= MOST_NODES}


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


def _square_root(number: Value) -> Value:
    root = _root(number, 2)
    return math.sqrt(number) if root is None else root


def _cube_root(number: Value) -> Value:
    root = _root(number, 3)
    return math.cbrt(number) if root is None else root


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


def has_grid(text: str) -> bool:
    """Tell whether an expression asks for a grid."""
    return re.search(r"\b(grid2|grid3|isqrt_factor)\s*\(", text) is not None


def is_line(number: int) -> bool:
    """Tell whether so many cells, more than three, form no grid but a line: a prime number."""
    return 3 < number <= LARGEST_GRID and _edges(number, 2)[1] == 1


@dataclass(frozen=True)
class _Function:
    call: Callable[..., Value]
    least: int
    most: int
    gives: Kind
    meaning: str


FUNCTIONS: Mapping[str, _Function] = {
    "abs": _Function(abs, 1, 1, "number", "absolute value"),
    "cbrt": _Function(_cube_root, 1, 1, "number", "cube root; exact for cubes"),
    "ceil": _Function(math.ceil, 1, 1, "number", "next whole number above"),
    "divides": _Function(_divides, 2, 2, "condition", "`divides(a, b)`: b is a multiple of a"),
    "exp": _Function(math.exp, 1, 1, "number", "e to a power"),
    "floor": _Function(math.floor, 1, 1, "number", "next whole number below"),
    "grid2": _Function(
        lambda p, edge: _grid_edge(p, edge, 2),
        2,
        2,
        "number",
        "`grid2(p, 1)`, `grid2(p, 2)`: edges of the most compact "
        "grid of p cells in two dimensions, the larger one first",
    ),
    "grid3": _Function(
        lambda p, edge: _grid_edge(p, edge, 3), 2, 2, "number", "`grid3(p, 1)` to `grid3(p, 3)`: in three dimensions"
    ),
    "is_cube": _Function(lambda x: _root(x, 3) is not None, 1, 1, "condition", "1, 8, 27, ..."),
    "is_power_of_two": _Function(_is_power_of_two, 1, 1, "condition", "1, 2, 4, 8, ..."),
    "is_square": _Function(lambda x: _root(x, 2) is not None, 1, 1, "condition", "1, 4, 9, ..."),
    "isqrt_factor": _Function(
        lambda p: _grid_edge(p, 2, 2), 1, 1, "number", "largest divisor that is not above the square root"
    ),
    "log": _Function(math.log, 1, 1, "number", "natural logarithm"),
    "log2": _Function(math.log2, 1, 1, "number", "logarithm to base 2"),
    "max": _Function(max, 2, 8, "number", "largest of 2 to 8 numbers"),
    "min": _Function(min, 2, 8, "number", "smallest of 2 to 8 numbers"),
    "sqrt": _Function(_square_root, 1, 1, "number", "square root; exact for squares"),
}

_ARITHMETIC: Mapping[type[ast.operator], Callable[[Value, Value], Value]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: _power,
}
_COMPARISONS: Mapping[type[ast.cmpop], Callable[[Value, Value], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
ALLOWED = (
    "numbers, words in quotes, parameters, + - * / // % **, comparisons, and, or, not, `a if condition else b` and "
    "functions"
)


class _Compiler:
    def __init__(self, parameters: tuple[str, ...], named: Mapping[str, Expression]) -> None:
        self.parameters = parameters
        self.named = named
        self.used: set[str] = set()
        self.parts_of_named = 0

    def compile(self, node: ast.expr, depth: int) -> tuple[Evaluator, Kind]:
        if depth > DEEPEST:
            raise ExpressionError(f"the expression is nested too deeply: at most {DEEPEST} levels are allowed")
        inside = depth + 1
        match node:
            case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
                return _constant(number), "number"
            case ast.Constant(value=str() as text):
                if (word := word_of(text)) is None:
                    raise ExpressionError(f"no parameter has the value {text!r}")
                return (lambda _: word), "number"
            case ast.Name(id=name):
                return self._parameter(name), "number"
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                inner = self._operand(operand, inside, "condition", "not")
                return (lambda values: not inner(values)), "condition"
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                inner = self._operand(operand, inside, "number", "-")
                return (lambda values: -inner(values)), "number"
            case ast.UnaryOp(op=ast.UAdd(), operand=operand):
                return self._operand(operand, inside, "number", "+"), "number"
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
                sign = _ARITHMETIC[type(op)]
                one, two = (self._operand(side, inside, "number", "arithmetic") for side in (left, right))
                return (lambda values: sign(one(values), two(values))), "number"
            case ast.BoolOp(op=op, values=operands):
                parts = [self._operand(operand, inside, "condition", "and, or") for operand in operands]
                joined = all if isinstance(op, ast.And) else any
                return (lambda values: joined(part(values) for part in parts)), "condition"
            case ast.Compare(left=left, ops=ops, comparators=others) if all(type(op) in _COMPARISONS for op in ops):
                return self._comparison([left, *others], ops, inside), "condition"
            case ast.IfExp(test=test, body=body, orelse=orelse):
                condition = self._operand(test, inside, "condition", "if")
                then, otherwise = (self._operand(side, inside, "number", "if", True) for side in (body, orelse))
                return (lambda values: then(values) if condition(values) else otherwise(values)), "number"
            case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]):
                return self._call(name, arguments, inside)
            case _:
                raise _not_allowed(node)

    def _operand(self, node: ast.expr, depth: int, kind: Kind, user: str, words: bool = False) -> Evaluator:
        evaluator, actual = self.compile(node, depth)
        if actual != kind:
            raise ExpressionError(f"`{ast.unparse(node)}` is a {actual}, but {user} needs a {kind}")
        if words or kind != "number" or not isinstance(node, ast.Name | ast.Constant | ast.IfExp):
            return evaluator
        return lambda values: _plain_number(evaluator(values))

    def _parameter(self, name: str) -> Evaluator:
        if name in self.named:
            self.used |= self.named[name].names
            self.parts_of_named += self.named[name].parts
            return self.named[name]
        if name not in self.parameters:
            if name in FUNCTIONS:
                raise ExpressionError(f"{name!r} is a function", f"call it, as in `{name}(...)`")
            parameters = listed([*self.parameters, *self.named]) or "none"
            hint = did_you_mean(name, [*self.parameters, *self.named, *FUNCTIONS])
            raise ExpressionError(f"unknown name {name!r}; the parameters here are: {parameters}", hint)
        self.used.add(name)
        return operator.itemgetter(name)

    def _comparison(self, sides: list[ast.expr], ops: list[ast.cmpop], depth: int) -> Evaluator:
        words = all(isinstance(op, ast.Eq | ast.NotEq) for op in ops)
        numbers = [self._operand(side, depth, "number", "a comparison", words) for side in sides]
        signs = [_COMPARISONS[type(op)] for op in ops]
        if len(signs) == 1:
            sign, one, two = signs[0], numbers[0], numbers[1]
            return lambda values: sign(_not_nan(one(values)), _not_nan(two(values)))
        steps = list(zip(signs, numbers[1:], strict=True))

        def chained(values: Values) -> bool:
            left = _not_nan(numbers[0](values))
            for sign, number in steps:
                right = _not_nan(number(values))
                if not sign(left, right):
                    return False
                left = right
            return True

        return chained

    def _call(self, name: str, nodes: list[ast.expr], depth: int) -> tuple[Evaluator, Kind]:
        function = FUNCTIONS.get(name)
        if function is None:
            if name in self.parameters:
                raise ExpressionError(f"{name!r} is a parameter, not a function", f"write `{name} * (...)` to multiply")
            what = f"unknown function {name!r}; the functions are: {', '.join(FUNCTIONS)}"
            raise ExpressionError(what, did_you_mean(name, FUNCTIONS))
        if not function.least <= len(nodes) <= function.most:
            takes = str(function.least) if function.least == function.most else f"{function.least} to {function.most}"
            raise ExpressionError(f"{name} takes {takes} arguments, not {len(nodes)}")
        arguments = [self._operand(node, depth, "number", name) for node in nodes]
        call = function.call
        if len(arguments) == 1:
            only = arguments[0]
            return (lambda values: call(only(values))), function.gives
        return (lambda values: call(*(argument(values) for argument in arguments))), function.gives


def _constant(number: int | float) -> Evaluator:
    too_large = number.bit_length() > MOST_BITS if isinstance(number, int) else not math.isfinite(number)
    if too_large:
        raise ExpressionError("a number is too large")
    return lambda _: number


def _plain_number(value: Value) -> Value:
    if isinstance(value, Category):  # its number means nothing
        raise ValueError(f"{value} is a word: it can be compared by == and !=")
    return value


def _not_nan(number: Value) -> Value:
    if number != number:  # comparing with NaN would be silently false
        raise ValueError("the result is not a number")
    return number


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
