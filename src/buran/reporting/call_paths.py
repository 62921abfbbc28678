"""What models predict for every call path, which of them a page has room for, and what it plots of these."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from buran.campaign.plan import Mode
from buran.modeling.pmnf.model_set import ModelSet
from buran.modeling.pmnf.repetitions import noise_level
from buran.profiles.experiment.table import Aggregate, Experiment
from buran.profiles.profile import SEPARATOR
from buran.reporting.content import LEVEL, Report, start_and_end, target_values, unknown_rows

Array = NDArray[np.float64]
Indices = NDArray[np.int64]

MOST_CALL_PATHS = 2000
"""Call paths with a row of their own: those with the largest predictions, and their callers."""

MOST_CALLERS = 1000
"""Callers that get a row for the sake of what they call; beyond, a call path stands at the root of the table."""

MOST_PLOTTED = 300
"""Call paths whose measurements and curves are in the page: the largest ones."""

STEPS = 13
MOST_STACKED = 6
_WIDE = 8.0  # a parameter whose values span more is shown on a logarithmic axis
_SURE = 3.0  # standard errors
_FAR = 4.0  # standard deviations


@dataclass(frozen=True)
class CallPaths:
    """Predictions of all call paths, at the largest measured point and at the target.

    Attributes
    ----------
    models
        Of time, or of the first metric there is.
    parent
        Shape (call path,): the caller; -1 where there is none.
    at_target, lower, upper
        Shape (call path,): prediction and the bounds of its interval, which are not negative, as nothing measured
        is; NaN without a model, and for call paths that get no row: intervals of 100,000 would take minutes. All are
        NaN where they are not known.
    largest
        The measured point with the largest predictions in all.
    now
        Shape (call path,): prediction there.
    """

    models: ModelSet
    parent: Indices
    at_target: Array
    lower: Array
    upper: Array
    largest: tuple[float, ...]
    now: Array

    @property
    def size(self) -> Array:
        """Shape (call path,): what distinguishes large ones from small ones."""
        return np.nan_to_num(self.at_target) + self.now

    @property
    def shares(self) -> tuple[Array, Array]:
        """Shape (call path,) each: of the whole prediction at the target, and at the largest measured point.

        NaN for start-up and shutdown of MPI, which is no part of the whole.
        """
        apart = start_and_end(self.models)
        parts = [np.where(apart, np.nan, seconds) for seconds in (self.at_target, self.now)]
        at_target, now = (part / (np.nansum(part) or 1.0) for part in parts)
        return at_target, now

    @property
    def unit(self) -> str:
        """Unit of the predictions, as printed."""
        return "s" if self.models.unit == "sec" else self.models.unit

    def region_name(self, row: int) -> str:
        """Return the last part of a call path's name: its region, or all of it without a caller."""
        name, parent = self.models.call_paths[row], int(self.parent[row])
        return name if parent < 0 else name[len(self.models.call_paths[parent]) + len(SEPARATOR) :]

    def only(self, rows: Indices) -> ModelSet:
        """Return the models of some call paths."""
        return replace(
            self.models,
            call_paths=tuple(self.models.call_paths[row] for row in rows.tolist()),
            models=tuple(self.models.models[row] for row in rows.tolist()),
        )


def predict_call_paths(report: Report) -> CallPaths | None:
    """Predict all call paths at the target and at the largest measured point; None without models."""
    if not report.models:
        return None
    models = report.models.get("time") or next(iter(report.models.values()))
    points = np.array(models.points, dtype=np.float64).reshape(-1, len(models.parameters))
    predicted = np.nan_to_num(models.predict(points))
    largest = int(predicted.sum(axis=0).argmax())
    target = np.array([[report.target[name] for name in models.parameters]], dtype=np.float64)
    without = np.full(len(models.call_paths), np.nan)
    parent, unknown = _parents(models.call_paths), unknown_rows(report, models)
    at_target = np.where(unknown, np.nan, target_values(models, report.target))
    call_paths = CallPaths(models, parent, at_target, without, without, models.points[largest], predicted[:, largest])
    rows = with_rows(call_paths)
    bounds = []
    for end in call_paths.only(rows).predict_interval(target, LEVEL):
        bounds.append(without.copy())
        bounds[-1][rows] = np.where(unknown[rows], np.nan, np.maximum(end[:, 0], 0.0))
    return replace(call_paths, lower=bounds[0], upper=bounds[1])


