"""Computing the summary of a campaign from its plans, its ledger and its store."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, groupby
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from buran.campaign.layout import Layout
from buran.campaign.plan import Bundle, Mode, Plan, Purpose, Question, Run, planned_runs
from buran.campaign.records import RunKey, Status, read_record
from buran.measurement.attempt import BUILD_FAILED, SPARED
from buran.measurement.build import LOG
from buran.measurement.bundle import slots_of
from buran.measurement.schedulers.base import NONE, scheduler_of_campaign
from buran.measurement.schedulers.jobs import JobEvents
from buran.measurement.store import claims, ledger, store
from buran.measurement.store.ledger import Entry
from buran.reporting.summary import AccountItem, CampaignSummary, Failure, PlannedPoint, Queue, Row, ToCome, simulated
from buran.workflow.history import History
from buran.workflow.measure import jobs_in
from buran.workflow.views.changes import changes_in_words
from buran.workflow.views.remaining import PredictedRuns, Remaining

if TYPE_CHECKING:  # planning loads much that status does not need
    from buran.workflow.views.ahead import Ahead

_END_OF_LOG = 100_000  # bytes: that is where reasons stand
_OF_LAUNCHER = re.compile(  # blocks between lines of dashes, and what SimGrid logs
    r"^([-=])\1{39,}$.*?^\1{40,}$|^\[(?:\S+ )?[\d.]+\] \S+ \[\w+/\w+\] [^\n]*$", re.MULTILINE | re.DOTALL
)
_STATES = ("measured", "failed", "running", "queued", "missing")  # of runs, one each

REFINEMENT = "refinement"
PHASES = (
    "builds", "warm-ups", "vanilla", REFINEMENT, "effort", "memory", "time", "evaluation",
    "failures", "aborted", "duplicates", "other versions",
)  # fmt: skip
"""In the order of reports. ``refinement``: pilots,
and times under filters that were replaced; ``time``: under the last one; ``duplicates``: finished runs that were made
again; ``other versions``: runs that this version of the campaign file does not ask for."""


def summarize(history: History, ahead: Ahead | None = None) -> CampaignSummary:
    """Return what a campaign has done and still needs.

    Parameters
    ----------
    ahead
        The plans that are known to come, for what these need; None for the plans so far alone.
    """
    session, layout, plans = history.session, history.layout, history.plans
    entries, coming = ledger.read(layout.store), () if ahead is None else ahead.plans
    every = (*plans, *(plan for plan in coming if plan not in plans))
    predicted = PredictedRuns(session, every, entries)
    queue, in_queue = _queue(layout)
    look = partial(_states, history, _measured(layout, entries), in_queue)
    listed, expected = list(look(plans)), list(look(coming))
    runs, counts = _distinct(listed), defaultdict[tuple[int, Mode, Purpose], Counter[str]](Counter)
    left, claimed_core_hours, problems = Remaining(predicted), 0.0, dict[str, None]()
    failures, interruptions = dict(_failed_builds(layout, plans)), list[Failure]()
    for each in runs:
        counts[each.plan.iteration, each.run.mode, each.bundle.purpose][each.state] += 1
        if each.slot is not None and each.state == "failed":
            failures |= _failure(layout, each, each.slot.verdict())
        elif each.slot is not None and each.is_open:
            core_hours = left.add(each.bundle, each.run)
            if each.state == "running":
                claimed_core_hours += core_hours
                problems |= dict.fromkeys(_unknown_owner(layout, each.slot.claim))
            else:
                interruptions += [_failed(layout, each, attempt) for attempt in each.slot.attempts()[-1:]]
    last = plans[-1] if plans else None
    is_done, jobs = bool(last and last.done), JobEvents.of_engine(layout.engine_log).outcomes()
    spent_core_hours = ledger.spent_core_hours(entries, session.target.id)
    return CampaignSummary(
        campaign=session.campaign.name,
        done=is_done,
        reason=last.reason if last else "nothing is planned yet",
        budget_reached=bool(last and last.budget_reached),
        rows=tuple(Row(*key, states.total(), *(states[each] for each in _STATES)) for key, states in counts.items()),
        failures=tuple(failures.values()),
        interruptions=tuple(interruptions),
        problems=() if is_done else (*jobs.words, *problems),
        spent_core_hours=spent_core_hours,
        program_core_hours=ledger.program_core_hours(entries, session.target.id),
        budget_core_hours=last.budget_core_hours if last else None,
        remaining_core_hours=left.known_core_hours if plans else None,
        claimed_core_hours=claimed_core_hours,
        eta_s=left.eta_s(
            max(queue.running, 1) if queue else None,
            (queue.median_wait_s if queue else None) or 0.0,
            session.campaign.config.resources.points_per_job,
        ),
        queue=queue,
        account=account_of(entries, plans, session.target.id),
        changes=changes_in_words(history, entries),
        simulated=tuple(simulated(session.campaign)),
        points=() if ahead is None else tuple(_points(listed or ahead.of_next(expected))),
        to_come={} if ahead is None else _to_come(expected, ahead, predicted),
        next=None if ahead is None else ahead.price(expected, predicted, spent_core_hours),
    )


# -- runs and their states ----------------------------------------------------------------------------


class RunState(NamedTuple):
    """A run that a plan asks for: measured, failed, running, queued or missing.

    The slot is None where the ledger alone says that it is measured.
    """

    plan: Plan
    bundle: Bundle
    question: Question
    run: Run
    slot: store.Slot | None
    state: str

    @property
    def is_open(self) -> bool:
        """Whether it is not made yet."""
        return self.state not in ("measured", "failed")


def _measured(layout: Layout, entries: Iterable[Entry]) -> Callable[[Bundle], bool]:
    """Return what tells by the ledger whether all of a bundle's runs are measured, under the conditions of the plan."""
    runs = frozenset(entry.run for entry in entries if entry.status == Status.MEASURED)
    pointers = frozenset(layout.made("bundles"))  # who wants runs again removes a bundle's

    def has(bundle: Bundle) -> bool:
        point = f"{bundle.point.key}~{bundle.conditions}"
        folders = [f"{run.build}/{point}/{run.name}" for run in bundle.runs]
        if not bundle.conditions or not runs.issuperset(folders):
            return False
        keys = map(RunKey.parse, folders if bundle.id not in pointers else ())
        return not any(store.current_generation(layout.store, key) for key in keys)

    return has


