"""One attempt to make a run: from an empty folder to a verdict on the program, or to none if it was not its fault."""

from __future__ import annotations

import errno
import json
import os
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from buran.campaign.launcher import session_variable, usable_cores
from buran.campaign.layout import Layout
from buran.campaign.plan import Bundle, Mode, Run
from buran.campaign.records import RECORD, RunRecord, Status, read_run
from buran.errors import BuranError, MetricError
from buran.features import FEATURES, Start, Watch
from buran.files import write_text
from buran.measurement.backends.base import Backend
from buran.measurement.build import run_filter, tree
from buran.measurement.dump import LOST_VISITS
from buran.measurement.machine.machine import RunJob, bring_inputs, changed_input, keep_output, with_room
from buran.measurement.machine.process import OUTPUT_LIMIT, Interrupted, Outcome
from buran.measurement.machine.provenance import environment_of, record_node, tool_versions
from buran.measurement.schedulers.base import first_failure, mismatch, misplaced
from buran.measurement.store import claims, ledger, store
from buran.measurement.target import Target
from buran.profiles.cubex_write import write_cubex
from buran.profiles.profile import computation_of

if TYPE_CHECKING:
    from buran.measurement.bundle import Surroundings

PROFILE = "profile.cubex"
BUILD_FAILED = "its build failed"
SPARED = "not started"
"""Begins the reason of runs that would fail as others did: without hooks, or of the same build."""
_WORK = "work"
_UNFIT = "unfit"  # in the folder of a build: an attempt that stands for all of its runs
_TRIES = 4  # at a run from which the scheduler went away, before the job ends
_LARGEST_SKEW_S = 5.0  # of a node's clock, before the record says so


@dataclass(frozen=True)
class Attempt:
    """One attempt to make a run.

    Attributes
    ----------
    spared_by
        Why the program failed at this point without hooks, if it did.
    temporary
        Folder that becomes the verdict, or is kept as an attempt without one; there is one once the slot is reserved.
    """

    target: Target
    layout: Layout
    bundle: Bundle
    run: Run
    slot: store.Slot
    around: Surroundings
    spared_by: str | None = None
    temporary: Path = Path()

    def beat(self) -> None:
        """Show that somebody is at work."""
        claims.beat(self.slot.claim)
        claims.beat(self.layout.bundle_claim(self.bundle.id))


def settle(attempt: Attempt) -> None:
    """Try until there is a verdict on a run; without one after some outages, give up."""
    for _ in range(_TRIES):
        with store.reserve(attempt.slot, wait=not attempt.around.exact) as temporary:
            if temporary is not None:
                _measure(replace(attempt, temporary=temporary))
        if attempt.slot.verdict():
            return
    raise Interrupted(f"{attempt.around.scheduler.title} is away, or keeps the launcher waiting, again and again")


def _measure(attempt: Attempt) -> None:
    """Make a run; afterwards there is a verdict on it, unless the scheduler was away or kept the launcher waiting."""
    temporary, around = attempt.temporary, attempt.around
    allocation, outages, scheduler = around.allocation, around.outages, around.scheduler
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
        reason = with_room(temporary / _WORK, reason)
    ended = scheduler.why_ended(allocation) if reason and allocation is not None else None
    if ended is not None:  # no verdict on the program
        _give_up(attempt, record, f"{ended}; before that: {reason}")
        raise Interrupted(ended)
    if outages is not None and outages():
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


def _opened(attempt: Attempt) -> RunRecord:
    """Return what is known of a run before it starts."""
    target, bundle, run, allocation = attempt.target, attempt.bundle, attempt.run, attempt.around.allocation
    machine, simulator = target.backend.machine, target.campaign.simulator
    # Of the file system's, which has just made the folder.
    clock_ahead_s = time.time() - attempt.temporary.stat().st_mtime
    disturbances = [*machine.disturbances()]
    if abs(clock_ahead_s) >= _LARGEST_SKEW_S:
        off = f"{clock_ahead_s:+.0f} s off the file system's"
        disturbances.append(f"the clock of this node is {off}: have it set, as by NTP")
    given = {} if allocation is None else asdict(allocation)
    given.pop("queried_s", None)
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
        configuration=target.configuration(bundle.point),
        node=record_node(attempt.layout.store),
        started=datetime.now(UTC).isoformat(timespec="milliseconds"),
        clock_ahead_s=clock_ahead_s,
        clock=machine.clock,
        machine=None if simulator is None else simulator.at(bundle.point).title,
        disturbances=tuple(disturbances),
        scheduler=None if allocation is None else attempt.around.scheduler.name,
        job=None if allocation is None else allocation.job,
        allocation=given or None,
        cores=target.campaign.cores(bundle.point),
        charged_cores=None if attempt.around.meter is None else attempt.around.meter.charged_cores,
    )