def _parents(names: Sequence[str]) -> Indices:
    """Return the nearest caller that is itself a call path; names are compared, as parsing long ones takes minutes."""
    positions = {name: position for position, name in enumerate(names)}
    return np.array([_caller(name, positions) for name in names], dtype=np.int64)


def _caller(name: str, positions: Mapping[str, int]) -> int:
    end = name.rfind(SEPARATOR)
    while end >= 0:
        if (position := positions.get(name[:end])) is not None:
            return position
        end = name.rfind(SEPARATOR, 0, end)
    return -1


def with_rows(call_paths: CallPaths) -> Indices:
    """Return the call paths that get a row, callers first: the largest ones and their callers, as far as they fit."""
    keep = np.zeros(len(call_paths.parent), dtype=bool)
    chosen = np.argsort(-call_paths.size, kind="stable")[:MOST_CALL_PATHS]
    keep[chosen] = True
    room = MOST_CALLERS
    for position in chosen.tolist():
        while room and (position := int(call_paths.parent[position])) >= 0 and not keep[position]:
            keep[position] = True
            room -= 1
    return np.flatnonzero(keep)


def rounded(value: float | None, digits: int = 4) -> float | None:
    """Return few significant digits: no plot shows more."""
    return float(f"{value:.{digits}g}") if value is not None and math.isfinite(value) else None


def listed(values: Array, digits: int = 4) -> list[float | None]:
    """Return a list of rounded numbers; None for what is not finite."""
    return [rounded(value, digits) for value in values.tolist()]


def axis_of(call_paths: CallPaths, report: Report, parameter: int) -> Array:
    """Return the values of a parameter that curves are drawn at: from the smallest measured one to the target."""
    values = np.array(call_paths.models.points, dtype=np.float64)[:, parameter]
    bounds = np.array([*values, report.target[report.parameters[parameter]]])
    least, most = bounds.min(), bounds.max()
    if least == most:
        return np.array([least])
    if least > 0 and most / least > _WIDE:
        return np.array([rounded(value) for value in np.geomspace(least, most, STEPS)], dtype=np.float64)
    return np.linspace(least, most, STEPS)


def plots_of(
    call_paths: CallPaths, rows: Indices, table: Experiment | None, report: Report
) -> dict[int, dict[str, Any]]:
    """Return curves with intervals along each parameter, measured values and residuals in percent."""
    models = call_paths.only(rows)
    along, parts = _cuts(call_paths, report)
    bands = (models.predict(along), *models.predict_interval(along, LEVEL))
    values = measured_values(models, table)
    residuals = None if values is None or table is None else _residuals(models, table, values[..., 0])
    return {
        row: {
            "curves": _curves([band[index] for band in bands], parts),
            "measured": [] if values is None else [listed(column) for column in values[index].T],
            "residuals": [] if residuals is None else listed(residuals[index], 3),
        }
        for index, row in enumerate(rows.tolist())
        if models.models[index] is not None
    }


def stack_of(call_paths: CallPaths, report: Report, candidates: Indices) -> dict[str, Any]:
    """Return how the prediction is made up along each parameter, the others at the target.

    Returns
    -------
    dict
        ``rows``: the largest of some call paths at the target; ``values``: for each parameter and each of them the
        prediction along the axis; ``total``: that of all call paths together, but for start-up and shutdown of MPI and
        what is not known.
    """
    target = np.array([report.target[name] for name in report.parameters], dtype=np.float64)
    along, parts = _lines(call_paths, report, np.tile(target, (len(target), 1)))
    predicted = np.nan_to_num(call_paths.models.predict(along))
    apart = start_and_end(call_paths.models) | unknown_rows(report, call_paths.models)
    predicted[apart] = 0.0
    candidates = candidates[~apart[candidates]]
    largest = candidates[np.argsort(-call_paths.at_target[candidates], kind="stable")[:MOST_STACKED]]
    rows = largest[call_paths.at_target[largest] > 0]
    return {
        "rows": rows.tolist(),
        "values": [[listed(curve) for curve in part] for part in np.split(predicted[rows], parts, axis=1)],
        "total": [listed(part) for part in np.split(predicted.sum(axis=0), parts)],
    }


