"""Measuring a bundle: all runs of one point, one after the other, on a machine reserved for them."""

from __future__ import annotations

import errno
import json
import math
import os
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from buran.campaign.launcher import session_variable, usable_cores
from buran.campaign.layout import Layout
from buran.campaign.plan import Bundle, Mode, Run
from buran.campaign.point import Point
from buran.campaign.records import RECORD, BundleOutcome, RunKey, RunOutcome, RunRecord, Status, read_record, read_run
from buran.errors import BuranError, MetricError
from buran.features import FEATURES, Start, Watch
from buran.files import check_room, digest, write_text
from buran.measurement.backends.base import Backend
from buran.measurement.build import run_filter, tree
from buran.measurement.dump import LOST_VISITS
from buran.measurement.machine.machine import RunJob
from buran.measurement.machine.process import OUTPUT_LIMIT, Interrupted, Outcome, interruptible
from buran.measurement.machine.provenance import environment_of, record_node, tool_versions
from buran.measurement.run_folder import bring_inputs, changed_input, keep_output, size_of
from buran.measurement.schedulers.base import Allocation, Outages, Scheduler, mismatch, misplaced
from buran.measurement.schedulers.registry import current_scheduler, first_failure
from buran.measurement.store import claims, ledger, store
from buran.measurement.target import Target
from buran.profiles.cubex_write import write_cubex
from buran.profiles.ranks import computation_of

PROFILE = "profile.cubex"
BUILD_FAILED = "its build failed"
SPARED = "not started"
"""Begins the reason of runs that would fail as others did: without hooks, or of the same build."""
_WORK = "work"
_UNFIT = "unfit"  # in the folder of a build: an attempt that stands for all of its runs
# From the end of a job's last run to the end that the site charges, when nobody who could write it down is there, over
# what its start took: mean of what accounts say beyond the records, by studies/benchmarks/orchestration.py.
_JOB_END = 0.25
_LONGEST_JOB_END_S = 5.0  # a start may have waited for nodes or files
_TRIES = 4  # at a run from which the scheduler went away, before the job ends
_LARGEST_SKEW_S = 5.0  # of a node's clock, before the record says so


def configuration(target: Target, point: Point) -> dict[str, Any]:
    """Return everything except the build that decides how a point is run."""
    campaign = target.campaign.at(point)
    resources = campaign.resources_in(campaign.partition(point))
    placement, program = campaign.placement(point), campaign.config.program
    special = {
        "inputs": [entry for entry in campaign.input_contents if entry[0] not in campaign.filled] or None,
        "filled": {name: digest(text) for name, text in campaign.input_texts(point).items()} or None,
        "start_in": None if program.start_in == "." else program.start_in,
        "machine": None if campaign.simulator is None else campaign.simulator.at(point).configuration(point),
        "partition": resources.partition,
        "constraint": resources.constraint,
        "tasks_per_node": placement.tasks_per_node,
    }
    return {
        **{key: value for key, value in special.items() if value is not None},
        "command": campaign.run_command(point, "{binary}", "{build}"),
        "launcher": campaign.active_environment.launcher,
        "modules": list(campaign.active_environment.modules),
        "variables": dict(campaign.active_environment.variables),
        "ranks": campaign.ranks(point),
        "threads": campaign.threads(point),
        "nodes": campaign.nodes(point),
    }


def slots_of(target: Target, layout: Layout, bundle: Bundle) -> list[tuple[Run, store.Slot]]:
    """Return the runs of a bundle with their places in the store."""
    chosen = digest(configuration(target, bundle.point), 8)
    keys = {run: RunKey(run.build, bundle.point.key, chosen, run.name) for run in bundle.runs}
    generations = {key.folder: store.current_generation(layout.store, key) for key in keys.values()}
    return [
        (run, store.Slot(layout.store, replace(key, generation=generations[key.folder]))) for run, key in keys.items()
    ]


