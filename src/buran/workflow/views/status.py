"""How far a campaign is: what is planned, made, failed, running; what it has cost and will cost."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from pathlib import Path
from statistics import median
from typing import Any

from buran.campaign.layout import Layout
from buran.campaign.plan import Bundle, Mode, Plan
from buran.campaign.records import RunKey, Status, read_record
from buran.measurement.attempt import BUILD_FAILED, SPARED
from buran.measurement.build import LOG
from buran.measurement.bundle import slots_of
from buran.measurement.schedulers.base import NONE, Scheduler
from buran.measurement.schedulers.jobs import JobEvents
from buran.measurement.schedulers.registry import scheduler_of_campaign
from buran.measurement.store import claims, ledger, store
from buran.reporting.account import account_of
from buran.reporting.content import AccountItem, Failure
from buran.workflow.crowded import simulated
from buran.workflow.history import History
from buran.workflow.session import Session
from buran.workflow.specs import jobs_in
from buran.workflow.views.changes import changes_in_words
from buran.workflow.views.remaining import PredictedRuns, Remaining

_END_OF_LOG = 100_000  # bytes: that is where reasons stand
_OF_LAUNCHER = re.compile(  # blocks between lines of dashes, and what SimGrid logs
    r"^([-=])\1{39,}$.*?^\1{40,}$|^\[(?:\S+ )?[\d.]+\] \S+ \[\w+/\w+\] [^\n]*$", re.MULTILINE | re.DOTALL
)
_STATES = ("measured", "failed", "running", "queued", "missing")  # of runs, one each


def by_cause(failures: Sequence[Failure]) -> list[Failure]:
    """Return one failure for each cause, the commonest first; causes are equal but for numbers and names of files."""
    groups: dict[tuple[bool, str], list[Failure]] = {}
    for failure in failures:
        cause = re.sub(r"\S*/\S*|\d+(\.\d+)?", "#", failure.reason)
        groups.setdefault((failure.what.split()[0] == "build", cause), []).append(failure)
    return [
        replace(group[0], what=_together(group), count=len(group))
        for group in sorted(groups.values(), key=len, reverse=True)
    ]


def _together(group: Sequence[Failure]) -> str:
    return group[0].what if len(group) == 1 else f"{len(group)} for one cause, such as {group[0].what}"


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
    bundles
        What the jobs measure.
    """

    scheduler: str
    running: int
    pending: int
    reasons: dict[str, int]
    median_wait_s: float | None
    bundles: frozenset[str] = frozenset()

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {key: value for key, value in vars(self).items() if key != "bundles"}


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
    measured: int
    failed: int
    running: int
    queued: int
    missing: int


@dataclass(frozen=True)
class Progress:
    """State of a campaign.

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
        Predicted for the runs that are being made.
    eta_s
        Predicted time until the plans so far are carried out: each run by the model of those that were made, what
        passes between two runs, and observed waiting times.
    queue
        None where no scheduler is, or none of its jobs ever measured for this campaign.
    account
        What the core hours that are spent went into.
    changes
        Which finished runs are not used as they are, and why, as text.
    """

    campaign: str
    done: bool
    reason: str
    budget_reached: bool
    rows: tuple[Row, ...]
    failures: tuple[Failure, ...]
    interruptions: tuple[Failure, ...]
    problems: tuple[str, ...]
    spent_core_hours: float
    program_core_hours: float
    budget_core_hours: float | None
    remaining_core_hours: float | None
    claimed_core_hours: float
    eta_s: float | None
    queue: Queue | None
    account: tuple[AccountItem, ...] = ()
    changes: tuple[str, ...] = ()
    simulated: tuple[str, ...] = ()

    @property
    def measured(self) -> int:
        """Runs that are finished."""
        return sum(row.measured for row in self.rows)

    @property
    def has_profiles(self) -> bool:
        """Whether a run with hooks was measured, or none is planned."""
        hooked = [row for row in self.rows if row.mode != Mode.VANILLA]
        return not hooked or any(row.measured for row in hooked)

    @property
    def runs(self) -> int:
        """Runs that are planned so far."""
        return sum(row.runs for row in self.rows)

    @property
    def failed(self) -> int:
        """Runs that failed."""
        return sum(row.failed for row in self.rows)

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        queue = None if self.queue is None else self.queue.to_json()
        return {
            **asdict(replace(self, queue=None)),
            "queue": queue,
            "runs": self.runs,
            "measured": self.measured,
            "failed": self.failed,
        }


