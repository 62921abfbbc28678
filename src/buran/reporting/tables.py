"""The tables of a report, each made once for its text and its page, and names of call paths in them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from buran.instrumentation.refinement import FunctionVerdict
from buran.modeling.pmnf.text import format_largest, growth_class
from buran.profiles.experiment.collect import split_call_path
from buran.profiles.metrics import metric_of, noise_resilient, reported
from buran.profiles.names import plain_name, without_arguments
from buran.profiles.profile import SEPARATOR
from buran.reporting.content import Report, start_and_end, startup_at_target, target_values, unknown_rows
from buran.wording import aligned, counted, distinct, named

WIDTH = 120
"""Width of tables in files."""
ROWS = 12
"""Of long tables, text has these; the page has all."""


def sentence(text: str, names: Sequence[str]) -> str:
    """Begin with a capital letter, unless a name of a parameter or a command comes first."""
    word = text.partition(" ")[0]
    return text if word in names or not word.isalpha() else text[:1].upper() + text[1:]


def section(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return an underlined title with a table; nothing without rows."""
    if not rows:
        return ""
    return "\n".join([title, "-" * len(title), *aligned((header, *rows), WIDTH)])


def brief(call_path: str, limit: int = 64) -> str:
    """Shorten a call path for a table: no arguments of functions, then none of templates, then its end alone."""
    parts = split_call_path(call_path)
    short = SEPARATOR.join(map(without_arguments, parts))
    if len(short) > limit:
        short = SEPARATOR.join(map(plain_name, parts))
    return short if len(short) <= limit else "..." + short[-(limit - 3) :]


def briefs(call_paths: Sequence[str]) -> list[str]:
    """Shorten call paths; different ones that would be called the same show where they differ."""
    return distinct([brief(path) for path in call_paths], call_paths, 64)


def name_of(call_path: str, callers: int = 0) -> str:
    """Return the function, and of an MPI operation the caller too, as many call the same; after further `callers`."""
    parts = split_call_path(call_path)
    last = parts[-2 - callers :] if parts[-1].startswith("MPI_") else parts[-1 - callers :]
    return " → ".join(brief(plain_name(part), 40) for part in last)


def names_of(call_paths: Iterable[str]) -> dict[str, str]:
    """Return names of call paths; those of one name begin at the callers that distinguish them."""
    names, callers = {path: name_of(path) for path in call_paths}, 0
    counts = Counter(names.values())
    while max(counts.values(), default=1) > 1 and callers < max(map(len, map(split_call_path, names))):
        callers += 1
        names = {path: name_of(path, callers) if counts[name] > 1 else name for path, name in names.items()}
        counts = Counter(names.values())
    return names


@dataclass(frozen=True)
class Table:
    """A section of the report: a table, and sentences to it.

    Attributes
    ----------
    name
        The ``id`` of its element on the page.
    is_long
        Whether text has the first rows alone.
    """

    name: str
    title: str
    header: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    sentences: Sequence[str] = ()
    is_long: bool = False


def tables_of(report: Report) -> list[Table]:
    """Return the tables of text and page, without those that have nothing in them."""
    tables = (
        _corrections(report),
        _balance(report),
        _instrumentation(report),
        _overhead_by_point(report),
        *_filter_list(report),
        _evaluation(report),
        _account(report),
        _failures(report),
    )
    return [table for table in tables if table.rows or table.sentences]


def call_path_tables(report: Report) -> list[Table]:
    """Return the largest call paths by metric, and how their models of time were made; the page has a table of all."""
    tables = [_priors(report), *(_metric(report, metric) for metric in reported(report.models))]
    if "time" in report.models:
        title = f"Where the time goes at {named(report.target)} (exclusive, seconds per rank)"
        header = ("share", "call path", "dominant term", "model", "SMAPE")
        apart = startup_at_target(report)
        also = [f"In addition, start-up and shutdown: {apart:.4g} s, in no share."] if apart else []
        tables.insert(0, Table("times", title, header, _largest(report, "time"), also))
    return [table for table in tables if table.rows]