def measure_bundle(
    target: Target,
    layout: Layout,
    bundle: Bundle,
    budget_core_hours: float | None,
    job: str | None = None,
) -> BundleOutcome:
    """Make the runs of a bundle that the store does not have; return what became of all of them.

    Parameters
    ----------
    job
        What a job that measures it was submitted for, if not for the bundle alone.
    """
    target = target.at(bundle.point)
    slots = slots_of(target, layout, bundle)
    if any(slot.verdict() is None for _, slot in slots):
        scheduler = current_scheduler()
        allocation = scheduler.allocation()
        claim = layout.bundle_claim(bundle.id)
        # A second job for the same bundle must not wait: it would hold nodes and measure nothing.
        # One that was started again waits for what is left of itself.
        wait = allocation is None or allocation.restarts > 0 or not allocation.is_for(job or bundle.id)
        with interruptible(), claims.claimed(claim, wait=wait), target.backend.machine.reserved():
            if allocation is not None and allocation.waited_s is not None:
                _note(layout.waits, allocation.job, allocation.waited_s)
            outages = scheduler.outages()
            meter = None if wait or allocation is None else _meter_of(target, allocation)
            spared_by = None
            longest = dict.fromkeys((run.mode for run, _ in slots), _foreseen(target, bundle))
            for run, slot in slots:
                before = ledger.spent_core_hours(ledger.read(layout.store), target.id)
                left = math.inf if budget_core_hours is None else budget_core_hours - before
                if slot.verdict() is None and (left <= 0 or left < longest[run.mode]):
                    break
                claims.beat(claim)
                exact = not wait
                _settle(
                    _Attempt(target, layout, bundle, run, slot, scheduler, allocation, outages, exact, spared_by, meter)
                )
                cost = ledger.spent_core_hours(ledger.read(layout.store), target.id) - before
                # Where a run takes more than was predicted, so do those of other builds; sampling has its own cost.
                for mode in longest if run.mode is not Mode.MEMORY else (Mode.MEMORY,):
                    longest[mode] = max(longest[mode], cost)
                spared_by = spared_by or _why_all_would_fail(run, slot)
    return BundleOutcome.of(bundle, (outcome_of(layout, run, slot) for run, slot in slots))


def _foreseen(target: Target, bundle: Bundle) -> float:
    """Return what a run without hooks is expected to cost, in core hours; 0 where nothing is known."""
    return (bundle.predicted_s or 0.0) * target.campaign.charged_cores(bundle.point) / 3600.0


def _why_all_would_fail(run: Run, slot: store.Slot) -> str | None:
    """Return why a run without hooks failed, as those with hooks would."""
    verdict = slot.verdict()
    if run.mode is not Mode.VANILLA or verdict is None or verdict == slot.folder:
        return None
    reason = read_run(verdict).reason or "unknown"
    return None if reason.startswith((BUILD_FAILED, SPARED)) else f"{run.name}: {reason}"


def outcome_of(layout: Layout, run: Run, slot: store.Slot) -> RunOutcome:
    """Describe what is known of a run; failed and interrupted attempts are charged too."""
    verdict = slot.verdict()
    cost = sum(read_record(attempt).cost_core_hours or 0.0 for attempt in slot.attempts())
    if verdict is None:
        return RunOutcome(run.build, run.mode, run.repetition, Status.OVER_BUDGET, cost_core_hours=cost)
    record = read_run(verdict)
    if verdict == slot.folder:
        cost += record.cost_core_hours or 0.0
    folder = str(verdict.relative_to(layout.root))
    return RunOutcome(
        run.build, run.mode, run.repetition, record.status, record.reason, folder, record.wall_s, record.cpu_s, cost
    )