def progress_of(history: History) -> Progress:
    """Look at a campaign's plans and store."""
    session, layout, plans = history.session, history.layout, history.plans
    rows: list[Row] = []
    failures: dict[Path, Failure] = {}
    entries = ledger.read(layout.store)
    ahead = _Ahead(PredictedRuns(session, plans, entries))
    waits = _waits(layout)
    scheduler = scheduler_of_campaign(layout.root, had_jobs=bool(waits))
    queue = _queue(layout, scheduler, waits)
    listed = set[str]()
    measured = _Measured.of(layout, entries)
    for plan in plans:
        in_queue = queue.bundles if queue else frozenset()
        rows.extend(_rows(session, plan, failures, ahead, in_queue, listed, measured))
    last = plans[-1] if plans else None
    jobs = JobEvents.of_engine(layout.engine_log).outcomes()
    return Progress(
        campaign=session.campaign.name,
        done=bool(last and last.done),
        reason=last.reason if last else "nothing is planned yet",
        budget_reached=bool(last and last.budget_reached),
        rows=tuple(rows),
        failures=tuple(failures.values()),
        interruptions=tuple(ahead.interruptions),
        problems=() if last and last.done else (*jobs.words, *ahead.problems),
        spent_core_hours=ledger.spent_core_hours(entries, session.target.id),
        program_core_hours=ledger.program_core_hours(entries, session.target.id),
        budget_core_hours=last.budget_core_hours if last else None,
        remaining_core_hours=None if ahead.unknown or not plans else ahead.core_hours,
        claimed_core_hours=ahead.claimed_core_hours,
        eta_s=ahead.eta_s(
            max(queue.running, 1) if queue else None,
            (queue.median_wait_s if queue else None) or 0.0,
            session.campaign.config.resources.points_per_job,
        ),
        queue=queue,
        account=account_of(entries, plans, session.target.id),
        changes=changes_in_words(history, entries),
        simulated=tuple(simulated(session.campaign)),
    )


@dataclass(frozen=True)
class _Measured:
    """What is measured by the ledger.

    Attributes
    ----------
    runs
        Their folders in the store.
    pointers
        Bundles with pointers to their runs; who wants runs again removes them.
    """

    runs: frozenset[str]
    pointers: frozenset[str]

    @classmethod
    def of(cls, layout: Layout, entries: Iterable[ledger.Entry]) -> _Measured:
        """Look at the pointers, and at the ledger's entries."""
        runs = frozenset(entry.run for entry in entries if entry.status == Status.MEASURED)
        return cls(runs, frozenset(layout.made("bundles")))

    def folders(self, layout: Layout, bundle: Bundle) -> list[str]:
        """Return the folders of a bundle's runs in the store if all are measured, under the conditions of the plan."""
        point = f"{bundle.point.key}~{bundle.conditions}"
        folders = [f"{run.build}/{point}/{run.name}" for run in bundle.runs]
        if not bundle.conditions or not self.runs.issuperset(folders):
            return []
        keys = map(RunKey.parse, folders if bundle.id not in self.pointers else ())
        return [] if any(store.current_generation(layout.store, key) for key in keys) else folders


@dataclass
class _Ahead(Remaining):
    """The same, with what of it is being made, and what is wrong with it; see `Progress`."""

    claimed_core_hours: float = 0.0
    interruptions: list[Failure] = field(default_factory=list)
    problems: dict[str, None] = field(default_factory=dict)


def _waits(layout: Layout) -> list[float]:
    """Return how long each job waited; one with several bundles counts once."""
    lines = layout.waits.read_text(encoding="utf-8").splitlines() if layout.waits.is_file() else []
    return [float(seconds) for seconds in dict(line.split() for line in lines).values()]


