"""Synthetic ground truths of evaluations: functions in performance model normal form and noisy runs of them."""

from __future__ import annotations

from fractions import Fraction
from itertools import product as combinations

import numpy as np
from numpy.typing import NDArray

from buran.model import Factor, ModelFunction, Term, extrap_space

Array = NDArray[np.float64]

AXES = ((4, 8, 16, 32, 64), (10, 20, 30, 40, 50), (1000, 2000, 3000, 4000, 5000), (10, 12, 14, 16, 18))
"""Values of up to four parameters, those of the evaluation code of the paper on cost-effective modelling."""
BEYOND = (128, 60, 6000, 20)
"""Where models are judged: one step beyond all values."""
POWERS = tuple(sorted({power for power, _ in extrap_space("never").pairs} | {Fraction(0)}))
_LOGS = (0, 1, 2)
_VISIBLE = 0.01  # share of the value that each term of a sum makes up at both corners


def grid(parameters: int) -> Array:
    """Return all combinations of values, shape (point, parameter), the last parameter running fastest."""
    return np.array(list(combinations(*AXES[:parameters])), dtype=np.float64)


def beyond(parameters: int) -> Array:
    """Return the point that models are judged at, shape (parameter,)."""
    return np.array(BEYOND[:parameters], dtype=np.float64)


def draw(parameters: int, random: np.random.Generator) -> ModelFunction:
    """Draw a truth that depends on every parameter: a constant and either a product of terms or their sum.

    One term for each parameter; powers of Extra-P's default set and 0, logarithms 0 to 2, coefficients uniform in
    (0, 1000). Sums are drawn again until each term makes up 1 % at both corners of the grid.
    """
    points = grid(parameters)
    corners = points[[0, -1]]
    while True:
        pairs = [(POWERS[random.integers(len(POWERS))], int(random.integers(len(_LOGS)))) for _ in range(parameters)]
        coefficients = np.round(random.uniform(0, 1000, parameters + 1), 3).tolist()
        multiplied = bool(random.random() < 0.5)
        if (Fraction(0), 0) in pairs:
            continue
        factors = [Factor(p, power, log) for p, (power, log) in enumerate(pairs)]
        if multiplied:
            return ModelFunction(coefficients[0], (coefficients[1],), (Term(tuple(factors)),))
        terms = tuple(Term((factor,)) for factor in factors)
        function = ModelFunction(coefficients[0], tuple(coefficients[1:]), terms)
        shares = [
            c * term.evaluate(corners) / function.evaluate(corners)
            for c, term in zip(coefficients[1:], terms, strict=True)
        ]
        if (np.array(shares) >= _VISIBLE).all():
            return function


def accumulating(truth: Array, percent: float, repetitions: int, seed: int) -> Array:
    """Return runs with the noise of the published evaluation code: shape (..., point, repetition).

    Uniform within half the level; each repetition changes the one before, and all functions share the draws. Kept
    to show where its numbers come from: repetitions do not help against such noise, and one draw decides for all.
    """
    random = np.random.default_rng(seed)
    steps = 1 + percent / 200 * random.uniform(-1, 1, (truth.shape[-1], repetitions))
    return np.asarray(truth[..., None] * np.cumprod(steps, axis=-1))
