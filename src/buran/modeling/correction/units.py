"""Units of base models: sums must be of one unit, arguments of functions plain numbers."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

import sympy

from buran.campaign.expressions import ExpressionError, compile_expression
from buran.errors import UsageError

if TYPE_CHECKING:
    from buran.modeling.correction.base import BaseModel

_PLAIN = ("abs", "ceil", "floor", "max", "min")  # keep the unit of their arguments
_ROOTS = {"sqrt": 2, "cbrt": 3}


class _Unknown:
    """Stands for a quantity whose unit the user did not state; it goes with every other."""


UNKNOWN = _Unknown()


def check_units(base: BaseModel) -> None:
    """Check all formulas of a base model; quantities without a unit go with everything.

    Raises
    ------
    UsageError
        If two parts of a sum have different units, an exponent or a function's argument has one, or the value's
        unit is not the one that was stated.
    """
    units: dict[str, Any] = {}
    for kind in (base.parameters, base.variables, base.constants):
        for name, quantity in kind.items():
            units[name] = parse_unit(quantity.unit, f"{base.name}, {name}")
    for name, formula in base.formulas.items():
        units[name] = _Checker(units, f"{base.name}, {name or 'expression'}").unit(formula.tree)
    unit, stated = units[""], parse_unit(base.unit, f"{base.name}, unit")
    if not _same(unit, stated):
        raise UsageError(
            "the units of the base model do not fit",
            where=f"{base.name}, expression",
            why=f"its value has the unit {_text(unit)}, stated is {_text(stated)}",
        )


def parse_unit(text: str, where: str) -> Any:
    """Return a unit such as ``s/word`` as a product of symbols; 1 for a plain number.

    Raises
    ------
    UsageError
        If it is not made of names, numbers, ``*``, ``/``, ``**`` and brackets.
    """
    if not text.strip():
        return UNKNOWN
    names = sorted({node.id for node in ast.walk(_tree(text, where)) if isinstance(node, ast.Name)})
    try:
        compile_expression(text, names, "number")
    except ExpressionError as error:
        raise UsageError(f"{text!r} is no unit", where=where, why=error.what, hint="as in s/word") from None
    symbols = {name: sympy.Symbol(name, positive=True) for name in names}

    def unit(node: ast.expr) -> Any:
        match node:
            case ast.Name(id=name):
                return symbols[name]
            case ast.Constant(value=1):
                return sympy.Integer(1)
            case ast.BinOp(left=left, op=ast.Mult(), right=right):
                return unit(left) * unit(right)
            case ast.BinOp(left=left, op=ast.Div(), right=right):
                return unit(left) / unit(right)
            case ast.BinOp(left=left, op=ast.Pow(), right=ast.Constant(value=int() as power)):
                return unit(left) ** power
            case _:
                raise UsageError(f"{text!r} is no unit", where=where, hint="as in s/word or m**2/s")

    return unit(_tree(text, where))


def _tree(text: str, where: str) -> ast.expr:
    try:
        return ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError):
        raise UsageError(f"{text!r} is no unit", where=where, hint="as in s/word") from None


class _Checker:
    """Works out the unit of a formula."""

    def __init__(self, units: dict[str, Any], where: str) -> None:
        self.units, self.where = units, where

    def unit(self, node: ast.expr) -> Any:
        """Return a node's unit."""
        match node:
            case ast.Constant():
                return self._plain()
            case ast.Name(id=name):
                return self.units[name]
            case ast.UnaryOp(operand=operand):
                return self.unit(operand)
            case ast.BinOp(left=left, op=ast.Mult() | ast.Div() as op, right=right):
                one, two = self.unit(left), self.unit(right)
                if one is UNKNOWN or two is UNKNOWN:
                    return UNKNOWN
                return one * two if isinstance(op, ast.Mult) else one / two
            case ast.BinOp(left=left, op=ast.Pow(), right=right):
                return self._power(left, right)
            case ast.BinOp(left=left, right=right):
                return self._joined(node, [left, right])
            case ast.IfExp(body=body, orelse=orelse):
                return self._joined(node, [body, orelse])
            case ast.Call(func=ast.Name(id=name), args=arguments) if name in _PLAIN:
                return self._joined(node, arguments)
            case ast.Call(func=ast.Name(id=name), args=[argument]) if name in _ROOTS:
                unit = self.unit(argument)
                return UNKNOWN if unit is UNKNOWN else unit ** sympy.Rational(1, _ROOTS[name])
            case ast.Call(func=ast.Name(id=name), args=arguments):
                for argument in arguments:
                    self._number(argument, f"the argument of {name}")
                return self._plain()
            case _:
                return self._plain()

    def _plain(self) -> Any:
        return sympy.Integer(1)

    def _power(self, left: ast.expr, right: ast.expr) -> Any:
        base = self.unit(left)
        self._number(right, "an exponent")
        if base is UNKNOWN or base == 1:
            return base
        try:
            exponent = ast.literal_eval(right)
        except ValueError:
            raise self._wrong(f"`{ast.unparse(left)}` has the unit {_text(base)} and a power that varies") from None
        return base ** sympy.nsimplify(exponent)

    def _number(self, node: ast.expr, what: str) -> None:
        unit = self.unit(node)
        if not _same(unit, self._plain()):
            raise self._wrong(f"{what}, `{ast.unparse(node)}`, has the unit {_text(unit)}")

    def _joined(self, node: ast.expr, parts: list[ast.expr]) -> Any:
        units = [(part, self.unit(part)) for part in parts if not _is_zero(part)]
        stated = [(part, unit) for part, unit in units if unit is not UNKNOWN]
        for part, unit in stated[1:]:
            if not _same(unit, stated[0][1]):
                first, one = stated[0]
                raise self._wrong(
                    f"in `{ast.unparse(node)}`, `{ast.unparse(first)}` has the unit {_text(one)} and "
                    f"`{ast.unparse(part)}` {_text(unit)}"
                )
        return stated[0][1] if stated else UNKNOWN

    def _wrong(self, why: str) -> UsageError:
        return UsageError("the units of the base model do not fit", where=self.where, why=why)


def _is_zero(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value == 0


def _same(one: Any, other: Any) -> bool:
    return one is UNKNOWN or other is UNKNOWN or bool((one / other).equals(1))


def _text(unit: Any) -> str:
    return "unknown" if unit is UNKNOWN else "1 (a plain number)" if unit == 1 else str(unit)
