"""What the report says in words and single figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from buran.experiment.collect import split_call_path
from buran.model.text import format_largest
from buran.report.plain import brief, function_name, named
from buran.report.text import LEVEL, Answer, Report, not_measured, run_time_reach, total_at_target, warnings_of
from buran.wording import counted

# By how a finding beyond the counted effort begins: what it is called.
_BEYOND_EFFORT = {
    "waiting": "Time of MPI or locks that grows beyond the counted effort, as waiting does",
    "dearer work": "Work whose units get dearer, as where memory or cores are shared, beyond the counted effort",
    "growth beyond": "Time of MPI or locks that grows beyond the counted effort, not with the processes",
}
_WORST = 3
_STEPS = 3
_RISES = 0.05  # of the whole: less is no answer to what stops scaling
_MATTERS = 0.01  # of the prediction at the target: less is not worth a sentence
_DWARFED = 0.5  # of the largest call path's share: less is no answer while the larger one's model is poor
_TRUSTED = 30.0  # % SMAPE: models that miss more have not even the size of what was measured
_LEAST = 0.1  # of the prediction, the lower end of its interval: below, not even its size is sure
_ERRORS = 2.0  # standard errors from which on two predictions differ
_CONTRADICTS = 0.5  # of the prediction: models that differ by less tell the same story


def sentence(text: str, names: Sequence[str]) -> str:
    """Begin with a capital letter, unless a name of a parameter or a command comes first."""
    word = text.partition(" ")[0]
    return text if word in names or not word.isalpha() else text[:1].upper() + text[1:]


def percent(ratio: float | None) -> str:
    """Return by how much a ratio is above one."""
    return "–" if ratio is None else f"{100 * (ratio - 1):+.1f} %"


def answers_of(report: Report, data: Mapping[str, Any], no_models: str) -> list[Answer]:
    """Return what a reader wants to know at first sight."""
    return [_where(report, data, no_models), _how_sure(report, data), _cost(report), _next(report)]


def rises_of(data: Mapping[str, Any]) -> list[Rise]:
    """Return how shares of the largest call paths change along each parameter, the largest rise first."""
    stack = data.get("stack")
    if not stack:
        return []
    rises = []
    for parameter, (values, total) in enumerate(zip(stack["values"], stack["total"], strict=True)):
        first, last = total[0], total[-1]
        if len(total) > 1 and first and last:
            axis = data["axes"][parameter]
            at = (data["parameters"][parameter], axis[0], axis[-1])
            rises += [
                Rise(row, *at, shares[0] / first, shares[-1] / last)
                for row, shares in zip(stack["rows"], values, strict=True)
            ]
    return sorted(rises, key=lambda rise: rise.share_first - rise.share_last)


@dataclass(frozen=True)
class Rise:
    """How a call path's share changes along a parameter, all others at the target."""

    row: int
    parameter: str
    first: float
    last: float
    share_first: float
    share_last: float


def _where(report: Report, data: Mapping[str, Any], no_models: str) -> Answer:
    """Name the call path whose share rises most, of those whose models can be trusted where there are some.

    A rise along ranks or threads comes before a larger one along other parameters, as that is what scaling means.
    """
    question, target = "Where does it stop scaling?", _target(report)
    paths = data["paths"]
    if not any(path["share"] for path in paths):
        return Answer(question, "Not known", [f"There are no models: {no_models}." if not paths else "All is 0."])
    ranked = sorted((path for path in paths if path["share"]), key=lambda path: -path["share"])
    least = _DWARFED * ranked[0]["share"]
    largest = next((path for path in ranked if trusted(path) and path["share"] >= least), ranked[0])
    aside = _left_aside(largest, ranked, data)
    able = [trusted(path) if trusted(largest) else (path["share"] or 0.0) >= least for path in paths]
    rises = [rise for rise in rises_of(data) if able[rise.row] and rise.share_last - rise.share_first >= _RISES]
    if rises:
        along = [rise for rise in rises if rise.parameter in report.parallel]
        rise = (along or rises)[0]
        path = paths[rise.row]
        ends = [f"{100 * share:.0f} %" for share in (rise.share_first, rise.share_last)]
        facts = [
            f"From {ends[0]} of the {data['metric']} at {rise.parameter}={rise.first:g} to {ends[1]} at "
            f"{rise.parameter}={rise.last:g}"
        ]
        if report.parallel and not along:
            facts.append(f"No call path's share rises much along {' or '.join(report.parallel)}")
        if largest is not path:
            facts.append(f"Largest there: {_name(largest['name'])}, {100 * largest['share']:.0f} %")
    else:
        growing = [path for path in ranked if trusted(path) and path["grows"] != "1" and path["share"] > _MATTERS]
        path = largest if largest["grows"] != "1" or not growing else growing[0]
        facts = [f"{100 * path['share']:.0f} % of the {data['metric']} at {named(target)}"]
        if path is not largest:
            facts.append(
                f"Largest there: {_name(largest['name'])}, {100 * largest['share']:.0f} %, which does not grow"
            )
        facts.append("No call path's share rises much on the way there.")
    facts = [facts[0], _growth(path), *facts[1:], *_beyond(path), *_doubt(path, data), *_contradiction(path, data)]
    # terminals show the first facts alone
    facts = [*facts, *aside] if trusted(largest) else [facts[0], *aside, *facts[1:]]
    return Answer(question, _name(path["name"]), [*facts, *_apart(data)])