def percent(share: float | None, form: str = ".3g") -> str:
    """Return a share in percent; a dash where it is not known."""
    return "-" if share is None else f"{100 * share:{form}} %"


def _number(value: float | None, form: str = ".4g") -> str:
    return "-" if value is None else f"{value:{form}}"


def _largest(report: Report, metric: str) -> list[tuple[str, str, str, str, str]]:
    """Return share, call path, growth, model and SMAPE of the call paths with the most at the target."""
    models = report.models[metric]
    values, unknown = target_values(models, report.target), unknown_rows(report, models)
    values[start_and_end(models)] = 0.0
    largest, total = [], values[~unknown].sum()
    rows = np.argsort(-values, kind="stable")[:ROWS].tolist()
    for row, name in zip(rows, briefs([models.call_paths[row] for row in rows]), strict=True):
        model = models.models[row]
        if model is not None and values[row] > 0:
            growth = growth_class(model.function, report.parameters)
            formula = format_largest(model.function, report.parameters, report.target)
            share = "not known" if unknown[row] else f"{100 * values[row] / total:5.1f} %"
            largest.append((share, name, growth, formula, f"{model.quality.smape:.1f} %"))
    return largest


def _metric(report: Report, metric: str) -> Table:
    models = report.models[metric]
    title = f"{metric_of(metric).heading} ({models.unit}, exclusive, {models.aggregate} over ranks)"
    return Table(metric, title, ("call path", "dominant term", "model"), [r[1:4] for r in _largest(report, metric)])


def _priors(report: Report) -> Table:
    ranked = sorted(report.priors, key=lambda prior: -(prior.at_target_s or 0.0))
    shown = [prior for prior in ranked if prior.prior][:ROWS]
    rows = [
        (name, prior.prior, prior.resilient, prior.times_alone or "-", prior.waiting)
        for name, prior in zip(briefs([prior.call_path for prior in shown]), shown, strict=True)
    ]
    paths_of_note: dict[str, list[str]] = {}
    for prior in ranked:
        for note in prior.notes:
            paths_of_note.setdefault(note, []).append(brief(prior.call_path, 40))
    notes = [
        f"- {note}: {', '.join(paths[:3])}{' ...' if len(paths) > 3 else ''}" for note, paths in paths_of_note.items()
    ]
    title = f"Models of time with priors from counts, the largest at {named(report.target)} first"
    header = ("call path", "prior", "noise-resilient", "from times alone", "beyond effort")
    return Table("priors", title, header, rows, notes[:ROWS])


def _corrections(report: Report) -> Table:
    lines: list[str] = []
    for each in report.corrections:
        lines.append(f"{each.kernel} (base model {each.model}): {each.reason}")
        if each.formula:
            base, corrected = ("none" if s is None else f"{s:.4g} s" for s in (each.base_s, each.corrected_s))
            lines += [
                f"  {each.formula[0]}",
                f"  at {named(report.target)}: base {base}, corrected {corrected}{each.beyond}",
            ]
        lines += [f"  {note}" for note in each.notes]
    return Table("corrections", "Analytical models", sentences=lines)


def _balance(report: Report) -> Table:
    rows = [
        (
            name,
            percent(each.lost_share),
            f"{each.most_s / each.mean_s:.3g}",
            percent(each.efficiency),
            f"{each.variation:.2g}",
        )
        for name, each in zip(briefs([each.name for each in report.balance]), report.balance, strict=True)
    ]
    title = "Load balance (ranks and threads of the longest run, exclusive times)"
    return Table("balance", title, ("function", "lost", "max/mean", "efficiency", "variation"), rows, is_long=True)


