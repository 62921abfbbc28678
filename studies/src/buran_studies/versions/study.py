"""The study `versions`: pairs of programs whose counts are compared at up to six ranks, one change in each or none."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from buran.errors import UsageError
from buran.plugins.versions.compare import compare_sides
from buran_studies.evaluation.evaluation import Evaluation, Figure, Kind, Table
from buran_studies.evaluation.study import Settings, Shard
from buran_studies.versions.pairs import CHANGED, KINDS, SAME, pair, side

_PAIRS, _QUICK_PAIRS = 40, 16
_EXAMPLES = Path(__file__).resolve().parents[4] / "examples"


def shards(settings: Settings) -> Sequence[Shard]:
    """One shard for each eight pairs, one of each kind."""
    count = settings.draws or (_QUICK_PAIRS if settings.quick else _PAIRS)
    return [
        {"first": first, "pairs": min(len(KINDS), count - first), "seed": settings.seed}
        for first in range(0, count, len(KINDS))
    ]


def run_shard(shard: Shard, settings: Settings) -> list[dict[str, Any]]:
    """Compare the pairs of a shard.

    Raises
    ------
    UsageError
        The examples are not there.
    """
    if not _EXAMPLES.is_dir():
        raise UsageError("the study versions needs the examples of the repository", where=_EXAMPLES)
    return [_compared(number, shard["seed"]) for number in range(shard["first"], shard["first"] + shard["pairs"])]


def _compared(number: int, seed: int) -> dict[str, Any]:
    made = pair(number, seed, _EXAMPLES)
    before, after = side(made.before), side(made.after)
    compared = compare_sides(before, after)
    rows = [row for row in compared.of("grown", "shrunk") if row.exact]
    named = [row.call_path for row in rows] + list(compared.operations)
    mine = {made.call_path, *(name for row in rows for name in row.through if name.startswith(made.call_path))}
    others = [row for row in rows if row.call_path not in mine and made.call_path not in row.through]
    growths = [row.growth_after for row in rows if row.call_path == made.call_path]
    report = {row.call_path for row in rows}
    return {
        "kind": made.kind,
        "program": made.program,
        "found": made.call_path in named,
        "class": made.call_path in compared.operations or made.growth in growths,
        "invented": len(others),
        "in_report": len(report | {one.call_path for one in compared.new} if made.kind in CHANGED else report),
    }


def summarise(results: Sequence[Any], settings: Settings) -> Evaluation:
    """Count what was found, with which class, and what was invented."""
    entries = [entry for result in results for entry in result]
    rows: list[tuple[str | int | float | None, ...]] = []
    for kind in KINDS:
        own = [entry for entry in entries if entry["kind"] == kind]
        found = sum(entry["found"] for entry in own) if kind in CHANGED else None
        classes = sum(entry["class"] for entry in own) if kind in CHANGED else None
        rows.append((kind, len(own), found, classes, sum(entry["invented"] for entry in own)))
    changed = [entry for entry in entries if entry["kind"] in CHANGED]
    same = [entry for entry in entries if entry["kind"] in SAME]
    figures = (
        _share("changes found", [entry["found"] for entry in changed], "100"),
        _share("changes found with their class", [entry["class"] for entry in changed], "100"),
        _share("pairs with a change that is none", [entry["invented"] > 0 for entry in entries], "0"),
        _share("pairs that count the same, called the same", [not entry["in_report"] for entry in same], "100"),
    )
    table = Table(
        "Changes of one function, compared by counts at up to 6 ranks",
        ("change", "pairs", "found", "with its class", "invented"),
        tuple(rows),
        "Counts are those that the programs' formulas give, in whole numbers.",
    )
    return Evaluation("Two versions of a program", figures, (table,))


def _share(name: str, hits: Sequence[bool], goal: str) -> Figure:
    if not hits:
        return Figure(name, None, "%", note="no such pairs")
    share = sum(hits) / len(hits)
    error = 100 * (share * (1 - share) / len(hits)) ** 0.5
    return Figure(name, 100 * share, "%", error, len(hits), Kind.SIMULATED, goal)
