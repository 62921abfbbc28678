"""What the runs that are compared with an earlier version tell: whether the program changed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from buran.campaign.plan import Mode, Purpose
from buran.files import decode
from buran.modeling.pmnf.model_set import write_models
from buran.planning.observations import Observations
from buran.plugins.versions.changes import Changes
from buran.plugins.versions.check import CheckedRow, ComparedRuns, check_counts, check_times
from buran.plugins.versions.fold import fold
from buran.plugins.versions.side import RUNTIME
from buran.profiles.experiment.jsonl import write_jsonl
from buran.profiles.experiment.table import Experiment
from buran.profiles.metrics import noise_resilient, uncounted
from buran.profiles.profile import NO_CALL_PATHS
from buran.workflow import collect
from buran.workflow.findings import Findings
from buran.workflow.history import FinishedRun, History
from buran.workflow.session import Session

if TYPE_CHECKING:
    from buran.plugins.versions.earlier import EarlierVersion


def compare_runs(
    earlier: EarlierVersion, history: History, models_path: Path, findings_path: Path, table_path: Path
) -> None:
    """Compare the runs of an iteration with the earlier version; write findings and table, and no models."""
    session, plan = history.session, history.plans[-1]
    runs = history.runs_of([plan])
    mode = Mode.EFFORT if any(run.mode is Mode.EFFORT for run in runs) else Mode.TIME
    table = collect.experiment_of([run for run in runs if run.mode is mode], session.campaign.parameters)
    compared = ComparedRuns(mode)
    tree = NO_CALL_PATHS
    if table is None:
        table_path.write_text("", encoding="utf-8")
    else:
        tree = table.tree
        chosen = session.campaign.config.metrics
        metrics = noise_resilient(chosen) if mode is Mode.EFFORT else uncounted(chosen)
        write_jsonl(collect.only(table, metrics), table_path)
        compared = _counts(earlier, table) if mode is Mode.EFFORT else _times(session, earlier, table, runs)
    Findings(
        iteration=plan.iteration,
        filter_text=plan.filter_text,
        tree=tree,
        imbalance_s=(),
        extremes_s=(),
        runtime=None,
        shortest_run_s=0.0,
        overhead=collect.overhead(runs),
        unsteady={},
        evaluation=(),
        comparison=asdict(compared),
    ).write(findings_path)
    write_models(models_path, [])


def _counts(earlier: EarlierVersion, table: Experiment) -> ComparedRuns:
    checked = check_counts(earlier.side, table)
    return ComparedRuns(
        Mode.EFFORT,
        tuple(map(CheckedRow.of, checked.rows)),
        checked.points,
        checked.call_paths,
        checked.unsteady,
        tuple((pair.before, pair.after) for pair in checked.moved),
    )


def _times(session: Session, earlier: EarlierVersion, table: Experiment, runs: Sequence[FinishedRun]) -> ComparedRuns:
    names = session.campaign.parameters
    if "time" not in earlier.side.models or "time" not in table.values:
        return ComparedRuns(Mode.TIME, open="call paths' times are not modelled there, or not measured here")
    walls = collect.baseline(runs, Purpose.COMPARISON)
    by_point = {tuple(float(point[name]) for name in names): times for point, times in walls.items()}
    rows = tuple(map(CheckedRow.of, check_times(earlier.side, table, by_point)))
    if all(row.verdict == "undecided" for row in rows):
        return ComparedRuns(Mode.TIME, rows, open="the models there have no intervals")
    return ComparedRuns(Mode.TIME, rows, timed=len(table.points))


def _comparisons(history: History) -> list[ComparedRuns]:
    found = [history.findings(plan.iteration).comparison for plan in history.plans if plan.comparison]
    return [decode(ComparedRuns, comparison) for comparison in found]


def checked_so_far(history: History) -> list[CheckedRow]:
    """Return what was measured compared with what the earlier version predicts and counted, for the report."""
    return [row for comparison in _comparisons(history) for row in comparison.rows]


def changes_so_far(earlier: EarlierVersion, history: History) -> Changes:
    """Return what comparing runs showed in the iterations so far."""
    comparisons = _comparisons(history)
    rows = checked_so_far(history)
    changed = sorted(
        (row for row in rows if row.verdict in ("grown", "shrunk")),
        key=lambda row: (row.metric == RUNTIME, -row.share),
    )

    def within(metrics: Iterable[str]) -> float:
        limits = [math.inf if row.within is None else row.within for row in rows if row.metric in metrics]
        return max(limits, default=math.inf)

    return Changes(
        earlier=earlier.name,
        changed=tuple(dict.fromkeys((row.metric, row.call_path) for row in changed)),
        growth={(row.metric, row.call_path): row.growth for row in changed if all(row.growth)},
        counted=max((comparison.counted for comparison in comparisons), default=0),
        call_paths=max((comparison.call_paths for comparison in comparisons), default=0),
        unsteady=max((comparison.unsteady for comparison in comparisons), default=0),
        timed=max((comparison.timed for comparison in comparisons), default=0),
        run_time_within=within([RUNTIME]),
        within=within(["time"]),
        open=next((comparison.open for comparison in comparisons if comparison.open), ""),
    )


def of_changed(changes: Changes, observations: Observations) -> Observations:
    """Return what was measured of the call paths whose times changed since the earlier version; without any, of all.

    The others are predicted well enough already: by the earlier version's models.
    """
    if not changes.timed:
        return observations
    changed = [path for metric, path in changes.changed if metric == "time"]
    paths = [path for _, path in observations.names]
    distinct = list(dict.fromkeys(paths))
    changed_paths = {distinct[position] for position in fold(changed, distinct).tolist() if position >= 0}
    rows = [row for row, path in enumerate(paths) if path in changed_paths]
    return observations.only(rows) if rows else observations
