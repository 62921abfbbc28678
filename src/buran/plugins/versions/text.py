"""The words for what two campaigns differ in."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from buran.plugins.versions.difference import Change, Comparison, Difference, Verdict
from buran.plugins.versions.side import RUNTIME
from buran.profiles.metrics import metric_of
from buran.reporting.tables import brief, name_of
from buran.wording import named

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
        shown = [brief(path) for path in difference.through[:_CALLEES]]
        return f"itself the same, differs by {_listed(shown, len(difference.through))}"
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
        shown = [brief(name) for name in comparison.operations[:_CALLEES]]
        lines.append(f"Operations of MPI that only one of the two calls: {_listed(shown, len(comparison.operations))}.")
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


def since(comparison: Comparison) -> str:
    """Say in a line what changed, or what was compared."""
    rows = changed(comparison)
    if not rows:
        exact = sum(row.exact for row in comparison.differences)
        times = [row.verdict for row in comparison.differences if row.metric == "time" and row.matters]
        is_open = times.count("undecided")
        counts = {
            "exact counts are the same": exact,
            "times show no difference": len(times) - is_open,
            "times are undecided": is_open,
        }
        said = ", ".join(f"{count} {what}" for what, count in counts.items() if count)
        return f"no change seen since {comparison.before}: {said}"
    shown = [f"{row.call_path} ({row.metric}, {growth_in_words(row)})" for row in rows[:_CALLEES]]
    return f"changed since {comparison.before}: {_listed(shown, len(rows))}"


def _listed(shown: Sequence[str], count: int) -> str:
    """Return names that are shown, and how many more there are."""
    more = f" and {count - len(shown)} more" if count > len(shown) else ""
    return f"{', '.join(shown)}{more}"