@dataclass
class Meter:
    """What a job is charged: all CPUs that it holds, from its start on.

    Attributes
    ----------
    charged_cores
        That it holds, times what the site charges for one.
    charged_until
        On this process's monotonic clock: what came before is in the cost of some run.
    """

    charged_cores: float
    charged_until: float

    def core_hours(self) -> float:
        """Return what was occupied since the last call."""
        now = time.monotonic()
        occupied_s, self.charged_until = now - self.charged_until, now
        return occupied_s * self.charged_cores / 3600.0


_meters: dict[str, Meter] = {}  # by job: bundles that share one go on from each other


def _meter_of(target: Target, allocation: Allocation) -> Meter | None:
    """Return the meter of a job, which foresees its end; None where programs alone are charged."""
    if target.campaign.config.budget.charge == "program" or target.campaign.is_simulated:
        return None
    end_s = min(_JOB_END * allocation.elapsed_s, _LONGEST_JOB_END_S)
    begun = allocation.queried_s - allocation.elapsed_s - end_s
    charged = allocation.cpus * target.campaign.described(allocation.partition).charge_factor
    return _meters.setdefault(allocation.job, Meter(charged, begun))


@dataclass(frozen=True)
class _Attempt:
    """One attempt to make a run.

    Attributes
    ----------
    scheduler
        In whose job this is.
    allocation
        What the job was given; None outside of jobs.
    outages
        Outages of the scheduler, since the last attempt; None outside of jobs.
    exact
        Whether the job was submitted for this bundle, and must have what that needs, not more.
    spared_by
        Why the program failed at this point without hooks, if it did.
    meter
        Meter of the job, if all that it holds is charged.
    temporary
        Folder that becomes the verdict, or is kept as an attempt without one; there is one once the slot is reserved.
    """

    target: Target
    layout: Layout
    bundle: Bundle
    run: Run
    slot: store.Slot
    scheduler: Scheduler
    allocation: Allocation | None
    outages: Outages | None
    exact: bool
    spared_by: str | None = None
    meter: Meter | None = None
    temporary: Path = Path()

    def beat(self) -> None:
        """Show that somebody is at work."""
        claims.beat(self.slot.claim)
        claims.beat(self.layout.bundle_claim(self.bundle.id))


def _settle(attempt: _Attempt) -> None:
    """Try until there is a verdict on a run; without one after some outages, give up."""
    for _ in range(_TRIES):
        with store.reserve(attempt.slot, wait=not attempt.exact) as temporary:
            if temporary is not None:
                _measure(replace(attempt, temporary=temporary))
        if attempt.slot.verdict():
            return
    raise Interrupted(f"{attempt.scheduler.title} is away, or keeps the launcher waiting, again and again")


def _measure(attempt: _Attempt) -> None:
    """Make a run; afterwards there is a verdict on it, unless the scheduler was away or kept the launcher waiting."""
    temporary, allocation = attempt.temporary, attempt.allocation
    outages, scheduler = attempt.outages, attempt.scheduler
    machine = attempt.target.backend.machine
    record = _opened(attempt)
    refusal = _refusal(attempt)
    if refusal:
        _finish(attempt, replace(record, status=Status.FAILED, reason=refusal, cost_core_hours=0.0))
        return
    job = _job(attempt)
    record = replace(
        record,
        argv=tuple(job.argv),
        environment=environment_of(job.environment),
        tools=tool_versions(),
        before=machine.state(),
    )
    record.write(temporary)
    try:
        record, reason = _carry_out(attempt, job, record)
    except Interrupted as interrupted:
        _give_up(attempt, record, f"interrupted by {interrupted}")
        raise
    if reason:
        reason = _with_room(attempt, reason)
    ended = scheduler.why_ended(allocation) if reason and allocation is not None else None
    if ended is not None:  # no verdict on the program
        _give_up(attempt, record, f"{ended}; before that: {reason}")
        raise Interrupted(ended)
    if outages is not None and outages.one_since():
        if reason:
            _give_up(attempt, record, f"{scheduler.title} was away meanwhile; {reason}")
            return
        record = replace(record, disturbances=(*record.disturbances, f"{scheduler.title} was away for some time"))
    waited = scheduler.launcher_waited(job.stderr) if not reason and allocation is not None else None
    if waited is not None:
        _give_up(attempt, record, f"the launcher waited before it started the program: {waited}")
        return
    status = Status.FAILED if reason else Status.MEASURED
    record = replace(record, status=status, reason=reason, after=machine.state())
    _clean(temporary / _WORK)
    if not reason or not any(job.raw.iterdir()):
        _clean(job.raw)
    _finish(attempt, record)


