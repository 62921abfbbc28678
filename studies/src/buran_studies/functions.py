"""Synthetic ground truths of evaluations: functions in performance model normal form and noisy runs of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product as combinations

import numpy as np
from numpy.typing import NDArray

from buran.model import Factor, ModelFunction, PowerLog, Term, extrap_space

Array = NDArray[np.float64]

AXES = ((4, 8, 16, 32, 64), (10, 20, 30, 40, 50), (1000, 2000, 3000, 4000, 5000), (10, 12, 14, 16, 18))
"""Values of up to four parameters, those of the evaluation code of the paper on cost-effective modelling."""
BEYOND = (128, 60, 6000, 20)
"""Where models are judged: one step beyond all values."""
POWERS = tuple(sorted({power for power, _ in extrap_space("never").pairs} | {Fraction(0)}))
_LOGS = (0, 1, 2)
_ODD_POWERS = (0.1, 0.4, 0.6, 0.9, 1.1, 1.4, 1.6, 1.85, 2.1, 2.6)
_VISIBLE = 0.01  # share of the value that each term of a sum makes up at both corners


def grid(parameters: int) -> Array:
    """Return all combinations of values, shape (point, parameter), the last parameter running fastest."""
    return np.array(list(combinations(*AXES[:parameters])), dtype=np.float64)


def beyond(parameters: int) -> Array:
    """Return the point that models are judged at, shape (parameter,)."""
    return np.array(BEYOND[:parameters], dtype=np.float64)


@dataclass(frozen=True)
class Part:
    """How a truth depends on one parameter: a sum of powers with logarithms, or a saturation ``x / (x + half)``."""

    exponents: tuple[tuple[Fraction | float, int], ...]
    half: float = 0.0

    def evaluate(self, x: Array) -> Array:
        """Return values of the same shape as `x`."""
        if self.half:
            return np.asarray(x / (x + self.half))
        return np.asarray(sum(x ** float(power) * np.log2(x) ** log for power, log in self.exponents))


@dataclass(frozen=True)
class Composite:
    """A truth made of one part for each parameter: a constant and either their product or their sum.

    Attributes
    ----------
    coefficients
        The constant, then that of the product, or one for each part of the sum.
    """

    coefficients: tuple[float, ...]
    parts: tuple[Part, ...]
    product: bool

    def evaluate(self, points: Array) -> Array:
        """Evaluate at points (..., parameter)."""
        return np.asarray(self.coefficients[0] + self.summands(points).sum(axis=0))

    def summands(self, points: Array) -> Array:
        """Return what is added to the constant, along a new first axis."""
        values = np.stack([part.evaluate(points[..., k]) for k, part in enumerate(self.parts)])
        if self.product:
            return np.asarray(self.coefficients[1] * values.prod(axis=0, keepdims=True))
        return np.asarray(np.reshape(self.coefficients[1:], (-1, *(1,) * (values.ndim - 1))) * values)

    def lead(self, parameter: int) -> tuple[float, int]:
        """Return the largest power of a parameter; logarithms are ignored."""
        return max((float(power) for power, _ in self.parts[parameter].exponents), default=0.0), 0


def draw(parameters: int, random: np.random.Generator) -> ModelFunction:
    """Draw a truth that depends on every parameter: a constant and either a product of terms or their sum.

    One term for each parameter; powers of Extra-P's default set and 0, logarithms 0 to 2, coefficients uniform in
    (0, 1000). Sums are drawn again until each term makes up 1 % at both corners of the grid.
    """
    drawn = _drawn(parameters, random, _inside)
    exponents = [part.exponents[0] for part in drawn.parts]
    factors = [Factor(k, PowerLog(Fraction(power), log)) for k, (power, log) in enumerate(exponents)]
    terms = (Term(tuple(factors)),) if drawn.product else tuple(Term((factor,)) for factor in factors)
    return ModelFunction(drawn.coefficients[0], drawn.coefficients[1 : 1 + len(terms)], terms)


def draw_outside(parameters: int, random: np.random.Generator) -> Composite:
    """Draw a truth that is in no hypothesis space: two terms of a parameter, an odd power, or a saturation."""
    return _drawn(parameters, random, _outside)


def _drawn(
    parameters: int, random: np.random.Generator, part: Callable[[Sequence[int], np.random.Generator], Part]
) -> Composite:
    corners = grid(parameters)[[0, -1]]
    while True:
        parts = tuple(part(axis, random) for axis in AXES[:parameters])
        coefficients = tuple(np.round(random.uniform(0, 1000, parameters + 1), 3).tolist())
        found = Composite(coefficients, parts, bool(random.random() < 0.5))
        if any(own.exponents == ((Fraction(0), 0),) for own in parts):
            continue
        if found.product or (found.summands(corners) >= _VISIBLE * found.evaluate(corners)).all():
            return found


def _inside(axis: Sequence[int], random: np.random.Generator) -> Part:
    return Part(((POWERS[random.integers(len(POWERS))], int(random.integers(len(_LOGS)))),))


def _outside(axis: Sequence[int], random: np.random.Generator) -> Part:
    first = _inside(axis, random)
    kind = random.integers(3)
    if kind == 0:
        return Part((*first.exponents, *_inside(axis, random).exponents))
    if kind == 1:
        return Part(((float(random.choice(_ODD_POWERS)), int(random.integers(2))),))
    return Part((), half=float(random.uniform(axis[0], axis[-1])))


def accumulating(truth: Array, percent: float, repetitions: int, seed: int) -> Array:
    """Return runs with the noise of the published evaluation code: shape (..., point, repetition).

    Uniform within half the level; each repetition changes the one before, and all functions share the draws. Kept
    to show where its numbers come from: repetitions do not help against such noise, and one draw decides for all.
    """
    random = np.random.default_rng(seed)
    steps = 1 + percent / 200 * random.uniform(-1, 1, (truth.shape[-1], repetitions))
    return np.asarray(truth[..., None] * np.cumprod(steps, axis=-1))
