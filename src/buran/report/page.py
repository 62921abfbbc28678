"""What the report's page shows, as plain data: small enough for one file, enough for every plot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from buran.campaign.plan import Mode
from buran.experiment.table import Experiment
from buran.model.text import format_function, growth_class
from buran.report.call_paths import LEVEL, MOST_PLOTTED, CallPaths, Places, predict_call_paths, with_rows
from buran.report.curves import (
    MAP_STEPS,
    STEPS,
    axis_of,
    columns_of,
    map_parameters,
    plots_of,
    rounded,
    runtime_curves,
    stack_of,
)
from buran.report.noise import TimedRun, levels_of, over_time, violins_of
from buran.report.plain import brief
from buran.report.text import Report

__all__ = ["Iteration", "page_data", "predict_call_paths"]


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
    filter_notes
        What the filter says of itself: how many functions were kept, and the time they cover.
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
    filter_notes: Sequence[str] = ()


def page_data(
    report: Report,
    found: CallPaths | None,
    table: Experiment | None,
    iterations: Sequence[Iteration],
    runs: Sequence[TimedRun] = (),
    estimated_s: Mapping[tuple[float, ...], Sequence[float]] = MappingProxyType({}),
) -> dict[str, Any]:
    """Return everything that the page's script draws from, as plain data.

    Parameters
    ----------
    found
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
        "iterations": [asdict(each) for each in iterations],
        "over_time": over_time(runs),
        "paths": [],
        "left_out": 0,
    }
    if found is None:
        return plain
    models, rows = found.models, with_rows(found)
    place = {row: index for index, row in enumerate(rows.tolist())}
    chosen = map_parameters(found)
    stack = stack_of(found, report, rows)
    return plain | {
        "metric": models.metric,
        "unit": models.unit,
        "level": LEVEL,
        "largest": list(found.largest),
        "points": [] if table is None else columns_of(table, report.parameters).tolist(),
        "axes": [axis_of(found, report, each, STEPS).tolist() for each in range(len(report.parameters))],
        "map": chosen,
        "map_axes": [axis_of(found, report, each, MAP_STEPS).tolist() for each in chosen],
        "paths": _paths(report, found, rows, place, table),
        "stack": {**stack, "rows": [place[row] for row in stack["rows"]]},
        "runtime": {"curves": runtime_curves(found, report), "measured": _baseline(runs, estimated_s)},
        "left_out": len(models.call_paths) - len(rows),
        "left_out_share": rounded(max(1.0 - float(found.shares[0][rows].sum()), 0.0)),
        "without_model": sum(model is None for model in models.models),
    }


def _paths(
    report: Report, found: CallPaths, rows: Places, place: Mapping[int, int], table: Experiment | None
) -> list[dict[str, Any]]:
    """Return what is known of each call path that has a row; of the largest ones, also their plots."""
    models = found.models
    at_target, now = found.shares
    priors = {each["call_path"]: each for each in report.priors}
    others = {
        metric: dict(zip(each.call_paths, each.models, strict=True))
        for metric, each in report.models.items()
        if each is not models
    }
    plotted = rows[np.argsort(-found.size[rows], kind="stable")[:MOST_PLOTTED]]
    plots = plots_of(found, plotted, table, report)
    for row, violin in zip(plotted.tolist(), violins_of(found.only(plotted), table), strict=True):
        if violin is not None and row in plots:
            plots[row]["noise"] = violin
    levels = levels_of(found.only(rows), table)
    paths = []
    for index, row in enumerate(rows.tolist()):
        model, name = models.models[row], models.call_paths[row]
        prior = priors.get(name, {})
        paths.append(
            {
                "name": name,
                "short": brief(found.own_name(row), 70),
                "parent": place.get(int(found.parent[row]), -1),
                "share": rounded(at_target[row]),
                "now": rounded(now[row]),
                "at": rounded(found.at_target[row]) if model else None,
                "low": rounded(found.lower[row]),
                "high": rounded(found.upper[row]),
                "grows": growth_class(model.function, report.parameters) if model else "",
                "model": format_function(model.function, report.parameters) if model else "",
                "smape": rounded(model.quality.smape) if model else None,
                "noise_level": rounded(levels[index], 3),
                **{key: prior.get(key) for key in ("prior", "times_alone", "waiting", "at_target_s")},
                **{key: rounded(prior.get(key)) for key in ("difference_s", "difference_error_s")},
                "notes": list(prior.get("notes", ())),
                "others": {
                    metric: format_function(other.function, report.parameters)
                    for metric, by_name in others.items()
                    if (other := by_name.get(name)) is not None
                },
                **plots.get(row, {}),
            }
        )
    return paths


_MODELLED, _TESTS, _ESTIMATED = range(3)


def _baseline(runs: Sequence[TimedRun], estimated_s: Mapping[tuple[float, ...], Sequence[float]]) -> list[list[Any]]:
    """Return of each point its values, median, least and most of the program's run times, and what they are."""
    walls: dict[tuple[tuple[float, ...], int], list[float]] = {}
    for run in runs:
        if run.mode is Mode.VANILLA and not run.apart:
            walls.setdefault((run.point, _TESTS if run.evaluation else _MODELLED), []).append(run.wall_s)
    walls |= {(point, _ESTIMATED): list(own) for point, own in estimated_s.items()}
    return [
        [list(point), rounded(float(np.median(own))), rounded(min(own)), rounded(max(own)), kind]
        for (point, kind), own in walls.items()
    ]