def _opened(attempt: _Attempt) -> RunRecord:
    """Return what is known of a run before it starts."""
    target, bundle, run, allocation = attempt.target, attempt.bundle, attempt.run, attempt.allocation
    machine, simulator = target.backend.machine, target.campaign.simulator
    # Of the file system's, which has just made the folder.
    clock_ahead_s = time.time() - attempt.temporary.stat().st_mtime
    return RunRecord(
        status=Status.INTERRUPTED,
        reason="not finished",
        build=run.build,
        target=target.id,
        mode=run.mode,
        point=bundle.point,
        purpose=bundle.purpose,
        repetition=run.repetition,
        warmup=run.repetition < 0,
        configuration=configuration(target, bundle.point),
        node=record_node(attempt.layout.store),
        started=datetime.now(UTC).isoformat(timespec="milliseconds"),
        clock_ahead_s=clock_ahead_s,
        clock=machine.clock,
        machine=None if simulator is None else simulator.at(bundle.point).title,
        disturbances=(*machine.disturbances(), *_skew(clock_ahead_s)),
        scheduler=None if allocation is None else attempt.scheduler.name,
        job=None if allocation is None else allocation.job,
        allocation=None if allocation is None else _described(allocation),
        cores=target.campaign.cores(bundle.point),
        charged_cores=None if attempt.meter is None else attempt.meter.charged_cores,
    )


def _refusal(attempt: _Attempt) -> str | None:
    """Return why a run cannot be started here; None if it can."""
    if not (attempt.layout.build(attempt.run.build) / RECORD).is_file():
        return BUILD_FAILED
    if unfit := _why_unfit(attempt.layout.store, attempt.run.build):
        return f"{SPARED}: {unfit}"
    if attempt.spared_by is not None:
        return f"{SPARED}: the program fails here without instrumentation too ({attempt.spared_by})"
    if attempt.allocation is None or attempt.target.campaign.is_simulated:
        return None
    placement = attempt.target.campaign.placement(attempt.bundle.point)
    return mismatch(attempt.scheduler, attempt.allocation, placement, exact=attempt.exact)


def _mark_unfit(folder: Path, build: str, attempt: Path) -> None:
    """Let a failed attempt stand for all runs of its build, in a store's folder."""
    write_text(folder / build / _UNFIT, f"{attempt.relative_to(folder)}\n")


def _why_unfit(folder: Path, build: str) -> str | None:
    """Return what a failed attempt of a build lacked, as long as it counts; None if there is none."""
    path = folder / build / _UNFIT
    attempt = folder / path.read_text(encoding="utf-8").strip() if path.is_file() else None
    if attempt is None or not store.counts(attempt):
        return None
    record = read_run(attempt)
    return f"another run of its build could not count {record.lacks_metric} ({record.point.key}, {attempt.name})"


