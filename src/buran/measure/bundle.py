"""Measuring a bundle: all runs of one point, one after the other, on a machine held for them alone."""

from __future__ import annotations

import json
import os
import shutil
import time
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from buran.campaign.launcher import usable_cores
from buran.campaign.layout import Layout
from buran.campaign.plan import Bundle, Mode, Run
from buran.errors import BuranError
from buran.files import check_room, digest, write_json
from buran.measure.build import run_filter, tree
from buran.measure.machine.machine import RunJob
from buran.measure.machine.process import Interrupted, Outcome, interruptible
from buran.measure.machine.provenance import environment_of, record_node, tool_versions
from buran.measure.schedulers import slurm
from buran.measure.store import claims, ledger, store
from buran.measure.target import Target
from buran.profile.cubex_write import write_cubex

PROFILE = "profile.cubex"
SCHEMA = 1
_TRIES = 4
_LARGEST_SKEW_S = 5.0


def configuration(target: Target, bundle: Bundle) -> dict[str, Any]:
    """Return everything beside the build that decides how a point is run."""
    campaign, point = target.campaign, bundle.point
    resources, placement = campaign.config.resources, campaign.placement(point)
    special = {
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
    here = any(run.mode is not Mode.IMPORTED for run in bundle.runs)
    chosen = digest(configuration(target, bundle), 8) if here else Mode.IMPORTED
    points = {run.build: layout.point(run.build, bundle.point, chosen) for run in bundle.runs}
    generations = {build: store.current_generation(point) for build, point in points.items()}
    return [(run, store.Slot.of(points[run.build], run.name, generations[run.build])) for run in bundle.runs]


def measure_bundle(
    target: Target, layout: Layout, bundle: Bundle, budget_core_hours: float | None, job: str | None = None
) -> dict[str, Any]:
    """Make the runs of a bundle that the store does not have; return what became of all of them.

    Parameters
    ----------
    job
        What a job that measures it was submitted for, if not for the bundle alone.

    Returns
    -------
    dict
        ``complete`` is False if a run was not started because the budget is spent.
    """
    slots = slots_of(target, layout, bundle)
    if any(slot.verdict() is None for _, slot in slots):
        given = slurm.allocation()
        claim = layout.bundle_claim(bundle.id)
        # A second job for the same bundle must not wait: it would hold nodes and measure nothing.
        wait = given is None or not given.is_for(job or bundle.id)
        with interruptible(), claims.claimed(claim, wait=wait), target.backend.machine.held():
            if given is not None and given.waited_s is not None:
                _note(layout.waits, given.job, given.waited_s)
            outages = slurm.Outages() if given is not None else None
            booked = ledger.Reader(layout.store)

            def spent() -> float:
                return ledger.spent_core_hours(booked.read(), target.id)

            for run, slot in slots:
                if budget_core_hours is not None and spent() >= budget_core_hours:
                    break
                claims.beat(claim)
                for left in reversed(range(_TRIES)):
                    with store.reserve(slot, wait=wait) as temporary:
                        if temporary is not None:
                            _measure(target, layout, bundle, run, slot, temporary, given, outages, exact=not wait)
                    if slot.verdict():
                        break
                    if not left:
                        raise Interrupted("Slurm is away again and again")
    outcomes = [outcome_of(layout, run, slot) for run, slot in slots]
    return {
        **bundle.to_json(),
        "complete": all(each["status"] in (store.Status.MEASURED, store.Status.FAILED) for each in outcomes),
        "runs": outcomes,
    }


def outcome_of(layout: Layout, run: Run, slot: store.Slot) -> dict[str, Any]:
    """Describe what is known of a run; failed and interrupted attempts are charged too."""
    verdict = slot.verdict()
    attempts = [store.record(attempt) for attempt in slot.attempts()]
    record = store.record(verdict) if verdict else {"status": store.Status.OVER_BUDGET}
    cost = sum(each.get("cost_core_hours", 0.0) for each in attempts)
    if verdict == slot.folder:
        cost += record["cost_core_hours"]
    return {
        "build": run.build,
        "mode": run.mode,
        "repetition": run.repetition,
        "status": record["status"],
        "reason": record.get("reason"),
        "folder": str(verdict.relative_to(layout.root)) if verdict else None,
        "wall_s": record.get("wall_s"),
        "cpu_s": record.get("cpu_s"),
        "cost_core_hours": cost,
    }


def _measure(
    target: Target,
    layout: Layout,
    bundle: Bundle,
    run: Run,
    slot: store.Slot,
    temporary: Path,
    given: slurm.Allocation | None,
    outages: slurm.Outages | None,
    *,
    exact: bool,
) -> None:
    """Make a run; afterwards there is a verdict on it, unless Slurm was away."""
    campaign, backend, point = target.campaign, target.backend, bundle.point
    ranks, cores, machine = campaign.ranks(point), campaign.cores(point), backend.machine
    clock_ahead_s = time.time() - temporary.stat().st_mtime  # of the file system's, which has just made the folder
    built = layout.build(run.build) / store.RECORD
    record: dict[str, Any] = {
        "schema": SCHEMA,
        "build": run.build,
        "target": target.id,
        "mode": run.mode,
        "point": dict(point),
        "purpose": bundle.purpose,
        "repetition": run.repetition,
        "warmup": run.repetition < 0,
        "configuration": configuration(target, bundle),
        "node": record_node(layout.store),
        "started": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "clock_ahead_s": clock_ahead_s,
        "clock": machine.clock,
        "disturbances": [*machine.disturbances(), *_skew(clock_ahead_s)],
        "slurm_job": given and given.job,
        "slurm": given and _described(given),
        "cores": cores,
    }
    refusal = None if built.is_file() else "its build failed"
    if given is not None and refusal is None:
        refusal = slurm.mismatch(given, campaign.placement(point), exact=exact)
    if refusal:
        record |= {"status": store.Status.FAILED, "reason": refusal, "cost_core_hours": 0.0}
        _finish(layout, slot, temporary, record)
        return
    work, raw = temporary / "work", temporary / "raw"
    work.mkdir()
    raw.mkdir()
    binary = tree(layout, run.build) / campaign.binary
    filter_file = run_filter(layout, run.build)
    argv, variables = campaign.launch(
        point, binary, tree(layout, run.build), backend.mpi_flavour, backend.mpiexec, usable_cores()
    )
    shown = {} if given is None else slurm.launch_variables(given, campaign.placement(point))
    environment = {**shown, **os.environ, **variables, **backend.run_environment(run.mode, raw, filter_file)}
    record |= {
        "argv": argv,
        "environment": environment_of(environment),
        "tools": tool_versions(),
        "before": machine.state(),
    }
    write_json(temporary / store.RECORD, {**record, "status": store.Status.INTERRUPTED, "reason": "not finished"})
    outcome: Outcome | None = None
    try:
        outcome = machine.run(
            RunJob(
                argv=argv,
                cwd=work,
                environment=environment,
                stdout=temporary / "stdout.log",
                stderr=temporary / "stderr.log",
                time_limit_s=campaign.time_limit_s(point),
                binary=binary,
                mode=run.mode,
                point=point,
                ranks=ranks,
                raw=raw,
                filter_file=filter_file,
                key=f"{run.build} {point.key} {slot.name} {len(slot.failures())}",
                beat=lambda: _beat(slot.claim, layout.bundle_claim(bundle.id)),
            )
        )
        reason = outcome.failure
        if reason and (first := slurm.first_failure(temporary / "stderr.log")):
            reason = f"{reason} ({first})"
        if reason is None and run.mode is not Mode.VANILLA:
            profile = backend.collect(run.mode, raw, ranks)
            write_cubex(profile, temporary / PROFILE)
            record["placement"] = json.loads(profile.attributes["placement"])
            if given is not None:
                reason = slurm.misplaced((each["host"] for each in record["placement"]), campaign.placement(point))
            if missing := profile.attributes.get("counters_unavailable"):
                record["counters_unavailable"] = missing
    except Interrupted as interrupted:
        _give_up(layout, bundle, slot, temporary, record, f"interrupted by {interrupted}", given)
        raise
    except OSError as error:
        if outcome is not None:
            raise
        reason = f"cannot start the run: {error.strerror}: {error.filename}"
    except BuranError as error:
        reason = str(error).replace(f"{temporary}/", "")
    if reason:
        check_room(temporary)  # a program that cannot write says nothing about itself
    ended = slurm.why_ended(given) if reason and given is not None else None
    if ended is not None:  # no verdict on the program
        _give_up(layout, bundle, slot, temporary, record, f"{ended}; before that: {reason}", given)
        raise Interrupted(ended)
    if outages is not None and outages.one_since():
        if reason:
            _give_up(layout, bundle, slot, temporary, record, f"Slurm was away meanwhile; {reason}", given)
            return
        record["disturbances"].append("Slurm was away for some time")
    if outcome is not None:
        record |= {
            "exit_code": outcome.exit_code,
            "signal": outcome.signal,
            "wall_s": outcome.wall_s,
            "cpu_s": outcome.user_s + outcome.system_s,
            "max_rss_kib": outcome.max_rss_kib,
            "cost_core_hours": outcome.wall_s * cores / 3600.0,
        }
    else:
        record["cost_core_hours"] = 0.0
    record["after"] = machine.state()
    record |= {"status": store.Status.FAILED if reason else store.Status.MEASURED, "reason": reason}
    _clean(work)
    if not reason or not any(raw.iterdir()):
        _clean(raw)
    _finish(layout, slot, temporary, record)


def _give_up(
    layout: Layout,
    bundle: Bundle,
    slot: store.Slot,
    temporary: Path,
    record: dict[str, Any],
    why: str,
    given: slurm.Allocation | None,
) -> None:
    """Keep an attempt that says nothing about the program."""
    if given is not None and given.time_is_over():
        why = f"the job's time limit of {given.time_limit_s:.0f} s was reached (job {given.job})"
        _note(layout.time_outs(bundle.id), given.job, given.time_limit_s)
    record |= {"status": store.Status.INTERRUPTED, "reason": why, **_times(record)}
    _clean(temporary / "work", temporary / "raw")
    _finish(layout, slot, temporary, record)


def _skew(ahead_s: float) -> list[str]:
    if abs(ahead_s) < _LARGEST_SKEW_S:
        return []
    return [f"the clock of this node is {ahead_s:+.0f} s off the file system's: have it set, as by NTP"]


def _beat(*held: Path) -> None:
    for claim in held:
        claims.beat(claim)


def _described(given: slurm.Allocation) -> dict[str, Any]:
    return {key: value for key, value in asdict(given).items() if key != "asked_s"}


def _note(path: Path, job: str, seconds: float | None) -> None:
    with path.open("a") as file:
        file.write(f"{job} {seconds}\n")


def _times(record: dict[str, Any]) -> dict[str, float]:
    if record["clock"] == "virtual":
        return {"wall_s": 0.0, "cost_core_hours": 0.0}
    wall_s = (datetime.now(UTC) - datetime.fromisoformat(record["started"])).total_seconds()
    return {"wall_s": wall_s, "cost_core_hours": wall_s * record["cores"] / 3600.0}


def _clean(*folders: Path) -> None:
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


def _finish(layout: Layout, slot: store.Slot, temporary: Path, record: dict[str, Any]) -> None:
    write_json(temporary / store.RECORD, record)
    keep = store.commit if record["status"] == store.Status.MEASURED else store.keep_failure
    entry = ledger.entry_of(layout.store, keep(slot, temporary))
    if entry is not None:
        ledger.append(layout.store, entry)