def trusted(path: Mapping[str, Any]) -> bool:
    """Tell whether a model of a call path can carry a claim: it gives its measurements, and its size is sure."""
    return path["smape"] is not None and path["smape"] <= _TRUSTED and not _may_be_nothing(path)


def _may_be_nothing(path: Mapping[str, Any]) -> bool:
    return path["low"] is not None and path["low"] < _LEAST * (path["at"] or 0.0)


def _left_aside(largest: Mapping[str, Any], ranked: Sequence[Mapping[str, Any]], data: Mapping[str, Any]) -> list[str]:
    """Say which larger call paths are not named, and why."""
    if not trusted(largest):
        return ["No larger call path has a model that can carry a claim: this is a guess."]
    larger = [path for path in ranked if path["share"] > largest["share"] and not trusted(path)]
    return [f"Left aside: {_name(path['name'])}, {_why_aside(path, data)}" for path in larger[:_WORST]]


def _why_aside(path: Mapping[str, Any], data: Mapping[str, Any]) -> str:
    share = f"{100 * path['share']:.0f} % there"
    if path["smape"] is None:
        return f"{share}, as nothing tells how well its model gives its measurements"
    if path["smape"] > _TRUSTED:
        return f"{share}, as its model misses its measurements by {path['smape']:.2g} % (SMAPE)"
    reach = f"{path['low']:.2g} to {path['high']:.2g} {_unit(data)}"
    return f"{share}, may as well be nothing: {100 * LEVEL:.0f} % interval {reach}"


def _unit(data: Mapping[str, Any]) -> str:
    return "s" if data["unit"] == "sec" else str(data["unit"])


def _beyond(path: Mapping[str, Any]) -> list[str]:
    """Say what a call path's time has beyond its counted effort."""
    if path["waiting"] and path["waiting"].startswith("waiting"):
        return ["It waits: its time grows beyond its counted effort."]
    if path["waiting"] and path["waiting"].startswith("dearer work"):
        return ["Its work gets dearer: its time grows beyond its counted effort, as where memory or cores are shared."]
    return []


def _contradiction(path: Mapping[str, Any], data: Mapping[str, Any]) -> list[str]:
    """Say where times alone would tell another story than counts, which of both is shown, and why."""
    gap, error = path["difference_s"], path["difference_error_s"]
    if not path["prior"] or gap is None or error is None or abs(gap) <= max(_ERRORS * error, _CONTRADICTS * path["at"]):
        return []
    return [
        f"Its times alone say {path['at'] + gap:.3g} s there; shown is what its counts say, as these have no noise: "
        "they give the growth, times only the cost of a unit of work"
    ]


def _doubt(path: Mapping[str, Any], data: Mapping[str, Any]) -> list[str]:
    """Say how sure the prediction of a call path is, apart from that of the whole program."""
    unit = _unit(data)
    if path["low"] is None or path["high"] is None:
        return [f"{path['at']:.3g} {unit} there, without an interval: too few points"]
    reach = f"{path['low']:.3g} to {path['high']:.3g} {unit}"
    return [f"{path['at']:.3g} {unit} there; {100 * LEVEL:.0f} % interval {reach}; SMAPE {path['smape']:.2g} %"]


def _apart(data: Mapping[str, Any]) -> list[str]:
    """Name the time that it takes to start and end where it is worth a sentence."""
    seconds = data["start_and_end"]
    others = sum(path["at"] or 0.0 for path in data["paths"] if path["share"] is not None)
    if seconds <= _RISES * others:
        return []
    return [f"Starting and ending is in no share: {seconds:.3g} s there"]


def _target(report: Report) -> dict[str, float]:
    """Return the target in the order of the parameters."""
    return {name: report.target[name] for name in report.parameters}


def _growth(path: Mapping[str, Any]) -> str:
    return "It does not grow." if path["grows"] == "1" else f"It grows like {path['grows']}."


