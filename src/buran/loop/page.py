"""Writing the report's page: what plans, models and the store say, put together."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import Any

from buran.campaign.plan import Plan, Purpose
from buran.campaign.records import RECORD, BundleOutcome, Status, read_build, read_run
from buran.errors import FormatError
from buran.experiment.jsonl import read_jsonl
from buran.experiment.table import Experiment
from buran.files import write_json, write_text
from buran.instrument import filter_file
from buran.loop.collect import FinishedRun, estimated_times, finished_runs, there
from buran.loop.session import Session
from buran.report.html import render_page
from buran.report.noise import TimedRun
from buran.report.page import Iteration, page_data, predict_call_paths
from buran.report.tables import as_csv, points_as_csv
from buran.report.text import Report

PAGE, CSV, POINTS, DATA = "report.html", "report.csv", "points.csv", "page.json"
_EXCERPT = 2000  # characters at the end of a log


def write_page(session: Session, folder: Path, report: Report) -> None:
    """Write the page, its numbers as JSON, and a line for each call path as CSV."""
    plans = session.layout.read_plans(session.id)
    found = predict_call_paths(report)
    course = [_iteration(session, plans, plan) for plan in plans if plan.bundles]
    table = _table(folder)
    runs = finished_runs(session.layout, plans)
    data = page_data(report, found, table, course, _timed_runs(session, runs), _estimated_s(session, runs))
    excerpts = [_excerpt(session.layout.root / each["log"]) for each in report.failures]
    why = "no run succeeded" if report.failures else "nothing that can be modelled was measured"
    write_text(folder / PAGE, render_page(report, data, excerpts, _provenance(session, plans), why))
    write_json(folder / DATA, data)
    write_text(folder / CSV, as_csv(found, table))
    write_text(folder / POINTS, points_as_csv(report.parameters, course))


def _timed_runs(session: Session, finished: Sequence[FinishedRun]) -> list[TimedRun]:
    """Return when each finished run began; pilots and evaluation points too, as they tell of the machine.

    Imported runs are none: they were made at another time, maybe elsewhere.
    """
    campaign = session.campaign
    runs = [run for run in there(finished) if not run.build.origin]
    records = [read_run(run.folder) for run in runs]
    started = [_seconds(each.started) for each in records]
    first = min((each for each in started if each is not None), default=0.0)
    return [
        TimedRun(
            group=f"{run.build.hash} {run.point.key}",
            point=tuple(float(run.point[name]) for name in campaign.parameters),
            mode=run.mode,
            started_s=None if began is None or record.clock == "virtual" else began - first,
            wall_s=run.wall_s,
            disturbed=bool(record.disturbances),
            evaluation=run.purpose is Purpose.EVALUATION,
            apart=any(run.point[name] != campaign.refinement_target[name] for name in campaign.choices),
        )
        for run, record, began in zip(runs, records, started, strict=True)
    ]


def _estimated_s(session: Session, runs: Sequence[FinishedRun]) -> dict[tuple[float, ...], list[float]]:
    """Return run times of the program at points where the baseline did not run."""
    campaign = session.campaign
    return {
        tuple(float(point[name]) for name in campaign.parameters): walls
        for point, walls in estimated_times(runs, Purpose.MODEL).items()
        if all(point[name] == campaign.refinement_target[name] for name in campaign.choices)
    }


def _seconds(started: str | None) -> float | None:
    return None if started is None else datetime.fromisoformat(started).timestamp()


def _table(folder: Path) -> Experiment | None:
    path = folder / "experiment.jsonl"
    if not path.is_file() or not path.stat().st_size:
        return None
    try:
        return read_jsonl(path)
    except FormatError:
        return None  # an empty table: nothing was measured


def _iteration(session: Session, plans: Sequence[Plan], plan: Plan) -> Iteration:
    before = [each.filter_text for each in plans if each.iteration < plan.iteration and each.bundles]
    old, new = (_functions(text) for text in (before[-1] if before else "", plan.filter_text))
    points: list[dict[str, Any]] = []
    cost, ratios = 0.0, {mode: list[float]() for mode in ("time", "effort")}
    for bundle in plan.bundles:
        pointer = session.layout.bundle_pointer(bundle.id)
        runs = BundleOutcome.read(pointer).runs if pointer.is_file() else ()
        cost += sum(run.cost_core_hours for run in runs)
        cpu_s = {
            mode: [run.cpu_s or 0.0 for run in runs if run.mode == mode and run.status is Status.MEASURED]
            for mode in ("vanilla", *ratios)
        }
        for mode, own in ratios.items():
            if cpu_s["vanilla"] and cpu_s[mode] and median(cpu_s["vanilla"]) > 0:
                own.append(median(cpu_s[mode]) / median(cpu_s["vanilla"]))
        states = {run.status for run in runs}
        state = "failed" if Status.FAILED in states else "measured" if Status.MEASURED in states else "planned"
        points.append(
            {"point": dict(bundle.point), "purpose": str(bundle.purpose), "runs": len(bundle.runs), "state": state}
        )
    return Iteration(
        number=plan.iteration,
        reason=plan.reason,
        points=points,
        functions=len(new) if plan.filter_text else None,
        added=sorted(new - old) if before else [],
        dropped=sorted(old - new) if before else [],
        core_hours=cost,
        predicted_core_hours=plan.predicted_core_hours,
        time_overhead=median(ratios["time"]) if ratios["time"] else None,
        effort_overhead=median(ratios["effort"]) if ratios["effort"] else None,
        filter_notes=_filter_notes(session, plan),
    )


def _filter_notes(session: Session, plan: Plan) -> tuple[str, ...]:
    """Return what the filter of an iteration says of the whole, before it says why each function is in it."""
    path = session.layout.filter(session.id, plan.iteration)
    if not plan.filter_text or not path.is_file():
        return ()
    text = path.read_text()
    comments = [line[1:].strip() for line in text.splitlines() if line.startswith("#")]
    return tuple(comments[: max(len(comments) - len(_functions(text)), 0)])


def _functions(filter_text: str) -> set[str]:
    """Return the functions that a filter names; none for the default selection."""
    if not filter_text:
        return set()
    return {rule.pattern for rule in filter_file.parse(filter_text).regions if rule.include}


def _excerpt(path: Path) -> str:
    try:
        return path.read_text(errors="replace")[-_EXCERPT:].strip()
    except OSError:
        return ""


def _provenance(session: Session, plans: Sequence[Plan]) -> dict[str, str]:
    """Return where the numbers come from: file, sources, compiler, machines; and how to get them again."""
    campaign, layout = session.campaign, session.layout
    told = {
        "campaign file": f"{campaign.path.name}, version {session.id}",
        "again": f"buran run {campaign.path.name} (measures only what is missing)",
    }
    records = [
        read_build(folder)
        for build in dict.fromkeys(build.hash for plan in plans for build in plan.builds)
        if ((folder := layout.build(build)) / RECORD).is_file()
    ]
    if records:
        first = records[0]
        revision = first.source.get("commit") or first.source.get("revision")
        told["sources"] = " ".join(filter(None, (first.source["identity"], revision)))
        told["compiler"] = str(first.toolchain.get("compiler"))
        told["MPI"] = str(first.toolchain.get("mpi"))
        told["flags"] = first.flags or "none"
        told["tools"] = ", ".join(f"{name} {version}" for name, version in first.tools.items() if version)
        told["builds"] = ", ".join(f"{each.spec.mode} {each.spec.hash}" for each in records)
    nodes = sorted((layout.store / "nodes").glob("*.json"))
    if nodes:
        told["machines"] = "; ".join(_machine(json.loads(path.read_text())) for path in nodes)
    return told


def _machine(node: dict[str, Any]) -> str:
    return f"{node['host']}: {node['cores']} cores, {node['cpu']}, {node['kernel']}"