def _states(
    history: History, is_measured: Callable[[Bundle], bool], in_queue: Collection[str], plans: Iterable[Plan]
) -> Iterator[RunState]:
    """Yield the runs of plans; of those that the ledger says are measured, nothing else is looked at."""
    session, layout = history.session, history.layout
    for plan in plans:
        for bundle in plan.bundles:
            if is_measured(bundle):
                for question, run in zip(bundle.questions, bundle.runs, strict=True):
                    yield RunState(plan, bundle, question, run, None, "measured")
                continue
            slots = slots_of(session.target, layout, bundle)
            for question, (run, slot) in zip(bundle.questions, slots, strict=True):
                verdict = slot.verdict()
                state = "queued" if bundle.id in in_queue else "missing"
                if verdict:
                    state = "measured" if verdict == slot.folder else "failed"
                elif claims.is_alive(slot.claim):
                    state = "running"
                yield RunState(plan, bundle, question, run, slot, state)


def _distinct(runs: Iterable[RunState]) -> Iterable[RunState]:
    """Return runs that several plans ask for once, as of the first one."""
    found = dict[Question, RunState]()
    for each in runs:
        found.setdefault(each.question, each)
    return found.values()


def _points(runs: Iterable[RunState]) -> Iterator[PlannedPoint]:
    for (iteration, _), group in groupby(runs, lambda each: (each.plan.iteration, each.bundle.id)):
        states = list(group)
        bundle = states[0].bundle
        modes, counts = Counter(str(run.mode) for run in bundle.runs), Counter(each.state for each in states)
        yield PlannedPoint(iteration, bundle.point.key, bundle.purpose, modes, counts)


