"""Functions of one parameter that terms are products of, powers, logarithms and further families; spaces of them."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, cached_property
from itertools import product
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from buran.errors import FormatError, UsageError
from buran.exponents import Exponents, read_exponents
from buran.extensions import ExtensionPoint
from buran.files import JsonObject

Array = NDArray[np.float64]
Lead = tuple[Fraction, int]
Style = Literal["text", "python"]
NO_GROWTH: Lead = (Fraction(0), 0)
PRODUCT = " * "  # between factors


class BasisFunction(ABC):
    """A function of one parameter, monotonic where it is defined; immutable, with equality and a hash.

    A family of its own derives from this class and says what `abstractmethod` marks; the rest has a meaning that holds
    for any function.
    """

    family: ClassVar[str]
    """Name of its family, as in the entry points ``buran.terms``."""

    @abstractmethod
    def evaluate(self, x: Array) -> Array:
        """Return the values at `x`, in its shape."""

    @property
    @abstractmethod
    def lead(self) -> Lead:
        """Growth in the long run: the power of x, then the power of its logarithm; (0, 0) for what levels off."""

    @abstractmethod
    def written(self, name: str, style: Style) -> str:
        """Write the function of a parameter called `name` as a factor that needs no parentheses around it."""

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """Return what the family's `read` takes: plain texts and numbers by key."""

    @property
    def falls(self) -> bool:
        """Whether it falls with the parameter."""
        return self.lead < NO_GROWTH

    @property
    def begins(self) -> bool:
        """Whether it is 1 from some value on, and thus says no more than where a term begins."""
        return False

    @property
    def is_plain(self) -> bool:
        """Whether programs often lead to it, so that it costs a hypothesis less."""
        return False

    @property
    def power(self) -> Fraction | None:
        """Its exponent if it is a plain power, else None: only those have a reciprocal and a logarithm as terms."""
        return None

    def times(self, other: BasisFunction) -> BasisFunction | None:
        """Return the product with another function of the same parameter; None if it is none of the family."""
        return None

    def is_defined(self, lowest: float) -> bool:
        """Tell whether it is finite and monotonic from the value `lowest`, which is not negative, on."""
        return True

    @cached_property
    def order(self) -> tuple[Lead, str, str]:
        """Key that sorts functions by growth, whatever their families."""
        return self.lead, self.family, repr(self)


class TermFamily(Protocol):
    """Reads functions of one kind from models files."""

    @property
    def name(self) -> str:
        """Name of the entry point, and of the family in models files."""

    def read(self, data: JsonObject) -> BasisFunction:
        """Read what `BasisFunction.to_json` gave; KeyError, TypeError or ValueError where it is damaged."""


FAMILIES: ExtensionPoint[TermFamily] = ExtensionPoint(
    "term family",
    "buran.terms",
    TermFamily,
    {"powers": "buran.modeling.functions.powers:POWERS"},
)


def read_basis(data: JsonObject) -> BasisFunction:
    """Read a function from a factor of a models file; those that name no family are powers.

    Raises
    ------
    FormatError
        If its family is not installed.
    KeyError, TypeError, ValueError
        Where a key is missing or a value is not what it should be.
    """
    name = str(data.get("family", "powers"))
    try:
        family = FAMILIES.load(name)
    except UsageError as error:
        raise FormatError(f"the models have terms of a family {name!r}", why=error.why, hint=error.hint) from error
    return family.read(data)


# Nested loops give whole powers of every order up to their depth, searches and trees a logarithm, an even
# division of work a reciprocal.
_PLAIN = frozenset((Fraction(i), j) for i, j in ((-1, 0), (0, 1), (1, 0), (1, 1), (2, 0), (3, 0)))


@dataclass(frozen=True)
class PowerLog(BasisFunction):
    """``x^exponent * log2(x)^log_exponent``.

    Attributes
    ----------
    exponent
        Exact power of the parameter.
    log_exponent
        Power of its binary logarithm.
    """

    exponent: Fraction
    log_exponent: int = 0
    family: ClassVar[str] = "powers"

    def evaluate(self, x: Array) -> Array:
        """Return the values at `x`, in its shape."""
        power = self._power
        out = np.asarray(x**power if power else np.ones_like(x))
        return out * np.log2(x) ** self.log_exponent if self.log_exponent else out

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:  # that of a fraction takes long
        return hash((self.exponent, self.log_exponent))

    @cached_property
    def _power(self) -> float:
        return float(self.exponent)

    @property
    def lead(self) -> Lead:
        """Both exponents."""
        return self.exponent, self.log_exponent

    @cached_property
    def is_plain(self) -> bool:
        """Whether nested loops, searches, trees and an even division of work lead to these exponents."""
        return self.lead in _PLAIN

    @property
    def power(self) -> Fraction | None:
        """The exponent, without a logarithm."""
        return None if self.log_exponent else self.exponent

    def times(self, other: BasisFunction) -> BasisFunction | None:
        """Add the exponents."""
        if not isinstance(other, PowerLog):
            return None
        return PowerLog(self.exponent + other.exponent, self.log_exponent + other.log_exponent)

    def is_defined(self, lowest: float) -> bool:
        """Logarithms need values of 1 and more: below, their squares fall. Negative powers need positive values."""
        return lowest >= 1 or (self.log_exponent == 0 and (lowest > 0 or self.exponent >= 0))

    def written(self, name: str, style: Style) -> str:
        """Write it, as in ``n^3 * log2(n)``; without a power of 0 or 1."""
        power, log, sign = self.exponent, self.log_exponent, "^" if style == "text" else "**"
        bare = style == "text" and power > 1 and power.denominator == 1
        parts = [name if power == 1 else f"{name}{sign}{power}" if bare else f"{name}{sign}({power})"] if power else []
        if log:
            parts.append(f"log2({name})" if log == 1 else f"log2({name}){sign}{log}")
        return PRODUCT.join(parts)

    def to_json(self) -> dict[str, Any]:
        """Return the exponents, as text such as ``"4/3"``, so that none is rounded."""
        return {"exponent": str(self.exponent), "log_exponent": self.log_exponent}


@dataclass(frozen=True)
class Powers:
    """The family of powers and logarithms."""

    name: str = "powers"

    def read(self, data: JsonObject) -> BasisFunction:
        """Read exponents."""
        return PowerLog(Fraction(data["exponent"]), int(data["log_exponent"]))


POWERS = Powers()


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


def full_spaces(
    parameters: Sequence[str], ranks: str | None, steps: Collection[str] = ()
) -> tuple[HypothesisSpace, ...]:
    """Return the full space for each parameter; two numbers of ranks tell no more than the depth of a tree.

    What a single rank does without, such as communication, would grow along a straight line as if all sent to all.
    Steps repeat the same work: only a straight line of them competes.
    """
    of_ranks = replace(full_space(), of_few=(Fraction(0), 1))
    of_steps = replace(full_space(), least=sys.maxsize)
    return tuple(of_ranks if name == ranks else of_steps if name in steps else full_space() for name in parameters)


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