def _job(attempt: _Attempt) -> RunJob:
    """Return how a run is started; makes its folders."""
    layout, run, point, temporary = attempt.layout, attempt.run, attempt.bundle.point, attempt.temporary
    campaign, backend = attempt.target.campaign, attempt.target.backend
    work, raw = temporary / _WORK, temporary / "raw"
    work.mkdir()
    raw.mkdir()
    built = tree(layout, run.build)
    filter_file = run_filter(layout, run.build)
    in_job_of_user = attempt.allocation is not None and not attempt.exact  # which may be on other nodes than this
    cores = campaign.cores_of_node(point) if in_job_of_user else usable_cores()
    argv, variables = backend.command(campaign, point, built, cores, run.mode)
    environment = {**os.environ, **variables, **backend.run_environment(run.mode, raw, filter_file)}
    return RunJob(
        argv=argv,
        cwd=work / campaign.config.program.start_in,
        environment=environment,
        stdout=temporary / "stdout.log",
        stderr=temporary / "stderr.log",
        time_limit_s=campaign.time_limit_s(point),
        binary=built / campaign.binary,
        mode=run.mode,
        point=point,
        ranks=campaign.ranks(point),
        raw=raw,
        filter_file=filter_file,
        key=f"{run.build} {point.key} {attempt.slot.key.slot} {len(attempt.slot.failures())}",
        beat=attempt.beat,
        session_variable=session_variable(backend.mpi_flavour, campaign.nodes(point), environment),
    )


def _carry_out(attempt: _Attempt, job: RunJob, record: RunRecord) -> tuple[RunRecord, str | None]:
    """Run the program and read its profile; return what it took, and why the run is worth nothing, if it is not."""
    record = replace(record, cost_core_hours=0.0)
    outcome: Outcome | None = None
    campaign = attempt.target.campaign
    keys = campaign.config.program
    try:
        built, work = tree(attempt.layout, attempt.run.build), attempt.temporary / _WORK
        linked = bring_inputs(campaign.inputs, built, work, campaign.input_texts(attempt.bundle.point))
        job.cwd.mkdir(parents=True, exist_ok=True)
        watches = _watches(attempt, job)
        outcome = attempt.target.backend.machine.run(_watched(job, watches))
        for watch in watches:
            record = watch.complete(record)
        left_out = keep_output(job.cwd, keys.keep_output, OUTPUT_LIMIT, attempt.temporary / store.OUTPUT)
        record = replace(_with_usage(record, outcome), output_left_out={**outcome.left_out, **left_out} or None)
        reason = changed_input(linked) or _failure(attempt.target.backend, outcome, job.stderr)
        reason = reason or next((why for watch in watches if (why := watch.failure()) is not None), None)
        if outcome.failure:
            record = replace(record, lacks_metric=attempt.target.backend.missing_metric(job.mode, job.stderr))
        if reason is None and job.mode is not Mode.VANILLA:
            record, reason = _collect(attempt, job, record)
    except OSError as error:
        if outcome is not None and error.errno != errno.ENOSPC:
            raise
        before = "cannot start the run: " if outcome is None else ""
        reason = f"{before}{error.strerror}: {error.filename}"
    except BuranError as error:
        reason = str(error).replace(f"{attempt.temporary}/", "")
        record = replace(record, lacks_metric=error.metric if isinstance(error, MetricError) else None)
    return record, reason


def _watches(attempt: _Attempt, job: RunJob) -> list[Watch]:
    """Return what features let watch a run, from now on."""
    start = Start(attempt.target.campaign, job, attempt.scheduler, attempt.allocation)
    found = (feature.watch(start) for feature in FEATURES if feature.watch is not None)
    return [watch for watch in found if watch is not None]


def _watched(job: RunJob, watches: Sequence[Watch]) -> RunJob:
    """Return the run such that its watches look every few seconds."""

    def beat() -> None:
        job.beat()
        for watch in watches:
            watch.sample()

    return replace(job, beat=beat) if watches else job


def _failure(backend: Backend, outcome: Outcome, log: Path) -> str | None:
    failure = outcome.failure
    first = (backend.why_failed(log) or first_failure(log)) if failure else None
    return f"{failure} ({first})" if first else failure


def _with_room(attempt: _Attempt, reason: str) -> str:
    """Return why a run failed: a program that filled the disk says nothing about itself.

    Raises
    ------
    OSError
        The disk is full of other things.
    """
    try:
        check_room(attempt.temporary)
    except OSError:
        work = attempt.temporary / _WORK
        written = size_of(work)
        _clean(work)
        check_room(attempt.temporary)
        return f"the disk was full: the run had written {written / 1e6:.0f} MB into its folder; {reason}"
    return reason


