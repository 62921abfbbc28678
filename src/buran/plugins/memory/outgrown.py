"""Shares of accesses that miss a cache: functions that rise from 0 to 1 where a working set outgrows it."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from buran.files import JsonObject
from buran.modeling.functions.powers import Array, BasisFunction, Lead, Style


@dataclass(frozen=True)
class Outgrown(BasisFunction):
    """0 up to `first`, 1 from `last` on, and linear in the logarithm of x between.

    Attributes
    ----------
    first, last
        Such as distances in cache lines at which the first accesses miss, and all.
    """

    first: float
    last: float
    family: ClassVar[str] = "outgrown"

    def evaluate(self, x: Array) -> Array:
        """Return the share at `x`, in its shape; 0 where `x` is not positive."""
        inside = np.log2(np.maximum(x, self.first) / self.first) / np.log2(self.last / self.first)
        return np.asarray(np.minimum(inside, 1.0))

    @property
    def lead(self) -> Lead:
        """None: it levels off."""
        return Fraction(0), 0

    @property
    def begins(self) -> bool:
        """Whether it says no more than where a term begins: so it does."""
        return True

    def written(self, name: str, style: Style) -> str:
        """Write it; as text ``[n^3 > 2e+04]`` with the middle of the rise, which is not written as gradual."""
        if style == "python":
            share = f"log2({name} / {self.first!r}) / {float(np.log2(self.last / self.first))!r}"
            return f"((abs({share}) - abs({share} - 1) + 1) / 2)"
        middle = float(np.sqrt(self.first * self.last))
        bare = name[1:-1] if name.startswith("(") else name
        return f"[{bare} > {middle:.3g}]"

    def to_json(self) -> dict[str, Any]:
        """Return both numbers."""
        return {"first": self.first, "last": self.last}


@dataclass(frozen=True)
class OutgrownCaches:
    """The family; its functions follow from distances, so none competes."""

    name: str = "outgrown"

    def read(self, data: JsonObject) -> BasisFunction:
        """Read both numbers."""
        return Outgrown(float(data["first"]), float(data["last"]))


OUTGROWN = OutgrownCaches()
