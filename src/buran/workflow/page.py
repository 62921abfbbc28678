"""Writing the report's page: what plans, models and the store say, put together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from buran.campaign.plan import Mode, Plan, Purpose
from buran.campaign.records import Status
from buran.files import read_json, write_json, write_text
from buran.instrumentation import filter_file
from buran.instrumentation.measured import MeasuredOverhead
from buran.instrumentation.refinement import predicted_overhead
from buran.reporting.call_paths import CallPaths, TimedRun
from buran.reporting.content import Report
from buran.reporting.headline import Headline
from buran.reporting.html import render_page
from buran.reporting.page import Iteration, IterationPoint, as_csv, page_data
from buran.reporting.text import answers_of, first_screen, render
from buran.workflow.history import History, estimated_times, in_store, overhead

PAGE, TEXT, CSV, DATA = "report.html", "report.txt", "report.csv", "page.json"
SCREEN = "summary.txt"


def course_of(history: History) -> list[Iteration]:
    """Return the iterations of a campaign, with what was chosen and what became of it."""
    return [_iteration(history, plan) for plan in history.plans if plan.bundles]


def write_page(
    history: History,
    folder: Path,
    report: Report,
    paths: CallPaths | None,
    headline: Headline,
    course: Sequence[Iteration],
) -> None:
    """Write the page, its numbers as JSON, a line for each call path as CSV, and the report as text."""
    table = history.table(history.plans[-1].iteration - 1)
    data = page_data(report, paths, table, course, _timed_runs(history), _estimated_s(history))
    why = no_models(report)
    write_text(folder / PAGE, render_page(report, data, _provenance(history), why, headline))
    answers = answers_of(report, data, headline)
    write_text(folder / SCREEN, first_screen(report, answers))
    write_json(folder / DATA, data)
    write_text(folder / CSV, as_csv(paths, table))
    write_text(folder / TEXT, render(report, answers))  # last: where it lies, all of it does


def no_models(report: Report) -> str:
    """Say why there are no models, if there are none."""
    return "no run succeeded" if report.summary.failures else "nothing that can be modelled was measured"


def _timed_runs(history: History) -> list[TimedRun]:
    """Return when each finished run began; pilots and evaluation points too, as they tell of the machine."""
    campaign = history.session.campaign
    runs = list(in_store(history.runs))
    records = [history.run_record(run.folder) for run in runs]
    started = [each.started and datetime.fromisoformat(each.started).timestamp() for each in records]
    first = min((seconds for seconds in started if seconds), default=0.0)
    return [
        TimedRun(
            group=f"{run.build.hash} {run.point.key}",
            point=tuple(float(run.point[name]) for name in campaign.parameters),
            mode=Mode.VANILLA if run.is_baseline else run.mode,
            started_s=began - first if began and record.clock != "virtual" else None,
            wall_s=run.wall_s,
            evaluation=run.purpose is Purpose.EVALUATION,
            apart=any(run.point[name] != campaign.target[name] for name in campaign.choices),
        )
        for run, record, began in zip(runs, records, started, strict=True)
    ]


def _estimated_s(history: History) -> dict[tuple[float, ...], list[float]]:
    """Return run times of the program at points where the baseline did not run."""
    campaign = history.session.campaign
    return {
        tuple(float(point[name]) for name in campaign.parameters): walls
        for point, walls in estimated_times(history.runs, Purpose.MODEL).items()
        if all(point[name] == campaign.target[name] for name in campaign.choices)
    }


def _iteration(history: History, plan: Plan) -> Iteration:
    before = [
        earlier.filter_text for earlier in history.plans if earlier.iteration < plan.iteration and earlier.bundles
    ]
    old, new = (filter_file.parse(text).functions(True) for text in (before[-1] if before else "", plan.filter_text))
    points = []
    for outcome in history.outcomes([plan]):
        failed, measured = outcome.has(Status.FAILED), outcome.has(Status.MEASURED)
        state = "failed" if failed else "measured" if measured else "planned"
        points.append(IterationPoint(dict(outcome.point), str(outcome.purpose), len(outcome.runs), state))
    costs = overhead(history.runs_of([plan]))
    timed = MeasuredOverhead.of(cost.time_ratio for cost in costs)
    counting = MeasuredOverhead.of(cost.effort_ratio for cost in costs)
    return Iteration(
        number=plan.iteration,
        reason=plan.reason,
        points=points,
        functions=len(new) if plan.filter_text else None,
        added=sorted(new - old) if before else [],
        dropped=sorted(old - new) if before else [],
        core_hours=history.core_hours(plan),
        predicted_core_hours=plan.predicted_core_hours,
        predicted_overhead=predicted_overhead(history.filter(plan.iteration)),
        time_overhead=timed,
        effort_overhead=counting,
    )


def _provenance(history: History) -> dict[str, str]:
    """Return where the numbers come from: file, sources, compiler, machines; and how to get them again."""
    file = history.session.campaign.path.name
    provenance = {
        "campaign file": f"{file}, version {history.campaign}",
        "again": f"buran run {file} (measures only what is missing)",
    }
    records = history.build_records
    if records:
        first = records[0]
        revision = first.source.get("commit") or first.source.get("revision")
        provenance["sources"] = " ".join(filter(None, (first.source["identity"], revision)))
        provenance["compiler"] = _with_path(first.toolchain, "compiler", "cxx")
        provenance["MPI"] = _with_path(first.toolchain, "mpi", "mpicc")
        provenance["flags"] = first.flags or "none"
        provenance["libraries"] = ", ".join(dict.fromkeys(name for each in records for name in each.libraries or ()))
        provenance["modules"] = ", ".join(first.modules)
        provenance["variables"] = ", ".join(f"{name}={value}" for name, value in first.environment.items())
        provenance["tools"] = ", ".join(f"{name} {version}" for name, version in first.tools.items() if version)
        provenance["builds"] = ", ".join(f"{record.spec.mode} {record.spec.hash}" for record in records)
    if machines := [f"{_machine(node)}, {node['kernel']}" for node in nodes_of(history)]:
        provenance["machines"] = "; ".join(machines)
    return {name: text for name, text in provenance.items() if text}


def _with_path(toolchain: Mapping[str, str | None], version: str, path: str) -> str:
    return " at ".join(filter(None, map(toolchain.get, (version, path))))


def measured_on(history: History) -> str:
    """Return the machines and the days of the runs; empty for simulated ones."""
    records = [history.run_record(run.folder) for run in in_store(history.runs)]
    days = sorted({record.started[:10] for record in records if record.started and record.clock == "real"})
    if not days:
        return ""
    machines = "; ".join(map(_machine, nodes_of(history))) or "an unknown machine"
    return f"{machines}, {days[0]}{f' to {days[-1]}' if days[1:] else ''}"


def nodes_of(history: History) -> list[dict[str, Any]]:
    """Return what is known of the nodes where programs ran."""
    return [read_json(path) for path in sorted((history.layout.store / "nodes").glob("*.json"))]


def _machine(node: dict[str, Any]) -> str:
    return f"{node['host']}: {node['cores']} cores, {node['cpu']}"
