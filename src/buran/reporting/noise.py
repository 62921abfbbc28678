"""How much repetitions differ: the distribution for each call path, and over the time of the campaign."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

import numpy as np

from buran.campaign.plan import Mode
from buran.modeling.pmnf.model_set import ModelSet
from buran.modeling.pmnf.noise import noise_level
from buran.profiles.experiment.table import Experiment
from buran.reporting.call_paths import Array
from buran.reporting.curves import listed, rounded, run_values

MOST_RUNS = 2000
"""Runs that the plot over time shows; of more, evenly chosen ones."""

_FEWEST = 6  # deviations that a distribution is drawn from
_CELLS = 25
_QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
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
    disturbed
        Whether something else was going on at the machine.
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
    disturbed: bool = False
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


def violins_of(models: ModelSet, table: Experiment | None) -> list[dict[str, Any] | None]:
    """Return the distribution of repetitions around their median at each point, in percent of it.

    Returns
    -------
    list
        For each call path ``low`` and ``high`` (bounds of the shape: all but the outermost percent on either side),
        ``shape`` (densities between them, the largest being 1), ``quantiles`` and ``count``; None where there are
        too few repetitions, or all are equal.
    """
    values = run_values(models, table)
    if values is None:
        return [None] * len(models.call_paths)
    return [_violin(row) for row in values]


def _violin(repetitions: Array) -> dict[str, Any] | None:
    """Return the distribution of one call path from shape (point, repetition)."""
    enough = np.isfinite(repetitions).sum(axis=1) > 1
    values = repetitions[enough]
    middle = np.nanmedian(values, axis=1, keepdims=True) if len(values) else np.zeros((0, 1))
    share = np.divide(values - middle, middle, out=np.full(values.shape, np.nan), where=middle > 0)
    deviations = 100 * share[np.isfinite(share)]
    if len(deviations) < _FEWEST or np.ptp(deviations) <= 0:
        return None
    low, high = np.quantile(deviations, (0.01, 0.99))
    if low == high:
        return None
    grid = np.linspace(low, high, _CELLS)
    quartiles = np.quantile(deviations, (0.25, 0.75))
    spread = min(float(deviations.std()), float(np.ptp(quartiles)) / 1.34) or float(deviations.std())
    width = max(0.9 * spread * len(deviations) ** -0.2, (high - low) / _CELLS)  # Silverman's rule of thumb
    density = np.exp(-0.5 * ((grid[:, None] - deviations) / width) ** 2).sum(axis=1)
    return {
        "low": rounded(float(low), 3),
        "high": rounded(float(high), 3),
        "shape": listed(density / density.max(), 2),
        "quantiles": listed(np.quantile(deviations, _QUANTILES), 3),
        "count": len(deviations),
    }


class OverTime(TypedDict):
    """How run times differ over time.

    Attributes
    ----------
    runs
        Minutes since the start, deviation from the median in percent, mode, whether it was disturbed.
    left_out
        How many more there are.
    drift
        See `drift_of`.
    """

    runs: list[list[Any]]
    left_out: int
    drift: dict[str, float] | None


def over_time(runs: Sequence[TimedRun]) -> OverTime:
    """Return when runs differed from the others of their build at their point, and whether the baseline drifts."""
    timed = [(run, run.started_s) for run in runs if run.started_s is not None]
    groups: dict[str, list[float]] = {}
    for run, _ in timed:
        groups.setdefault(run.group, []).append(run.wall_s)
    medians = {group: float(np.median(walls)) for group, walls in groups.items() if len(walls) > 1}
    rows = [
        [rounded(started / 60), rounded(100 * (run.wall_s / middle - 1), 3), str(run.mode), int(run.disturbed)]
        for run, started in timed
        if (middle := medians.get(run.group, 0.0)) > 0
    ]
    step = math.ceil(len(rows) / MOST_RUNS) or 1
    return {
        "runs": rows[::step],
        "left_out": len(rows) - len(rows[::step]),
        "drift": drift_of([run for run in runs if run.mode is Mode.VANILLA]),
    }


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
