"""Hypothesis spaces: which functions of a parameter a factor may be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, cached_property
from itertools import product
from pathlib import Path

import numpy as np

from buran.errors import FormatError, UsageError
from buran.exponents import Exponents, read_exponents
from buran.modeling.pmnf.powers import Array, BasisFunction, Lead, PowerLog

_POWERS = "0 1/4 1/3 1/2 2/3 3/4 4/5 1 5/4 4/3 3/2 5/3 7/4 2 9/4 7/3 5/2 8/3 11/4 3"
_LOGS = (0, 1, 2)
_LOG_OVERCOME = Fraction(2, 3)
_SHARES = PowerLog(Fraction(-1))


@dataclass(frozen=True)
class HypothesisSpace:
    """Exponent pairs (power, log power); negated powers compete as well, for values that fall or level off.

    Attributes
    ----------
    pairs
        Without (0, 0), which is the absence of the factor.
    least
        Values of a parameter from which on exponents compete; with two, those of the other parameters tell them.
    of_few
        How what rises with a parameter does so if that has fewer values.
    """

    pairs: tuple[Exponents, ...]
    least: int = 3
    of_few: Exponents = (Fraction(1), 0)

    def __post_init__(self) -> None:
        if not self.pairs:
            raise UsageError("the hypothesis space is empty", hint="give at least one pair of exponents")
        if (Fraction(0), 0) in self.pairs:
            raise UsageError("(0, 0) is no term", why="every hypothesis has a constant anyway")
        if len(set(self.pairs)) != len(self.pairs):
            power, log = next(pair for pair in self.pairs if self.pairs.count(pair) > 1)
            raise UsageError(
                "a term stands twice in the hypothesis space", why=f"{power} {log}", hint="leave one of them out"
            )

    @cached_property
    def with_negatives(self) -> tuple[Exponents, ...]:
        """The pairs, and those of them with a power also with the power negated.

        A logarithm beside a negative power makes a term that first rises and then falls. Only those that fall
        from 4.5 on are taken, the logarithm itself beside powers of -2/3 and below.
        """
        negated = tuple((-i, j) for i, j in self.pairs if i > 0 and (j == 0 or (j == 1 and i >= _LOG_OVERCOME)))
        pairs = set(self.pairs)
        return self.pairs + tuple(pair for pair in negated if pair not in pairs)

    def up_to(self, lead: Lead) -> HypothesisSpace:
        """Return the space without what grows faster than `lead` (power, power of the logarithm) and than a line."""
        most = max(lead, (Fraction(1), 0))
        return replace(self, pairs=tuple(pair for pair in self.pairs if pair <= most))

    @cached_property
    def _powers(self) -> tuple[PowerLog, ...]:
        return tuple(PowerLog(*pair) for pair in self.with_negatives)

    def candidates(self, x: Array) -> tuple[BasisFunction, ...]:
        """Return the functions that are defined and monotonic on the values `x` of a parameter.

        Fewer than `least` values distinguish no exponents: they allow `of_few`, a straight line by default, and what
        falls as equal shares of work do; a falling line would end below zero. A single value allows no term.

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
        if values == 1:
            return ()
        if values < self.least:
            rising = tuple(f for f in (PowerLog(*self.of_few),) if f.is_defined(float(x.min())))
            return rising if x.min() == 0 else (*rising, _SHARES)
        lowest = float(x.min())
        return tuple(function for function in self._powers if function.is_defined(lowest))


@cache
def full_space() -> HypothesisSpace:
    """Return the product of both sets of the noise-resilient priors paper (Eq. 1): 59 pairs."""
    pairs = product((Fraction(text) for text in _POWERS.split()), _LOGS)
    return HypothesisSpace(tuple(pair for pair in pairs if pair != (Fraction(0), 0)))


Spaces = HypothesisSpace | Sequence[HypothesisSpace]
"""One space for all parameters, or one for each of them."""


def space_of(spaces: Spaces, parameter: int) -> HypothesisSpace:
    """Return the space of a parameter."""
    return spaces if isinstance(spaces, HypothesisSpace) else spaces[parameter]


def full_spaces(parameters: Sequence[str], ranks: str | None) -> tuple[HypothesisSpace, ...]:
    """Return the full space for each parameter; two numbers of ranks tell no more than the depth of a tree.

    What a single rank does without, such as communication, would grow along a straight line as if all sent to all.
    """
    of_ranks = replace(full_space(), of_few=(Fraction(0), 1))
    return tuple(of_ranks if name == ranks else full_space() for name in parameters)


def is_full(space: HypothesisSpace) -> bool:
    """Tell whether a space has the terms of the full one, and no others."""
    return space.pairs == full_space().pairs


def wider_space(lines: Sequence[str], space: HypothesisSpace | None = None) -> HypothesisSpace:
    """Return a space, the full one by default, with the terms of `lines` as well; raises as `read_exponents` does."""
    space = space or full_space()
    further = dict.fromkeys(pair for line in lines for pair in read_exponents(line))
    return replace(space, pairs=(*space.pairs, *(pair for pair in further if pair not in space.pairs)))


def read_space(path: Path) -> HypothesisSpace:
    """Read a space of one's own: on each line a power and one or more powers of the logarithm.

    ``1/2 0 1`` stands for the square root, alone and with a logarithm; ``#`` begins a comment.

    Raises
    ------
    FormatError
        If the file cannot be read, or a line is no such one.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise FormatError("the hypothesis space cannot be read", where=path, why=str(error)) from error
    pairs: list[Exponents] = []
    for number, line in enumerate(text.splitlines(), start=1):
        exponents = line.split("#")[0].strip()
        try:
            pairs += read_exponents(exponents) if exponents else ()
        except UsageError as error:
            raise FormatError(error.what, where=f"{path}:{number}", why=error.why, hint=error.hint) from error
    try:
        return HypothesisSpace(tuple(pairs))
    except UsageError as error:
        raise FormatError(error.what, where=path, why=error.why, hint=error.hint) from error
