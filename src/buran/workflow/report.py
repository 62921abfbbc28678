"""Writing what the user takes home: the report and, next to it, models, measurements and the filter list."""

from __future__ import annotations

import contextlib
import gzip
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, is_dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from buran.campaign.config import Campaign
from buran.campaign.document import INCLUDE, read_campaign_file
from buran.campaign.plan import Mode, Purpose
from buran.campaign.point import Point
from buran.campaign.records import Status, core_hours
from buran.campaign.shape import COMMAND
from buran.errors import ConfigError, StorageError
from buran.features import FEATURES, sections, sections_of
from buran.files import write_bytes, write_json, write_text
from buran.instrumentation.filter_list import WRITERS
from buran.instrumentation.refinement import predicted_overhead
from buran.modeling.pmnf.model_set import ModelSet, write_models
from buran.profiles.experiment import TABLE
from buran.profiles.experiment.build import Run
from buran.profiles.experiment.extrap_tree import write_extrap_tree
from buran.profiles.metrics import counted as counted_metrics
from buran.reporting.call_paths import predict_call_paths
from buran.reporting.content import Report, Untested, total_at_target, unknown_at_target
from buran.reporting.headline import headline_of
from buran.reporting.summary import CampaignSummary
from buran.wording import Category
from buran.workflow import program
from buran.workflow.collect import profiles_of
from buran.workflow.correct import correct_kernels
from buran.workflow.filter_list import current_list, overhead_by_point, recommended_filter
from buran.workflow.findings import Findings
from buran.workflow.history import FinishedRun, History, baseline, in_store, rules_of
from buran.workflow.notes import notes_of
from buran.workflow.overhead import instrumentation
from buran.workflow.page import course_of, measured_on, no_models, write_page
from buran.workflow.plan import question_of
from buran.workflow.program import RUN_TIME, run_times_at, tensor_model, with_parts
from buran.workflow.session import Session
from buran.workflow.views.changes import CAMPAIGN, FoundReport
from buran.workflow.views.summary import summarize


def write_results(history: History, folder: Path) -> None:
    """Write report, models, table and filter of a finished campaign into a folder.

    Raises
    ------
    StorageError
        The folder was removed meanwhile.
    """
    try:
        _write_results(history, folder)
        gone = not (folder / "models.json").is_file()  # the first of its files: later ones make the folder again
    except FileNotFoundError as error:
        if not Path(error.filename or "").is_relative_to(folder):
            raise
        gone = True
    if gone:
        raise StorageError(
            "the report's folder was removed while the report was written",
            where=folder,
            hint="`buran run` writes it again; nothing that is measured is lost",
        )


def _copy_campaign_file(path: Path, copy: Path) -> None:
    """Copy a campaign file, with what counts of other files written into it."""
    document = read_campaign_file(path)
    if any(file != document.path for file in document.files.values()):
        whole = {key: value for key, value in document.data.items() if key != INCLUDE}
        write_text(copy, yaml.safe_dump(whole, sort_keys=False, allow_unicode=True))
    else:
        shutil.copyfile(path, copy)


def _write_results(history: History, folder: Path) -> None:
    session, layout = history.session, history.layout
    last = history.plans[-1].iteration - 1
    folder.mkdir(parents=True, exist_ok=True)
    _copy_campaign_file(session.campaign.path, folder / CAMPAIGN)
    results = [layout.models(session.id, last), layout.findings(session.id, last)]
    results += layout.iteration(session.id, last).glob(program.FILE)
    for result in results:
        shutil.copy(result, folder / result.name)
    table = layout.table(session.id, last).read_bytes()
    write_bytes(folder / TABLE, gzip.decompress(table) if table else table)
    write_text(folder / "in-force.filter", history.plans[-1].filter_text)
    for mode in (Mode.TIME, Mode.EFFORT):
        export(session.campaign, newest_runs(history, mode), folder / "extrap" / mode)
    report = replace(gather(history), corrections=correct_kernels(session.campaign, folder))
    listed = report.filter_list
    write_text(folder / "scorep.filter", recommended_filter(history) if listed is None else WRITERS["scorep"](listed))
    report = replace(report, measured_on=measured_on(history), simulated_on=session.campaign.simulated_on)
    report = replace(report, further=_further(history, report, folder))
    for feature in FEATURES:
        if feature.write is not None:
            feature.write(history, report, folder)
    plain = plain_of(report, history.models(last))
    added = [note for each, value in sections_of(report) if each.notes is not None for note in each.notes(value)]
    if history.cut_short is None:  # else it is what is known so far
        added += [note for each in FEATURES if each.record for note in each.record(history, report, folder)]
    report = replace(report, notes=[*report.notes, *added])
    paths = predict_call_paths(report)
    headline = headline_of(report, paths, no_models(report))
    course = course_of(history)
    plain |= {"iterations": [asdict(iteration) for iteration in course]}
    write_json(folder / "report.json", {"headline": asdict(headline), **plain}, depth=4)
    if report.runtime is not None and report.startup is not None:
        write_models(folder / RUN_TIME, [report.runtime, report.startup])
    for each, value in sections_of(report):
        if each.write is not None:
            each.write(value, folder)
    write_page(history, folder, report, paths, headline, course)


