"""What the report's page shows of each call path, as plain data: small enough for one file, enough for every plot."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from buran.experiment.collect import split_call_path
from buran.experiment.table import Aggregate, Experiment
from buran.model.model_set import ModelSet
from buran.model.text import format_function, growth_class
from buran.profile.profile import SEPARATOR
from buran.report.text import Report, brief, target_values

Array = NDArray[np.float64]
Places = NDArray[np.int64]

MOST_CALL_PATHS = 2000
"""Call paths with a row of their own: those with the largest predictions, and their callers."""

MOST_PLOTTED = 300
"""Call paths whose measurements and curves are in the page: the largest ones."""

LEVEL = 0.9
_STEPS = 13
_MAP_STEPS = 12
_WIDE = 8.0  # a parameter whose values span more is shown on a logarithmic axis


@dataclass(frozen=True)
class Iteration:
    """One iteration of the campaign, for the page.

    Attributes
    ----------
    points
        Each with its values, what it was measured for, and what became of its runs.
    functions
        How many the filter names; None for the default selection.
    added, dropped
        Functions by which the filter differs from the one before.
    core_hours, predicted_core_hours
        What its runs took, and what was predicted; None where nothing was known.
    time_overhead, effort_overhead
        CPU time over the baseline's, as ratios; None where nothing was measured.
    """

    number: int
    reason: str
    points: Sequence[Mapping[str, Any]]
    functions: int | None
    added: Sequence[str]
    dropped: Sequence[str]
    core_hours: float
    predicted_core_hours: float | None
    time_overhead: float | None
    effort_overhead: float | None


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
        Shape (call path,): prediction and the ends of its interval, which are not negative, as nothing measured
        is; NaN ends without a model.
    largest
        The measured point with the largest predictions in all.
    now
        Shape (call path,): prediction there.
    """

    models: ModelSet
    parent: Places
    at_target: Array
    lower: Array
    upper: Array
    largest: tuple[float, ...]
    now: Array

    @property
    def size(self) -> Array:
        """Shape (call path,): by what the large ones are told from the small ones."""
        return self.at_target + self.now


def predict_call_paths(report: Report) -> CallPaths | None:
    """Predict all call paths at the target and at the largest measured point; None without models."""
    if not report.models:
        return None
    models = report.models.get("time") or next(iter(report.models.values()))
    points = np.array(models.points, dtype=np.float64).reshape(-1, len(models.parameters))
    predicted = np.maximum(np.nan_to_num(models.predict(points)), 0.0)
    largest = int(predicted.sum(axis=0).argmax())
    target = np.array([[report.target[name] for name in models.parameters]], dtype=np.float64)
    lower, upper = models.predict_interval(target, LEVEL)
    return CallPaths(
        models,
        _parents(models.call_paths),
        target_values(models, report.target),
        np.maximum(lower[:, 0], 0.0),
        np.maximum(upper[:, 0], 0.0),
        models.points[largest],
        predicted[:, largest],
    )


def _parents(names: Sequence[str]) -> Places:
    places = {name: place for place, name in enumerate(names)}
    return np.array([places.get(SEPARATOR.join(split_call_path(name)[:-1]), -1) for name in names], dtype=np.int64)


def with_rows(found: CallPaths) -> Places:
    """Return the call paths that get a row, callers first: the largest ones and all their callers."""
    keep = np.zeros(len(found.parent), dtype=bool)
    keep[np.argsort(-found.size, kind="stable")[:MOST_CALL_PATHS]] = True
    for place in np.flatnonzero(keep).tolist():
        while (place := found.parent[place]) >= 0 and not keep[place]:
            keep[place] = True
    return np.flatnonzero(keep)


