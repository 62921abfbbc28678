"""Complexities as text: ``n^3 + 2 * n * log2(p)^2``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction
from typing import NoReturn

from buran.campaign.mistakes import did_you_mean
from buran.errors import UsageError
from buran.modeling.functions.terms import ModelFunction, added, multiplied, power

_TOKEN = re.compile(r"\s*(?:(\d+(?:\.\d+)?(?:/\d+)?)|([A-Za-z_]\w*)|(.))")
_MOST_POWER = 10
_GRAMMAR = (
    "a sum of products of numbers, parameters and log2(parameter), each with a power: n^3 + 2 * n^(1/2) * log2(p)^2"
)


def parse_complexity(text: str, parameters: Sequence[str], where: str = "") -> ModelFunction:
    """Read a complexity.

    Raises
    ------
    UsageError
        If it is none; with the place.
    """
    reader = _Reader(str(text), parameters, where)
    function = reader.sum()
    if reader.kind != "end":
        reader.fail(f"{reader.value!r} does not fit there")
    return function


class _Reader:
    """Reads a complexity from left to right."""

    def __init__(self, text: str, parameters: Sequence[str], where: str) -> None:
        self.text, self.parameters, self.where = text, parameters, where
        self.at = 0
        self.kind, self.value = "", ""
        self.next()

    def fail(self, why: str) -> NoReturn:
        raise UsageError(f"{self.text!r} is no complexity", where=self.where or None, why=why, hint=_GRAMMAR)

    def next(self) -> None:
        found = _TOKEN.match(self.text, self.at)
        if found is None or not found[0].strip():
            self.kind, self.value = "end", ""
            return
        self.at = found.end()
        kinds = ("number", "name", "sign")
        self.kind, self.value = next((kind, part) for kind, part in zip(kinds, found.groups(), strict=True) if part)

    def expect(self, sign: str) -> None:
        if self.value != sign:
            self.fail(f"{sign!r} is missing" + (f" before {self.value!r}" if self.value else " at the end"))
        self.next()

    def sum(self) -> ModelFunction:
        parts = [self.product()]
        while self.value == "+":
            self.next()
            parts.append(self.product())
        return added(parts)

    def product(self) -> ModelFunction:
        out = self.factor()
        while self.value == "*":
            self.next()
            out = multiplied(out, self.factor())
        return out

    def factor(self) -> ModelFunction:
        if self.kind == "number":
            number = float(Fraction(self.value))
            self.next()
            return ModelFunction(number)
        if self.kind != "name":
            self.fail(f"{self.value!r} does not fit there" if self.value else "it ends where a factor should stand")
        name = self.value
        self.next()
        if name == "log2":
            self.expect("(")
            column = self.parameter()
            self.expect(")")
            exponent = self.power()
            if exponent.denominator != 1 or exponent < 1:
                self.fail(f"powers of logarithms are whole numbers from 1, not {exponent}")
            return power(column, 0, int(exponent))
        if name not in self.parameters:
            self.unknown(name)
        return power(self.parameters.index(name), self.power())

    def parameter(self) -> int:
        if self.kind != "name" or self.value not in self.parameters:
            self.unknown(self.value)
        column = self.parameters.index(self.value)
        self.next()
        return column

    def unknown(self, name: str) -> NoReturn:
        known = f"{name!r} is no parameter; there are {', '.join(self.parameters)}"
        hint = did_you_mean(name, self.parameters)
        self.fail(known if hint is None else f"{known}; {hint}")

    def power(self) -> Fraction:
        if self.value != "^":
            return Fraction(1)
        self.next()
        inside = self.value == "("
        if inside:
            self.next()
        if self.kind != "number":
            self.fail(f"a power is a number such as 2 or (1/3), not {self.value!r}")
        try:
            exponent = Fraction(self.value)
        except (ValueError, ZeroDivisionError):
            self.fail(f"{self.value!r} is no power")
        self.next()
        if inside:
            self.expect(")")
        if not 0 < exponent <= _MOST_POWER:
            self.fail(f"powers lie above 0 and go to {_MOST_POWER}; this is {exponent}")
        return exponent
