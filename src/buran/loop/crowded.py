"""Cores that are shared: by more ranks and threads than there are, by other programs, by other machines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from buran.campaign.config import Campaign
from buran.campaign.launcher import usable_cores
from buran.campaign.plan import Mode
from buran.campaign.point import Point
from buran.campaign.records import RunRecord
from buran.loop.collect import in_store
from buran.loop.history import FinishedRun, History
from buran.measure.machine.machine import disturbances

_LEAST_SHARE = 0.95  # of the wall-clock time of computation that its CPU time is on a core of its own
_MOST_STOLEN = 0.01  # of a run's cores, by the host of a virtual machine


def crowded_points(history: History, runs: Iterable[FinishedRun]) -> list[Point]:
    """Return the points at which some runs had more ranks and threads than cores, as far as their records tell."""
    return list(dict.fromkeys(record.point for record in _records(history, runs) if _is_crowded(record)))


def sharing(history: History) -> list[str]:
    """Say in which runs cores were shared, and what that means for their times; or which machine is simulated."""
    ended = [
        replace(plan, bundles=tuple(b for b in plan.bundles if history.layout.bundle_pointer(b.id).is_file()))
        for plan in history.plans
    ]
    made = in_store(history.runs_of(ended))
    if simulated := {machine for run in made if (machine := history.run_record(run.folder).machine)}:
        return [_simulated(min(simulated) if len(simulated) == 1 else history.session.campaign.simulated_on)]
    records = _records(history, made)
    said = []
    if crowded := {record.point for record in records if _is_crowded(record)}:
        points = {record.point for record in records}
        said.append(f"more ranks and threads than cores at {len(crowded)} of {len(points)} points")
    timed = [record for record in records if record.mode is Mode.TIME and record.computation]
    shares = [_share(record) for record in timed]
    if short := [share for share in shares if share < _LEAST_SHARE]:
        loads = [float(record.before["load"][0]) for record in timed if record.before]
        switches = sum(record.involuntary_switches or 0 for record in timed)
        said.append(
            f"computing, {len(short)} of {len(timed)} timed runs had a core for as little as {100 * min(short):.0f} % "
            f"of the time (load up to {max(loads, default=0.0):.0f}, {switches} involuntary switches)"
        )
    stolen = [_stolen(record) for record in records]
    if any(share > _MOST_STOLEN for share in stolen):
        said.append(f"the host took {100 * max(stolen):.0f} % of the cores from a run")
    missing = next((record.cpu_clock_missing for record in records if record.cpu_clock_missing), None)
    if said and missing is None and timed:
        said.append("times of computation are CPU times, those of MPI are not")
    out = [f"Cores were shared: {'; '.join(said)}."] if said else []
    if missing is not None:
        out.append(f"Times of computation are wall-clock times, also while others had the core: {missing}.")
    return out


def sharing_ahead(campaign: Campaign) -> list[str]:
    """Say what will share the cores of this machine, if the runs are made here and now; or which one is simulated."""
    if campaign.is_simulated:
        return [_simulated(campaign.simulated_on)]
    here, said = usable_cores(), []
    points = [*campaign.points, *campaign.evaluation_points]
    local = [point for point in points if campaign.nodes(point) == 1] if not campaign.config.resources.partition else []
    if crowded := [point for point in local if campaign.cores(point) > here]:
        said.append(
            f"{len(crowded)} of {len(points)} points have more ranks and threads than the {here} cores here: they take "
            "turns; counts stay exact, waiting in MPI is not modelled (`model.waiting`)"
        )
    if local and (busy := [said for said in disturbances() if said.startswith("load")]):
        said.append(f"other programs use this machine now ({busy[0]})")
    return said


def _simulated(machine: str) -> str:
    return f"Simulated, not measured: times and core hours are those of {machine}."


def _records(history: History, runs: Iterable[FinishedRun]) -> Sequence[RunRecord]:
    return [record for run in in_store(runs) if (record := history.run_record(run.folder)).clock == "real"]


def _is_crowded(record: RunRecord) -> bool:
    cores = len((record.before or {}).get("cpu_mask") or ())
    nodes = int((record.configuration or {}).get("nodes") or 1)
    return 0 < cores * nodes < record.cores


def _share(record: RunRecord) -> float:
    """Return how much of the wall-clock time of computation was CPU time."""
    seconds = record.computation or {}
    return seconds["cpu_s"] / seconds["wall_s"] if seconds.get("wall_s") else 1.0


def _stolen(record: RunRecord) -> float:
    """Return the share of the machine's cores that its host gave to others while a run went on."""
    before, after = record.before or {}, record.after or {}
    if before.get("steal_s") is None or after.get("steal_s") is None or not record.wall_s:
        return 0.0
    return float(after["steal_s"] - before["steal_s"]) / (record.wall_s * len(before.get("cpu_mask") or (0,)))
