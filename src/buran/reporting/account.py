"""What a campaign's core hours went into: each line of the ledger belongs to exactly one phase."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from buran.campaign.plan import Mode, Plan, Purpose, Question, Run, planned_runs
from buran.campaign.records import Status
from buran.measurement.store.ledger import Entry
from buran.reporting.content import AccountItem

REFINEMENT = "refinement"
PHASES = (
    "builds", "warm-ups", "vanilla", REFINEMENT, "effort", "memory", "time", "evaluation",
    "failures", "aborted", "duplicates", "other versions",
)  # fmt: skip
"""In the order of reports. ``refinement``: pilots,
and times under filters that were replaced; ``time``: under the last one; ``duplicates``: finished runs that were made
again; ``other versions``: runs that this version of the campaign file does not ask for."""


def account_of(entries: Iterable[Entry], plans: Sequence[Plan], target: str) -> tuple[AccountItem, ...]:
    """Return the phases that cost something or had runs; their core hours add up to what the target has cost.

    Parameters
    ----------
    entries
        The ledger, in the order of booking.
    """
    phases = phases_of(plans)
    charged = [entry for entry in entries if entry.target == target]
    newest = {entry.question: entry.run for entry in charged if entry.status == Status.MEASURED}
    costs: dict[str, list[float]] = {phase: [] for phase in PHASES}
    for entry in charged:
        costs[_phase(entry, phases, newest)].append(entry.cost_core_hours)
    return tuple(AccountItem(phase, len(parts), math.fsum(parts)) for phase, parts in costs.items() if parts)


def _phase(entry: Entry, phases: Mapping[Question, str], newest: Mapping[Question, str]) -> str:
    if entry.is_of_build and entry.key.attempt is None:
        return "builds"
    if entry.status != Status.MEASURED:
        return "failures" if entry.status == Status.FAILED else "aborted"
    phase = phases.get(entry.question)
    if phase is None:
        return "other versions"
    return phase if newest[entry.question] == entry.run else "duplicates"


def phases_of(plans: Sequence[Plan]) -> dict[Question, str]:
    """Return the phase of each run that plans name; the last plan that does decides."""
    last = plans[-1].filter_text if plans else ""
    filters = {build.hash: build.filter_text for plan in plans for build in plan.builds}
    return {
        question: _phase_of_run(bundle.purpose, run, is_last=filters[run.build] == last)
        for question, bundle, run in planned_runs(plans)
    }


def _phase_of_run(purpose: Purpose, run: Run, *, is_last: bool) -> str:
    if purpose is Purpose.PILOT:
        return REFINEMENT
    if run.repetition < 0:
        return "warm-ups"
    if purpose is Purpose.EVALUATION:
        return "evaluation"
    if run.mode is Mode.VANILLA:
        return "vanilla"
    if run.mode in (Mode.EFFORT, Mode.MEMORY):
        return str(run.mode)
    return "time" if is_last else REFINEMENT