def _to_come(runs: Iterable[RunState], ahead: Ahead, predicted: PredictedRuns) -> dict[str, ToCome]:
    """Return what is to come by phase."""
    phases, found = phases_of(predicted.plans), defaultdict[str, Remaining](lambda: Remaining(predicted))
    for each in _distinct(runs):
        if each.is_open:
            found[phases[each.question]].add(each.bundle, each.run)
    for bundle, run in ahead.again:
        found[REFINEMENT].add(bundle, run)
    return {
        phase: ToCome(rest.runs, rest.known_core_hours, None if rest.unknown else sum(rest.seconds.values()))
        for phase, rest in found.items()
    }


def _unknown_owner(layout: Layout, claim: Path) -> list[str]:
    """Say who holds a claim, if nobody here can judge whether that one is alive."""
    owner = claims.owner_of(claim)
    if owner is None or not owner.why_unknown:
        return []
    return [f"{claim.relative_to(layout.root)} is locked by {owner}; {owner.why_unknown}"]


# -- what failed --------------------------------------------------------------------------------------


def _failure(layout: Layout, run: RunState, verdict: Path | None) -> dict[Path, Failure]:
    """Return why a run failed, by its folder, if it was started."""
    assert verdict is not None
    failure = _failed(layout, run, verdict)
    return {verdict: failure} if was_started(failure) else {}


def _failed(layout: Layout, run: RunState, folder: Path) -> Failure:
    return failure_of(layout, f"{run.run.mode} run, {run.bundle.point.key}, {run.run.name}", folder)


def _failed_builds(layout: Layout, plans: Iterable[Plan]) -> Iterator[tuple[Path, Failure]]:
    for build in (build for plan in plans for build in plan.builds):
        slot = store.Slot.of_build(layout.store, build.hash)
        verdict = slot.verdict()
        if verdict and verdict != slot.folder:
            yield verdict, failure_of(layout, f"build {build.mode}", verdict, LOG)


def failure_of(layout: Layout, what: str, folder: Path, log: str = "") -> Failure:
    """Return why something failed, by its record, and where it says more: by default what a run printed."""
    reason = read_record(folder).reason or "unknown"
    return Failure(what, reason, str((folder / (log or output_of(folder))).relative_to(layout.root)))


def was_started(failure: Failure) -> bool:
    """Tell whether a run that failed was started: not where its build is the cause, or another run's failure."""
    return not failure.reason.startswith((BUILD_FAILED, SPARED))


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


# -- the queue ----------------------------------------------------------------------------------------


def _queue(layout: Layout) -> tuple[Queue | None, frozenset[str]]:
    """Look into the queue, if this campaign was ever measured by jobs; return the bundles in it, too."""
    lines = layout.waits.read_text(encoding="utf-8").splitlines() if layout.waits.is_file() else []
    # A job with several bundles has a line for each of them.
    waits = [float(seconds) for seconds in dict(line.split() for line in lines).values()]
    scheduler = scheduler_of_campaign(layout.root, had_jobs=bool(waits))
    jobs = None if scheduler is NONE else scheduler.campaign_jobs(layout.root)
    if jobs is None:
        return None, frozenset()
    pending = [job for job in jobs if job.waits]
    reasons = Counter(job.reason.strip("()") for job in pending)
    bundles = frozenset(bundle for job in jobs for bundle in chain(*jobs_in(layout, job.purpose.rpartition("_")[2])))
    wait_s = median(waits) if waits else None
    return Queue(scheduler.title, len(jobs) - len(pending), len(pending), dict(reasons), wait_s), bundles


# -- phases -------------------------------------------------------------------------------------------


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
