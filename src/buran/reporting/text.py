"""The report as plain text."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

import numpy as np

from buran.features import sections_of
from buran.instrumentation.measured import MeasuredOverhead
from buran.modeling.pmnf.model_set import at_the_end
from buran.modeling.pmnf.text import format_largest, growth_class
from buran.modeling.pmnf.together import undecided
from buran.modeling.pmnf.tuning import ALLOWANCE
from buran.profiles.metrics import metric_of, noise_resilient, reported
from buran.reporting.content import (
    Answer,
    Report,
    Untested,
    run_time_at_target,
    start_and_end,
    target_values,
    total_at_target,
    unknown_rows,
)
from buran.reporting.plain import brief, briefs, section
from buran.wording import counted, named

_ROWS = 12
_WIDTH, _LINES = 80, 23  # of a terminal; a line is left for what the shell says next
_NAMED = 3  # call paths in a sentence
_FAR = 2.0  # sum of the call paths over the whole program: beyond this, extrapolations contradict each other


def first_screen(report: Report, answers: Sequence[Answer]) -> str:
    """Write the answers alone, on one screen of a terminal; of the longest one the last facts are left out."""
    head = [*_head(report), ""]
    blocks = [[_wrapped(line, "  " if position else "") for position, line in enumerate(_answer(a))] for a in answers]
    while len(head) + sum(len(lines) for block in blocks for lines in block) > _LINES:
        longest = max(reversed(blocks), key=lambda block: sum(map(len, block)))
        if len(longest) == 1:
            break
        longest.pop()
    return "\n".join([*head, *(line for block in blocks for lines in block for line in lines)]) + "\n"


def _head(report: Report) -> list[str]:
    ended = f"{report.points[0]} of {report.points[1]} points measured: {report.reason}."
    on = _wrapped(report.machine) if report.machine else []
    return [f"Buran report: {report.campaign}", *_wrapped(ended), *on]


def _wrapped(line: str, indent: str = "") -> list[str]:
    return textwrap.wrap(line.strip(), _WIDTH, initial_indent=indent, subsequent_indent=2 * indent) or [""]


def render(report: Report, answers: Sequence[Answer] = ()) -> str:
    """Write the report.

    Parameters
    ----------
    answers
        To what a reader wants to know first.
    """
    target = named(report.target)
    parts = [
        f"Buran report: {report.campaign}\n{'=' * (14 + len(report.campaign))}",
        "\n".join(line for answer in answers for line in _answer(answer)),
        report.machine,
        _summary(report, target),
    ]
    further = sections_of(report)
    parts += [each.text(value, report) for each, value in further if each.is_first]
    if "time" in report.models:
        parts.append(_time_table(report, target))
    if report.priors:
        parts.append(_priors(report, target))
    parts += [_metric_table(report, metric) for metric in reported(report.models)]
    parts += [
        *(each.text(value, report) for each, value in further if not each.is_first),
        _corrections(report, target),
        _balance(report),
        _instrumentation(report),
        _overhead_by_point(report),
        _filter_list(report),
        _evaluation(report),
        _account(report),
        _failures(report),
    ]
    parts.append("Next steps\n----------\n" + "\n".join(f"- {step}" for step in report.next_steps))
    width = max(map(len, report.results))
    lies = "\n".join(f"{name:<{width}}  {file}" for name, file in report.results.items())
    parts.append(f"Where the results lie\n---------------------\n{lies}")
    return "\n\n".join(part for part in parts if part) + "\n"


def warnings_of(report: Report) -> list[str]:
    """Return what a reader must know not to read too much into the numbers."""
    notes = list(report.notes)
    if report.runtime:
        # of what the program takes, counting runs tell only what its call paths do
        names, times = report.runtime.parameters, report.models.get("time")
        made_from = [each.points for each in (report.runtime, times) if each and each.parameters == names]
        notes += filter(None, [undecided(np.vstack(made_from), names)])
    notes += at_the_end(report.models.values())
    if report.unknown.advice:
        notes.insert(0, unknown_in_words(report))
    if (
        report.runtime is None
        or report.runtime.models[0] is None
        or "time" not in report.models
        or report.unknown.total
    ):
        return notes
    at = run_time_at_target(report)
    added = target_values(report.models["time"], report.target).sum()
    if not at / _FAR <= added <= at * _FAR:
        notes.insert(
            0,
            f"the models of the call paths add up to {added:.4g} s at {named(report.target)}, that of the whole "
            f"program says {at:.4g} s. They say which call paths grow, not how far: noise, or too few values of a "
            "parameter, is extrapolated with them.",
        )
    return notes


def unknown_in_words(report: Report) -> str:
    """Say whose time at the target is not known, and why."""
    some = [brief(path, 40) for path in report.unknown.call_paths[:_NAMED]]
    more = len(report.unknown.call_paths) - len(some)
    whose = ", ".join((*some, *([f"{more} more"] if more else []))) or "the program"
    return (
        f"not known at {named(report.target)}: {whose}. Models of time predict more than {ALLOWANCE:g} times "
        "what was measured, multiplied by the growth of counts; such call paths are in no share"
    )


def _summary(report: Report, target: str) -> str:
    budget = "" if report.budget_core_hours is None else f" of {report.budget_core_hours:.4g}"
    lines = [
        f"{report.points[0]} of {report.points[1]} points measured, "
        f"{report.spent_core_hours:.4g}{budget} core hours spent: {report.reason}."
    ]
    full = report.full_matrix_core_hours
    if full and report.points[0] < report.points[1]:
        share = 100 * report.modelling_core_hours / full
        lines.append(
            f"All points would take about {full:.3g} core hours; {share:.3g} % of that went into models, "
            f"{max(100 - share, 0):.3g} % was saved."
        )
    model = report.runtime.models[0] if report.runtime else None
    if report.runtime and model:
        formula = format_largest(model.function, report.parameters, report.target)
        at = "not known" if report.unknown.total else f"{run_time_at_target(report):.4g} s"
        lines.append(
            f"Run time (whole program, s): {formula}\n"
            f"  at {target}: {at}; fits the measurements with SMAPE {model.quality.smape:.2g} %"
            if report.tensor is None
            else f"Run time (whole program, s), by a tensor model\n  at {target}: {at}"
            + (
                ""
                if report.words
                else f"; in normal form, for comparison: {formula} (SMAPE {model.quality.smape:.2g} %)"
            )
        )
    if total := total_at_target(report):
        lines.append(
            f"  that is {total.call_paths_s:.4g} s in call paths and {total.startup_s:.4g} s start-up and shutdown"
        )
    lines += [f"Note: {note}" for note in warnings_of(report)]
    return "\n".join(lines)


def _answer(answer: Answer) -> list[str]:
    return [f"{answer.question} {answer.answer}", *(f"  {fact}" for fact in answer.facts)]


def _corrections(report: Report, target: str) -> str:
    """Return base models and what measurements made of them."""
    lines = []
    for correction in report.corrections:
        lines.append(f"{correction.kernel} (base model {correction.model}): {correction.reason}")
        if correction.formula:
            lines.append(f"  {correction.formula[0]}")
            base, corrected = map(_seconds, (correction.base_s, correction.corrected_s))
            lines.append(f"  at {target}: base {base}, corrected {corrected}{correction.beyond}")
        lines += [f"  {note}" for note in correction.notes]
    title = "Analytical models"
    return "\n".join([title, "-" * len(title), *lines]) if lines else ""


def _seconds(value: float | None) -> str:
    return "none" if value is None else f"{value:.4g} s"


def _largest(report: Report, metric: str) -> list[tuple[str, str, str, str, str]]:
    """Return share, call path, growth, model and SMAPE of the call paths with the most at the target."""
    models = report.models[metric]
    values, unknown = target_values(models, report.target), unknown_rows(report, models)
    values[start_and_end(models)] = 0.0
    largest, total = [], values[~unknown].sum()
    rows = np.argsort(-values, kind="stable")[:_ROWS].tolist()
    for row, name in zip(rows, briefs([models.call_paths[row] for row in rows]), strict=True):
        model = models.models[row]
        if model is not None and values[row] > 0:
            growth = growth_class(model.function, report.parameters)
            formula = format_largest(model.function, report.parameters, report.target)
            share = "not known" if unknown[row] else f"{100 * values[row] / total:5.1f} %"
            largest.append((share, name, growth, formula, f"{model.quality.smape:.1f} %"))
    return largest


def _time_table(report: Report, target: str) -> str:
    title = f"Where the time goes at {target} (exclusive, seconds per rank)"
    text = section(title, ("share", "call path", "dominant term", "model", "SMAPE"), _largest(report, "time"))
    apart = _startup_at_target(report)
    return f"{text}\n\nIn addition, start-up and shutdown: {apart:.4g} s, in no share." if text and apart else text


def _startup_at_target(report: Report) -> float:
    """Return what start-up and shutdown take at the target in seconds; MPI's part of it where no more is known."""
    if total := total_at_target(report):
        return total.startup_s
    models = report.models["time"]
    return float(target_values(models, report.target)[start_and_end(models)].sum())


