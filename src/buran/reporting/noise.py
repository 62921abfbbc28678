"""How much repetitions differ, and whether they drift over the time of the campaign."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from buran.campaign.plan import Mode
from buran.modeling.pmnf.model_set import ModelSet
from buran.modeling.pmnf.repetitions import noise_level
from buran.profiles.experiment.table import Experiment
from buran.reporting.call_paths import Array
from buran.reporting.curves import run_values

_SURE = 3.0  # standard errors
_FAR = 4.0  # standard deviations


@dataclass(frozen=True)
class TimedRun:
    """When a run began and what it took.

    Attributes
    ----------
    group
        Equal for repetitions: build and point.
    started_s
        Seconds since the first run of the campaign; None where it is unknown.
    evaluation
        Whether it only tests predictions.
    apart
        Whether it was made under other choices than the models of call paths are for.
    """

    group: str
    point: tuple[float, ...]
    mode: Mode
    started_s: float | None
    wall_s: float
    evaluation: bool = False
    apart: bool = False


def levels_of(models: ModelSet, table: Experiment | None) -> Array:
    """Return shape (call path,): mean deviation of repetitions from their mean in percent, median over points."""
    values = run_values(models, table)
    out = np.full(len(models.call_paths), np.nan)
    if values is None:
        return out
    levels = noise_level(values)
    repeated = np.isfinite(levels).any(axis=1)
    out[repeated] = np.nanmedian(levels[repeated], axis=1)
    return out


def drift_of(baseline: Sequence[TimedRun]) -> dict[str, float] | None:
    """Tell whether repetitions become slower or faster from the first to the last; None if that is not known.

    The slope of the logarithm of run times over time, within groups: what points differ in does not count. Deviations
    beyond four times their usual size count as just that, so that a single disturbance is no drift.

    Returns
    -------
    dict
        ``minutes`` between the first and the last run of the group that took longest, by how many ``percent`` run times
        change in them, its standard ``error``, and ``sure``: 1 where that is more than three standard errors from 0.
    """
    groups: dict[str, list[tuple[float, float]]] = {}
    for run in baseline:
        if run.started_s is not None and run.wall_s > 0:
            groups.setdefault(run.group, []).append((run.started_s / 60, math.log(run.wall_s)))
    pairs = [np.array(group) for group in groups.values() if len(group) > 1]
    if not pairs:
        return None
    minutes = np.concatenate([group[:, 0] - group[:, 0].mean() for group in pairs])
    logs = np.concatenate([group[:, 1] - np.median(group[:, 1]) for group in pairs])
    usual = 1.4826 * float(np.median(np.abs(logs[np.abs(logs) > 0]))) if (logs != 0).any() else 0.0
    logs = np.clip(logs, -_FAR * usual, _FAR * usual)
    freedom, scatter = len(logs) - len(pairs) - 1, float((minutes**2).sum())
    if freedom < 2 or scatter <= 0:
        return None
    slope = float((minutes * logs).sum()) / scatter
    error = math.sqrt(float(((logs - slope * minutes) ** 2).sum()) / freedom / scatter)
    span = max(float(np.ptp(group[:, 0])) for group in pairs)
    return {
        "minutes": span,
        "percent": 100 * slope * span,
        "error": 100 * error * span,
        "sure": float(abs(slope) > _SURE * error),
    }
