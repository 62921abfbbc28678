"""Measurements for a correction, checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from buran.errors import UsageError
from buran.modeling.correction.base import BaseModel
from buran.modeling.correction.formula import Array


@dataclass(frozen=True)
class Data:
    """Points that differ from each other, with one time each.

    Attributes
    ----------
    points, values
        Shape (point, variable) and (point,); repetitions of a point became their median.
    """

    points: Array
    values: Array

    @property
    def logs(self) -> Array:
        """Logarithms of the values."""
        return np.asarray(np.log(self.values))


def prepare(base: BaseModel, points: ArrayLike | Mapping[str, ArrayLike], values: ArrayLike) -> Data:
    """Check measurements against a base model.

    Parameters
    ----------
    base
        The model to correct.
    points
        Columns by the variables' names, or shape (point, variable).
    values
        Shape (point,); NaN where nothing was measured.

    Raises
    ------
    UsageError
        If shapes do not match, times are not positive, there are fewer points than parameters, a variable has
        one value, or the base model is not positive at a point.
    """
    at = base.points(points)
    times = np.asarray(values, dtype=np.float64)
    if times.shape != (len(at),):
        raise UsageError("points and times do not match", why=f"{len(at)} points, times of shape {times.shape}")
    timed = ~np.isnan(times)
    at, times = at[timed], times[timed]
    wrong = times[~(np.isfinite(times) & (times > 0))]
    if len(wrong):
        raise UsageError(
            "times are positive",
            why=f"one is {wrong[0]:g}: its ratio to a prediction does not exist",
            hint="leave out runs that were too short to be timed",
        )
    distinct, index = np.unique(at, axis=0, return_inverse=True)
    index = index.reshape(-1)
    times = np.array([np.median(times[index == i]) for i in range(len(distinct))])
    needed = max(len(base.parameters), 1)
    if len(distinct) < needed:
        raise UsageError(
            "there are fewer points than parameters",
            where=base.name,
            why=f"{len(distinct)} points, {needed} parameters: {', '.join(base.parameters)}",
            hint="measure more points, or make parameters that are known to constants",
        )
    for i, name in enumerate(base.variables):
        if len(np.unique(distinct[:, i])) < 2:
            raise UsageError(
                f"the variable {name} has one value",
                why=f"it is {distinct[0, i]:g} at all points, so that its influence is unknown",
                hint="measure a second value, or make it a constant of the base model",
            )
    bad = ~base.has_time(base.start, distinct)
    if bad.any():
        raise UsageError(
            "the base model gives no positive time at a data point",
            where=f"{base.name} at {base.shown(distinct[bad][0])}",
            why=f"its value is {base.evaluate(base.start, distinct[bad])[0]:g}",
            hint="correct the expression, or leave out points it is not meant for",
        )
    return Data(distinct, times)


def spawned(seed: int, *key: int) -> np.random.Generator:
    """Return the random numbers of a case, trial and fold, independent of those of all others."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))
