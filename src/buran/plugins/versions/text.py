"""The comparison of two campaigns, as text, CSV and plain data."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from buran.plugins.versions.check import CheckedRow
from buran.plugins.versions.condition import Broken
from buran.plugins.versions.difference import Change, Comparison, Difference, OneSided, Verdict
from buran.plugins.versions.side import RUNTIME
from buran.profiles.metrics import metric_of
from buran.reporting.plain import brief, csv_text, name_of, section
from buran.wording import named

_ROWS = 12
_CALLEES = 2  # named where a call path differs by others
_SHOWN = 1e-4  # width of an interval below which its bounds are not written
_ORDER: tuple[Verdict, ...] = ("grown", "shrunk", "undecided", "no difference seen", "same")
SYMBOLS: Mapping[Verdict, str] = {
    "grown": "▲", "shrunk": "▼", "same": "=", "no difference seen": "~", "undecided": "?",
}  # fmt: skip


def change_in_words(change: Change | None) -> str:
    """Return by how much a number changed, with the bounds of the interval: ``+30 % (+21 to +41)``."""
    if change is None:
        return "–"
    if math.isnan(change.ratio) or math.isinf(change.ratio):
        return "from nothing" if change.after > 0 else "–"
    by = f"{100 * (change.ratio - 1):+.3g} %"
    if change.verdict == "same":
        return "the same"
    if math.isnan(change.lower) or change.upper - change.lower < _SHOWN:
        return by
    upper = "…" if math.isinf(change.upper) else f"{100 * (change.upper - 1):+.3g}"
    return f"{by} ({100 * (change.lower - 1):+.3g} to {upper})"


def growth_in_words(difference: Difference) -> str:
    """Return the growth class, or both, and whether the change of the class is certain."""
    if difference.through:
        named = ", ".join(brief(path) for path in difference.through[:_CALLEES])
        more = f" and {len(difference.through) - _CALLEES} more" if len(difference.through) > _CALLEES else ""
        return f"itself the same, differs by {named}{more}"
    if difference.growth_before == difference.growth_after:
        return difference.growth_after
    sure = f", faster in {', '.join(difference.faster_in)}" if difference.faster_in else ""
    return f"{difference.growth_before or 'none'} → {difference.growth_after or 'none'}{sure}"


def point_of(comparison: Comparison, values: Sequence[float]) -> str:
    """Return a point as ``p=4, n=100``."""
    return named(dict(zip(comparison.parameters, values, strict=True)))


def metrics_of(comparison: Comparison) -> list[str]:
    """Return the metrics that were compared: the whole program and times first."""
    metrics = list(dict.fromkeys(difference.metric for difference in comparison.differences))
    return sorted(metrics, key=lambda name: (name != RUNTIME, name != "time", not metric_of(name).noise_resilient))


def title_of(metric: str) -> str:
    """Return a metric as a heading."""
    if metric == RUNTIME:
        return "Run time of the whole program"
    return metric_of(metric).heading


def ranked(comparison: Comparison, metric: str) -> list[Difference]:
    """Return the call paths of a metric that matter: those that changed first, and by their share after the change."""
    rows = [row for row in comparison.differences if row.metric == metric and row.matters]
    return sorted(rows, key=lambda row: (_ORDER.index(row.verdict), -max(row.share_after, row.share_before)))


def sentences(comparison: Comparison) -> list[str]:
    """Return what a reader should know first."""
    lines = []
    for metric in metrics_of(comparison):
        rows = ranked(comparison, metric)
        if not rows:
            continue
        counts = [(verdict, [row for row in rows if row.verdict == verdict]) for verdict in _ORDER]
        if metric == RUNTIME or metric in comparison.better:
            meaning = f" ({word})" if (word := comparison.meaning(rows[0])) else ""
            change = change_in_words(rows[0].target)
            lines.append(f"{title_of(metric)}: {rows[0].verdict}{meaning}, {change} at the target.")
            continue
        numbers = ", ".join(f"{len(members)} {verdict}" for verdict, members in counts if members)
        all_of_them = f"{len(rows)} call paths that matter" if len(rows) > 1 else "the call path that matters"
        lines.append(f"{title_of(metric)}, of {all_of_them}: {numbers}.{_counts_in_words(comparison, metric)}")
    if comparison.operations:
        named = ", ".join(brief(name) for name in comparison.operations[:_CALLEES])
        more = f" and {len(comparison.operations) - _CALLEES} more" if len(comparison.operations) > _CALLEES else ""
        lines.append(f"Operations of MPI that only one of the two calls: {named}{more}.")
    return lines


def changed(comparison: Comparison) -> list[Difference]:
    """Return the call paths that certainly changed: those that exact counts show first, by their effect.

    What moves less than what matters of its metric comes last, exact or not.
    """
    rows = [row for row in comparison.of("grown", "shrunk") if row.metric != RUNTIME and not row.through]
    return sorted(rows, key=lambda row: (not (row.exact and _effect(row) >= comparison.share), -_effect(row)))


def _effect(row: Difference) -> float:
    """Return by how much a metric changes at the target, as a share of the larger whole."""
    sides = ((row.target.before, row.share_before), (row.target.after, row.share_after))
    whole = max((value / share for value, share in sides if share > 0 and value > 0), default=0.0)
    return abs(row.target.after - row.target.before) / whole if whole else 0.0


def change_of(row: Difference, comparison: Comparison) -> tuple[str, str]:
    """Return what became of a call path, as in ``solve: from 7 p to 4 p^2, exact``, and by how much."""
    exact = ", exact" if row.exact else ""
    name, title = name_of(row.call_path), title_of(row.metric).lower()
    change = f"{title} at {point_of(comparison, comparison.target)}: {change_in_words(row.target)}"
    if row.leading_before == row.leading_after or not (row.leading_before and row.leading_after):
        return f"{name}: {row.verdict}{exact}", change
    if not row.exact and row.growth_before == row.growth_after:
        return f"{name}: {row.verdict}", change
    return f"{name}: from {row.leading_before} to {row.leading_after}{exact}", change


def _counts_in_words(comparison: Comparison, metric: str) -> str:
    """Say which exact counts were compared; nothing for times."""
    if not metric_of(metric).noise_resilient:
        return ""
    rows = [row for row in comparison.differences if row.metric == metric]
    differ = sum(row.exact and row.verdict in ("grown", "shrunk") for row in rows)
    exact = sum(row.exact for row in rows)
    rest = f"; {len(rows) - exact} more depend on the run or cannot be compared number by number" * (exact < len(rows))
    if not exact:
        return " No count could be compared number by number."
    return f" Of all {exact} exact counts {differ or 'none'} {'differ' if differ != 1 else 'differs'}{rest}."


def comparison_text(comparison: Comparison, broken: Sequence[Broken] = ()) -> str:
    """Write the comparison."""
    title = f"Comparison: {comparison.after}"
    at = point_of(comparison, comparison.target)
    head = [
        f"with {comparison.before}, at {at}.",
        *sentences(comparison),
        f"Call paths matter from {100 * comparison.share:g} % of their metric on. All of a metric are classified "
        f"correctly together with {100 * comparison.level:g} % probability.",
        "What only one side has counts to the caller that both have.",
        *(f"Note: {note}" for note in comparison.notes),
    ]
    parts = ["\n".join([title, "=" * len(title), *head])]
    for metric in metrics_of(comparison):
        rows = [
            (
                SYMBOLS[difference.verdict],
                f"{100 * difference.share_after:.1f} %",
                brief(difference.call_path),
                change_in_words(difference.target),
                change_in_words(difference.measured),
                growth_in_words(difference),
            )
            for difference in ranked(comparison, metric)[:_ROWS]
        ]
        where = "counted" if metric_of(metric).noise_resilient else "measured"
        header = ("", "share", "call path", "change at the target", f"change where both {where}", "dominant term")
        parts.append(section(title_of(metric), header, rows))
    moves = [
        ("renamed" if pair.renamed else "moved", brief(pair.before), brief(pair.after)) for pair in comparison.moved
    ]
    heading = f"Call paths with another name or caller: {len(moves)}, compared as one"
    parts.append(section(heading, ("", "before", "after"), moves[:_ROWS]))
    for word, one_sided in (("before", comparison.gone), ("after", comparison.new)):
        largest_rows = [
            (f"{100 * row.share:.1f} %", brief(row.call_path), row.metric) for row in largest(one_sided)[:_ROWS]
        ]
        title = f"Call paths only {word}: {len(one_sided)} with all metrics"
        parts.append(section(title, ("share", "call path", "metric"), largest_rows))
    true = [(failure.condition, brief(failure.call_path), failure.metric) for failure in broken]
    parts.append(section("Conditions that came true", ("condition", "call path", "metric"), true))
    return "\n\n".join(part for part in parts if part) + "\n"


def checked_rows(parameters: Sequence[str], checked: Sequence[CheckedRow]) -> list[tuple[str, ...]]:
    """Return what a few runs showed compared with an earlier version, as cells; what changed first."""
    ordered = sorted(checked, key=lambda row: (_ORDER.index(row.verdict), -row.share))
    return [
        (
            row.verdict,
            title_of(row.metric),
            brief(row.call_path),
            named(dict(zip(parameters, row.point, strict=True))),
            _figure(row.before),
            _figure(row.after),
            change_in_words(_change(row)),
        )
        for row in ordered
    ]


def _figure(value: float | None) -> str:
    return "–" if value is None else f"{value:.6g}"


def _change(row: CheckedRow) -> Change:
    """Return what `checked_rows` shows; bounds that are missing are infinite, other numbers unknown."""
    before, after, ratio, lower = (
        math.nan if value is None else value for value in (row.before, row.after, row.ratio, row.lower)
    )
    return Change(row.point, before, after, ratio, lower, math.inf if row.upper is None else row.upper)


def earlier_text(
    earlier: str, parameters: Sequence[str], checked: Sequence[CheckedRow], comparison: Comparison | None
) -> str:
    """Return what a report says of an earlier version."""
    title = f"Compared with {earlier}"
    if comparison is not None:
        lines = [*sentences(comparison), "All of it is in comparison.txt, .html, .csv and .json."]
        return "\n".join([title, "-" * len(title), *lines])
    header = ("", "metric", "call path", "point", "before", "now", "change")
    return section(title, header, checked_rows(parameters, checked))


def largest(one_sided: Sequence[OneSided]) -> list[OneSided]:
    """Return call paths of one side, the largest shares first."""
    return sorted(one_sided, key=lambda row: -row.share)


def comparison_csv(comparison: Comparison) -> str:
    """Return a line for each call path and metric that both have, and for those that only one has."""
    header = (
        "metric", "call path", "verdict", "exact", "matters", "share before", "share after", "before at target",
        "after at target", "ratio", "lower", "upper", "measured at", "before", "after", "ratio", "lower", "upper",
        "grew like", "dominant term", "faster in", "differs by",
    )  # fmt: skip
    rows: list[tuple[object, ...]] = []
    for row in comparison.differences:
        measured = row.measured
        at_point = ("",) * 6 if measured is None else (point_of(comparison, measured.point), *_numbers(measured))
        rows.append(
            (row.metric, row.call_path, row.verdict, row.exact, row.matters, f"{row.share_before:.6g}",
             f"{row.share_after:.6g}", *_numbers(row.target), *at_point, row.growth_before, row.growth_after,
             " ".join(row.faster_in), " ".join(row.through))
        )  # fmt: skip
    for word, one_sided in (("only before", comparison.gone), ("only after", comparison.new)):
        for path in one_sided:
            rows.append((path.metric, path.call_path, word, "", path.share >= comparison.share, f"{path.share:.6g}"))
    return csv_text(header, rows)


def _numbers(change: Change) -> tuple[str, ...]:
    values = (change.before, change.after, change.ratio, change.lower, change.upper)
    return tuple("" if math.isnan(value) else f"{value:.6g}" for value in values)


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
