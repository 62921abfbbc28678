"""What measurements say without models: how unevenly ranks share the work, and how times change."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from buran.experiment.table import Experiment

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Imbalance:
    """Figures of each call path, all of shape (call path,); 0 where nothing was spent, as if it were even.

    Attributes
    ----------
    percentage
        (max - mean) / max * N / (N - 1): 0 for even work, 1 if one of N does all.
    ratio
        max / mean, which the authors of PIRA call efficiency: 1 for even work.
    variation
        Standard deviation over mean.
    """

    percentage: Floats
    ratio: Floats
    variation: Floats


def imbalance_of(values: Floats) -> Imbalance:
    """Return the imbalance of values of shape (call path, location); locations that spent nothing count."""
    number = values.shape[1]
    most, mean, spread = values.max(axis=1), values.mean(axis=1), values.std(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        percentage = (most - mean) / most * number / max(number - 1, 1)
        ratio, variation = most / mean, spread / mean
    spent = most > 0
    return Imbalance(np.where(spent, percentage, 0), np.where(spent, ratio, 1), np.where(spent, variation, 0))


def ends_s(experiment: Experiment) -> Floats:
    """Return shape (call path, 2): mean times over ranks at the points with the least and the most time in all.

    The median over repetitions; 0 where nothing was measured.
    """
    if "time" not in experiment.values or not len(experiment.points):
        return np.zeros((len(experiment.tree), 2))
    values = experiment.over_locations("time")
    whole = np.nanmax(np.nansum(values, axis=0), axis=1)
    chosen = values[:, [int(whole.argmin()), int(whole.argmax())]]
    known = np.isfinite(chosen).any(axis=2)
    out = np.zeros(chosen.shape[:2])
    out[known] = np.nanmedian(chosen[known], axis=1)
    return out


def imbalance_s(experiment: Experiment) -> Floats:
    """Return shape (call path,): the slowest location's time above the mean, at the point that takes longest.

    The median over repetitions; 0 where nothing was measured.
    """
    if "time" not in experiment.values or not len(experiment.points):
        return np.zeros(len(experiment.tree))
    most, mean = (experiment.over_locations("time", which) for which in ("max", "mean"))
    largest = int(np.nanmax(np.nansum(mean, axis=0), axis=1).argmax())
    lost = (most - mean)[:, largest]
    known = np.isfinite(lost).any(axis=1)
    out = np.zeros(len(experiment.tree))
    out[known] = np.nanmedian(lost[known], axis=1)
    return out
