"""What the history keeps of a campaign: predictions and growth at its target, and what was measured at its points."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import TypedDict

import numpy as np

from buran.campaign.plan import Purpose
from buran.files import digest, finite_or_none
from buran.modeling.numerics.intervals import ROUNDING
from buran.modeling.pmnf.repetitions import over_repetitions
from buran.modeling.pmnf.text import growth_class
from buran.profiles.experiment import TABLE
from buran.profiles.experiment.jsonl import read_jsonl
from buran.profiles.metrics import metric_of
from buran.reporting.content import Report, run_time_reach, target_values
from buran.wording import named
from buran.workflow.history import History, in_store, run_times
from buran.workflow.page import nodes_of

RUN_TIME, PROGRAM = "run time", "whole program, not instrumented"
"""Metric and call path of a run's wall time without instrumentation."""
TIME = "time"


class VersionColumns(TypedDict):
    """What the history lists of a version, as `store.COLUMNS` names it."""

    name: str
    environment: str
    version: str
    machine: str
    recorded: str
    target: str
    run_time: float | None
    lower: float | None
    upper: float | None
    core_hours: float


class VersionContent(TypedDict):
    """What was found of a version, by metric and call path.

    Attributes
    ----------
    predicted
        At the target, with its growth.
    measured
        At the first of `points`, or all of them; None for counts that depend on the run. Of times the ``least`` and
        the ``most`` of all repetitions are metrics, too.
    """

    predicted: dict[str, dict[str, tuple[float, str]]]
    units: dict[str, str]
    points: list[dict[str, float]]
    measured: dict[str, dict[str, list[float | None]]]


class Version(VersionColumns, VersionContent):
    """A version as the history has it."""


@dataclass(frozen=True)
class VersionEntry:
    """A campaign, as it is entered.

    Attributes
    ----------
    key
        The same for all reports of the same runs, so that these count once.
    columns, content
        What is listed of it, and the rest.
    """

    key: str
    columns: VersionColumns
    content: VersionContent


def entry_of(history: History, report: Report, folder: Path) -> VersionEntry:
    """Return what is entered of a finished campaign, whose table of measurements lies in `folder`."""
    session, runs = history.session, in_store(history.runs)
    source, campaign = session.target.source, session.campaign
    environment = campaign.environment_choice or campaign.environment  # as the file says; points tell which it chooses
    started = [began for run in runs if (began := history.run_record(run.folder).started)]
    which = [min(started)] if started else [run.folder.relative_to(history.layout.root).as_posix() for run in runs]
    cpus = {f"{node['cpu']}, {node['cores']} cores" for node in nodes_of(history)}
    run_time, lower, upper = map(finite_or_none, run_time_reach(report) or (np.nan,) * 3)
    columns: VersionColumns = {
        "name": report.summary.campaign,
        "environment": environment,
        "version": source.revision or session.target.id[:8],
        "machine": campaign.simulated_on or "; ".join(sorted(cpus)),
        "recorded": datetime.now(UTC).isoformat(timespec="seconds"),
        "target": named(report.target),
        "run_time": run_time,
        "lower": lower,
        "upper": upper,
        "core_hours": report.summary.spent_core_hours,
    }
    predicted: dict[str, dict[str, tuple[float, str]]] = {}
    sets = {RUN_TIME: report.runtime, **report.models}
    for metric, models in ((metric, models) for metric, models in sets.items() if models is not None):
        found = zip(models.call_paths, target_values(models, report.target).tolist(), models.models, strict=True)
        predicted[metric] = {
            path: (value, growth_class(model.function, models.parameters)) for path, value, model in found if model
        }
    units = {metric: models.unit for metric, models in sets.items() if models is not None}
    points, measured = _measured(history, report, folder / TABLE)
    content: VersionContent = {"predicted": predicted, "units": units, "points": points, "measured": measured}
    return VersionEntry(digest([report.summary.campaign, environment, session.target.id, which]), columns, content)


def _measured(
    history: History, report: Report, path: Path
) -> tuple[list[dict[str, float]], dict[str, dict[str, list[float | None]]]]:
    names, config = report.parameters, history.session.campaign.config
    walls = run_times(history.runs, Purpose.MODEL)
    seconds = {tuple(float(point[name]) for name in names): of_point for point, of_point in walls.items()}
    rows: list[tuple[float, ...]] = []
    tables: dict[str, Mapping[str, list[float]]] = {}
    if path.is_file() and path.stat().st_size:
        table = read_jsonl(path)
        rows = list(map(tuple, table.points_in(names).tolist()))
        for metric in table.values:
            values = table.over_locations(metric, config.aggregate)
            single, least, most = (over_repetitions(values, how) for how in (config.model.repetition, "min", "max"))
            if metric_of(metric).noise_resilient:
                unsteady = np.isin(table.tree.names, list(report.unsteady.get(metric, ())))
                single[unsteady | (most - least > ROUNDING * np.abs(most)).any(axis=1)] = np.nan
            kept = {metric: single} if metric != TIME else {TIME: single, f"least {TIME}": least, f"most {TIME}": most}
            tables |= {name: dict(zip(table.tree.names, array.tolist(), strict=True)) for name, array in kept.items()}
    points = list(dict.fromkeys((*rows, *seconds)))  # those of the table first
    for name, single_of in ((RUN_TIME, median), (f"least {RUN_TIME}", min), (f"most {RUN_TIME}", max)):
        tables[name] = {PROGRAM: [single_of(seconds.get(point, [np.nan])) for point in points]}
    measured = {
        metric: {name: [finite_or_none(value) for value in row] for name, row in of_metric.items()}
        for metric, of_metric in tables.items()
    }
    return [dict(zip(names, point, strict=True)) for point in points], measured