def _metric_table(report: Report, metric: str) -> str:
    models = report.models[metric]
    title = f"{metric_of(metric).heading} ({models.unit}, exclusive, {models.aggregate} over ranks)"
    return section(title, ("call path", "dominant term", "model"), [row[1:4] for row in _largest(report, metric)])


def _priors(report: Report, target: str) -> str:
    ranked = sorted(report.priors, key=lambda prior: -(prior.at_target_s or 0.0))
    shown = [prior for prior in ranked if prior.prior][:_ROWS]
    rows = [
        (name, prior.prior, prior.resilient, prior.times_alone or "-", prior.waiting)
        for name, prior in zip(briefs([prior.call_path for prior in shown]), shown, strict=True)
    ]
    header = ("call path", "prior", "noise-resilient", "from times alone", "beyond effort")
    text = section(f"Models of time with priors from counts, the largest at {target} first", header, rows)
    paths_of_note: dict[str, list[str]] = {}
    for prior in ranked:
        for note in prior.notes:
            paths_of_note.setdefault(note, []).append(brief(prior.call_path, 40))
    lines = [
        f"- {note}: {', '.join(paths[:3])}{' ...' if len(paths) > 3 else ''}" for note, paths in paths_of_note.items()
    ]
    return "\n\n".join(part for part in (text, "\n".join(lines[:_ROWS])) if part)


