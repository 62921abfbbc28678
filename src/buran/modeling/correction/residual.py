"""What a formula leaves over: a Gaussian process on logarithms, averaged over its hyperparameters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from pydantic import PlainValidator

from buran.modeling.correction.formula import Array
from buran.modeling.numerics.gaussian_process import average_process, squared_exponential


def _numbers(value: Any) -> Array:
    array = np.array(value, dtype=np.float64)
    if not np.isfinite(array).all():
        raise ValueError("a number is missing or not finite")
    return array


Numbers = Annotated[Array, PlainValidator(_numbers)]


@dataclass(frozen=True)
class Residual:
    """A fitted process; it falls back to 0 far from its points.

    Attributes
    ----------
    centre, spread
        Of the variables' logarithms, shape (variable,).
    points
        Scaled logarithms, shape (point, variable).
    lengths
        Shape (draw, variable).
    pull
        Shape (draw, point): weights of the points, the draws' shares included.
    """

    centre: Numbers
    spread: Numbers
    points: Numbers
    lengths: Numbers
    pull: Numbers

    def __post_init__(self) -> None:
        (points, size), draws = self.points.shape, len(self.pull)
        shapes = {"centre": (size,), "spread": (size,), "lengths": (draws, size), "pull": (draws, points)}
        if any(getattr(self, name).shape != shape for name, shape in shapes.items()):
            raise ValueError("the process has arrays of the wrong shape")

    def evaluate(self, points: Array) -> Array:
        """Return the mean at points (point, variable)."""
        at = (np.log(points) - self.centre) / self.spread
        out = np.zeros(len(at))
        for first in range(0, len(at), 2000):  # memory
            kernel = squared_exponential(at[first : first + 2000], self.points, self.lengths)
            out[first : first + 2000] = np.einsum("dqp,dp->q", kernel, self.pull)
        return out


def fit_residual(points: Array, values: Array) -> Residual:
    """Fit a process of mean 0, averaged over its hyperparameters.

    Parameters
    ----------
    points
        Shape (point, variable), positive.
    values
        Shape (point,), logarithms of ratios.
    """
    logs = np.log(points)
    centre, spread = logs.mean(axis=0), logs.std(axis=0)
    spread = np.where(spread > 0, spread, 1.0)
    at = (logs - centre) / spread
    return Residual(centre, spread, at, *average_process(at, values))
