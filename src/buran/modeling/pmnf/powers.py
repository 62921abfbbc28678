"""Functions of one parameter that terms are products of: powers and logarithms, and further families."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from buran.errors import FormatError, UsageError
from buran.extensions import ExtensionPoint
from buran.files import JsonObject

Array = NDArray[np.float64]
Lead = tuple[Fraction, int]
Style = Literal["text", "latex", "python"]
NO_GROWTH: Lead = (Fraction(0), 0)
PRODUCT: Mapping[Style, str] = {"text": " * ", "latex": r" \cdot ", "python": " * "}
"""What stands between factors."""


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
    {"powers": "buran.modeling.pmnf.powers:POWERS"},
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
        power, log = self.exponent, self.log_exponent
        parts = [name if power == 1 else _POWER[style].format(x=name, e=power)] if power else []
        if style == "text" and power > 1 and power.denominator == 1:
            parts = [f"{name}^{power}"]
        if log:
            parts.append((_LOG if log == 1 else _LOG_POWER)[style].format(x=name, e=log))
        return PRODUCT[style].join(parts)

    def to_json(self) -> dict[str, Any]:
        """Return the exponents, as text such as ``"4/3"``, so that none is rounded."""
        return {"exponent": str(self.exponent), "log_exponent": self.log_exponent}


_POWER: Mapping[Style, str] = {"text": "{x}^({e})", "latex": "{x}^{{{e}}}", "python": "{x}**({e})"}
_LOG: Mapping[Style, str] = {"text": "log2({x})", "latex": r"\log_2({x})", "python": "log2({x})"}
_LOG_POWER: Mapping[Style, str] = {
    "text": "log2({x})^{e}", "latex": r"\log_2^{{{e}}}({x})", "python": "log2({x})**{e}",
}  # fmt: skip


@dataclass(frozen=True)
class Powers:
    """The family of powers and logarithms."""

    name: str = "powers"

    def read(self, data: JsonObject) -> BasisFunction:
        """Read exponents."""
        return PowerLog(Fraction(data["exponent"]), int(data["log_exponent"]))


POWERS = Powers()
