"""How far values may lie off a model by chance, from repetitions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from buran.modeling.numerics.tuning import NOISE, WORTH
from buran.modeling.pmnf.repetitions import Repetition, over_repetitions
from buran.modeling.pmnf.terms import Array


@dataclass(frozen=True, eq=False)
class PointNoise:
    """Noise of values that repetitions became.

    Attributes
    ----------
    deviation
        Shape (call path, point): relative standard deviation, `NOISE` included.
    degrees
        Shape (call path,): degrees of freedom of the repetitions behind it.
    """

    deviation: Array
    degrees: Array

    @classmethod
    def of(cls, repetitions: Array, repetition: Repetition) -> PointNoise:
        """Estimate it, one relative noise of a run for all points of a call path.

        Parameters
        ----------
        repetitions
            Shape (call path, point, repetition); NaN where there is none.
        repetition
            How they become one value; what minima and maxima are off by is taken as that of means.
        """
        present = np.isfinite(repetitions)
        number = present.sum(axis=2)
        mean = np.nan_to_num(over_repetitions(repetitions, "mean"))
        safe = np.where(mean > 0, mean, 1.0)[..., None]
        gaps = np.where(present & (mean > 0)[..., None], np.nan_to_num(repetitions) / safe - 1, 0.0)
        degrees = np.maximum(number - 1, 0).sum(axis=1).astype(np.float64)
        run = ((gaps**2).sum(axis=(1, 2)) + WORTH * NOISE**2) / (degrees + WORTH)
        wider = np.where((number >= 3) & (repetition == "median"), np.pi / 2, 1.0)  # of the variance of a median
        variance = run[:, None] * wider / np.maximum(number, 1) + NOISE**2
        return cls(np.sqrt(variance), degrees)

    def of_rows(self, rows: list[int]) -> PointNoise:
        """Return that of some call paths."""
        return PointNoise(self.deviation[rows], self.degrees[rows])

    @property
    def worth(self) -> Array:
        """Shape (call path, point): weights, 1 for the surest points."""
        return np.asarray(self.deviation.min(axis=1, keepdims=True) / self.deviation)