def _balance(report: Report) -> str:
    shown = report.balance[:_ROWS]
    rows = [
        (
            name,
            f"{100 * balance.lost_share:.3g} %",
            f"{balance.most_s / balance.mean_s:.3g}",
            f"{100 * balance.efficiency:.3g} %",
            f"{balance.variation:.2g}",
        )
        for name, balance in zip(briefs([balance.name for balance in shown]), shown, strict=True)
    ]
    title = "Load balance (ranks and threads of the longest run, exclusive times)"
    return section(title, ("function", "lost", "max/mean", "efficiency", "variation"), rows)


def _instrumentation(report: Report) -> str:
    rows = []
    for each in report.instrumentation:
        functions, left_out = each.functions, each.left_out
        default = (
            "default selection"
            if left_out is None
            else f"all but {counted(left_out, 'function')}"
            if left_out
            else "everything"
        )
        rows.append(
            (
                str(each.filter_number),
                default if functions is None else counted(functions, "function"),
                "-" if each.predicted is None else f"{100 * each.predicted:+.2g} %",
                overhead_text(each.time),
                "-" if each.allowed is None else f"{100 * each.allowed:.3g} %",
                overhead_text(each.counts),
            )
        )
    text = section(
        "Instrumentation (overhead: CPU time against the baseline, median over points, 90 % interval)",
        ("filter", "instruments", "predicted", "measured, for time", "allowed", "for counts"),
        rows,
    )
    if noise_resilient(report.models) and not report.unsteady:
        text += "\n\nCounts were identical in all repetitions of every point."
    for metric, paths in report.unsteady.items():
        models = report.models.get(metric)
        missing = (
            set() if models is None else {p for p, m in zip(models.call_paths, models.models, strict=True) if not m}
        )
        names = [brief(path) + " (no model: by more than a factor of two)" * (path in missing) for path in paths]
        text += f"\n\n{metric} differs between repetitions in: {', '.join(names)}"
    return text


