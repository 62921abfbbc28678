"""Hypothesis spaces: which functions of a parameter a factor may be."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, cached_property
from itertools import product
from pathlib import Path
from typing import Literal

import numpy as np

from buran.errors import FormatError, UsageError
from buran.model.basis import FAMILIES, Array, BasisFunction
from buran.model.powers import PowerLog

Exponents = tuple[Fraction, int]
Negative = Literal["never", "always"]

_POWERS = "0 1/4 1/3 1/2 2/3 3/4 4/5 1 5/4 4/3 3/2 5/3 7/4 2 9/4 7/3 5/2 8/3 11/4 3"
_LOGS = (0, 1, 2)
_MOST_POWER, _MOST_LOGS = 10, 5
_LOG_OVERCOME = Fraction(2, 3)
_LINE = (PowerLog(Fraction(1)),)
# The 42 pairs which Extra-P 4 offers, as "power:log exponents".
_EXTRAP = (
    "0:12 1/4:012 1/3:012 1/2:012 2/3:012 3/4:012 4/5:0 1:012 5/4:01 4/3:01 3/2:012 5/3:0 7/4:0 2:012 "
    "9/4:0 7/3:0 5/2:012 8/3:0 11/4:0 3:01"
)


@dataclass(frozen=True)
class HypothesisSpace:
    """Exponent pairs (power, log power) and further families of functions; the same for every parameter.

    Attributes
    ----------
    pairs
        Without (0, 0), which is the absence of the factor.
    negative
        Whether negated powers compete as well, for values that fall with a parameter (strong scaling) or
        level off.
    families
        Names of further families whose functions compete as well; see `buran.model.basis.FAMILIES`.
    """

    pairs: tuple[Exponents, ...]
    negative: Negative = "always"
    families: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.pairs:
            raise UsageError("the hypothesis space is empty", hint="give at least one pair of exponents")
        if (Fraction(0), 0) in self.pairs:
            raise UsageError("(0, 0) is no term", why="every hypothesis has a constant anyway")
        if len(set(self.pairs)) != len(self.pairs):
            raise UsageError("an exponent pair stands twice in the hypothesis space")

    @cached_property
    def with_negatives(self) -> tuple[Exponents, ...]:
        """The pairs, and those of them with a power also with the power negated.

        A logarithm beside a negative power makes a term that first rises and then falls. Only those that fall
        from 4.5 on are taken, the logarithm itself beside powers of -2/3 and below.
        """
        if self.negative == "never":
            return self.pairs
        negated = tuple((-i, j) for i, j in self.pairs if i > 0 and (j == 0 or (j == 1 and i >= _LOG_OVERCOME)))
        pairs = set(self.pairs)
        return self.pairs + tuple(pair for pair in negated if pair not in pairs)

    @cached_property
    def _powers(self) -> tuple[PowerLog, ...]:
        return tuple(PowerLog(*pair) for pair in self.with_negatives)

    def candidates(self, x: Array) -> tuple[BasisFunction, ...]:
        """Return the functions that are defined and monotonic on the values `x` of a parameter.

        Two values tell no exponents apart: they allow a straight line only. A single value allows no term.

        Raises
        ------
        UsageError
            If a value is negative or not finite.
        """
        if not np.isfinite(x).all() or (x < 0).any():
            raise UsageError(
                "parameter values must be finite and not negative",
                why=f"{x[~(np.isfinite(x) & (x >= 0))][0]:g} is no value for a power or a logarithm",
            )
        values = len(np.unique(x))
        if values <= 2:
            return _LINE[: values - 1]
        families = [FAMILIES.load(name) for name in self.families]
        every = (*self._powers, *(function for family in families for function in family.candidates(x)))
        lowest = float(x.min())
        return tuple(function for function in every if function.is_defined(lowest))


@cache
def full_space(negative: Negative = "always") -> HypothesisSpace:
    """Return the product of both sets of the noise-resilient priors paper (Eq. 1): 59 pairs."""
    pairs = product((Fraction(text) for text in _POWERS.split()), _LOGS)
    return HypothesisSpace(tuple(pair for pair in pairs if pair != (Fraction(0), 0)), negative)


@cache
def extrap_space(negative: Negative = "always") -> HypothesisSpace:
    """Return the 42 pairs that Extra-P 4 offers by default."""
    groups = (group.split(":") for group in _EXTRAP.split())
    return HypothesisSpace(tuple((Fraction(power), int(log)) for power, logs in groups for log in logs), negative)


SPACES = {"full": full_space, "extrap": extrap_space}


def named_space(name: str, negative: Negative = "always") -> HypothesisSpace:
    """Return the preset of that name; ``full+saturation`` is a preset with the functions of a family.

    Raises
    ------
    UsageError
        If there is none.
    """
    preset, *families = name.split("+")
    if preset not in SPACES:
        raise UsageError(f"no hypothesis space is called {preset!r}", hint=f"choose from {', '.join(SPACES)}")
    for family in families:
        FAMILIES.load(family)
    return replace(SPACES[preset](negative), families=tuple(families))


def read_space(path: Path, negative: Negative = "always") -> HypothesisSpace:
    """Read a space of one's own: on each line a power and one or more powers of the logarithm.

    ``1/2 0 1`` stands for the square root, alone and with a logarithm; ``#`` begins a comment. A line may also name a
    family of functions.

    Raises
    ------
    FormatError
        If the file cannot be read, or a line is none of these.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise FormatError("the hypothesis space cannot be read", where=path, why=str(error)) from error
    pairs: list[Exponents] = []
    families: list[str] = []
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.split("#")[0].split()
        if not words:
            continue
        if len(words) == 1 and words[0] in FAMILIES.names:
            families.append(words[0])
            continue
        try:
            power, logs = Fraction(words[0]), [int(word) for word in words[1:]]
        except (ValueError, ZeroDivisionError):
            logs = []
        if not logs or any(log < 0 or log > _MOST_LOGS for log in logs) or abs(power) > _MOST_POWER:
            raise FormatError(
                "no exponents",
                where=f"{path}:{number}",
                why=f"{line.strip()!r} is not a power and powers of the logarithm",
                hint=f"write lines such as: 1/2 0 1 2; or a family of functions: {', '.join(FAMILIES.names)}",
            )
        pairs += [(power, log) for log in logs]
    try:
        return HypothesisSpace(tuple(pairs), negative, tuple(families))
    except UsageError as error:
        raise FormatError(error.what, where=path, why=error.why, hint=error.hint) from error