def _refusal(attempt: Attempt) -> str | None:
    """Return why a run cannot be started here; None if it can."""
    if not (attempt.layout.build(attempt.run.build) / RECORD).is_file():
        return BUILD_FAILED
    if unfit := _why_unfit(attempt.layout.store, attempt.run.build):
        return f"{SPARED}: {unfit}"
    if attempt.spared_by is not None:
        return f"{SPARED}: the program fails here without instrumentation too ({attempt.spared_by})"
    if attempt.around.allocation is None or attempt.target.campaign.is_simulated:
        return None
    placement = attempt.target.campaign.placement(attempt.bundle.point)
    return mismatch(attempt.around.scheduler, attempt.around.allocation, placement, exact=attempt.around.exact)


def _why_unfit(folder: Path, build: str) -> str | None:
    """Return what a failed attempt of a build lacked, as long as it counts; None if there is none."""
    path = folder / build / _UNFIT
    attempt = folder / path.read_text(encoding="utf-8").strip() if path.is_file() else None
    if attempt is None or not store.counts(attempt):
        return None
    record = read_run(attempt)
    return f"another run of its build could not count {record.lacks_metric} ({record.point.key}, {attempt.name})"


def _job(attempt: Attempt) -> RunJob:
    """Return how a run is started; makes its folders."""
    layout, run, point, temporary = attempt.layout, attempt.run, attempt.bundle.point, attempt.temporary
    campaign, backend = attempt.target.campaign, attempt.target.backend
    work, raw = temporary / _WORK, temporary / "raw"
    work.mkdir()
    raw.mkdir()
    built = tree(layout, run.build)
    filter_file = run_filter(layout, run.build)
    # Which may be on other nodes than this.
    in_job_of_user = attempt.around.allocation is not None and not attempt.around.exact
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


def _carry_out(attempt: Attempt, job: RunJob, record: RunRecord) -> tuple[RunRecord, str | None]:
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


def _watches(attempt: Attempt, job: RunJob) -> list[Watch]:
    """Return what features let watch a run, from now on."""
    start = Start(attempt.target.campaign, job, attempt.around.scheduler, attempt.around.allocation)
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


def _collect(attempt: Attempt, job: RunJob, record: RunRecord) -> tuple[RunRecord, str | None]:
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
    # Not every measurement system says where ranks ran.
    if attempt.around.allocation is None or attempt.target.campaign.is_simulated or not placement:
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


def _give_up(attempt: Attempt, record: RunRecord, why: str) -> None:
    """Keep an attempt that says nothing about the program."""
    allocation = attempt.around.allocation
    if allocation is not None and allocation.time_is_over():
        why = f"the job's time limit of {allocation.time_limit_s:.0f} s was reached (job {allocation.job})"
        note(attempt.layout.time_outs(attempt.bundle.id), allocation.job, allocation.time_limit_s)
    wall_s = 0.0
    if record.clock != "virtual" and record.started is not None:
        wall_s = (datetime.now(UTC) - datetime.fromisoformat(record.started)).total_seconds()
    cost = wall_s * record.cores / 3600.0
    _clean(attempt.temporary / _WORK, attempt.temporary / "raw")
    _finish(attempt, replace(record, status=Status.INTERRUPTED, reason=why, wall_s=wall_s, cost_core_hours=cost))


def _clean(*folders: Path) -> None:
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


def _finish(attempt: Attempt, record: RunRecord) -> None:
    if attempt.around.meter is not None and record.cost_core_hours:  # what was not started costs nothing
        program, cost = record.cost_core_hours, attempt.around.meter.core_hours()
        record = replace(record, cost_core_hours=cost, program_core_hours=program)
    record.write(attempt.temporary)
    keep = store.commit if record.status is Status.MEASURED else store.keep_failure
    kept = keep(attempt.slot, attempt.temporary)
    if record.lacks_metric:
        unfit = attempt.layout.store / record.build / _UNFIT
        write_text(unfit, f"{kept.relative_to(attempt.layout.store)}\n")
    ledger.book(attempt.layout.store, kept)


def note(path: Path, job: str, seconds: float | None) -> None:
    """Add a line on a job to a file that many write."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(f"{job} {seconds}\n")
