"""Artificial noise."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np

from buran.errors import UsageError
from buran.modeling.functions.terms import Array

Pattern = Literal["uniform", "gaussian", "poisson", "exponential", "mixed"]
PATTERNS: tuple[Pattern, ...] = get_args(Pattern)
_MIXED: tuple[Pattern, ...] = ("uniform", "gaussian", "poisson", "exponential")
_POISSON_RATE = 4.0  # interruptions a run


def inject(values: Array, percent: float, pattern: Pattern = "uniform", *, repetitions: int, seed: int) -> Array:
    """Make noisy repetitions of true values, independent of each other.

    Parameters
    ----------
    values
        Any shape.
    percent
        Level n. ``uniform``: within +-n %. ``gaussian``: standard deviation n / 2, so that 95 % lie within +-n %.
        ``poisson``: interruptions that come by chance, and ``exponential``: delays without memory; both are made
        to have mean 0 and the standard deviation n / 2. ``mixed``: each value takes one of the four at random.
    pattern
        Shape of the distribution.
    repetitions
        How many to make.
    seed
        The same numbers for the same seed.

    Returns
    -------
    array
        Shape (..., repetition). Never of another sign than the true value: factors end at 0.

    Raises
    ------
    UsageError
        If the level is negative or not finite, there is no repetition, or the pattern is unknown.
    """
    if not (np.isfinite(percent) and percent >= 0):
        raise UsageError("a noise level is a percentage of 0 and more", why=f"it is {percent:g}")
    if repetitions < 1:
        raise UsageError("noise needs at least one repetition", why=f"{repetitions} were asked for")
    if pattern not in PATTERNS:
        raise UsageError(f"no noise is called {pattern!r}", hint=f"choose from {', '.join(PATTERNS)}")
    true = np.asarray(values, dtype=np.float64)
    random = np.random.default_rng(seed)
    shape = (*true.shape, repetitions)
    if pattern == "mixed":
        kind = random.integers(len(_MIXED), size=shape)
        draws = np.choose(kind, [_draw(own, shape, random) for own in _MIXED])
    else:
        draws = _draw(pattern, shape, random)
    return np.asarray(true[..., None] * np.maximum(1 + percent / 100 * draws, 0.0))


def _draw(pattern: Pattern, shape: tuple[int, ...], random: np.random.Generator) -> Array:
    """Draw deviations of mean 0 for a level of 1."""
    if pattern == "uniform":
        return random.uniform(-1, 1, shape)
    if pattern == "gaussian":
        return random.normal(0, 0.5, shape)
    if pattern == "poisson":
        return np.asarray((random.poisson(_POISSON_RATE, shape) - _POISSON_RATE) / (2 * _POISSON_RATE**0.5))
    return (random.exponential(1.0, shape) - 1) / 2
