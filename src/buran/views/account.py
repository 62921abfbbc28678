"""What a campaign's core hours went into: each line of the ledger belongs to exactly one phase."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from buran.campaign.plan import Mode, Plan, Purpose
from buran.campaign.records import Status
from buran.measure.store.ledger import Entry

PHASES = (
    "imported", "builds", "warm-ups", "vanilla", "comparison", "refinement", "effort", "memory", "time", "evaluation",
    "failures", "aborted", "duplicates", "other versions",
)  # fmt: skip
"""In the order of reports. ``imported``: runs that were made elsewhere and cost nothing here; ``comparison``: runs that
only told whether the program changed; ``refinement``: pilots,
and times under filters that were replaced; ``time``: under the last one; ``duplicates``: finished runs that were made
again; ``other versions``: runs that this version of the campaign file does not ask for."""


@dataclass(frozen=True)
class Item:
    """A phase: how many runs it had, and what they cost."""

    phase: str
    runs: int
    core_hours: float


def account_of(entries: Iterable[Entry], plans: Sequence[Plan], target: str) -> tuple[Item, ...]:
    """Return the phases that cost something or had runs; their core hours add up to what the target has cost.

    Parameters
    ----------
    entries
        The ledger, in the order of booking.
    """
    questions = _questions(plans)
    last = plans[-1].filter_text if plans else ""
    charged = [
        entry
        for entry in entries
        if entry.target == target or (entry.mode == Mode.IMPORTED and entry.key.question in questions)
    ]
    newest = {entry.key.question: entry.run for entry in charged if entry.status == Status.MEASURED}
    newest_runs = frozenset(newest.values())
    costs: dict[str, list[float]] = {phase: [] for phase in PHASES}
    for entry in charged:
        costs[_phase(entry, questions, last, newest_runs)].append(entry.cost_core_hours)
    return tuple(Item(phase, len(parts), math.fsum(parts)) for phase, parts in costs.items() if parts)


def _questions(plans: Iterable[Plan]) -> dict[tuple[str, str, str], tuple[Purpose, Mode, str]]:
    """Return the runs that plans name, each with its purpose, mode and filter."""
    filters = {build.hash: build.filter_text for plan in plans for build in plan.builds}
    return {
        (run.build, bundle.point.key, run.name): (bundle.purpose, run.mode, filters[run.build])
        for plan in plans
        for bundle in plan.bundles
        for run in bundle.runs
    }


def _phase(
    entry: Entry,
    questions: dict[tuple[str, str, str], tuple[Purpose, Mode, str]],
    last_filter: str,
    newest: Collection[str],
) -> str:
    key = entry.key
    if key.is_build and key.attempt is None:
        return "builds"
    if entry.status != Status.MEASURED:
        return "failures" if entry.status == Status.FAILED else "aborted"
    if key.question not in questions:
        return "other versions"
    if entry.run not in newest:
        return "duplicates"
    purpose, mode, filter_text = questions[key.question]
    if mode is Mode.IMPORTED:
        return "imported"
    if purpose is Purpose.PILOT:
        return "refinement"
    if purpose is Purpose.COMPARISON:
        return "comparison"
    if key.name == "warmup":
        return "warm-ups"
    if purpose is Purpose.EVALUATION:
        return "evaluation"
    if mode is Mode.VANILLA:
        return "vanilla"
    if mode in (Mode.EFFORT, Mode.MEMORY):
        return str(mode)
    return "time" if filter_text == last_filter else "refinement"
