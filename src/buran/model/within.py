"""Where a regime holds: the factor that is 1 between two values of a parameter, and 0 elsewhere."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from buran.model.basis import NO_GROWTH, PRODUCT, Array, BasisFunction, Lead, Style

_AT_LEAST: Mapping[Style, str] = {
    "text": "({x} >= {v})",
    "latex": r"[{x} \ge {v}]",
    "python": "(1 if {x} >= {v} else 0)",
}
_BELOW: Mapping[Style, str] = {"text": "({x} < {v})", "latex": "[{x} < {v}]", "python": "(1 if {x} < {v} else 0)"}


@dataclass(frozen=True)
class Within(BasisFunction):
    """1 where ``low <= x < high``, else 0 (Iverson's bracket).

    Attributes
    ----------
    low, high
        Values of the parameter; -inf and inf where it has no such end.
    """

    low: float = -math.inf
    high: float = math.inf
    family: ClassVar[str] = "regimes"

    def evaluate(self, x: Array) -> Array:
        """Return the values at `x`, in its shape."""
        return np.asarray((x >= self.low) & (x < self.high), dtype=np.float64)

    @property
    def lead(self) -> Lead:
        """None."""
        return NO_GROWTH

    @property
    def ends(self) -> bool:
        """Whether it is 0 from some value on."""
        return self.high < math.inf

    @property
    def begins(self) -> bool:
        """Whether it is 1 from some value on."""
        return not self.ends

    def times(self, other: BasisFunction) -> BasisFunction | None:
        """Return where both hold."""
        if not isinstance(other, Within):
            return None
        return Within(max(self.low, other.low), min(self.high, other.high))

    def written(self, name: str, style: Style) -> str:
        """Write it, as in ``(n >= 24)``; with all digits in Python."""
        ends = [(_AT_LEAST, self.low), (_BELOW, self.high)]
        number = repr if style == "python" else "{:.4g}".format
        parts = [forms[style].format(x=name, v=number(end)) for forms, end in ends if math.isfinite(end)]
        return PRODUCT[style].join(parts)

    def to_json(self) -> dict[str, Any]:
        """Return the ends that it has."""
        return {name: end for name, end in (("low", self.low), ("high", self.high)) if math.isfinite(end)}


@dataclass(frozen=True)
class Regimes:
    """The family of these factors; where a regime begins, the fit says."""

    name: str = "regimes"

    def candidates(self, x: Array) -> Sequence[BasisFunction]:
        """Return none: alone they are no growth."""
        return ()

    def read(self, data: Mapping[str, Any]) -> BasisFunction:
        """Read the ends."""
        return Within(float(data.get("low", -math.inf)), float(data.get("high", math.inf)))


REGIMES = Regimes()