def report_so_far(session: Session) -> FoundReport | None:
    """Return the report of the newest iteration with models where the campaign has none; write it if it is not there.

    None if the campaign has a report of its own, or no models yet.
    """
    layout, campaign = session.layout, session.id
    findings = next(History.open(session).newest_findings, None)
    if findings is None or (layout.results(campaign) / "report.txt").is_file():
        return None
    last = findings.iteration
    words = (
        f"the campaign has not come to its end; this is what is known after iteration {last}, the newest with models"
    )
    folder, models = layout.iteration(campaign, last) / "report", layout.models(campaign, last)
    made = folder / "report.txt"
    if not made.is_file() or made.stat().st_mtime < models.stat().st_mtime:
        write_results(History(session, campaign, last + 1, words), folder)
    return FoundReport(folder, (f"{words}; `buran run {session.campaign.path.name}` goes on",))


def export(campaign: Campaign, runs: Sequence[Run], folder: Path) -> None:
    """Write profiles as trees that Extra-P opens, one for each combination of words, in place of earlier ones."""
    shutil.rmtree(folder, ignore_errors=True)
    words = [name for name in campaign.parameters if isinstance(campaign.target[name], Category)]
    numbers = tuple(name for name in campaign.parameters if name not in words)
    parts: dict[str, list[Run]] = {}
    for point, repetition, profile in runs:
        at = {name: point[name] for name in numbers}
        parts.setdefault(",".join(f"{name}={point[name]}" for name in words), []).append((at, repetition, profile))
    for part, of_part in parts.items():
        write_extrap_tree(folder / part, of_part, parameters=numbers, prefix=campaign.name, compress=True)


def newest(history: History, mode: Mode) -> list[FinishedRun]:
    """Return the newest builds' runs that models are made from."""
    filter_text = history.plans[-1].filter_text if mode is Mode.TIME else ""
    return in_store(
        run
        for run in history.runs
        if run.mode is mode and run.filter_text == filter_text and run.purpose is Purpose.MODEL
    )


def newest_runs(history: History, mode: Mode) -> tuple[Run, ...]:
    """Return their profiles, which are read once for all parts of a report."""
    if mode not in history.read_profiles:
        parameters = history.session.campaign.parameters
        history.read_profiles[mode] = tuple(profiles_of(newest(history, mode), parameters))
    return history.read_profiles[mode]


def counting_runs(history: History) -> tuple[Run, ...]:
    """Return runs that counted; at points without one those that sampled accesses, which count as well."""
    counted = newest_runs(history, Mode.EFFORT)
    if not counted_metrics(history.session.campaign.config.metrics):
        return counted
    seen = {tuple(point.items()) for point, *_ in counted}
    sampled = (run for run in newest_runs(history, Mode.MEMORY) if tuple(run[0].items()) not in seen)
    return (*counted, *sampled)


def gather(history: History) -> Report:
    """Collect the values of the report from plans, models and store."""
    session, plans = history.session, history.plans
    campaign, last = session.campaign, plans[-1].iteration - 1
    findings, question = history.findings(last), question_of(history)
    summary = summarize(history)
    runs = history.runs
    has_hooks = any(build.mode is not Mode.VANILLA for plan in plans for build in plan.builds)
    # Where there are runs with hooks, a baseline alone tells nothing of call paths.
    modelled = (run for run in runs if not has_hooks or run.mode is not Mode.VANILLA)
    measured = {run.point for run in modelled if run.purpose is Purpose.MODEL}
    texts = filter(None, (history.filter(plan.iteration) for plan in reversed(plans)))
    predicted = {rules_of(text): share for text in texts if (share := predicted_overhead(text)) is not None}
    models = dict(history.models(last))
    runtime = None if findings.runtime is None or findings.runtime.models[0] is None else findings.runtime
    if "time" in models and runtime is not None and findings.startup is not None:
        runtime = with_parts(runtime, findings.startup, models["time"])
    current = current_list(history) if campaign.config.backend != COMMAND else None
    outcomes = (outcome for outcome in history.outcomes(plans) if outcome.purpose is Purpose.MODEL)
    everywhere = (*campaign.points, *campaign.evaluation_points)
    words = {str(value): float(value) for at in everywhere for value in at.values() if isinstance(value, Category)}
    target_cores = None
    with contextlib.suppress(ConfigError):  # its formulas give none
        target_cores = campaign.cores(campaign.target)
    report = Report(
        summary=summary,
        notes=notes_of(history, findings, summary.account),
        parameters=campaign.parameters,
        parallel=campaign.parallel_parameters,
        steps=tuple(campaign.steps),
        words=words,
        target=campaign.target,
        points=(len(measured), len(campaign.points)),
        models=models,
        runtime=runtime,
        startup=findings.startup,
        tensor=tensor_model(history, findings),
        overhead=findings.overhead,
        instrumentation=instrumentation(history, last, predicted.get),
        filter_list=None if current is None else current.functions,
        overhead_by_point=[] if current is None else overhead_by_point(history, current.judged),
        unsteady=findings.unsteady,
        evaluation=findings.evaluation,
        untested=_untested(history, findings),
        priors=findings.priors,
        balance=findings.balance,
        target_cores=target_cores,
        modelling_core_hours=core_hours(outcomes),
        full_matrix_core_hours=question.full_matrix_core_hours(run_times_at(history, findings, tuple(question.table))),
        next_steps=_next_steps(session, findings, summary),
        results={
            "report": "latest/report.html (a page), latest/report.txt, latest/report.json, latest/report.csv",
            "models": "latest/models.json",
            **({"run time": f"latest/{RUN_TIME} (`buran predict`)"} if findings.startup else {}),
            "measurements": "latest/experiment.jsonl (as a table), store/ (every run with profile.cubex and logs)",
            "for Extra-P": "latest/extrap/time, latest/extrap/effort (extrap --cube FOLDER"
            + (", one in them for each combination of words)" if words else ")"),
            "filter list": "latest/scorep.filter (Score-P's format); latest/in-force.filter is what was measured last",
            "question": f"latest/{CAMPAIGN} (the campaign file as it was)",
            "folder": str(history.layout.root),
        },
    )
    unknown = unknown_at_target(report)
    advice = [unknown.advice] if unknown.advice else []
    report = replace(report, unknown=unknown, next_steps=[*advice, *report.next_steps])
    return replace(report, further=_further(history, report, None))


