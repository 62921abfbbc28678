"""Evolved programs: expressions in prefix order."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from buran.correct.base import BaseModel
from buran.correct.formula import Array

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

    def evaluate(self, values: Mapping[str, Any]) -> Array:
        """Return the value for arrays by name; what has no value is NaN or infinite, as operators are not protected."""
        stack: list[Any] = []
        with np.errstate(all="ignore"):
            for token in reversed(self.tokens):
                if token == "log":
                    stack.append(np.log(stack.pop()))
                elif token == "exp":
                    stack.append(np.exp(stack.pop()))
                elif token in BINARY:
                    one, two = stack.pop(), stack.pop()
                    stack.append(_OPERATORS[str(token)](one, two))
                else:
                    stack.append(np.float64(token) if isinstance(token, float) else values[token])
        return np.asarray(stack.pop(), dtype=np.float64)

    def text(self, digits: int | None = None) -> str:
        """Write it as an expression, with all digits or some."""
        stack: list[str] = []
        for token in reversed(self.tokens):
            if token in ("log", "exp"):
                stack.append(f"{token}({stack.pop()})")
            elif token in BINARY:
                one, two = stack.pop(), stack.pop()
                stack.append(f"({one} {'**' if token == '^' else token} {two})")
            else:
                stack.append(_number(token, digits) if isinstance(token, float) else str(token).lstrip("@"))
        return stack.pop()


_OPERATORS = {"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide, "^": np.power}


def _number(value: float, digits: int | None) -> str:
    text = repr(value) if digits is None else f"{value:.{digits}g}"
    return f"({text})" if value < 0 else text


@dataclass(frozen=True)
class Evolved:
    """The best individual.

    Attributes
    ----------
    case
        1 and 3: the program's value, with the base model as a terminal; 2 and 4: the base model plus it.
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
        own = base.evaluate(np.array(self.theta), points)
        values = {name: points[:, i] for i, name in enumerate(base.variables)}
        found = self.program.evaluate({**values, BASE: own})
        out = np.broadcast_to(found, own.shape)
        return np.asarray(out if self.case in (1, 3) else own + out)


def program_from(tokens: Sequence[Any], names: Sequence[str]) -> PrefixProgram:
    """Check and return a program that was written to a file.

    Raises
    ------
    ValueError
        If it is none.
    """
    wanted = 1
    for token in tokens:
        if wanted == 0:
            raise ValueError("a program that goes on after its end")
        if isinstance(token, float | int) and not isinstance(token, bool):
            if not math.isfinite(token):
                raise ValueError("a number that is not finite")
            wanted -= 1
        elif token in FUNCTIONS:
            wanted += 1 if token in BINARY else 0
        elif token == BASE or token in names:
            wanted -= 1
        else:
            raise ValueError(f"{token!r} is no part of a program")
    if wanted:
        raise ValueError("a program that ends too early")
    return PrefixProgram(tuple(token if isinstance(token, str) else float(token) for token in tokens))
