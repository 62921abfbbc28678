"""Evolved programs: expressions in prefix order, and the four cases in which they correct a model (Eq. 1 to 4)."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
import sympy
from pydantic import BeforeValidator

from buran.modeling.correction.base import BaseModel
from buran.modeling.correction.formula import Array, exact

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

    Raises
    ------
    ValueError
        The tokens are no whole expression.
    """

    tokens: tuple[str | float, ...]

    def __post_init__(self) -> None:
        # each terminal is one operand, a binary function needs one more, and the last token none
        missing = np.cumsum([1, *(0 if token in UNARY else 1 if token in BINARY else -1 for token in self.tokens)])
        if missing[-1] != 0 or not all(missing[:-1]):
            raise ValueError("a program ends too early, or goes on after its end")

    @property
    def terminals(self) -> set[str]:
        """Names in it."""
        return {token for token in self.tokens if isinstance(token, str) and token not in FUNCTIONS}

    def evaluate(self, values: Mapping[str, Array | float]) -> Array:
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


_OPERATORS: Mapping[str, Callable[..., Any]] = {
    "+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide, "^": np.power, "log": np.log, "exp": np.exp,
}  # fmt: skip


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
    error: Annotated[float, BeforeValidator(lambda error: math.inf if error is None else error)]

    def evaluate(self, base: BaseModel, points: Array) -> Array:
        """Return values at points (point, variable); they may be negative or not finite."""
        base_values = base.evaluate(np.array(self.theta), points)
        values = {name: points[:, i] for i, name in enumerate(base.variables)}
        term = self.program.evaluate({**values, BASE: base_values})
        out = np.broadcast_to(term, base_values.shape)
        return np.asarray(out if self.case in (1, 3) else base_values + out)

    def expression(self, base: BaseModel) -> sympy.Expr:
        """Return it in sympy's terms, of the variables."""
        theta = {base.symbols[name]: exact(value) for name, value in zip(base.parameters, self.theta, strict=True)}
        plain = base.total.subs(theta)
        terminals = {BASE: plain} | {name: base.symbols[name] for name in base.variables}
        functions = {**_ARITHMETIC, "log": sympy.log, "exp": sympy.exp}
        term = self.program.fold(
            lambda token: exact(token) if isinstance(token, float) else terminals[token],
            lambda name, *operands: functions[name](*operands),
        )
        return term if self.case in (1, 3) else plain + term


_ARITHMETIC: Mapping[str, Callable[..., Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "^": operator.pow,
}  # fmt: skip