def _queue(layout: Layout, scheduler: Scheduler, waits: Sequence[float]) -> Queue | None:
    """Look into the queue, if this campaign was ever measured by jobs."""
    jobs = None if scheduler is NONE else scheduler.campaign_jobs(layout.root)
    if jobs is None:
        return None
    pending = [job for job in jobs if job.waits]
    return Queue(
        scheduler=scheduler.title,
        running=len(jobs) - len(pending),
        pending=len(pending),
        reasons=dict(Counter(job.reason.strip("()") for job in pending)),
        median_wait_s=median(waits) if waits else None,
        bundles=frozenset(bundle for job in jobs for bundle in chain(*jobs_in(layout, job.purpose.rpartition("_")[2]))),
    )


def _rows(
    session: Session,
    plan: Plan,
    failures: dict[Path, Failure],
    ahead: _Ahead,
    in_queue: frozenset[str],
    listed: set[str],
    measured: _Measured,
) -> list[Row]:
    """Return the rows of an iteration; runs that an earlier one requested are `listed` there.

    Of runs that are `measured` by the ledger, nothing else is looked at.
    """
    layout = session.layout
    failures |= dict(_failed_builds(layout, plan))
    counts = defaultdict[tuple[Mode, str], Counter[str]](Counter)
    for bundle in plan.bundles:
        if folders := measured.folders(layout, bundle):
            for run, folder in zip(bundle.runs, folders, strict=True):
                if folder not in listed:
                    listed.add(folder)
                    counts[run.mode, bundle.purpose]["measured"] += 1
            continue
        for run, slot in slots_of(session.target, layout, bundle):
            if str(slot.key) in listed:
                continue
            listed.add(str(slot.key))
            what = f"{run.mode} run, {bundle.point.key}, {run.name}"
            verdict, state = slot.verdict(), "missing"
            if verdict == slot.folder:
                state = "measured"
            elif verdict:
                state = "failed"
                reason = read_record(verdict).reason or "unknown"
                if not reason.startswith((BUILD_FAILED, SPARED)):
                    log = output_of(verdict)
                    failures[verdict] = Failure(what, reason, _log(layout, verdict, log))
            elif claims.is_alive(slot.claim):
                state = "running"
                ahead.claimed_core_hours += ahead.add(bundle, run)
                owner = claims.owner_of(slot.claim)
                if owner is not None and owner.why_unknown:
                    ahead.problems[
                        f"{slot.claim.relative_to(layout.root)} is locked by {owner}; {owner.why_unknown}"
                    ] = None
            else:
                state = "queued" if bundle.id in in_queue else "missing"
                ahead.add(bundle, run)
                for attempt in slot.attempts()[-1:]:
                    reason = read_record(attempt).reason or "unknown"
                    ahead.interruptions.append(Failure(what, reason, _log(layout, attempt, output_of(attempt))))
            counts[run.mode, bundle.purpose][state] += 1
    return [
        Row(plan.iteration, mode, purpose, states.total(), **{state: states[state] for state in _STATES})
        for (mode, purpose), states in counts.items()
    ]


def _failed_builds(layout: Layout, plan: Plan) -> Iterator[tuple[Path, Failure]]:
    for build in plan.builds:
        slot = store.Slot.of_build(layout.store, build.hash)
        verdict = slot.verdict()
        if verdict and verdict != slot.folder:
            reason = read_record(verdict).reason or "unknown"
            yield verdict, Failure(f"build {build.mode}", reason, _log(layout, verdict, LOG))


def output_of(run: Path) -> str:
    """Return the file in which a program said why it failed: its errors, or its output where it wrote no errors."""
    return "stderr.log" if words_in(run / "stderr.log") or not words_in(run / "stdout.log") else "stdout.log"


def words_in(log: Path) -> list[str]:
    """Return the last lines of a log, without what launchers of MPI add."""
    if not log.is_file():
        return []
    with log.open("rb") as file:
        file.seek(max(log.stat().st_size - _END_OF_LOG, 0))
        text = file.read().decode(errors="replace")
    return [line for line in _OF_LAUNCHER.sub("", text).splitlines() if line.strip()]


def _log(layout: Layout, folder: Path, name: str) -> str:
    return str((folder / name).relative_to(layout.root))