def _instrumentation(report: Report) -> Table:
    rows = []
    for each in report.instrumentation:
        instruments = "default selection" if each.left_out is None else "everything"
        if each.functions is not None:
            instruments = counted(each.functions, "function")
        elif each.left_out:
            instruments = f"all but {counted(each.left_out, 'function')}"
        measured = ["-" if value is None else str(value) for value in (each.time, each.counts)]
        predicted = percent(each.predicted, "+.2g")
        rows.append((str(each.filter_number), instruments, predicted, measured[0], percent(each.allowed), measured[1]))
    sentences = []
    if noise_resilient(report.models) and not report.unsteady:
        sentences.append("Counts were identical in all repetitions of every point.")
    for metric, paths in report.unsteady.items():
        models = report.models.get(metric)
        without = (
            set() if models is None else {p for p, m in zip(models.call_paths, models.models, strict=True) if not m}
        )
        names = [brief(path) + " (no model: by more than a factor of two)" * (path in without) for path in paths]
        sentences.append(f"{metric} differs between repetitions in: {', '.join(names)}")
    title = "Instrumentation (overhead: CPU time against the baseline, median over points, 90 % interval)"
    header = ("filter", "instruments", "predicted", "measured, for time", "allowed", "for counts")
    return Table("instrumentation", title, header, rows, sentences)


def _overhead_by_point(report: Report) -> Table:
    rows = [
        (
            named(each.point),
            f"{each.plain_s:.3g}",
            *(percent(share, "+.2g") for share in (each.measured, each.hooks, each.openmp, each.startup)),
        )
        for each in report.overhead_by_point
    ]
    title = "Overhead of the last filter"
    header = ("point", "CPU without it, s", "measured", "instrumentation, predicted", "OpenMP", "start-up")
    return Table("overhead", title, header, rows)


def _filter_list(report: Report) -> list[Table]:
    if report.filter_list is None:
        return []
    inside = sorted(report.filter_list.functions.values(), key=lambda each: -(each.share or 0.0))
    title = "Filter list (share, visits and overhead: predicted at the target)"
    return [
        _functions("filter", title, inside),
        _functions("left-out", "Functions left out of the filter list", report.filter_list.left_out.values()),
    ]


def _functions(name: str, title: str, functions: Iterable[FunctionVerdict]) -> Table:
    rows = [
        (
            brief(each.name),
            percent(each.share, ".2g"),
            _number(each.visits, ".3g"),
            percent(each.overhead, ".2g"),
            each.reason,
        )
        for each in functions
    ]
    return Table(name, title, ("function", "share", "visits", "overhead", "why"), rows, is_long=True)


def _evaluation(report: Report) -> Table:
    rows = [
        (named(test.point), f"{test.predicted_s:.4g}", f"{test.measured_s:.4g}", percent(test.ratio - 1, "+.1f"))
        for test in report.evaluation
    ]
    rows += [(named(point.point), _number(point.predicted_s), "not measured", point.why) for point in report.untested]
    crowded = [named(test.point) for test in report.evaluation if test.crowded]
    said = "cores were shared: what was measured has the waiting for cores in it, and tests no prediction."
    header = ("point", "predicted", "measured", "error")
    sentences = [f"At {', '.join(crowded)} {said}"] if crowded else []
    return Table("evaluation", "Evaluation points (run time in s)", header, rows, sentences)


def _account(report: Report) -> Table:
    whole = report.summary.spent_core_hours or 1.0
    rows = [
        (item.phase, str(item.runs), f"{item.core_hours:.4g}", percent(item.core_hours / whole, ".1f"))
        for item in report.summary.account
    ]
    further = (("in all", report.summary.spent_core_hours), ("budget", report.summary.budget_core_hours))
    rows += [(name, "", f"{hours:.4g}", "") for name, hours in further if rows and hours is not None]
    return Table("account", "What the core hours went into", ("spent on", "runs", "core hours", "of all"), rows)


def _failures(report: Report) -> Table:
    rows = [(failure.what, failure.reason.splitlines()[0], failure.log) for failure in report.summary.causes]
    return Table("failures", "Failures", ("what", "reason", "log"), rows)
