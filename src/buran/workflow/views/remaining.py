"""What is still to be made of a campaign, and what that is predicted to take."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from buran.campaign.plan import Bundle, Plan, Question, Run, planned_runs
from buran.campaign.records import Status
from buran.campaign.resources import JOB_S
from buran.measurement.store import ledger
from buran.workflow.history import read_plans
from buran.workflow.session import Session
from buran.workflow.views.run_times import Kind, RunTimes, kinds_of, run_times, seconds_between


@dataclass(frozen=True)
class PredictedRuns:
    """Predicts runs of some plans by those that the ledger has; it is fitted when it is first needed."""

    session: Session
    plans: Sequence[Plan]
    entries: Sequence[ledger.Entry]

    @cached_property
    def times(self) -> RunTimes | None:
        """Predicts the time of a run; None where nothing is known."""
        campaign = self.session.campaign
        return run_times(self.plans, self.entries, campaign.charged_cores, campaign.ranks_parameter)

    @cached_property
    def between_s(self) -> float:
        """What passes between two runs."""
        return seconds_between(self.session, self.plans, self.entries)

    @cached_property
    def kinds(self) -> Mapping[str, Kind]:
        """The kind of run that each build is for."""
        return kinds_of(self.plans)


@dataclass
class Remaining:
    """Runs that are still to be made.

    Attributes
    ----------
    seconds
        Predicted wall time by bundle, with what passes between two runs.
    unknown
        Whether nothing is known of some run's time.
    """

    predicted: PredictedRuns
    runs: int = 0
    seconds: dict[str, float] = field(default_factory=dict)
    core_hours: float = 0.0
    unknown: bool = False

    def add(self, bundle: Bundle, run: Run) -> float:
        """Add a run; return its predicted core hours, 0 where they are not known."""
        self.runs += 1
        if self.predicted.times is None:
            self.unknown = True
            return 0.0
        campaign = self.predicted.session.campaign
        seconds = self.predicted.times.seconds(bundle.point, self.predicted.kinds[run.build])
        self.seconds[bundle.id] = self.seconds.get(bundle.id, 0.0) + seconds + self.predicted.between_s
        core_hours = seconds * campaign.charged_cores(bundle.point) / 3600.0
        self.core_hours += core_hours
        return core_hours

    def eta_s(self, at_once: int | None, median_wait_s: float, points_per_job: int | Literal["auto"]) -> float | None:
        """Return the time left: one after the other here, or so many jobs `at_once` as run now in a queue."""
        if self.unknown:
            return None
        total = sum(self.seconds.values())
        if at_once is None or not self.seconds:
            return total
        jobs = len(self.seconds) / points_per_job if isinstance(points_per_job, int) else total / JOB_S
        waves = math.ceil(jobs / at_once)
        return max(total / at_once, max(self.seconds.values())) + waves * median_wait_s


class QuickCount:
    """Counts the runs that are settled from the ledger alone, again and again; what was read stays known.

    Attributes
    ----------
    planned_entries, failed
        Of runs that the plans so far ask for, and those of them that failed.
    """

    def __init__(self, session: Session) -> None:
        self.plans: tuple[Plan, ...] = ()
        self.spent_core_hours = 0.0
        self.failed: list[ledger.Entry] = []
        self._session = session
        self._ledger = ledger.LedgerReader(session.layout.store)
        self.planned_entries: list[ledger.Entry] = []
        self._planned: set[Question] = set()
        self._settled: set[Question] = set()

    def look(self) -> int:
        """Return the number of finished or failed runs that the plans so far ask for.

        What is spent is what this campaign's builds and other versions of the campaign have cost: as everywhere, the
        budget pays for all.
        """
        session = self._session
        if session.layout.plan(session.id, len(self.plans)).is_file():
            self.plans = read_plans(session.layout, session.id)
            self._planned = {question for question, _, _ in planned_runs(self.plans)}
        entries = self._ledger.read()
        self.spent_core_hours = ledger.spent_core_hours(entries, session.target.id)
        self.planned_entries = [entry for entry in entries if entry.question in self._planned]
        self.failed = [entry for entry in self.planned_entries if entry.status == Status.FAILED]
        self._settled = {entry.question for entry in self.planned_entries if entry.status != Status.INTERRUPTED}
        return len(self._settled)

    @property
    def runs(self) -> int:
        """Runs that are settled or that the newest plan asks for: what earlier plans left out is not made."""
        return len(self._settled) + len({question for question, _, _ in planned_runs(self.plans[-1:])} - self._settled)

    def ahead(self) -> tuple[float, float] | None:
        """Return the core hours and the seconds that the rest of the newest plan is predicted to take.

        None where nothing is known.
        """
        rest = Remaining(PredictedRuns(self._session, self.plans, self.planned_entries))
        for question, bundle, run in planned_runs(self.plans[-1:]):
            if question not in self._settled:
                rest.add(bundle, run)
        return None if rest.predicted.times is None else (rest.core_hours, sum(rest.seconds.values()))
