"""What a campaign has done and still needs, as values: status, plan, report, page and JSON print the same ones."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from buran.campaign.config import Campaign
from buran.campaign.plan import Mode


@dataclass(frozen=True)
class AccountItem:
    """A phase: how many runs it had, and what they cost."""

    phase: str
    runs: int
    core_hours: float


@dataclass(frozen=True)
class Failure:
    """A build or a run that failed, with where to look; or the first of `count` that failed for one cause."""

    what: str
    reason: str
    log: str
    count: int = 1


def by_cause(failures: Sequence[Failure]) -> list[Failure]:
    """Return one failure for each cause, the commonest first; causes are equal but for numbers and names of files."""
    groups: dict[tuple[bool, str], list[Failure]] = {}
    for failure in failures:
        cause = re.sub(r"\S*/\S*|\d+(\.\d+)?", "#", failure.reason)
        groups.setdefault((failure.what.split()[0] == "build", cause), []).append(failure)
    return [
        replace(first, what=f"{1 + len(more)} for one cause, such as {first.what}", count=1 + len(more))
        if more
        else first
        for first, *more in sorted(groups.values(), key=len, reverse=True)
    ]


def simulated(campaign: Campaign) -> list[str]:
    """Say which machine is simulated; nothing where programs are measured."""
    title = campaign.simulated_on
    return [f"Simulated, not measured: times and core hours are those of {title}."] if title else []


@dataclass(frozen=True)
class Queue:
    """The campaign's jobs in a scheduler's queue.

    Attributes
    ----------
    scheduler
        As sentences name it.
    reasons
        Why jobs wait, in its words, with their numbers.
    median_wait_s
        How long the jobs so far waited; None before the first one began.
    """

    scheduler: str
    running: int
    pending: int
    reasons: Mapping[str, int]
    median_wait_s: float | None


@dataclass(frozen=True)
class Row:
    """State of one build variant's runs in one iteration.

    Attributes
    ----------
    queued
        Their job is in the queue.
    missing
        Nobody works on them now.
    """

    iteration: int
    mode: str
    purpose: str
    runs: int
    measured: int = 0
    failed: int = 0
    running: int = 0
    queued: int = 0
    missing: int = 0


@dataclass(frozen=True)
class PlannedPoint:
    """A point of a plan: how many runs it has of each mode, and in which state."""

    iteration: int
    point: str
    purpose: str
    modes: Mapping[str, int]
    states: Mapping[str, int]


@dataclass(frozen=True)
class ToCome:
    """Runs that are still to be made, and what they are predicted to take; None where nothing is known of one."""

    runs: int
    core_hours: float | None
    seconds: float | None


@dataclass(frozen=True)
class NextPlan:
    """Predicted cost of the plan that is begun or next.

    Attributes
    ----------
    points, runs
        Those of the plan that are not made yet.
    source
        Where run times come from, as text.
    next_core_hours, full_matrix_core_hours
        None where nothing is known of the run time of some point.
    target, target_s
        The point that run time is extrapolated to, and the run time there; None where nothing is known of it.
    """

    iteration: int
    reason: str
    points: int
    runs: int
    source: str
    next_core_hours: float | None
    full_matrix_core_hours: float | None
    spent_core_hours: float
    budget_core_hours: float | None
    target: Mapping[str, float | str]
    target_s: float | None


@dataclass(frozen=True)
class CampaignSummary:
    """How far a campaign is: what is planned, made, failed, running; what it has cost and will cost.

    Attributes
    ----------
    interruptions
        Why runs that are missing were begun and not finished, the last time each.
    problems
        Why the last controller's jobs did not do their work, and which claims nobody here can judge, as text.
    remaining_core_hours
        Predicted for the runs of the plans so far that are not made, those being made among them; None where nothing
        is known.
    claimed_core_hours
        The part of it that is being made.
    eta_s
        Predicted time until they are made: one after the other here, as many jobs at once as run now in a queue, with
        the waiting that was usual so far; None where nothing is known.
    program_core_hours
        The part of what is spent that programs used themselves, without what a job charges for cores left idle.
    queue
        None for a campaign that was never measured by jobs.
    account
        What the core hours went into, by phase; the sum is what was spent.
    changes
        Which finished runs are not used as they are, and what has changed since they were made.
    simulated
        Which machine is simulated, if one is: of runs, nothing else says so.
    points
        Those of the plans so far, or of the first one.
    to_come
        What is to come by phase: of the plan that is begun or next, and of those that are known to follow.
    next
        Cost of the plan that is begun or next; None where it was not asked for, as are `points` and `to_come`.
    """

    campaign: str
    done: bool
    reason: str
    budget_reached: bool = False
    rows: tuple[Row, ...] = ()
    failures: tuple[Failure, ...] = ()
    interruptions: tuple[Failure, ...] = ()
    problems: tuple[str, ...] = ()
    spent_core_hours: float = 0.0
    program_core_hours: float = 0.0
    budget_core_hours: float | None = None
    remaining_core_hours: float | None = None
    claimed_core_hours: float = 0.0
    eta_s: float | None = None
    queue: Queue | None = None
    account: tuple[AccountItem, ...] = ()
    changes: tuple[str, ...] = ()
    simulated: tuple[str, ...] = ()
    points: tuple[PlannedPoint, ...] = ()
    to_come: Mapping[str, ToCome] = field(default_factory=dict)
    next: NextPlan | None = None

    @property
    def runs(self) -> int:
        """Runs that are planned so far."""
        return sum(row.runs for row in self.rows)

    @property
    def measured(self) -> int:
        """Runs that are finished."""
        return sum(row.measured for row in self.rows)

    @property
    def failed(self) -> int:
        """Runs that failed."""
        return sum(row.failed for row in self.rows)

    @property
    def causes(self) -> list[Failure]:
        """The failures, those of one cause together."""
        return by_cause(self.failures)

    @property
    def has_profiles(self) -> bool:
        """Whether a run with hooks was measured, or none is planned."""
        hooked = [row for row in self.rows if row.mode != Mode.VANILLA]
        return not hooked or any(row.measured for row in hooked)

    def to_json(self) -> dict[str, Any]:
        """Return plain data of the state, without what is known of the next plan."""
        plain = {name: value for name, value in asdict(self).items() if name not in ("points", "to_come", "next")}
        return {**plain, "runs": self.runs, "measured": self.measured, "failed": self.failed}