def _overhead_by_point(report: Report) -> str:
    rows = [
        (
            named(each.point),
            f"{each.plain_s:.3g}",
            *(f"{100 * share:+.2g} %" for share in (each.measured, each.hooks, each.openmp, each.startup)),
        )
        for each in report.overhead_by_point
    ]
    title = "Overhead of the last filter, of the CPU time without instrumentation"
    return section(title, ("point", "CPU, s", "measured", "instrumentation, predicted", "OpenMP", "start-up"), rows)


def _filter_list(report: Report) -> str:
    if report.filter_list is None:
        return ""
    functions = sorted(report.filter_list.functions.values(), key=lambda each: -(each.share or 0.0))
    listed = [(each, "yes") for each in functions]
    out = [(each, "no") for each in report.filter_list.left_out.values()]
    shown = [*listed[:_ROWS], *out[:_ROWS]]
    rows = [
        (
            brief(each.name),
            instrumented,
            "-" if each.share is None else f"{100 * each.share:.2g} %",
            "-" if each.visits is None else f"{each.visits:.3g}",
            "-" if each.overhead is None else f"{100 * each.overhead:.2g} %",
            each.reason,
        )
        for each, instrumented in shown
    ]
    header = ("function", "instrumented", "share", "visits", "overhead", "why")
    text = section("Filter list (share, visits and overhead: predicted at the target)", header, rows)
    left = len(listed) + len(out) - len(shown)
    return f"{text}\n{counted(left, 'further function')} in latest/scorep.filter" if left else text


def overhead_text(measured: MeasuredOverhead | None) -> str:
    """Return a measured overhead with its interval."""
    return "-" if measured is None else str(measured)


def _evaluation(report: Report) -> str:
    rows = [
        (
            named(test.point),
            f"{test.predicted_s:.4g}",
            f"{test.measured_s:.4g}",
            f"{100 * (test.ratio - 1):+.1f} %",
        )
        for test in report.evaluation
    ]
    rows += [(named(point.point), predicted_in_words(point), *not_measured(point)) for point in report.untested]
    text = section("Evaluation points (run time in s)", ("point", "predicted", "measured", "error"), rows)
    crowded = crowded_tests(report)
    return f"{text}\n\n{textwrap.fill(crowded, _WIDTH)}" if crowded else text


def predicted_in_words(point: Untested) -> str:
    """Return what is predicted at an evaluation point; a dash without a model."""
    return "-" if point.predicted_s is None else f"{point.predicted_s:.4g}"


def not_measured(point: Untested) -> tuple[str, str]:
    """Say of an evaluation point that no time was measured there, and why."""
    return "not measured", point.why


def crowded_tests(report: Report) -> str:
    """Say at which evaluation points runs waited for cores; empty where at none."""
    points = [named(test.point) for test in report.evaluation if test.crowded]
    said = "cores were shared: what was measured has the waiting for cores in it, and tests no prediction."
    return f"At {', '.join(points)} {said}" if points else ""


def _account(report: Report) -> str:
    rows = [(item.phase, f"{item.runs:5d}", f"{item.core_hours:10.4g}") for item in report.account]
    return section("What the core hours went into", ("spent on", " runs", "core hours"), rows)


def _failures(report: Report) -> str:
    rows = [(failure.what, failure.reason.splitlines()[0], failure.log) for failure in report.failures]
    return section("Failures", ("what", "reason", "log"), rows)