def measured_cuts(call_paths: CallPaths) -> Array:
    """Return shape (parameter, parameter): for each parameter a measured point through which it is plotted."""
    points = np.array(call_paths.models.points, dtype=np.float64)
    return np.stack([_fullest_cut(points, parameter) for parameter in range(points.shape[1])])


def _fullest_cut(points: Array, free: int) -> Array:
    """Return the point through which a cut along a parameter meets most points; of equal cuts the last."""
    fixed = np.delete(points, free, axis=1)
    through = points
    if fixed.shape[1]:
        _, slices, counts = np.unique(fixed, axis=0, return_inverse=True, return_counts=True)
        fullest = len(counts) - 1 - int(np.argmax(counts[::-1]))  # slices are in order: the last one is the largest
        through = points[slices.reshape(-1) == fullest]
    return np.asarray(through[-1], dtype=np.float64)


def _lines(call_paths: CallPaths, report: Report, bases: Array) -> tuple[Array, Any]:
    """Return points along each parameter through its row of `bases`, and where those of the next one begin."""
    lines = []
    for parameter, base in enumerate(bases):
        axis = axis_of(call_paths, report, parameter)
        line = np.repeat(base[None], len(axis), axis=0)
        line[:, parameter] = axis
        lines.append(line)
    return np.concatenate(lines), np.cumsum([len(line) for line in lines])[:-1]


def _cuts(call_paths: CallPaths, report: Report) -> tuple[Array, Any]:
    """Return points along each parameter through what was measured, then through the target, and where each begins."""
    target = np.array([report.target[name] for name in report.parameters], dtype=np.float64)
    measured, parts = _lines(call_paths, report, measured_cuts(call_paths))
    predicted, _ = _lines(call_paths, report, np.tile(target, (len(target), 1)))
    return np.concatenate([measured, predicted]), [*parts, len(measured), *(len(measured) + parts)]


def _curves(bands: Sequence[Array], parts: Any) -> list[list[list[list[float | None]]]]:
    """Divide values along `_cuts`: by cut (what was measured, the target), band and parameter."""
    split = [[listed(part) for part in np.split(band, parts)] for band in bands]
    half = len(split[0]) // 2
    return [[each[:half] for each in split], [each[half:] for each in split]]


def runtime_curves(call_paths: CallPaths, report: Report) -> list[list[list[list[float | None]]]]:
    """Return the run time of the whole program as `_curves` has it; empty without a model, or if not known."""
    if report.runtime is None or report.unknown.total:
        return []
    along, parts = _cuts(call_paths, report)
    bands = [values[0] for values in (report.runtime.predict(along), *report.runtime.predict_interval(along, LEVEL))]
    if report.tensor is not None:
        bands = [report.tensor(along), *[np.full(len(along), np.nan)] * 2]
    return _curves(bands, parts)


def run_values(models: ModelSet, table: Experiment | None) -> Array | None:
    """Return shape (call path, point, repetition): what models were made from; None without the table."""
    if table is None or models.metric not in table.values:
        return None
    positions = {name: position for position, name in enumerate(table.tree.names)}
    aggregate = cast(Aggregate, models.aggregate)
    rows = np.array([positions.get(name, -1) for name in models.call_paths], dtype=np.int64)
    values: Array = table.over_locations(models.metric, aggregate)[rows]
    values[rows < 0] = np.nan
    return values


def measured_values(models: ModelSet, table: Experiment | None) -> Array | None:
    """Return shape (call path, point, 3): median, least and most over repetitions; None without the table."""
    values = run_values(models, table)
    if values is None:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # points without a value have none here
        return np.stack([np.nanmedian(values, 2), np.nanmin(values, 2), np.nanmax(values, 2)], axis=-1)


def _residuals(models: ModelSet, table: Experiment, measured: Array) -> Array:
    """Return shape (call path, point): by how many percent of the prediction a measurement is above it."""
    predicted = models.predict(table.points_in(models.parameters))
    gap = 100 * (measured - predicted)
    out: Array = np.divide(gap, predicted, out=np.full(gap.shape, np.nan), where=predicted > 0)
    return out


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
