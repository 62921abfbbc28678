"""Evolved programs: expressions in prefix order."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from buran.correct.forest import BASE, BINARY, FUNCTIONS
from buran.correct.formula import Array


@dataclass(frozen=True)
class Program:
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


def program_from(tokens: Sequence[Any], names: Sequence[str]) -> Program:
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
    return Program(tuple(token if isinstance(token, str) else float(token) for token in tokens))
