"""The report as plain text, and what it says in words and single figures."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from buran.features import sections_of
from buran.modeling.numerics.tuning import ALLOWANCE
from buran.modeling.pmnf.model_set import at_the_end
from buran.modeling.pmnf.structures import undecided
from buran.modeling.pmnf.text import format_largest
from buran.reporting.content import (
    LEVEL,
    Answer,
    Report,
    run_time_at_target,
    run_time_reach,
    target_values,
    total_at_target,
)
from buran.reporting.headline import Headline
from buran.reporting.tables import ROWS, Table, brief, call_path_tables, section, sentence, tables_of
from buran.wording import counted, named

_NAMED = 3  # call paths in a sentence
_FAR = 2.0  # sum of the call paths over the whole program: beyond this, extrapolations contradict each other
_STEPS = 3
_MATTERS = 0.01  # of the prediction at the target: less is not worth a sentence
_OPEN = 1e4  # times the lower end of an interval: above, it says nothing
_WIDE = 5.0  # times the lower end of an interval: above, it says too little to call a run time known


def answers_of(report: Report, data: Mapping[str, Any], headline: Headline) -> list[Answer]:
    """Return what a reader wants to know at first sight."""
    return [*headline.first, headline.scaling, *headline.further, _how_sure(report, data), _cost(report), _next(report)]


def _how_sure(report: Report, data: Mapping[str, Any]) -> Answer:
    answer, facts, parts = _prediction(report)
    facts = [*facts, *_tests(report), *parts, *_noise(data)]  # of a terminal's screen the last facts are left out
    if warnings := len(warnings_of(report)):
        facts.append(f"{warnings} {'note' if warnings == 1 else 'notes'} to keep in mind, below")
    return Answer("How long will it take, and how sure is that?", answer, facts)


def _prediction(report: Report) -> tuple[str, list[str], list[str]]:
    """Return the run time at the target in a few words, the facts behind it, and what it is made of."""
    target, answer = {name: report.target[name] for name in report.parameters}, "Not known"
    facts = [sentence(unknown_in_words(report), ())] if report.unknown.advice else []
    reach_s = run_time_reach(report)
    if report.runtime is None or (model := report.runtime.models[0]) is None or reach_s is None:
        return answer, facts, []
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
    facts.append(f"Run time at {named(target)}{guess} {100 * LEVEL:.0f} % interval {'is ' if is_wide else ''}{reach}")
    if report.target_cores and not report.unknown.advice and not is_open:
        least, likely, most = (each * report.target_cores / 3600 for each in (low, at, high))
        hours = f"{_digits(least, 2)} to {_digits(most, 2)}" if is_wide else _digits(likely, 3)
        facts.append(f"Such a run takes {hours} core hours on {counted(report.target_cores, 'core')}")
    parts = []
    if total := total_at_target(report):
        parts.append(f"{total.call_paths_s:.4g} s in call paths, {total.startup_s:.4g} s start-up and shutdown")
    if report.tensor is None or not report.words:
        formula = format_largest(model.function, report.parameters, report.target)
        form = "Model" if report.tensor is None else "In normal form, for comparison"
        parts.append(f"{form}: {formula} s, wrong by {model.quality.smape:.2g} % on average (SMAPE)")
    return answer, facts, parts


def _tests(report: Report) -> list[str]:
    """Say how wrong predictions are at evaluation points."""
    errors, facts = [abs(test.ratio - 1) for test in report.evaluation if not test.crowded], []
    if errors:
        points = counted(len(errors), "point")
        facts.append(f"Tested at {points} it was not made from: wrong by {100 * float(np.median(errors)):.3g} %")
    if left := len(report.evaluation) - len(errors):
        facts.append(f"At {counted(left, 'evaluation point')} runs waited for cores: no test")
    return [*facts, *(f"Not tested at {named(each.point)}: not measured, {each.why}" for each in report.untested)]


def _noise(data: Mapping[str, Any]) -> list[str]:
    """Say how much repetitions differ, and whether the machine drifted."""
    shares = [(path["noise_level"], path["share"] or 0) for path in data["paths"]]
    levels = [level for level, share in shares if level is not None and share > _MATTERS]
    facts = [f"Repetitions of the larger call paths differ by {float(np.median(levels)):.2g} %"] if levels else []
    drift = data["drift"]
    if drift and drift["sure"]:
        change = "slower" if drift["percent"] > 0 else "faster"
        facts.append(
            f"The machine drifted: baseline runs became {change} by {abs(drift['percent']):.2g} ± {drift['error']:.1g} "
            f"% from the first to the last repetition, {drift['minutes']:.2g} minutes apart"
        )
    return facts


def _cost(report: Report) -> Answer:
    facts = [f"{report.points[0]} of {report.points[1]} points measured"]
    spent, budget = report.summary.spent_core_hours, report.summary.budget_core_hours
    if budget is not None:
        facts.append(f"{max(budget - spent, 0.0):.3g} of the budget's {budget:.3g} core hours are left")
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
    if failed := len(report.summary.failures):
        facts.append(f"{failed} {'build or run' if failed == 1 else 'builds or runs'} failed")
    return Answer("What did it cost?", f"{spent:.3g} core hours", facts)


def _next(report: Report) -> Answer:
    first, *rest = report.next_steps or ["nothing more"]
    head, _, tail = first.partition(": ")
    return Answer("What next?", sentence(head, report.parameters), [step for step in (tail, *rest) if step][:_STEPS])


def _digits(value: float, digits: int) -> str:
    """Return a number with so many digits, below a million without an exponent."""
    text = f"{value:.{digits}g}"
    return f"{float(text):.0f}" if "e+" in text and value < 1e6 else text


def warnings_of(report: Report) -> list[str]:
    """Return what a reader must know not to read too much into the numbers."""
    notes = list(report.notes)
    times = report.models.get("time")
    if report.runtime:
        # of what the program takes, counting runs tell only what its call paths do
        names = report.runtime.parameters
        made_from = [each.points for each in (report.runtime, times) if each and each.parameters == names]
        notes += filter(None, [undecided(np.vstack(made_from), names)])
    notes += at_the_end(report.models.values())
    if report.unknown.advice:
        notes.insert(0, unknown_in_words(report))
    if report.runtime is None or times is None or report.unknown.total:
        return notes
    at, added = run_time_at_target(report), target_values(times, report.target).sum()
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


_WIDTH, _LINES = 80, 23  # of a terminal; a line is left for what the shell says next


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
    ended = f"{report.points[0]} of {report.points[1]} points measured: {report.summary.reason}."
    on = _wrapped(report.machine) if report.machine else []
    return [f"Buran report: {report.summary.campaign}", *_wrapped(ended), *on]


def _wrapped(line: str, indent: str = "") -> list[str]:
    return textwrap.wrap(line.strip(), _WIDTH, initial_indent=indent, subsequent_indent=2 * indent) or [""]


def render(report: Report, answers: Sequence[Answer] = ()) -> str:
    """Write the report; `answers` are to what a reader wants to know first."""
    features = sections_of(report)
    width, lies = max(map(len, report.results)), report.results.items()
    parts = [
        "\n".join(_head(report)),
        "\n".join(line for answer in answers for line in _answer(answer)),
        "\n".join(f"Note: {note}" for note in warnings_of(report)),
        *(each.text(value, report) for each, value in features if each.is_first),
        *map(_table, call_path_tables(report)),
        *(each.text(value, report) for each, value in features if not each.is_first),
        *map(_table, tables_of(report)),
        _table(Table("", "Next steps", sentences=[f"- {step}" for step in report.next_steps])),
        _table(Table("", "Where the results lie", sentences=[f"{name:<{width}}  {file}" for name, file in lies])),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _answer(answer: Answer) -> list[str]:
    return [f"{answer.question} {answer.answer}", *(f"  {fact}" for fact in answer.facts)]


def _table(table: Table) -> str:
    if not table.rows:
        return "\n".join([table.title, "-" * len(table.title), *table.sentences])
    shown = table.rows[:ROWS] if table.is_long else table.rows
    left = len(table.rows) - len(shown)
    further = [f"and {left} more, on the page"] if left else []
    return "\n\n".join([section(table.title, table.header, shown), *further, *table.sentences])
