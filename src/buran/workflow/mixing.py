"""Which imported runs may be mixed with those of the campaign, and what is said of all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from buran.campaign.mistakes import listed
from buran.campaign.plan import Mode
from buran.campaign.records import RunRecord
from buran.instrumentation.prediction import FILTERABLE, symbol_of
from buran.profiles.experiment.merge import project
from buran.profiles.experiment.table import Experiment
from buran.profiles.metrics import uncounted
from buran.profiles.profile import Region
from buran.profiles.regroup import TreeUnion
from buran.workflow.collect import experiment_of
from buran.workflow.findings import ImportAssessment
from buran.workflow.history import FinishedRun, History
from buran.workflow.pool import hooks_of

MOST_OTHER = 0.01
"""Share of the time in call paths of one side alone beyond which runs are not of the same program."""


def judge(
    history: History, runs: Sequence[FinishedRun], parameters: Sequence[str], filter_text: str, filters_mix: bool
) -> tuple[list[FinishedRun], tuple[ImportAssessment, ...]]:
    """Return the runs that may be mixed, and what becomes of each import.

    Where nothing else was timed, the runs of the import that tells most are all there is.

    Parameters
    ----------
    runs
        Finished runs that models could be made of.
    filter_text
        Filter of the models.
    filters_mix
        Whether times under other filters are corrected and used too.
    """
    groups: dict[str, list[FinishedRun]] = {}
    for run in runs:
        if run.mode is Mode.IMPORTED:
            groups.setdefault(run.build.hash, []).append(run)
    campaign_runs = [run for run in runs if run.mode is not Mode.IMPORTED]
    timed = [run for run in campaign_runs if run.mode is Mode.TIME and run.filter_text == filter_text]
    imports = [
        _judged(history, members, timed, parameters, members[0].filter_text == filter_text, filters_mix)
        for members in groups.values()
    ]
    mixed = [run for judged in imports if judged.pooled for run in groups[judged.build]]
    if not timed and not mixed and imports:
        most = max(
            imports, key=lambda judged: (groups[judged.build][0].filter_text == filter_text, judged.points, judged.runs)
        )
        return [run for run in campaign_runs if run.mode is not Mode.TIME] + groups[most.build], tuple(imports)
    return campaign_runs + mixed, tuple(imports)


def _judged(
    history: History,
    imported: Sequence[FinishedRun],
    timed: Sequence[FinishedRun],
    parameters: Sequence[str],
    same_filter: bool,
    filters_mix: bool,
) -> ImportAssessment:
    build = imported[0].build
    compared = _compared(history, imported, timed, parameters)
    records = [history.run_record(run.folder) for run in imported]
    refused = ""
    absent = _missing_metrics(history, records, same_filter)
    if build.pooled and absent:
        refused = f"they have no {' and no '.join(absent)}, which the campaign needs to mix them"
    elif build.pooled and max(compared["extra"], compared["missing"]) > MOST_OTHER:
        refused = _other_paths(compared)
    elif build.pooled and not same_filter and not filters_mix:
        refused = "they were taken under another filter"
    return ImportAssessment(
        origin=build.origin or "",
        build=build.hash,
        runs=len(imported),
        points=len({run.point for run in imported}),
        had_cost_core_hours=float(sum(record.had_cost_core_hours or 0.0 for record in records)),
        same_filter=same_filter,
        pooled=build.pooled and not refused,
        refused=refused,
        **compared,
    )


def _missing_metrics(history: History, records: Sequence[RunRecord], same_filter: bool) -> list[str]:
    """Return the metrics of timed runs that some of the imported runs do not have."""
    config = history.session.campaign.config
    metrics = list(uncounted((*config.metrics, *config.extra_metrics)))
    if not same_filter and "visits" not in metrics:  # what hooks have cost follows from them
        metrics.append("visits")
    return [name for name in metrics if any(name not in (record.metrics or ()) for record in records)]


def _other_paths(compared: dict[str, Any]) -> str:
    parts = []
    for share, paths, whose in (
        (compared["extra"], compared["extra_paths"], "theirs is in call paths that this program does not have"),
        (compared["missing"], compared["missing_paths"], "this program's is in call paths that they do not have"),
    ):
        if share > MOST_OTHER:
            parts.append(f"{100 * share:.3g} % of the time of {whose} ({listed(paths, 3)})")
    return "they have other call paths: " + ", and ".join(parts)


def _compared(
    history: History, imported: Sequence[FinishedRun], timed: Sequence[FinishedRun], parameters: Sequence[str]
) -> dict[str, Any]:
    """Compare imported runs with the campaign's at the points that both have."""
    common = {run.point for run in imported} & {run.point for run in timed}
    nothing = {"compared": 0, "extra": 0.0, "missing": 0.0, "extra_paths": (), "missing_paths": (), "ratio": None}
    ours = experiment_of([run for run in timed if run.point in common], parameters)
    theirs = experiment_of([run for run in imported if run.point in common], parameters)
    if ours is None or theirs is None:
        return nothing
    keeps = hooks_of(history, {run.build.hash: run.build for run in timed}.values())
    symbols = set(map(symbol_of, ours.tree.regions))

    def stays(region: Region) -> bool:
        return region.paradigm not in FILTERABLE or symbol_of(region) in symbols or keeps(region)

    theirs = project(theirs, stays)
    union = TreeUnion()
    rows = [union.add(table.tree) for table in (ours, theirs)]
    our_s, their_s = (_seconds(table) for table in (ours, theirs))
    missing, missing_paths = _alone(ours, our_s, ~np.isin(rows[0], rows[1]))
    extra, extra_paths = _alone(theirs, their_s, ~np.isin(rows[1], rows[0]))
    return {
        "compared": len(common),
        "extra": extra,
        "missing": missing,
        "extra_paths": extra_paths,
        "missing_paths": missing_paths,
        "ratio": float(our_s.sum() / their_s.sum()) if their_s.sum() > 0 else None,
    }


def _seconds(experiment: Experiment) -> NDArray[np.float64]:
    """Return shape (call path,): mean time of a run, summed over points."""
    time = experiment.over_locations("time")
    runs = np.isfinite(time).any(axis=0).sum(axis=1)
    return np.asarray((np.nansum(time, axis=2) / np.maximum(runs, 1)).sum(axis=1))


def _alone(
    experiment: Experiment, seconds: NDArray[np.float64], mask: NDArray[np.bool_]
) -> tuple[float, tuple[str, ...]]:
    share = float(seconds[mask].sum() / seconds.sum()) if seconds.sum() > 0 else 0.0
    rows = np.flatnonzero(mask)
    rows = rows[np.argsort(-seconds[rows], kind="stable")]
    return share, tuple(experiment.tree.names[row] for row in rows[:5].tolist())
