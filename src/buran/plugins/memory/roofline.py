"""What bounds the call paths of a campaign on its machine: times, flops and misses, and what the machine can."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from buran.campaign.config import Campaign
from buran.campaign.point import Point
from buran.modeling.functions.terms import Array
from buran.modeling.numerics.tuning import FLOOR, LARGER
from buran.modeling.pmnf.model_set import ModelSet
from buran.modeling.priors.campaign import PathPrior
from buran.modeling.priors.paths import waits
from buran.plugins.memory.caches import models_of, size_text
from buran.plugins.memory.machine_file import MachineFile
from buran.plugins.memory.reuse import LINE
from buran.profiles.experiment.build import Run
from buran.profiles.profile import CallTree
from buran.profiles.startup import is_startup_or_shutdown
from buran.reporting.html import environment
from buran.reporting.tables import briefs, section
from buran.wording import named
from buran.workflow.collect import counts_at

BLOCKS, MPI, WAITING = "blocks", "MPI", "waiting"


@dataclass(frozen=True)
class Work:
    """A call path at a point, mean over ranks.

    Attributes
    ----------
    seconds
        Time of the model.
    flops
        None where they were not counted.
    traffic_bytes
        By level, cache lines that come from beyond it; nearest first.
    bound
        What takes most of the time.
    share
        Share of the time, by what bounds it at the machine's full speed; None where there is no such speed.
    level
        Of which the traffic takes longest at full bandwidth, from 0; None without traffic.
    """

    seconds: float
    flops: float | None
    traffic_bytes: Sequence[float]
    bound: str
    share: float | None
    level: int | None

    @property
    def intensity(self) -> float | None:
        """Flops for each byte of the traffic that takes longest; None without either."""
        traffic = 0.0 if self.level is None else self.traffic_bytes[self.level]
        return self.flops / traffic if self.flops and traffic else None

    @property
    def speed(self) -> float | None:
        """Flops a second; None without any."""
        return self.flops / self.seconds if self.flops and self.seconds else None


@dataclass(frozen=True)
class BoundPath:
    """A call path at the largest measured point and at the target."""

    call_path: str
    now: Work
    target: Work


@dataclass(frozen=True)
class Roofline:
    """What bounds the call paths with the largest times at the target.

    Attributes
    ----------
    machine
        Whose roofs these are, and of which day.
    levels
        Names of what lies beyond each cache, nearest first.
    bandwidths, flops
        Of a rank at the target, in bytes and operations a second.
    ranks
        On a node, at the largest measured point and at the target.
    largest
        That point.
    """

    machine: str
    levels: Sequence[str]
    bandwidths: Sequence[float]
    flops: float
    ranks: tuple[int, int]
    largest: Mapping[str, float]
    rows: Sequence[BoundPath]


EXPLANATION = (
    "A call path is bound by what takes at least half of its time at the machine's full speed: floating-point "
    "operations, or cache lines from a level at the bandwidth that a rank gets of it. Else by its blocks, the "
    "instructions themselves; or by latency, if its misses would take half of the time one after the other: how many "
    "wait for each other, and which the processor predicts, is not seen."
)


def level_names(caches: Sequence[int]) -> list[str]:
    """Return what lies beyond each cache."""
    return [f"level {number} ({size_text(size)})" for number, size in enumerate(caches[1:], start=2)] + ["memory"]


_HEADER = ["call path", "seconds at target", "GFLOP/s", "flops per byte", "bound by, measured", "bound by, at target"]


def rows_of(roofline: Roofline) -> list[list[str]]:
    """Return the cells of each row, as `_HEADER` says."""
    names = briefs([row.call_path for row in roofline.rows])
    return [
        [
            name,
            f"{row.target.seconds:.3g}",
            "–" if row.target.speed is None else f"{1e-9 * row.target.speed:.3g}",
            "–" if row.target.intensity is None else f"{row.target.intensity:.2g}",
            *(_bound(work) for work in (row.now, row.target)),
        ]
        for name, row in zip(names, roofline.rows, strict=True)
    ]


def _bound(work: Work) -> str:
    return work.bound if work.share is None else f"{work.bound}, {100 * work.share:.0f} %"


def roofline_text(roofline: Roofline) -> str:
    """Return the table as plain text."""
    text = section("What bounds call paths", _HEADER, rows_of(roofline))
    return f"{text}\n\n{_words(roofline)}" if text else ""


def _words(roofline: Roofline) -> str:
    return f"{EXPLANATION} The machine: {roofline.machine}."


def roofline_page(roofline: Roofline, target: Mapping[str, float]) -> str:
    """Return the table as HTML."""
    shown = f"Shown are the call paths with the largest times at {named(target)}, and what bounds them at"
    words = f"{_words(roofline)} {shown} {named(roofline.largest)}."
    template = environment(Path(__file__).parent).get_template("roofline.html.j2")
    return template.render(words=words, header=_HEADER, rows=rows_of(roofline))


def roofline_plot(roofline: Roofline) -> dict[str, Any] | None:
    """Return what the page draws: roofs, and call paths as lines from the largest measured point to the target."""
    names = briefs([row.call_path for row in roofline.rows])
    least = FLOOR * roofline.flops
    placed = [
        [name, [_coordinates(work) for work in (row.now, row.target)]]
        for name, row in zip(names, roofline.rows, strict=True)
        if all(work.intensity and (work.speed or 0.0) >= least for work in (row.now, row.target))
    ]
    roofs = [[name, speed] for name, speed in zip(roofline.levels, roofline.bandwidths, strict=True)]
    return {"roofs": roofs, "peak": roofline.flops, "paths": placed} if placed else None


def _coordinates(work: Work) -> list[Any]:
    return [work.intensity, work.speed, work.level, _bound(work)]


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
