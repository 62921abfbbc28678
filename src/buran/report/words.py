"""What the report says in words and single figures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from buran.model.text import format_function
from buran.report.text import Report, brief, target_values

_WORST = 3
_MATTERS = 0.01  # of the prediction at the target: less is not worth a sentence


def named(point: Mapping[str, float]) -> str:
    """Return a point as ``p=4, n=100``."""
    return ", ".join(f"{name}={value:g}" for name, value in point.items())


def percent(ratio: float | None) -> str:
    """Return by how much a ratio is above one."""
    return "–" if ratio is None else f"{100 * (ratio - 1):+.1f} %"


def figures_of(report: Report, data: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return the figures at the head of the page, each with its label."""
    found = [
        {"value": f"{report.points[0]} of {report.points[1]}", "label": "points measured"},
        {"value": f"{report.spent_core_hours:.3g}", "label": "core hours spent" + _of_budget(report)},
    ]
    full = report.full_matrix_core_hours
    if full and report.points[0] < report.points[1]:
        share = 100 * report.modelling_core_hours / full
        found.append(
            {
                "value": f"{share:.3g} %",
                "label": f"of what all points would take ({full:.3g} core hours) went into models",
            }
        )
    if report.runtime is not None and report.runtime.models[0] is not None:
        at = target_values(report.runtime, report.target)[0]
        found.append({"value": f"{at:.4g} s", "label": f"run time predicted at {named(report.target)}"})
    ratios = [each["time_ratio"] for each in report.overhead if each["time_ratio"] is not None]
    if ratios:
        last = max(each["filter_number"] for each in report.overhead)
        own = [each["time_ratio"] for each in report.overhead if each["filter_number"] == last and each["time_ratio"]]
        if own:
            found.append(
                {"value": percent(float(np.median(own))), "label": "CPU time added by the last instrumentation"}
            )
    return found


def _of_budget(report: Report) -> str:
    return "" if report.budget_core_hours is None else f", budget {report.budget_core_hours:.3g}"


def summary_of(report: Report, data: Mapping[str, Any]) -> list[str]:
    """Return what a reader should know first, in sentences."""
    said = []
    at = named(report.target)
    paths = [each for each in data["paths"] if each["share"]]
    if paths:
        worst = sorted(paths, key=lambda each: -each["share"])[:_WORST]
        text = ", ".join(f"{_name(each)} ({100 * each['share']:.0f} %)" for each in worst)
        said.append(f"At {at}, most of the {data['metric']} is in {text}.")
        rising = [
            each for each in paths if each["share"] > _MATTERS and each["now"] and each["share"] > 1.2 * each["now"]
        ]
        if rising:
            most = sorted(rising, key=lambda each: -each["share"] / each["now"])[:_WORST]
            text = ", ".join(
                f"{_name(each)} (from {100 * each['now']:.3g} to {100 * each['share']:.3g} %, like {each['grows']})"
                for each in most
            )
            said.append(f"Shares that rise on the way from the largest measured point to there: {text}.")
        elif any(each["share"] > _MATTERS for each in paths):
            said.append("No call path's share rises by more than a fifth on the way there.")
    waiting = [each for each in report.priors if each["waiting"].startswith(("waiting", "growth beyond"))]
    if waiting:
        text = ", ".join(f"{brief(each['call_path'], 50)} ({each['waiting']})" for each in waiting[:_WORST])
        said.append(f"Time that grows beyond the counted effort, as waiting does: {text}.")
    model = report.runtime.models[0] if report.runtime else None
    if report.runtime and model:
        text = format_function(model.function, report.parameters)
        said.append(f"Run time of the whole program: {text} s, SMAPE {model.quality.smape:.2g} %.")
    if report.evaluation:
        errors = [abs(each["predicted_s"] / each["measured_s"] - 1) for each in report.evaluation]
        said.append(
            f"Predictions at {len(errors)} points that no model was made from are wrong by "
            f"{100 * float(np.median(errors)):.3g} % (median), {100 * max(errors):.3g} % at worst."
        )
    if report.failures:
        said.append(f"{len(report.failures)} builds or runs failed; models are made from the others.")
    if report.unsteady:
        said.append(f"Counts differ between repetitions in {sum(map(len, report.unsteady.values()))} call paths.")
    return said or ["Nothing was measured yet."]


def _name(path: Mapping[str, Any]) -> str:
    return brief(path["name"], 48)