def _how_sure(report: Report, data: Mapping[str, Any]) -> Answer:
    target = _target(report)
    facts = []
    answer = "Not known"
    if report.runtime is not None and (model := report.runtime.models[0]) is not None:
        at, low, high = run_time_reach(report) or (np.nan,) * 3
        answer = f"{at:.4g} s"
        reach = f"{low:.3g} to {high:.3g} s" if np.isfinite(low + high) else "unknown: too few points"
        if report.tensor is not None:
            reach = "not known: a tensor model has none beyond what was measured"
        facts.append(f"Run time at {named(target)}; {100 * LEVEL:.0f} % interval {reach}")
        if total := total_at_target(report):
            facts.append(f"{total.call_paths_s:.4g} s in call paths, {total.ends_s:.4g} s to start and end")
        if report.tensor is None:
            facts.append(f"Misses its measurements by {model.quality.smape:.2g} % on average (SMAPE)")
    if report.evaluation:
        errors = [abs(prediction["predicted_s"] / prediction["measured_s"] - 1) for prediction in report.evaluation]
        points = _number(len(errors), "point", "points")
        shared = " (ranks shared cores)" if any(test.get("crowded") for test in report.evaluation) else ""
        facts.append(
            f"Tested at {points} it was not made from: wrong by {100 * float(np.median(errors)):.3g} %{shared}"
        )
    facts += [f"Not tested at {named(point['point'])}: {', '.join(not_measured(point))}" for point in report.untested]
    levels = [path["noise_level"] for path in data["paths"] if (path["share"] or 0) > _MATTERS]
    noise_levels = [level for level in levels if level is not None]
    if noise_levels:
        facts.append(f"Repetitions of the larger call paths differ by {float(np.median(noise_levels)):.2g} %")
    warnings = len(warnings_of(report))
    if warnings:
        facts.append(f"{warnings} {'note' if warnings == 1 else 'notes'} to keep in mind, below")
    return Answer("How sure is that?", answer, facts)


def _cost(report: Report) -> Answer:
    facts = [f"{report.points[0]} of {report.points[1]} points measured"]
    if report.budget_core_hours is not None:
        left = max(report.budget_core_hours - report.spent_core_hours, 0.0)
        facts.append(f"{left:.3g} of the budget's {report.budget_core_hours:.3g} core hours are left")
    full = report.full_matrix_core_hours
    if full and report.points[0] < report.points[1]:
        share = 100 * report.modelling_core_hours / full
        facts.append(f"{share:.3g} % of what all points would take ({full:.3g} core hours) went into models")
    ratios = [overhead for overhead in report.overhead if overhead["time_ratio"]]
    if ratios:
        last = max(overhead["filter_number"] for overhead in ratios)
        time_ratios = [overhead["time_ratio"] for overhead in ratios if overhead["filter_number"] == last]
        facts.append(f"Instrumentation added {percent(float(np.median(time_ratios)))} of CPU time")
    if report.energy is not None:
        facts.append(f"{counted(report.energy.runs[0], 'run')} took {report.energy.joules:.3g} J")
    if report.failures:
        facts.append(f"{_number(_failed(report), 'build or run', 'builds or runs')} failed")
    return Answer("What did it cost?", f"{report.spent_core_hours:.3g} core hours", facts)


def _failed(report: Report) -> int:
    return sum(int(failure.get("count", 1)) for failure in report.failures)


def _next(report: Report) -> Answer:
    first, *rest = report.next_steps or ["nothing more"]
    head, _, tail = first.partition(": ")
    return Answer("What next?", sentence(head, report.parameters), [step for step in (tail, *rest) if step][:_STEPS])


def _number(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"


def summary_of(report: Report, data: Mapping[str, Any]) -> list[str]:
    """Return what a reader should know first, in sentences."""
    sentences = []
    at = named(_target(report))
    paths = [path for path in data["paths"] if path["share"]]
    if paths:
        worst = sorted(paths, key=lambda path: -path["share"])[:_WORST]
        text = ", ".join(f"{_name(path['name'])} ({100 * path['share']:.0f} %)" for path in worst)
        sentences.append(f"At {at}, most of the {data['metric']} is in {text}.")
        rising = [
            path for path in paths if path["share"] > _MATTERS and path["now"] and path["share"] > 1.2 * path["now"]
        ]
        if rising:
            most = sorted(rising, key=lambda path: -path["share"] / path["now"])[:_WORST]
            text = ", ".join(
                f"{_name(path['name'])} (from {100 * path['now']:.3g} to {100 * path['share']:.3g} %, "
                f"like {path['grows']})"
                for path in most
            )
            sentences.append(f"Shares that rise on the way from the largest measured point to there: {text}.")
        elif any(path["share"] > _MATTERS for path in paths):
            sentences.append("No call path's share rises by more than a fifth on the way there.")
    for kind, said in _BEYOND_EFFORT.items():
        kept = [prior for prior in report.priors if prior["waiting"].startswith(kind)]
        largest = sorted(kept, key=lambda prior: -(prior["at_target_s"] or 0.0))[:_WORST]
        text = ", ".join(f"{_name(prior['call_path'])} ({prior['waiting']})" for prior in largest)
        sentences += [f"{said}: {text}."] if text else []
    model = report.runtime.models[0] if report.runtime else None
    if report.runtime and model:
        text = format_largest(model.function, report.parameters, report.target)
        form = "" if report.tensor is None else ", in normal form"
        sentences.append(f"Run time of the whole program{form}: {text} s, SMAPE {model.quality.smape:.2g} %.")
    if report.evaluation:
        errors = [abs(prediction["predicted_s"] / prediction["measured_s"] - 1) for prediction in report.evaluation]
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


def _name(call_path: str) -> str:
    """Return the function, and of an MPI operation the caller too, as many call the same."""
    parts = split_call_path(call_path)
    last = parts[-2:] if parts[-1].startswith("MPI_") else parts[-1:]
    return " → ".join(brief(function_name(part), 40) for part in last)
