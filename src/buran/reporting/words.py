"""What the report says in words and single figures."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from buran.features import sections_of
from buran.modeling.pmnf.text import format_largest
from buran.reporting.content import LEVEL, Answer, Report, run_time_reach, total_at_target
from buran.reporting.headline import Headline, rise_in_words
from buran.reporting.page import PageData
from buran.reporting.plain import name_of, sentence
from buran.reporting.rises import RISES, Rise
from buran.reporting.text import not_measured, unknown_in_words, warnings_of
from buran.wording import counted, named

_WORST = 3
_STEPS = 3
_MATTERS = 0.01  # of the prediction at the target: less is not worth a sentence
_OPEN = 1e4  # times the lower end of an interval: above, it says nothing
_WIDE = 5.0  # times the lower end of an interval: above, it says too little to call a run time known


def percent(ratio: float | None) -> str:
    """Return by how much a ratio is above one."""
    return "–" if ratio is None else f"{100 * (ratio - 1):+.1f} %"


def answers_of(report: Report, data: PageData, headline: Headline) -> list[Answer]:
    """Return what a reader wants to know at first sight."""
    return [*headline.first, headline.scaling, *headline.further, _how_sure(report, data), _cost(report), _next(report)]


def _target(report: Report) -> dict[str, float]:
    """Return the target in the order of the parameters."""
    return {name: report.target[name] for name in report.parameters}


def _how_sure(report: Report, data: PageData) -> Answer:
    target = _target(report)
    facts, parts = [], []
    answer = "Not known"
    if report.unknown.advice:
        facts.append(sentence(unknown_in_words(report), ()))
    reach_s = run_time_reach(report)
    if report.runtime is not None and (model := report.runtime.models[0]) is not None and reach_s is not None:
        at, low, high = reach_s
        is_wide = np.isfinite(low + high) and high > _WIDE * low
        is_open = low > 0 and not high < _OPEN * low
        if not is_wide:
            answer = f"{at:.4g} s"
        elif low > 0 and not is_open and not report.unknown.advice:
            answer = f"Between {_digits(low, 2)} and {_digits(high, 2)} s"
        reach = f"{_digits(low, 3)} to {_digits(high, 3)} s" if np.isfinite(low + high) else "unknown: too few points"
        if is_open:
            reach = f"wider than a factor of {_OPEN:g}"
        if report.tensor is not None:
            reach = "not known: a tensor model has none beyond what was measured"
        guess = f": about {at:.4g} s, but the" if is_wide else ";"
        facts.append(
            f"Run time at {named(target)}{guess} {100 * LEVEL:.0f} % interval {'is ' if is_wide else ''}{reach}"
        )
        if report.target_cores and not report.unknown.advice and not is_open:
            least, likely, most = (each * report.target_cores / 3600 for each in (low, at, high))
            hours = f"{_digits(least, 2)} to {_digits(most, 2)}" if is_wide else _digits(likely, 3)
            cores = _number(report.target_cores, "core", "cores")
            facts.append(f"Such a run takes {hours} core hours on {cores}")
        if total := total_at_target(report):
            parts.append(f"{total.call_paths_s:.4g} s in call paths, {total.startup_s:.4g} s start-up and shutdown")
        if report.tensor is None:
            parts.append(f"Fit error: {model.quality.smape:.2g} % on average (SMAPE)")
    if report.evaluation:
        fair = [test for test in report.evaluation if not test.crowded]
        errors = [abs(test.ratio - 1) for test in fair]
        if errors:
            points = _number(len(errors), "point", "points")
            facts.append(f"Tested at {points} it was not made from: wrong by {100 * float(np.median(errors)):.3g} %")
        if left := len(report.evaluation) - len(fair):
            facts.append(f"At {_number(left, 'evaluation point', 'evaluation points')} runs waited for cores: no test")
    facts += [f"Not tested at {named(point.point)}: {', '.join(not_measured(point))}" for point in report.untested]
    facts += parts  # of a terminal's screen the last facts are left out
    levels = [path["noise_level"] for path in data["paths"] if (path["share"] or 0) > _MATTERS]
    noise_levels = [level for level in levels if level is not None]
    if noise_levels:
        facts.append(f"Repetitions of the larger call paths differ by {float(np.median(noise_levels)):.2g} %")
    warnings = len(warnings_of(report))
    if warnings:
        facts.append(f"{warnings} {'note' if warnings == 1 else 'notes'} to keep in mind, below")
    return Answer("How long will it take, and how sure is that?", answer, facts)


def _cost(report: Report) -> Answer:
    facts = [f"{report.points[0]} of {report.points[1]} points measured"]
    if report.budget_core_hours is not None:
        left = max(report.budget_core_hours - report.spent_core_hours, 0.0)
        facts.append(f"{left:.3g} of the budget's {report.budget_core_hours:.3g} core hours are left")
    full = report.full_matrix_core_hours
    if full and report.points[0] < report.points[1]:
        share = 100 * report.modelling_core_hours / full
        facts.append(f"{share:.3g} % of what all points would take ({full:.3g} core hours) went into models")
    timed = [each for each in report.instrumentation if each.time is not None]
    if timed:
        beyond = timed[-1].without_startup
        rest = "" if beyond is None else f", {100 * beyond.share:+.1f} % beyond start-up of the measurement system"
        facts.append(f"Instrumentation added {timed[-1].time} of CPU time{rest}")
    facts += [each.cost(value) for each, value in sections_of(report) if each.cost is not None]
    if report.failures:
        facts.append(f"{_number(_failed(report), 'build or run', 'builds or runs')} failed")
    return Answer("What did it cost?", f"{report.spent_core_hours:.3g} core hours", facts)


def _failed(report: Report) -> int:
    return sum(failure.count for failure in report.failures)


def _next(report: Report) -> Answer:
    first, *rest = report.next_steps or ["nothing more"]
    head, _, tail = first.partition(": ")
    return Answer("What next?", sentence(head, report.parameters), [step for step in (tail, *rest) if step][:_STEPS])


def _digits(value: float, digits: int) -> str:
    """Return a number with so many digits, below a million without an exponent."""
    text = f"{value:.{digits}g}"
    return f"{float(text):.0f}" if "e+" in text and value < 1e6 else text


def _number(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"


def summary_of(report: Report, data: PageData, rises: Sequence[Rise]) -> list[str]:
    """Return what a reader should know first, in sentences."""
    sentences = []
    at = named(_target(report))
    shares = [(share, name_of(path["name"])) for path in data["paths"] if (share := path["share"])]
    if shares:
        worst = sorted(shares, key=lambda each: -each[0])[:_WORST]
        text = ", ".join(f"{name} ({100 * share:.0f} %)" for share, name in worst)
        sentences.append(f"At {at}, most of the {data['metric']} is in {text}.")
        if rises:
            shown = [(name_of(rise.call_path), rise_in_words(rise, data["metric"]), rise.reason) for rise in rises]
            notes = [f", a guess: {rise.why_guess}" if rise.why_guess else "" for rise in rises]
            text = "; ".join(
                f"{' '.join(each[:2])} ({each[2]}{why_guess})" for each, why_guess in zip(shown, notes, strict=True)
            )
            sentences.append(f"Shares that rise: {text}.")
        else:
            sentences.append(f"No call path's share rises by {100 * RISES:.0f} % of the whole along any parameter.")
    kept = [prior for prior in report.priors if prior.waiting.startswith("waiting")]
    largest = sorted(kept, key=lambda prior: -(prior.at_target_s or 0.0))[:_WORST]
    text = ", ".join(f"{name_of(prior.call_path)} ({prior.waiting})" for prior in largest)
    if text:
        sentences.append(f"Time of MPI or locks that grows beyond the counted effort, as waiting does: {text}.")
    model = report.runtime.models[0] if report.runtime else None
    if report.runtime and model:
        text = format_largest(model.function, report.parameters, report.target)
        form = "" if report.tensor is None else ", in normal form"
        sentences.append(f"Run time of the whole program{form}: {text} s, SMAPE {model.quality.smape:.2g} %.")
    if report.evaluation:
        errors = [abs(test.ratio - 1) for test in report.evaluation]
        sentences.append(
            f"Predictions at {_number(len(errors), 'point', 'points')} that no model was made from are wrong by "
            f"{100 * float(np.median(errors)):.3g} % (median), {100 * max(errors):.3g} % at worst."
        )
    drift = data["over_time"]["drift"]
    if drift and drift["sure"]:
        change = "slower" if drift["percent"] > 0 else "faster"
        sentences.append(
            f"The machine drifted: baseline runs became {change} by {abs(drift['percent']):.2g} ± {drift['error']:.1g} "
            f"% from the first to the last repetition, {drift['minutes']:.2g} minutes apart."
        )
    if report.failures:
        failed = _number(_failed(report), "build or run", "builds or runs")
        sentences.append(f"{failed} failed; models are made from the others.")
    if report.unsteady:
        sentences.append(
            f"Counts differ between repetitions in {counted(sum(map(len, report.unsteady.values())), 'call path')}."
        )
    return sentences or ["Nothing was measured yet."]
