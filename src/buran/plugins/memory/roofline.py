"""What bounds the call paths of a campaign on its machine: times, flops and misses, and what the machine can."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from buran.campaign.config import Campaign
from buran.campaign.point import Point
from buran.modeling.numerics.tuning import FLOOR, LARGER
from buran.modeling.pmnf.model_set import ModelSet
from buran.modeling.pmnf.terms import Array
from buran.modeling.priors.campaign import PathPrior
from buran.modeling.priors.paths import waits
from buran.plugins.memory.caches import models_of
from buran.plugins.memory.machine_file import MachineFile
from buran.plugins.memory.reuse import LINE
from buran.plugins.memory.roofline_table import BLOCKS, MPI, WAITING, BoundPath, Roofline, Work, level_names
from buran.profiles.experiment.build import Run
from buran.profiles.profile import CallTree
from buran.profiles.startup import is_startup_or_shutdown
from buran.workflow.counts import counts_at

_MOST_ROWS = 12


def roofline_of(
    sampled: Sequence[Run],
    counted: Sequence[Run],
    tree: CallTree,
    times: ModelSet | None,
    priors: Sequence[PathPrior],
    campaign: Campaign,
    machine: MachineFile,
) -> Roofline | None:
    """Return what bounds call paths; None without times or enough sampled runs.

    Parameters
    ----------
    sampled, counted
        Runs with distances, and with flops.
    tree
        Call paths of the times: functions without hooks belong to their callers.
    priors
        What priors say of the times' models.
    """
    found = None if times is None else models_of(sampled, tree)
    if times is None or found is None or times.call_paths != tuple(tree.names):
        return None
    measured = np.array(times.points, dtype=np.float64)
    target = [float(campaign.target[name]) for name in times.parameters]
    largest = measured[np.argmax(np.nansum(times.predict(measured), axis=0))]
    points = np.array([largest, target])
    at = [dict(zip(times.parameters, point, strict=True)) for point in points.tolist()]
    ranks = [campaign.placement(Point.of(point)).ranks_per_node for point in at]
    seconds = np.nan_to_num(times.predict(points))
    lines = np.array(
        [
            [
                found.misses(point[None], machine.cache_of_a_rank(level, number))[:, 0]
                for level in range(len(machine.caches))
            ]
            for point, number in zip(points, ranks, strict=True)
        ]
    )  # point, level, call path
    flops = counts_at(counted, "flops", tree, points)
    regions = [tree.regions[number] for number in tree.region.tolist()]
    waiting = {prior.call_path: prior.waiting_share or 0.0 for prior in priors}
    names = level_names(machine.caches)
    rows = []
    seconds[is_startup_or_shutdown(tree.names)] = 0.0
    there = seconds.all(axis=1) & (seconds[:, 1] >= FLOOR * seconds[:, 1].sum())
    for row in np.flatnonzero(there)[np.argsort(-seconds[there, 1], kind="stable")][:_MOST_ROWS].tolist():
        other = ""
        if waits(regions[row]):
            is_mpi = regions[row].paradigm == "mpi" and waiting.get(tree.names[row], 0.0) < LARGER
            other = MPI if is_mpi else WAITING
        works = [
            work_of(
                float(seconds[row, position]),
                None if flops is None else float(flops[row, position]),
                lines[position, :, row],
                machine,
                ranks[position],
                names,
                other,
            )
            for position in range(len(points))
        ]
        rows.append(BoundPath(tree.names[row], *works))
    return Roofline(
        f"{machine.host}, {machine.cpu}, calibrated {machine.date[:10]}",
        names,
        [machine.bandwidth_of(level, ranks[1]) for level in range(1, len(machine.levels))],
        machine.flops_of(ranks[1]),
        (ranks[0], ranks[1]),
        at[0],
        rows,
    )


def work_of(
    seconds: float,
    flops: float | None,
    lines: Array,
    machine: MachineFile,
    ranks: int,
    names: Sequence[str],
    other: str = "",
) -> Work:
    """Return what a call path asks of the machine, and what bounds it.

    Parameters
    ----------
    lines
        Shape (cache,): misses.
    ranks
        On a node.
    names
        Of what lies beyond each cache.
    other
        What bounds it if it is no computation.
    """
    traffic = LINE * lines
    levels = range(1, len(machine.levels))
    moving = traffic / np.array([machine.bandwidth_of(level, ranks) for level in levels])
    latencies = np.array([machine.latency_s_of(level, ranks) for level in range(len(machine.levels))])
    waits_s = lines * np.maximum(np.diff(latencies), 0.0)
    computing = (flops or 0.0) / machine.flops_of(ranks)
    busiest = int(np.argmax(moving)) if moving.any() else None
    bound, share = BLOCKS, None
    if other:
        bound = other
    elif computing >= max(moving.max(initial=0.0), LARGER * seconds):
        bound, share = "floating-point operations", computing / seconds
    elif busiest is not None and moving[busiest] >= LARGER * seconds:
        bound, share = f"bandwidth of {names[busiest]}", float(moving[busiest]) / seconds
    elif waits_s.sum() >= LARGER * seconds:
        bound = f"{BLOCKS} or latency of {names[int(np.argmax(waits_s))]}"
    return Work(seconds, flops, tuple(traffic.tolist()), bound, share, busiest)