def page_data(
    report: Report, found: CallPaths | None, table: Experiment | None, iterations: Sequence[Iteration]
) -> dict[str, Any]:
    """Return everything that the page's script draws from, as plain data.

    Parameters
    ----------
    found
        From `predict_call_paths`.
    table
        The measurements behind the models; None if there are none.
    """
    plain: dict[str, Any] = {
        "parameters": list(report.parameters),
        "target": [report.target[name] for name in report.parameters],
        "iterations": [asdict(each) for each in iterations],
        "paths": [],
        "left_out": 0,
    }
    if found is None:
        return plain
    models, rows = found.models, with_rows(found)
    place = {row: index for index, row in enumerate(rows.tolist())}
    totals = (found.at_target.sum() or 1.0, found.now.sum() or 1.0)
    priors = {each["call_path"]: each for each in report.priors}
    others = {
        metric: dict(zip(each.call_paths, each.models, strict=True))
        for metric, each in report.models.items()
        if each is not models
    }
    plots = _plots(found, rows[np.argsort(-found.size[rows], kind="stable")[:MOST_PLOTTED]], table, report)
    for row in rows.tolist():
        model, name = models.models[row], models.call_paths[row]
        prior = priors.get(name, {})
        plain["paths"].append(
            {
                "name": name,
                "short": brief(split_call_path(name)[-1], 70),
                "parent": place.get(int(found.parent[row]), -1),
                "share": _rounded(found.at_target[row] / totals[0]),
                "now": _rounded(found.now[row] / totals[1]),
                "at": _rounded(found.at_target[row]) if model else None,
                "low": _rounded(found.lower[row]),
                "high": _rounded(found.upper[row]),
                "grows": growth_class(model.function, report.parameters) if model else "",
                "model": format_function(model.function, report.parameters) if model else "",
                "smape": _rounded(model.quality.smape) if model else None,
                **{key: prior.get(key) for key in ("prior", "times_alone", "waiting")},
                "notes": list(prior.get("notes", ())),
                "others": {
                    metric: format_function(other.function, report.parameters)
                    for metric, by_name in others.items()
                    if (other := by_name.get(name)) is not None
                },
                **plots.get(row, {}),
            }
        )
    left_out = 1.0 - found.at_target[rows].sum() / totals[0]
    return plain | {
        "metric": models.metric,
        "unit": models.unit,
        "level": LEVEL,
        "largest": list(found.largest),
        "points": [] if table is None else _columns(table, report.parameters).tolist(),
        "axes": [_axis(found, report, each, _STEPS).tolist() for each in range(len(report.parameters))],
        "map": _map_parameters(found),
        "map_axes": [_axis(found, report, each, _MAP_STEPS).tolist() for each in _map_parameters(found)],
        "left_out": len(models.call_paths) - len(rows),
        "left_out_share": _rounded(max(left_out, 0.0)),
    }


def _axis(found: CallPaths, report: Report, parameter: int, steps: int) -> Array:
    """Return the values of a parameter that curves are drawn at: from the smallest measured one to the target."""
    values = np.array(found.models.points, dtype=np.float64)[:, parameter]
    ends = np.array([*values, report.target[report.parameters[parameter]]])
    least, most = ends.min(), ends.max()
    if least == most:
        return np.array([least])
    if least > 0 and most / least > _WIDE:
        return np.array([_rounded(each) for each in np.geomspace(least, most, steps)], dtype=np.float64)
    return np.linspace(least, most, steps)


def _map_parameters(found: CallPaths) -> list[int]:
    """Return the two parameters with the most values; none where fewer than two vary."""
    points = np.array(found.models.points, dtype=np.float64)
    values = np.array([len(np.unique(column)) for column in points.T])
    chosen = np.sort(np.argsort(-values, kind="stable")[:2])
    return chosen.tolist() if len(chosen) == 2 and (values[chosen] > 1).all() else []


