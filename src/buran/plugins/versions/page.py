"""The comparison of two campaigns, as values for people and for programs, as text and as a page."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import buran
from buran.files import write_json, write_text
from buran.plugins.versions.condition import Broken
from buran.plugins.versions.difference import Change, Comparison, Difference, OneSided
from buran.plugins.versions.text import (
    SYMBOLS,
    change_in_words,
    growth_in_words,
    metrics_of,
    point_of,
    ranked,
    sentences,
    title_of,
)
from buran.profiles.metrics import metric_of
from buran.reporting.html import asset, environment
from buran.reporting.tables import brief, section

NAME = "comparison"
MOST_ROWS = 200
"""Call paths with a row of their own on the page, of each metric."""
_ROWS = 12  # likewise in the text
_FOLDER = Path(__file__).parent
STYLE = _FOLDER / "comparison.css"
_WIDTH, _MIDDLE = 160.0, 80.0  # of a bar, in the units of its drawing
_REACH = 4.0  # a change by this factor reaches the end of a bar


def write_comparison(folder: Path, comparison: Comparison, broken: Sequence[Broken] = ()) -> None:
    """Write a comparison next to a report: as text, JSON and a page."""
    values = _values(comparison, broken)
    style = asset("report.css") + STYLE.read_text(encoding="utf-8")
    page = environment(_FOLDER).get_template("comparison-page.html.j2")
    write_text(folder / f"{NAME}.txt", _text(values))
    write_json(folder / f"{NAME}.json", comparison_plain(comparison, broken))
    write_text(folder / f"{NAME}.html", page.render(compared=values, style=style, version=buran.__version__))


def comparison_section(comparison: Comparison) -> str:
    """Return a comparison as an element of the report's page."""
    return environment(_FOLDER).get_template("comparison.html.j2").render(compared=_values(comparison))


def _values(comparison: Comparison, broken: Sequence[Broken] = ()) -> dict[str, Any]:
    """Return what text and page show."""
    moves = [("renamed" if pair.renamed else "moved", pair.before, pair.after) for pair in comparison.moved]
    return {
        "before": comparison.before,
        "after": comparison.after,
        "sentences": sentences(comparison),
        "target": point_of(comparison, comparison.target),
        "level": f"{100 * comparison.level:g} %",
        "share": f"{100 * comparison.share:g} %",
        "notes": comparison.notes,
        "metrics": [
            {
                "title": title_of(metric),
                "where": "counted" if metric_of(metric).noise_resilient else "measured",
                "rows": [_row(comparison, difference) for difference in rows[:MOST_ROWS]],
                "left_out": max(len(rows) - MOST_ROWS, 0),
            }
            for metric in metrics_of(comparison)
            if (rows := ranked(comparison, metric))
        ],
        "tables": [
            _table("Conditions that came true", ("condition", "call path", "metric"),
                   [(each.condition, each.call_path, each.metric) for each in broken]),
            _table("Call paths with another name or caller, compared as one", ("", "before", "after"), moves),
            _one_sided("before", comparison.gone),
            _one_sided("after", comparison.new),
        ],
    }  # fmt: skip


def _table(title: str, header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> dict[str, Any]:
    return {"title": f"{title}: {len(rows)}", "header": header, "rows": rows[:MOST_ROWS]}


def _one_sided(word: str, paths: Sequence[OneSided]) -> dict[str, Any]:
    largest = sorted(paths, key=lambda path: -path.share)
    rows = [(f"{100 * path.share:.1f} %", path.call_path, path.metric) for path in largest]
    return _table(f"Call paths only {word}, with all metrics", ("share", "call path", "metric"), rows)


def _row(comparison: Comparison, difference: Difference) -> dict[str, Any]:
    measured, target = difference.measured, difference.target
    return {
        "kind": difference.verdict if difference.verdict in ("grown", "shrunk") else "other",
        "symbol": SYMBOLS[difference.verdict],
        "verdict": difference.verdict,
        "share": f"{100 * difference.share_after:.1f} %",
        "call_path": difference.call_path,
        "short": brief(difference.call_path),
        "numbers": f"{_number(target.before)} → {_number(target.after)} {difference.unit}",
        "target": change_in_words(target),
        "bar": _bar(measured if difference.exact else target),
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


def _text(values: Mapping[str, Any]) -> str:
    title = f"Comparison: {values['after']}"
    head = [
        f"with {values['before']}, at {values['target']}.",
        *values["sentences"],
        f"Call paths matter from {values['share']} of their metric on. All of a metric are classified "
        f"correctly together with {values['level']} probability.",
        "What only one side has counts to the caller that both have.",
        *(f"Note: {note}" for note in values["notes"]),
    ]
    parts = ["\n".join([title, "=" * len(title), *head])]
    columns = ("symbol", "share", "short", "target", "measured", "growth")
    for metric in values["metrics"]:
        where = f"change where both {metric['where']}"
        header = ("", "share", "call path", "change at the target", where, "dominant term")
        rows = [[row[column] for column in columns] for row in metric["rows"][:_ROWS]]
        parts.append(section(metric["title"], header, rows))
    for table in values["tables"]:
        parts.append(section(table["title"], table["header"], [[*map(brief, row)] for row in table["rows"][:_ROWS]]))
    return "\n\n".join(part for part in parts if part) + "\n"


def comparison_plain(comparison: Comparison, broken: Sequence[Broken] = ()) -> dict[str, Any]:
    """Return the comparison as plain data; numbers that are not finite become None."""
    plain = asdict(comparison)
    for entry, difference in zip(plain["differences"], comparison.differences, strict=True):
        entry["grown_by"] = difference.grown_by
    return {"schema": "buran-comparison/1", **_finite(plain), "broken": [asdict(failure) for failure in broken]}


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
