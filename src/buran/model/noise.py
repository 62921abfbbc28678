"""Noise: how much repetitions differ, and artificial noise for evaluations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from buran.errors import UsageError
from buran.model.terms import Array

Pattern = Literal["uniform", "gaussian", "poisson", "exponential", "mixed"]
PATTERNS: tuple[Pattern, ...] = get_args(Pattern)
_MIXED: tuple[Pattern, ...] = ("uniform", "gaussian", "poisson", "exponential")
_POISSON_RATE = 4.0  # interruptions a run


@dataclass(frozen=True, eq=False)
class NoiseSummary:
    """Distribution of noise levels over call paths and points.

    Attributes
    ----------
    mean, median, largest
        Percent; NaN where nothing was measured twice.
    quantiles
        Percent, at `QUANTILES`.
    count
        Number of levels.
    """

    mean: float
    median: float
    largest: float
    quantiles: tuple[float, ...]
    count: int


QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


def noise_level(repetitions: Array) -> Array:
    """Mean absolute deviation of repetitions from their mean, in percent of it.

    As the paper on cost-effective modelling estimates noise: the divergence from the arithmetic mean.

    Parameters
    ----------
    repetitions
        Shape (..., repetition); NaN where there is none.

    Returns
    -------
    array
        Shape (...): NaN with fewer than two repetitions or a mean of 0; 0 where all are equal.
    """
    values = np.asarray(repetitions, dtype=np.float64)
    here = np.isfinite(values)
    number = here.sum(axis=-1)
    scale = np.max(np.where(here, np.abs(values), 0.0), axis=-1, initial=0.0)
    scale = np.where(scale > 0, scale, 1.0)  # sums of huge values overflow
    shares = np.where(here, values, 0.0) / scale[..., None]
    mean = shares.sum(axis=-1) / np.maximum(number, 1)
    gap = np.where(here, np.abs(shares - mean[..., None]), 0.0).sum(axis=-1) / np.maximum(number, 1)
    known = (number > 1) & (mean != 0)
    return np.asarray(100 * np.divide(gap, np.abs(mean), out=np.full(mean.shape, np.nan), where=known))


def summarise(levels: Array) -> NoiseSummary:
    """Describe the distribution of noise levels of any shape, without NaN."""
    known = np.asarray(levels, dtype=np.float64).ravel()
    known = known[np.isfinite(known)]
    if not len(known):
        return NoiseSummary(np.nan, np.nan, np.nan, (np.nan,) * len(QUANTILES), 0)
    quantiles = tuple(np.quantile(known, QUANTILES).tolist())
    return NoiseSummary(float(known.mean()), float(np.median(known)), float(known.max()), quantiles, len(known))


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
