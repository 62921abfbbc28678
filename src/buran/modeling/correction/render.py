"""A corrected model as text, LaTeX and Python, simplified by sympy."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

import jinja2
import numpy as np
import sympy

from buran.modeling.correction.base import BaseModel
from buran.modeling.correction.corrected import Corrected
from buran.modeling.correction.terms import TermModel
from buran.modeling.correction.tuning import FREEZE

Style = Literal["text", "latex", "python"]
DIGITS = 4
_MODULE = Path(__file__).with_name("corrected.py.j2")
_MOST_OPERATIONS = 40  # beyond it, simplifying takes minutes


def render(model: Corrected, style: Style = "text") -> str:
    """Write the model's formula.

    Of an average the model with the largest weight is written, and that it is one of several; as code all are. A
    Gaussian process has no formula: where one takes part, what it is added to is written, and that it is.

    Parameters
    ----------
    model
        The corrected model.
    style
        ``text`` and ``latex`` with 4 digits; ``python`` as functions with all digits, which freeze the correction
        as `Corrected.predict` does.
    """
    plain = _simplified(_base(model.base, model.theta))
    if style == "python":
        return _python(model, plain)
    whole = _simplified(_whole(model))

    with_digits = [_rounded(expression) for expression in (plain, whole)]
    show = sympy.latex if style == "latex" else _text
    name = r"t" if style == "latex" else "time"
    lines = [f"{name} = {show(with_digits[1])}"]
    if model.method != "base":
        original = r"t_{\mathrm{base}}" if style == "latex" else "base"
        lines.append(f"{original} = {show(with_digits[0])}")
    lines += [rf"\text{{{note}}}" if style == "latex" else note for note in _remarks(model)]
    return "\n".join(lines)


def _remarks(model: Corrected) -> list[str]:
    """Say what the formula does not hold."""
    out = []
    if model.terms is not None and len(model.terms.models) > 1:
        out.append(
            f"this is one of {len(model.terms.models)} formulas whose corrections are averaged, less where they "
            f"disagree, the one with the largest weight ({100 * model.terms.weights[0]:.0f} percent); as Python or "
            "JSON all are written"
        )
    if model.process is not None:
        share = "half of its logarithm" if model.terms is not None else "its logarithm"
        out.append(f"a Gaussian process adds to {share} what the measurements leave over; it is no formula")
    return out


def _base(base: BaseModel, theta: tuple[float, ...]) -> Any:
    """Return the base model as a sympy expression of its variables."""
    return _symbols(base, theta)[""]


def _variables(base: BaseModel, clamped: str = "") -> dict[str, Any]:
    return {name: sympy.Symbol(name + clamped, positive=True) for name in base.variables}


def _symbols(
    base: BaseModel, theta: tuple[float, ...], changed: Mapping[str, Callable[[Any], Any]] | None = None
) -> dict[str, Any]:
    symbols = _variables(base)
    symbols |= {name: _exact(value) for name, value in zip(base.parameters, theta, strict=True)}
    symbols |= {name: _exact(constant.value) for name, constant in base.constants.items()}
    for name, formula in base.formulas.items():
        symbols[name] = _to_sympy(formula.tree, symbols)
        if changed and name in changed:
            symbols[name] = changed[name](symbols[name])
    return symbols


def _exact(value: float) -> Any:
    return sympy.Integer(int(value)) if float(value).is_integer() and abs(value) < 1e9 else sympy.Float(value, 17)


def _whole(model: Corrected) -> Any:
    """Return the corrected model without its process; of an average the model with the largest weight."""
    if model.evolved is not None:
        return model.evolved.expression(_variables(model.base), _base(model.base, model.evolved.theta))
    if model.terms is None:
        return _base(model.base, model.theta)
    return _with_terms(model.base, model.terms.best)


def _with_terms(base: BaseModel, model: TermModel, clamped: str = "") -> Any:
    """Return the base model with its terms; see `BaseModel.parts` for the carriers.

    Terms grow with the variables, or with those whose names end in `clamped`.
    """
    names, variables = base.carrier_names, list(base.variables)
    base_symbols = _symbols(base, model.theta)
    total = base_symbols[""]
    out = total
    for term in model.terms:
        symbols = _variables(base, clamped)
        growth = _to_sympy(ast.parse(term.growth.text(variables), mode="eval").body, symbols)
        name = names[term.carrier]
        if name in base.components:
            carrier = _carrier(base, model, name, total)
        elif term.carrier < len(names) - 1:
            carrier = total
        else:
            carrier = _factor(base, model) if base.has_outer_factor else 1
        out = out + term.coefficient * carrier * growth
    return out


def _carrier(base: BaseModel, model: TermModel, name: str, total: Any) -> Any:
    """Return what a component adds to the whole."""
    if base.has_outer_factor:
        return _factor(base, model) * _symbols(base, model.theta)[name]
    return _symbols(base, model.theta, {name: lambda value: 2 * value})[""] - total


def _factor(base: BaseModel, model: TermModel) -> Any:
    """Return the factor in front of the components' sum."""
    name = next(iter(base.components))
    symbol = sympy.Dummy(positive=True)
    return sympy.diff(_symbols(base, model.theta, {name: lambda _: symbol})[""], symbol)


