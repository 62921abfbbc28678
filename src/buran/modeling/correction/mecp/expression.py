"""Evolved programs: expressions in prefix order, and the four cases in which they correct a model (Eq. 1 to 4)."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from buran.files import JsonObject, finite_numbers
from buran.modeling.correction.base import BaseModel
from buran.modeling.correction.formula import Array, Values

Case = Literal[1, 2, 3, 4]
CASES: tuple[Case, ...] = (1, 2, 3, 4)

BINARY = ("+", "-", "*", "/", "^")
UNARY = ("log", "exp")
FUNCTIONS = (*BINARY, *UNARY)
BASE = "@base"
"""The terminal that stands for the base model's value; no variable can be called so."""


@dataclass(frozen=True)
class PrefixProgram:
    """An expression.

    Attributes
    ----------
    tokens
        Functions (see `FUNCTIONS`), names of variables, `BASE` and numbers, in prefix order.
    """

    tokens: tuple[str | float, ...]

    def evaluate(self, values: Values) -> Array:
        """Return the value for arrays by name; what has no value is NaN or infinite, as operators are not protected."""
        with np.errstate(all="ignore"):
            value = self.fold(
                lambda token: np.float64(token) if isinstance(token, float) else values[token],
                lambda name, *operands: _OPERATORS[name](*operands),
            )
        return np.asarray(value, dtype=np.float64)

    def fold(self, leaf: Callable[[str | float], Any], apply: Callable[..., Any]) -> Any:
        """Combine from the leaves up: `leaf` of a terminal, `apply` of a function's name and its operands."""
        stack: list[Any] = []
        for token in reversed(self.tokens):
            if token in UNARY:
                stack.append(apply(token, stack.pop()))
            elif token in BINARY:
                stack.append(apply(token, stack.pop(), stack.pop()))
            else:
                stack.append(leaf(token))
        return stack.pop()

    def text(self, digits: int | None = None) -> str:
        """Write it as an expression, with all digits or some."""

        def applied(name: str, one: str, two: str | None = None) -> str:
            return f"{name}({one})" if two is None else f"({one} {'**' if name == '^' else name} {two})"

        text = self.fold(
            lambda token: _number(token, digits) if isinstance(token, float) else str(token).lstrip("@"), applied
        )
        return str(text)


_OPERATORS: Mapping[str, Callable[..., Any]] = {
    "+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide, "^": np.power, "log": np.log, "exp": np.exp,
}  # fmt: skip


def _number(value: float, digits: int | None) -> str:
    text = repr(value) if digits is None else f"{value:.{digits}g}"
    return f"({text})" if value < 0 else text


@dataclass(frozen=True)
class Evolved:
    """The best individual.

    Attributes
    ----------
    case
        1 and 3 (Eq. 1, 3): the program's value, with the base model as a terminal; 2 and 4 (Eq. 2, 4): the base model
        plus it. In 1 and 2 the base model's parameters are fixed.
    program, theta
        The term and the base model's parameters.
    error
        The objective on the training points; infinite if no individual had a value at all of them.
    """

    case: Case
    program: PrefixProgram
    theta: tuple[float, ...]
    error: float

    def evaluate(self, base: BaseModel, points: Array) -> Array:
        """Return values at points (point, variable); they may be negative or not finite."""
        base_values = base.evaluate(np.array(self.theta), points)
        values = {name: points[:, i] for i, name in enumerate(base.variables)}
        term = self.program.evaluate({**values, BASE: base_values})
        out = np.broadcast_to(term, base_values.shape)
        return np.asarray(out if self.case in (1, 3) else base_values + out)

    def expression(self, variables: Mapping[str, object], base: Any) -> Any:
        """Return it in sympy's terms: of the variables by name, and of the base model's expression."""
        import sympy

        functions = {**_ARITHMETIC, "log": sympy.log, "exp": sympy.exp}
        term = self.program.fold(
            lambda token: sympy.Float(token, 17) if isinstance(token, float) else variables.get(token, base),
            lambda name, *operands: functions[name](*operands),
        )
        return term if self.case in (1, 3) else base + term

    def to_json(self) -> dict[str, Any]:
        """Return plain data for `evolved_from`."""
        error = self.error if math.isfinite(self.error) else None
        return {"case": self.case, "tokens": list(self.program.tokens), "theta": list(self.theta), "error": error}


_ARITHMETIC: Mapping[str, Callable[..., Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "^": operator.pow,
}  # fmt: skip


def evolved_from(data: JsonObject, base: BaseModel) -> Evolved:
    """Rebuild what `Evolved.to_json` gives; raise `KeyError`, `TypeError` or `ValueError` for anything else."""
    if data["case"] not in CASES:
        raise ValueError(f"there is no case {data['case']!r}")
    return Evolved(
        data["case"],
        program_from(data["tokens"], list(base.variables)),
        finite_numbers(data["theta"], len(base.parameters)),
        math.inf if data["error"] is None else float(data["error"]),
    )


def program_from(tokens: Sequence[Any], names: Sequence[str]) -> PrefixProgram:
    """Check and return a program that was written to a file.

    Raises
    ------
    ValueError
        If it is none.
    """
    missing = 1
    for token in tokens:
        if missing == 0:
            raise ValueError("a program that goes on after its end")
        if isinstance(token, float | int) and not isinstance(token, bool):
            if not math.isfinite(token):
                raise ValueError("a number that is not finite")
            missing -= 1
        elif token in FUNCTIONS:
            missing += 1 if token in BINARY else 0
        elif token == BASE or token in names:
            missing -= 1
        else:
            raise ValueError(f"{token!r} is no part of a program")
    if missing:
        raise ValueError("a program that ends too early")
    return PrefixProgram(tuple(token if isinstance(token, str) else float(token) for token in tokens))
