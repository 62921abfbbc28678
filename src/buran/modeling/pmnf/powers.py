"""Powers and logarithms: the functions of the performance model normal form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from buran.files import JsonObject
from buran.modeling.pmnf.basis import PRODUCT, Array, BasisFunction, Lead, Style

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
