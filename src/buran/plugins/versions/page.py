"""The comparison of two campaigns as a page of one file, and as values for a section of the report's page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import buran
from buran.plugins.versions.check import CheckedRow
from buran.plugins.versions.condition import Broken
from buran.plugins.versions.difference import Change, Comparison, Difference
from buran.plugins.versions.text import (
    SYMBOLS,
    change_in_words,
    checked_rows,
    growth_in_words,
    largest,
    metrics_of,
    point_of,
    ranked,
    sentences,
    title_of,
)
from buran.profiles.metrics import metric_of
from buran.reporting.files import asset, environment
from buran.reporting.plain import brief

MOST_ROWS = 200
"""Call paths with a row of their own, of each metric."""
_FOLDER = Path(__file__).parent
STYLE = _FOLDER / "comparison.css"
_WIDTH, _MIDDLE = 160.0, 80.0  # of a bar, in the units of its drawing
_REACH = 4.0  # a change by this factor reaches the end of a bar


def render_comparison_page(comparison: Comparison, broken: Sequence[Broken] = ()) -> str:
    """Write the page."""
    return (
        environment(_FOLDER)
        .get_template("comparison-page.html.j2")
        .render(
            compared=comparison_values(comparison, broken),
            style=asset("report.css") + STYLE.read_text(encoding="utf-8"),
            version=buran.__version__,
        )
    )


def comparison_section(comparison: Comparison) -> str:
    """Return a comparison as an element of the report's page."""
    return environment(_FOLDER).get_template("comparison.html.j2").render(compared=comparison_values(comparison))


def checked_section(earlier: str, parameters: Sequence[str], checked: Sequence[CheckedRow]) -> str:
    """Return what a few runs showed compared with an earlier version as an element of the report's page."""
    rows = checked_rows(parameters, checked)
    return environment(_FOLDER).get_template("checked.html.j2").render(earlier=earlier, checked=rows)


def comparison_values(comparison: Comparison, broken: Sequence[Broken] = ()) -> dict[str, Any]:
    """Return what the template of the section shows."""
    metrics = [(metric, ranked(comparison, metric)) for metric in metrics_of(comparison)]
    sides = (("before", comparison.gone), ("after", comparison.new))
    return {
        "before": comparison.before,
        "after": comparison.after,
        "sentences": sentences(comparison),
        "target": point_of(comparison, comparison.target),
        "level": comparison.level,
        "share": comparison.share,
        "notes": comparison.notes,
        "broken": broken,
        "metrics": [
            {
                "title": title_of(metric),
                "exact": metric_of(metric).noise_resilient,
                "rows": [_row(comparison, difference) for difference in rows[:MOST_ROWS]],
                "left_out": max(len(rows) - MOST_ROWS, 0),
            }
            for metric, rows in metrics
            if rows
        ],
        "one_sided": [
            {"word": word, "count": len(one_sided), "rows": largest(one_sided)[:MOST_ROWS]}
            for word, one_sided in sides
            if one_sided
        ],
    }


def _row(comparison: Comparison, difference: Difference) -> dict[str, object]:
    measured = difference.measured
    return {
        "kind": difference.verdict if difference.verdict in ("grown", "shrunk") else "other",
        "symbol": SYMBOLS[difference.verdict],
        "verdict": difference.verdict,
        "share": difference.share_after,
        "call_path": difference.call_path,
        "short": brief(difference.call_path, 70),
        "numbers": f"{_number(difference.target.before)} → {_number(difference.target.after)} {difference.unit}",
        "target": change_in_words(difference.target),
        "bar": _bar(measured if difference.exact else difference.target),
        "measured": change_in_words(measured),
        "measured_at": "" if measured is None else point_of(comparison, measured.point),
        "growth": growth_in_words(difference),
        "models": f"{difference.model_before or 'none'}; {difference.model_after or 'none'}",
    }


def _number(value: float) -> str:
    return "none" if math.isnan(value) else f"{value:.4g}"


def _bar(change: Change | None) -> dict[str, float] | None:
    """Return where a change and the bounds of its interval lie in the drawing, on a logarithmic axis."""
    if change is None or not math.isfinite(change.lower) or not math.isfinite(change.ratio):
        return None
    positions = {"lower": change.lower, "at": change.ratio, "upper": change.upper}
    return {name: _coordinate(ratio) for name, ratio in positions.items()}


def _coordinate(ratio: float) -> float:
    if ratio <= 0 or math.isinf(ratio):
        return 0.0 if ratio <= 0 else _WIDTH
    return round(min(max(_MIDDLE * (1 + math.log(ratio) / math.log(_REACH)), 0.0), _WIDTH), 1)