def _to_sympy(node: ast.expr, symbols: Mapping[str, sympy.Basic]) -> Any:
    """Translate a node that the whitelist of expressions allows."""

    def inner(child: ast.expr) -> Any:
        return _to_sympy(child, symbols)

    match node:
        case ast.Constant(value=int() as value):
            return sympy.Integer(value)
        case ast.Constant(value=value):
            return sympy.Float(value, 17)
        case ast.Name(id=name):
            return symbols[name]
        case ast.UnaryOp(op=op, operand=operand):
            value = inner(operand)
            return sympy.Not(value) if isinstance(op, ast.Not) else -value if isinstance(op, ast.USub) else value
        case ast.BinOp(left=left, op=op, right=right):
            return _OPERATORS[type(op)](inner(left), inner(right))
        case ast.BoolOp(op=op, values=values):
            return (sympy.And if isinstance(op, ast.And) else sympy.Or)(*map(inner, values))
        case ast.Compare(left=left, ops=ops, comparators=others):
            sides = [inner(side) for side in (left, *others)]
            return sympy.And(*(_RELATIONS[type(op)](sides[i], sides[i + 1]) for i, op in enumerate(ops)))
        case ast.IfExp(test=test, body=body, orelse=orelse):
            return sympy.Piecewise((inner(body), inner(test)), (inner(orelse), True))
        case ast.Call(func=ast.Name(id=name), args=arguments):
            return _call(name, [inner(argument) for argument in arguments])
        case _:
            raise AssertionError(f"a node that the whitelist does not allow: {ast.dump(node)}")


_OPERATORS: Mapping[type[ast.operator], Any] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: lambda a, b: sympy.floor(a / b),
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}
_RELATIONS: Mapping[type[ast.cmpop], Any] = {
    ast.Eq: sympy.Eq,
    ast.NotEq: sympy.Ne,
    ast.Lt: sympy.Lt,
    ast.LtE: sympy.Le,
    ast.Gt: sympy.Gt,
    ast.GtE: sympy.Ge,
}


def _call(name: str, arguments: list[Any]) -> Any:
    direct = {"abs": "Abs", "ceil": "ceiling", "max": "Max", "min": "Min", "floor": "floor", "exp": "exp", "log": "log"}
    if name in direct:
        return getattr(sympy, direct[name])(*arguments)
    if name == "log2":
        return sympy.log(arguments[0]) / sympy.log(2)
    if name in ("sqrt", "cbrt"):
        return getattr(sympy, name)(*arguments)
    if name == "divides":
        return sympy.Eq(arguments[1] % arguments[0], 0)
    root = {"is_square": lambda x: sympy.sqrt(x), "is_cube": lambda x: sympy.cbrt(x)}.get(name)
    value = root(arguments[0]) if root else sympy.log(arguments[0]) / sympy.log(2)
    return sympy.Eq(sympy.floor(value), value)


def _simplified(expression: Any) -> Any:
    """Return the shortest form found; sympy must not change a value, which is tried."""
    if not isinstance(expression, sympy.Basic) or expression.count_ops() > _MOST_OPERATIONS:
        return sympy.sympify(expression)
    shorter = sympy.simplify(expression)
    return shorter if shorter.count_ops() < expression.count_ops() and _equal(expression, shorter) else expression


def _equal(one: Any, other: Any) -> bool:
    names = sorted(one.free_symbols | other.free_symbols, key=str)
    random = np.random.default_rng(0)
    for _ in range(5):
        at = dict(zip(names, random.uniform(2, 50, len(names)).tolist(), strict=True))
        first, second = (sympy.N(expression.subs(at)) for expression in (one, other))
        if not (first.is_number and second.is_number and abs(first - second) <= 1e-9 * abs(first)):
            return False
    return True


def _rounded(expression: Any) -> Any:
    numbers = {number: sympy.Float(number, DIGITS) for number in expression.atoms(sympy.Float)}
    return expression.xreplace(numbers)


def _text(expression: Any) -> str:
    return str(sympy.sstr(expression, full_prec=False)).replace("log(", "ln(")


def _python(model: Corrected, plain: Any) -> str:
    def code(expression: Any) -> str:
        return str(sympy.pycode(expression, fully_qualified_modules=True))

    variables = list(model.base.variables)
    suffix = "_held"
    while any(name + suffix in variables for name in variables):
        suffix += "_"
    names, clamped = ", ".join(variables), ", ".join(name + suffix for name in variables)
    terms = () if model.terms is None else model.terms.models
    parts = (
        (model.terms, f"corrected({names}, {clamped})"),
        (model.evolved, f"math.log(corrected({clamped}) / base({clamped}))"),
        (model.process, f"rest({clamped})"),
    )
    corrections = [text for part, text in parts if part is not None]
    mean = " + ".join(corrections) or "0.0"
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(_MODULE.read_text(encoding="utf-8")).render(
        names=names,
        clamped=clamped,
        suffix=suffix,
        base=code(plain),
        corrected=[code(_with_terms(model.base, term_model, suffix)) for term_model in terms],
        weights=None if model.terms is None else list(model.terms.weights),
        evolved=None if model.evolved is None else code(_simplified(_whole(model))),
        process=model.process,
        as_published=model.preset == "published",
        bounds=[
            (name, low / FREEZE, high * FREEZE)
            for name, low, high in zip(variables, model.low, model.high, strict=True)
        ],
        mean=f"({mean}) / {len(corrections)}" if len(corrections) > 1 else mean,
    )
