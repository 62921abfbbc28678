"""Cores that are shared: by more ranks and threads than there are, by other programs, by other machines."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from statistics import median
from typing import Any

from buran.campaign.config import Campaign
from buran.campaign.launcher import usable_cores
from buran.campaign.packing import NodeRoom, side_by_side
from buran.campaign.plan import SCHEMA, Mode, Plan
from buran.campaign.point import Point
from buran.campaign.records import RECORD, RunKey, read_run
from buran.errors import FormatError
from buran.files import not_synced, read_document, write_json
from buran.measurement.machine.machine import disturbances
from buran.measurement.store import ledger
from buran.measurement.store.sharing import Sharing, is_crowded
from buran.measurement.store.store import folder_of
from buran.workflow.collect import in_store
from buran.workflow.history import FinishedRun, History

_LEAST_SHARE = 0.95  # of the wall-clock time of computation that its CPU time is on a core of its own
_COMPARABLE = 0.9  # likewise, of runs whose wall-clock time is compared with a prediction
_WORTH_KEEPING = 1000  # records: reading so many takes a third of a second
_MOST_STOLEN = 0.01  # of a run's cores, by the host of a virtual machine


def crowded_points(history: History, runs: Iterable[FinishedRun]) -> list[Point]:
    """Return the points at which some runs had more ranks and threads than cores, as far as their records tell."""
    records = (history.run_record(run.folder) for run in in_store(runs))
    return list(dict.fromkeys(record.point for record in records if record.clock == "real" and is_crowded(record)))


def points_without_cores(history: History, runs: Iterable[FinishedRun]) -> list[Point]:
    """Return the points whose wall-clock times contain waiting for cores: crowded, or next to other programs."""
    shares: dict[Point, list[float]] = {}
    for run in in_store(runs):
        record = history.run_record(run.folder)
        made = Sharing.of(record)
        if made.is_real and (made.is_crowded or made.share is not None):
            shares.setdefault(record.point, []).append(0.0 if made.is_crowded else made.share or 0.0)
    return [point for point, some in shares.items() if median(some) < _COMPARABLE]


def sharing(history: History, keys: Sequence[str] | None = None) -> list[str]:
    """Say in which runs cores were shared, and what that means for their times; or which machine is simulated.

    Parameters
    ----------
    keys
        Of the runs in the store, whose records are read once for a campaign; by default those of bundles that have
        ended.
    """
    if keys is None:
        ended = in_store(history.runs_of(_ended(history)))
        made = [Sharing.of(history.run_record(run.folder)) for run in ended]
    else:
        made = _index(history, keys)
    if simulated := {run.machine for run in made if run.machine}:
        return [_simulated(min(simulated) if len(simulated) == 1 else history.session.campaign.simulated_on)]
    runs = [run for run in made if run.is_real]
    said = []
    if crowded := {run.point for run in runs if run.is_crowded}:
        points = {run.point for run in runs}
        said.append(
            f"more ranks and threads than cores at {len(crowded)} of {len(points)} points, whose times of waiting "
            "enter no model (model.waiting)"
        )
    if neighbours := [run for run in runs if run.had_neighbours]:
        said.append(
            f"{len(neighbours)} of {len(runs)} runs shared their nodes with others, each on cores of its own "
            "(resources.share_nodes): memory and caches were shared, so their times are noisier"
        )
    timed = [run for run in runs if run.share is not None]
    if short := [run.share for run in timed if run.share is not None and run.share < _LEAST_SHARE]:
        loads = [run.load for run in timed if run.load is not None]
        switches = sum(run.switches for run in timed)
        said.append(
            f"computing, {len(short)} of {len(timed)} timed runs had a core for as little as {100 * min(short):.0f} % "
            f"of the time (load up to {max(loads, default=0.0):.0f}, {switches} involuntary switches)"
        )
    stolen = [run.stolen for run in runs]
    if any(share > _MOST_STOLEN for share in stolen):
        said.append(f"the host took {100 * max(stolen):.0f} % of the cores from a run")
    missing = next((run.clock_missing for run in runs if run.clock_missing), None)
    if said and missing is None and timed:
        said.append("times of computation are CPU times, those of MPI are not")
    out = [f"Cores were shared: {'; '.join(said)}."] if said else []
    if missing is not None:
        out.append(f"Times of computation are wall-clock times, also while others had the core: {missing}.")
    return out


def _ended(history: History) -> list[Plan]:
    """Return the plans with those of their bundles that have ended."""
    return [
        replace(plan, bundles=tuple(b for b in plan.bundles if history.layout.bundle_pointer(b.id).is_file()))
        for plan in history.plans
    ]


def _index(history: History, keys: Sequence[str]) -> list[Sharing]:
    """Return what the records of runs say, which never change: what is known by now is not read again.

    The ledger says it of the runs of this version. Those that earlier ones booked are in an index.
    """
    path, store = history.layout.shared_cores, history.layout.store
    wanted = set(keys)
    known = {entry.run: entry.sharing for entry in ledger.read(store) if entry.sharing and entry.run in wanted}
    if len(known) < len(keys):
        with contextlib.suppress(FormatError):
            known |= read_document(path, SCHEMA, _rows, what="index of runs")
    folders = {key: folder_of(store, RunKey.parse(key)) for key in keys if key not in known}
    new = {key: Sharing.of(read_run(folder)) for key, folder in folders.items() if (folder / RECORD).is_file()}
    known |= new
    if len(new) > _WORTH_KEEPING:
        plain = {"schema": SCHEMA, "runs": list(known), "columns": list(zip(*known.values(), strict=True))}
        with not_synced(), contextlib.suppress(OSError):  # it only saves time
            write_json(path, plain, depth=2)
    return [known[key] for key in keys if key in known]


def _rows(index: dict[str, Any]) -> dict[str, Sharing]:
    rows = map(Sharing._make, zip(*index["columns"], strict=True))
    return dict(zip(index["runs"], rows, strict=True))


def neighbours_ahead(campaign: Campaign) -> list[str]:
    """Say which runs will have others next to them on their nodes, and which could not."""
    share, points = campaign.config.resources.share_nodes, [*campaign.points, *campaign.evaluation_points]
    if share == "none" or campaign.is_simulated:
        return []
    numbers = [campaign.side_by_side(point) for point in points]
    what = "runs" if campaign.may_share(Mode.TIME) else "runs that count"
    some = f"{sum(n > 1 for n in numbers)} of {len(points)}"
    said = f"{what} of {some} points go on side by side, up to {max(numbers)} on a node"
    if campaign.may_share(Mode.TIME):
        said += ": their times are noisier, and kept apart from those of runs that have a node alone"
    tight = [
        point
        for point, n in zip(points, numbers, strict=True)
        if campaign.shares_node(point) and n < side_by_side(campaign.need(point), NodeRoom(campaign.node(point).cores))
    ]
    if tight:
        memory_mb = campaign.node(tight[0]).memory_mb
        said += f"; at {len(tight)} points memory_mb lets fewer of them onto a node of {memory_mb} MB than its cores"
    return [said]


def sharing_ahead(campaign: Campaign) -> list[str]:
    """Say what will share the cores of this machine, if the runs are made here and now; or which one is simulated."""
    if campaign.is_simulated:
        return [_simulated(campaign.simulated_on)]
    own, said = usable_cores(), neighbours_ahead(campaign)
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


def _simulated(machine: str) -> str:
    return f"Simulated, not measured: times and core hours are those of {machine}."