def _further(history: History, report: Report, folder: Path | None) -> dict[str, Any]:
    """Return what the sections of features say; None for those that say nothing."""
    return {each.name: each.value(history, report, folder) for each in sections()}


def _untested(history: History, findings: Findings) -> list[Untested]:
    """Return the evaluation points that test no prediction, with the reason."""
    tested = {Point.of(test.point) for test in findings.evaluation}
    points = [point for point in history.session.campaign.evaluation_points if point not in tested]
    outcomes = [found for found in history.outcomes(history.plans) if found.purpose is Purpose.EVALUATION]
    walls = baseline(history.runs, Purpose.EVALUATION)
    reasons = {point: "took 0 s" for point, measured in walls.items() if not any(measured)}
    reasons |= {found.point: "failed" for found in outcomes if found.has(Status.FAILED)}
    why = "budget" if outcomes or history.plans[-1].budget_reached else "not reached"
    seconds = run_times_at(history, findings, points)
    return [Untested(dict(point), seconds.get(point), reasons.get(point, why)) for point in points]


def _next_steps(session: Session, findings: Findings, summary: CampaignSummary) -> list[str]:
    campaign = session.campaign
    file = campaign.path.name
    if summary.failures and not summary.measured:
        first = summary.failures[0]
        return [
            f"read {first.log}, which says why {first.what} failed; correct it, then `buran run {file} --retry-failed`"
        ]
    steps = []
    for name in campaign.parameters:
        values = sorted({point[name] for point in campaign.points})
        if len(values) < 5 and name not in (*campaign.steps, *campaign.choices):
            steps.append(
                f"{name} has {len(values)} values; five distinguish growth classes: add one, and "
                f"`buran run {file}` measures only what is new"
            )
    if findings.unsteady:
        steps.append("some counts differ between repetitions: look for polling or data-dependent work there")
    if not campaign.evaluation_points:
        steps.append("name evaluation_points to see how well the models predict what they were not fitted to")
    if campaign.config.backend != COMMAND:
        steps.append(f"look at the filter list with `buran filter {file}`; Score-P takes it as it is")
    return steps


def plain_of(report: Report, measured: Mapping[str, ModelSet]) -> dict[str, Any]:
    """Return the report as plain data, with models of what was measured: what they take up has a place of its own."""
    summary = report.summary
    plain = {name: getattr(summary, name) for name in ("campaign", "reason", "spent_core_hours", "budget_core_hours")}
    plain |= {"failures": _plain(summary.causes), "account": _plain(summary.account)}
    names = [name for name in report.__dataclass_fields__ if name not in ("summary", "further", "tensor")]
    plain |= {name: _plain(getattr(report, name)) for name in names}  # a tensor model is a file of its own
    for each in sections():
        plain |= each.in_json(report.further.get(each.name))
    plain |= {"models": {metric: models.to_json() for metric, models in measured.items()}}
    for each in plain["instrumentation"]:
        if each["left_out"] is None:
            del each["left_out"]
    plain["at_target"] = _plain(total_at_target(report))
    return plain


def _plain(value: Any) -> Any:
    """Return a value of the report as plain data."""
    if hasattr(value, "to_json"):
        return value.to_json()
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, list | tuple):
        return [*map(_plain, value)]
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else value


def link_latest(session: Session) -> None:
    """Let ``latest`` name the results of this version of the campaign."""
    layout = session.layout
    temporary = layout.root / f".latest.{os.getpid()}"
    with contextlib.suppress(FileNotFoundError):
        temporary.unlink()
    temporary.symlink_to(layout.results(session.id).relative_to(layout.root), target_is_directory=True)
    temporary.replace(layout.latest)
