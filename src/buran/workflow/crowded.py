"""Cores that are shared: by more ranks and threads than there are, by other programs, by other machines."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import median

from buran.campaign.config import Campaign
from buran.campaign.launcher import usable_cores
from buran.campaign.plan import Mode
from buran.campaign.point import Point
from buran.campaign.records import RunRecord
from buran.measurement.machine.machine import disturbances
from buran.workflow.collect import in_store
from buran.workflow.history import FinishedRun, History

_LEAST_SHARE = 0.95  # of the wall-clock time of computation that its CPU time is on a core of its own
_COMPARABLE = 0.9  # likewise, of runs whose wall-clock time is compared with a prediction
_MOST_STOLEN = 0.01  # of a run's cores, by the host of a virtual machine


def crowded_points(history: History, runs: Iterable[FinishedRun]) -> list[Point]:
    """Return the points at which some runs had more ranks and threads than cores, as far as their records tell."""
    return list(dict.fromkeys(record.point for record in _timed_by_a_clock(history, runs) if _is_crowded(record)))


def points_without_cores(history: History, runs: Iterable[FinishedRun]) -> list[Point]:
    """Return the points whose wall-clock times contain waiting for cores: crowded, or next to other programs."""
    shares: dict[Point, list[float]] = {}
    for record in _timed_by_a_clock(history, runs):
        share = 0.0 if _is_crowded(record) else _share_of_core(record)
        if share is not None:
            shares.setdefault(record.point, []).append(share)
    return [point for point, some in shares.items() if median(some) < _COMPARABLE]


def sharing(history: History) -> list[str]:
    """Say in which runs cores were shared, and what that means for their times."""
    records, said = _timed_by_a_clock(history, history.runs), list[str]()
    if crowded := {record.point for record in records if _is_crowded(record)}:
        said.append(
            f"more ranks and threads than cores at {len(crowded)} of {len({record.point for record in records})} "
            "points, whose times of waiting enter no model (model.waiting)"
        )
    timed = [(record, share) for record in records if (share := _share_of_core(record)) is not None]
    if short := [share for _, share in timed if share < _LEAST_SHARE]:
        load = max((before["load"][0] for record, _ in timed if (before := record.before or {}).get("load")), default=0)
        switches = sum(record.involuntary_switches or 0 for record, _ in timed)
        said.append(
            f"computing, {len(short)} of {len(timed)} timed runs had a core for as little as {100 * min(short):.0f} % "
            f"of the time (load up to {load:.0f}, {switches} involuntary switches)"
        )
    stolen = max(map(_stolen, records), default=0.0)
    if stolen > _MOST_STOLEN:
        said.append(f"the host took {100 * stolen:.0f} % of the cores from a run")
    missing = next((record.cpu_clock_missing for record in records if record.cpu_clock_missing), None)
    if said and missing is None and timed:
        said.append("times of computation are CPU times, those of MPI are not")
    out = [f"Cores were shared: {'; '.join(said)}."] if said else []
    if missing is not None:
        out.append(f"Times of computation are wall-clock times, also while others had the core: {missing}.")
    return out


def _timed_by_a_clock(history: History, runs: Iterable[FinishedRun]) -> list[RunRecord]:
    """Return the records of the runs that are in the store and were not simulated."""
    records = (history.run_record(run.folder) for run in in_store(runs))
    return [record for record in records if record.clock == "real"]


def _is_crowded(record: RunRecord) -> bool:
    """Tell whether a run had more ranks and threads than cores."""
    cores = len((record.before or {}).get("cpu_mask") or ())
    nodes = int((record.configuration or {}).get("nodes") or 1)
    return 0 < cores * nodes < record.cores


def _share_of_core(record: RunRecord) -> float | None:
    """Return how much of the wall-clock time of computation was CPU time; None where that was not measured."""
    if record.mode is not Mode.TIME or not record.computation:
        return None
    seconds = record.computation
    return seconds["cpu_s"] / seconds["wall_s"] if seconds.get("wall_s") else 1.0


def _stolen(record: RunRecord) -> float:
    """Return the share of the machine's cores that its host gave to others while a run went on."""
    before, after = record.before or {}, record.after or {}
    if before.get("steal_s") is None or after.get("steal_s") is None or not record.wall_s:
        return 0.0
    return float(after["steal_s"] - before["steal_s"]) / (record.wall_s * len(before.get("cpu_mask") or (0,)))


def simulated(campaign: Campaign) -> list[str]:
    """Say which machine is simulated; nothing where programs are measured."""
    title = campaign.simulated_on
    return [f"Simulated, not measured: times and core hours are those of {title}."] if title else []


def sharing_ahead(campaign: Campaign) -> list[str]:
    """Say what will share the cores of this machine, if the runs are made here and now; or which one is simulated."""
    if campaign.is_simulated:
        return simulated(campaign)
    own, said = usable_cores(), list[str]()
    points = [*campaign.points, *campaign.evaluation_points]
    local = [point for point in points if campaign.nodes(point) == 1 and campaign.partition(point) is None]
    if crowded := [point for point in local if campaign.cores(point) > own]:
        said.append(
            f"{len(crowded)} of {len(points)} points have more ranks and threads than the {own} cores here: they take "
            "turns; counts stay exact, their times of waiting in MPI enter no model (`model.waiting`)"
        )
    if local and (busy := [said for said in disturbances() if said.startswith("load")]):
        said.append(f"other programs use this machine now ({busy[0]})")
    return said
