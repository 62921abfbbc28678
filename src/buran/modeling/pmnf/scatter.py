"""Noise of modelled values, from their repetitions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from buran.modeling.pmnf.terms import Array


@dataclass(frozen=True, eq=False)
class Scatter:
    """Noise of the values of each call path, known from repetitions.

    Attributes
    ----------
    share
        Shape (call path,): standard deviation of a value times its weight; with relative weights its relative
        standard deviation.
    degrees
        Shape (call path,): degrees of freedom behind it; 0 where nothing was measured twice.
    """

    share: Array
    degrees: NDArray[np.int64]

    @classmethod
    def unknown(cls, calls: int) -> Scatter:
        """Return the scatter of call paths without repetitions."""
        return cls(np.zeros(calls), np.zeros(calls, dtype=np.int64))

    def of(self, calls: NDArray[np.int64] | NDArray[np.bool_] | slice) -> Scatter:
        """Return the part for some call paths."""
        return Scatter(self.share[calls], self.degrees[calls])