def _collect(attempt: _Attempt, job: RunJob, record: RunRecord) -> tuple[RunRecord, str | None]:
    """Keep the profile of a run; return why it is not of what was requested, if it is not."""
    profile = attempt.target.backend.profile_of(job, record.wall_s or 0.0)
    write_cubex(profile, attempt.temporary / PROFILE)
    placement: tuple[Mapping[str, str], ...] = tuple(json.loads(profile.attributes.get("placement", "[]")))
    missing = profile.attributes.get("counters_unavailable") or None
    record = replace(
        record,
        placement=placement,
        counters_unavailable=missing,
        lost_visits=int(profile.attributes.get(LOST_VISITS, 0)) or None,
        computation=computation_of(profile),
        cpu_clock_missing=profile.attributes.get("cpu_clock_missing") or None,
    )
    simulated = attempt.target.campaign.is_simulated
    if attempt.allocation is None or simulated or not placement:  # not every measurement system says where ranks ran
        return record, None
    wanted = attempt.target.campaign.placement(job.point)
    return record, misplaced((rank["host"] for rank in placement), wanted)


def _with_usage(record: RunRecord, outcome: Outcome) -> RunRecord:
    """Return the record with how the program ended and what it took."""
    return replace(
        record,
        exit_code=outcome.exit_code,
        signal=outcome.signal,
        wall_s=outcome.wall_s,
        cpu_s=outcome.user_s + outcome.system_s,
        involuntary_switches=outcome.involuntary_switches,
        max_rss_kib=outcome.max_rss_kib,
        cost_core_hours=outcome.wall_s * record.cores / 3600.0,
    )


def _give_up(attempt: _Attempt, record: RunRecord, why: str) -> None:
    """Keep an attempt that says nothing about the program."""
    allocation = attempt.allocation
    if allocation is not None and allocation.time_is_over():
        why = f"the job's time limit of {allocation.time_limit_s:.0f} s was reached (job {allocation.job})"
        _note(attempt.layout.time_outs(attempt.bundle.id), allocation.job, allocation.time_limit_s)
    wall_s = 0.0
    if record.clock != "virtual" and record.started is not None:
        wall_s = (datetime.now(UTC) - datetime.fromisoformat(record.started)).total_seconds()
    cost = wall_s * record.cores / 3600.0
    _clean(attempt.temporary / _WORK, attempt.temporary / "raw")
    _finish(attempt, replace(record, status=Status.INTERRUPTED, reason=why, wall_s=wall_s, cost_core_hours=cost))


def _skew(ahead_s: float) -> list[str]:
    if abs(ahead_s) < _LARGEST_SKEW_S:
        return []
    return [f"the clock of this node is {ahead_s:+.0f} s off the file system's: have it set, as by NTP"]


def _described(allocation: Allocation) -> dict[str, Any]:
    return {key: value for key, value in asdict(allocation).items() if key != "queried_s"}


def _note(path: Path, job: str, seconds: float | None) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(f"{job} {seconds}\n")


def _clean(*folders: Path) -> None:
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


def _finish(attempt: _Attempt, record: RunRecord) -> None:
    if attempt.meter is not None and record.cost_core_hours:  # what was not started costs nothing
        program, cost = record.cost_core_hours, attempt.meter.core_hours()
        record = replace(record, cost_core_hours=cost, program_core_hours=program)
    record.write(attempt.temporary)
    keep = store.commit if record.status is Status.MEASURED else store.keep_failure
    kept = keep(attempt.slot, attempt.temporary)
    if record.lacks_metric:
        _mark_unfit(attempt.layout.store, record.build, kept)
    entry = ledger.entry_of(attempt.layout.store, kept)
    if entry is not None:
        ledger.append(attempt.layout.store, entry)
