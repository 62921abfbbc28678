"""What the report's page shows, as plain data, and its numbers as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from buran.campaign.plan import Mode
from buran.campaign.point import Value
from buran.features import sections
from buran.instrumentation.measured import MeasuredOverhead
from buran.modeling.pmnf.model import Model
from buran.modeling.pmnf.model_set import ModelSet
from buran.modeling.pmnf.text import format_function, format_largest, growth_class
from buran.profiles.experiment.table import Experiment
from buran.profiles.names import plain_name
from buran.profiles.profile import NO_CALL_PATHS, Region
from buran.reporting.call_paths import (
    MOST_PLOTTED,
    CallPaths,
    Indices,
    TimedRun,
    axis_of,
    drift_of,
    levels_of,
    listed,
    measured_cuts,
    plots_of,
    rounded,
    runtime_curves,
    stack_of,
    with_rows,
)
from buran.reporting.content import LEVEL, Report, run_time_reach, startup_at_target
from buran.reporting.tables import brief


@dataclass(frozen=True)
class IterationPoint:
    """A point of an iteration: what it was measured for, and what became of its runs."""

    point: Mapping[str, Value]
    purpose: str
    runs: int
    state: str


@dataclass(frozen=True)
class Iteration:
    """One iteration of the campaign, for the page.

    Attributes
    ----------
    functions
        How many the filter names; None for the default selection.
    added, dropped
        Functions by which the filter differs from the one before.
    core_hours, predicted_core_hours
        What its runs took, and what was predicted; None where nothing was known.
    predicted_overhead
        Largest time in hooks over time without at a measured point that the filter was chosen with; None where unknown.
    time_overhead, effort_overhead
        CPU time beyond the baseline's, of its runs; None where nothing was measured.
    """

    number: int
    reason: str
    points: Sequence[IterationPoint]
    functions: int | None
    added: Sequence[str]
    dropped: Sequence[str]
    core_hours: float
    predicted_core_hours: float | None
    predicted_overhead: float | None
    time_overhead: MeasuredOverhead | None
    effort_overhead: MeasuredOverhead | None


def page_data(
    report: Report,
    call_paths: CallPaths | None,
    table: Experiment | None,
    iterations: Sequence[Iteration],
    runs: Sequence[TimedRun] = (),
    estimated_s: Mapping[tuple[float, ...], Sequence[float]] = MappingProxyType({}),
) -> dict[str, Any]:
    """Return everything that the page's script draws from, as plain data.

    Parameters
    ----------
    call_paths
        From `predict_call_paths`.
    table
        The measurements behind the models; None if there are none.
    runs
        Finished runs, for how run times differ over time.
    estimated_s
        Run times of the program where the baseline did not run, from runs with hooks.
    """
    plain: dict[str, Any] = {
        "parameters": list(report.parameters),
        "target": [report.target[name] for name in report.parameters],
        "simulated": bool(report.simulated_on),
        "words": {str(number): word for word, number in report.words.items()},
        "iterations": [asdict(iteration) for iteration in iterations],
        "drift": drift_of([run for run in runs if run.mode is Mode.VANILLA]),
        **{
            each.name: None if (value := report.further.get(each.name)) is None else each.plot(value)
            for each in sections()
            if each.plot is not None
        },
        "paths": [],
        "left_out": 0,
    }
    if call_paths is None:
        return plain
    models, rows = call_paths.models, with_rows(call_paths)
    position = {row: index for index, row in enumerate(rows.tolist())}
    stack = stack_of(call_paths, report, rows)
    plain |= {
        "metric": models.metric,
        "unit": models.unit,
        "level": LEVEL,
        "largest": list(call_paths.largest),
        "cuts": measured_cuts(call_paths).tolist(),
        "points": [] if table is None else table.points_in(report.parameters).tolist(),
        "axes": [axis_of(call_paths, report, parameter).tolist() for parameter in range(len(report.parameters))],
        "parallel": [report.parameters.index(name) for name in report.parallel],
        "paths": _paths(report, call_paths, rows, position, table),
        "metrics": _other_metrics(report, call_paths, rows),
        "stack": {**stack, "rows": [position[row] for row in stack["rows"]]},
        "runtime": {
            "curves": runtime_curves(call_paths, report),
            "measured": _baseline(runs, estimated_s),
            "at": [rounded(seconds) for seconds in run_time_reach(report) or ()],
        },
        "start_and_end": rounded(startup_at_target(report)),
        "left_out": len(models.call_paths) - len(rows),
        "left_out_share": rounded(max(1.0 - float(np.nansum(call_paths.shares[0][rows])), 0.0)),
        "without_model": sum(model is None for model in models.models),
    }
    return plain


def _paths(
    report: Report, call_paths: CallPaths, rows: Indices, position: Mapping[int, int], table: Experiment | None
) -> list[dict[str, Any]]:
    """Return what is known of each call path that has a row; of the largest ones, also their plots."""
    models = call_paths.models
    at_target, now = call_paths.shares
    priors = {prior.call_path: prior for prior in report.priors}
    other_models = {metric: _by_name(others) for metric, others in report.models.items() if others is not models}
    plotted = rows[np.argsort(-call_paths.size[rows], kind="stable")[:MOST_PLOTTED]]
    plots = plots_of(call_paths, plotted, table, report)
    levels = levels_of(call_paths.only(rows), table)
    tree = NO_CALL_PATHS if table is None else table.tree
    regions = dict(zip(tree.names, tree.region.tolist(), strict=True))
    paths = []
    for index, row in enumerate(rows.tolist()):
        model, name = models.models[row], models.call_paths[row]
        prior = priors.get(name)
        paths.append(
            {
                "name": name,
                "short": brief(plain_name(call_paths.region_name(row)), 70),
                "source": _source(tree.regions[regions[name]]) if name in regions else "",
                "parent": position.get(int(call_paths.parent[row]), -1),
                "share": rounded(at_target[row]),
                "now": rounded(now[row]),
                "at": rounded(call_paths.at_target[row]) if model else None,
                "low": rounded(call_paths.lower[row]),
                "high": rounded(call_paths.upper[row]),
                "grows": growth_class(model.function, report.parameters) if model else "",
                "model": format_largest(model.function, report.parameters, report.target) if model else "",
                "smape": rounded(model.quality.smape) if model else None,
                "noise_level": rounded(levels[index], 3),
                **{key: getattr(prior, key, None) for key in ("prior", "times_alone", "waiting", "at_target_s")},
                "notes": list(prior.notes) if prior else [],
                "others": {
                    metric: format_largest(other.function, report.parameters, report.target)
                    for metric, by_name in other_models.items()
                    if (other := by_name.get(name)) is not None
                },
                **plots.get(row, {}),
            }
        )
    return paths


def _source(region: Region) -> str:
    """Return file and line of a function; empty where the profile has no line, as of MPI operations."""
    return f"{region.file}:{region.line}" if region.file and region.line else ""


def _by_name(models: ModelSet) -> dict[str, Model | None]:
    return dict(zip(models.call_paths, models.models, strict=True))


def _other_metrics(report: Report, call_paths: CallPaths, rows: Indices) -> dict[str, dict[str, Any]]:
    """Return of each further metric what the rows have of it at the largest measured point and at the target."""
    names = call_paths.only(rows).call_paths
    at_both = np.array([call_paths.largest, [report.target[name] for name in report.parameters]], dtype=np.float64)
    found: dict[str, dict[str, Any]] = {}
    for metric, models in report.models.items():
        if models is call_paths.models or models.parameters != call_paths.models.parameters:
            continue
        by_name = _by_name(models)
        chosen = tuple(by_name.get(name) for name in names)
        now, at = np.nan_to_num(replace(models, call_paths=names, models=chosen).predict(at_both)).T
        found[metric] = {
            "unit": models.unit,
            "now": listed(now),
            "at": listed(at),
            "grows": [growth_class(model.function, report.parameters) if model else "" for model in chosen],
            "smape": [rounded(model.quality.smape) if model else None for model in chosen],
        }
    return found


_MODELLED, _TESTS, _ESTIMATED = range(3)


def _baseline(runs: Sequence[TimedRun], estimated_s: Mapping[tuple[float, ...], Sequence[float]]) -> list[list[Any]]:
    """Return of each point its values, median, least and most of the program's run times, and what they are."""
    walls: dict[tuple[tuple[float, ...], int], list[float]] = {}
    for run in runs:
        if run.mode is Mode.VANILLA and not run.apart:
            walls.setdefault((run.point, _TESTS if run.evaluation else _MODELLED), []).append(run.wall_s)
    walls |= {(point, _ESTIMATED): list(times) for point, times in estimated_s.items()}
    return [
        [list(point), rounded(float(np.median(times))), rounded(min(times)), rounded(max(times)), kind]
        for (point, kind), times in walls.items()
    ]


_COLUMNS = (
    "call path", "metric", "unit", "at target", "lower", "upper", "share at target", "share measured", "dominant term",
    "model", "SMAPE %", "noise %",
)  # fmt: skip


def as_csv(call_paths: CallPaths | None, table: Experiment | None = None) -> str:
    """Return a line for each call path of the report, all of them, with the numbers the page shows."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(_COLUMNS)
    if call_paths is None:
        return out.getvalue()
    models = call_paths.models
    columns = (call_paths.at_target, call_paths.lower, call_paths.upper, *call_paths.shares)
    noise = levels_of(models, table)
    for row, (name, model) in enumerate(zip(models.call_paths, models.models, strict=True)):
        cells = [name, models.metric, models.unit]
        if model is not None:
            cells += ["" if np.isnan(column[row]) else f"{column[row]:.6g}" for column in columns]
            cells += [
                growth_class(model.function, models.parameters),
                format_function(model.function, models.parameters),
            ]
            cells += [f"{model.quality.smape:.4g}", "" if np.isnan(noise[row]) else f"{noise[row]:.4g}"]
        writer.writerow(cells)
    return out.getvalue()