def _plots(found: CallPaths, rows: Places, table: Experiment | None, report: Report) -> dict[int, dict[str, Any]]:
    """Return curves with intervals along each parameter, a map over two, and the measured values of call paths."""
    models = replace(
        found.models,
        call_paths=tuple(found.models.call_paths[row] for row in rows),
        models=tuple(found.models.models[row] for row in rows),
    )
    base = np.array(found.largest, dtype=np.float64)
    lines = []
    for parameter in range(len(base)):
        axis = _axis(found, report, parameter, _STEPS)
        line = np.repeat(base[None], len(axis), axis=0)
        line[:, parameter] = axis
        lines.append(line)
    along = np.concatenate(lines)
    cuts = np.cumsum([len(line) for line in lines])[:-1]
    middle = models.predict(along)
    lower, upper = models.predict_interval(along, LEVEL)
    chosen = _map_parameters(found)
    surface = np.zeros((len(rows), 0))
    if chosen:
        first, second = (_axis(found, report, each, _MAP_STEPS) for each in chosen)
        grid = np.repeat(base[None], len(first) * len(second), axis=0)
        grid[:, chosen[0]], grid[:, chosen[1]] = np.repeat(first, len(second)), np.tile(second, len(first))
        surface = models.predict(grid)
    values = _values(models, table)
    plots = {}
    for index, row in enumerate(rows.tolist()):
        if models.models[index] is None:
            continue
        plots[row] = {
            "curves": [[_list(part) for part in np.split(each[index], cuts)] for each in (middle, lower, upper)],
            "surface": _list(surface[index]),
            "measured": [] if values is None else [_list(each) for each in values[index].T],
        }
    return plots


def _values(models: ModelSet, table: Experiment | None) -> Array | None:
    """Return shape (call path, point, 3): median, least and most over repetitions; None without the table."""
    if table is None or models.metric not in table.values:
        return None
    places = {name: place for place, name in enumerate(table.tree.names)}
    if any(name not in places for name in models.call_paths):
        return None
    aggregate = cast(Aggregate, models.aggregate)
    own = table.over_locations(models.metric, aggregate)[[places[name] for name in models.call_paths]]
    ordered = np.sort(own, axis=2)  # NaN last
    there = np.isfinite(ordered).sum(axis=2)
    last = np.maximum(there - 1, 0)
    pick = [np.take_along_axis(ordered, each[..., None], axis=2)[..., 0] for each in (last // 2, (last + 1) // 2)]
    most = np.take_along_axis(ordered, last[..., None], axis=2)[..., 0]
    return np.stack([(pick[0] + pick[1]) / 2, ordered[..., 0], most], axis=-1)


def _columns(table: Experiment, parameters: Sequence[str]) -> Array:
    return table.points[:, [table.parameters.index(name) for name in parameters]]


def _rounded(value: float | None) -> float | None:
    """Return four significant digits: no plot shows more."""
    return float(f"{value:.4g}") if value is not None and math.isfinite(value) else None


def _list(values: Array) -> list[float | None]:
    return [_rounded(value) for value in values.tolist()]


def as_csv(found: CallPaths | None) -> str:
    """Return a line for each call path of the report, all of them, with the numbers the page shows."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(
        (
            "call path",
            "metric",
            "unit",
            "at target",
            "lower",
            "upper",
            "share at target",
            "share measured",
            "grows like",
            "model",
            "SMAPE %",
        )
    )
    if found is None:
        return out.getvalue()
    parameters = found.models.parameters
    totals = (found.at_target.sum() or 1.0, found.now.sum() or 1.0)
    for row, (name, model) in enumerate(zip(found.models.call_paths, found.models.models, strict=True)):
        own = [name, found.models.metric, found.models.unit]
        if model is not None:
            numbers = (found.at_target[row], found.lower[row], found.upper[row])
            shares = (found.at_target[row] / totals[0], found.now[row] / totals[1])
            own += [f"{each:.6g}" for each in (*numbers, *shares)]
            own += [growth_class(model.function, parameters), format_function(model.function, parameters)]
            own.append(f"{model.quality.smape:.4g}")
        writer.writerow(own)
    return out.getvalue()
