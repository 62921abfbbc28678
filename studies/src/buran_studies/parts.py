"""What truths of evaluations are made of: how one factor of them depends on a parameter."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
_ROUNDING = 1e-9  # of logarithms of whole powers


class Part(Protocol):
    """How one factor of a truth depends on a parameter."""

    @property
    def parameter(self) -> int:
        """Column of the points."""

    def evaluate(self, points: Array) -> Array:
        """Return the values at points (..., parameter), without the last axis."""

    @property
    def power(self) -> float:
        """Power that leads for large values of the parameter."""


@dataclass(frozen=True)
class Powers:
    """A sum of powers with logarithms, each as (power, exponent of the logarithm)."""

    parameter: int
    exponents: tuple[tuple[Fraction | float, int], ...]

    def evaluate(self, points: Array) -> Array:
        """Return the values at points (..., parameter), without the last axis."""
        x = points[..., self.parameter]
        return np.asarray(sum(x ** float(power) * np.log2(x) ** log for power, log in self.exponents))

    @property
    def power(self) -> float:
        """The largest; logarithms are ignored."""
        return max(float(power) for power, _ in self.exponents)


@dataclass(frozen=True)
class Saturation:
    """What ends at a level: ``x / (x + scale)``, or ``1 - exp(-x / scale)`` if `exponential`."""

    parameter: int
    scale: float
    exponential: bool = False

    def evaluate(self, points: Array) -> Array:
        """Return the values at points (..., parameter), without the last axis."""
        x = points[..., self.parameter]
        return np.asarray(1 - np.exp(-x / self.scale) if self.exponential else x / (x + self.scale))

    @property
    def power(self) -> float:
        """None."""
        return 0.0


@dataclass(frozen=True)
class Knee:
    """One power below a value of the parameter and another one above it, without a jump."""

    parameter: int
    at: float
    below: float
    above: float

    def evaluate(self, points: Array) -> Array:
        """Return the values at points (..., parameter), without the last axis."""
        x = points[..., self.parameter]
        share = x / self.at
        return np.asarray(self.at**self.below * np.where(share < 1, share**self.below, share**self.above))

    @property
    def power(self) -> float:
        """The one above."""
        return self.above


@dataclass(frozen=True)
class TreeSteps:
    """Steps of a collective operation along a tree, ``ceil(log_radix(x))``, each as long as ``x^weight``."""

    parameter: int
    radix: int
    weight: float

    def evaluate(self, points: Array) -> Array:
        """Return the values at points (..., parameter), without the last axis."""
        x = points[..., self.parameter]
        return np.asarray(np.ceil(np.log(x) / math.log(self.radix) - _ROUNDING) * x**self.weight)

    @property
    def power(self) -> float:
        """That of the steps' length."""
        return self.weight


@dataclass(frozen=True)
class Block:
    """The largest block of a distribution: ``ceil(size / x)``, or ``ceil(size y / x)`` with a parameter `times`."""

    parameter: int
    size: int
    times: int | None = None

    def evaluate(self, points: Array) -> Array:
        """Return the values at points (..., parameter), without the last axis."""
        size = self.size * (1.0 if self.times is None else points[..., self.times])
        return np.asarray(np.ceil(size / points[..., self.parameter]))

    @property
    def power(self) -> float:
        """It falls to 1."""
        return 0.0
