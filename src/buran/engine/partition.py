"""The partition that a campaign is measured in: over how many nodes runs are spread, and whether each point fits."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial

from buran.campaign.config import Campaign
from buran.campaign.point import Value
from buran.engine.jobs import STARTUP_S
from buran.errors import ConfigError, ToolError
from buran.files import write_json
from buran.loop.session import Session
from buran.measure.schedulers.base import CommandMissing, Partition, Scheduler

_ASK_AGAIN_S = 5.0  # a scheduler that does not answer
_SHOWN = 5  # points that do not fit


def measured_in(session: Session, scheduler: Scheduler, say: Callable[[str], None], *, patient: bool = True) -> Session:
    """Return the campaign spread over the nodes of its partition.

    The cores of its nodes are requested once and kept: the same point has as many nodes ever after.

    Parameters
    ----------
    patient
        Whether a scheduler that does not answer is waited for, once the campaign has submitted jobs to it.

    Raises
    ------
    ConfigError
        There is no such partition, or points do not fit into it.
    ToolError
        A command of the scheduler is missing, or does not answer and is not waited for.
    """
    keys = session.campaign.config.resources
    if session.campaign.is_simulated:
        return session
    ask = partial(scheduler.partition, keys.partition, keys.constraint)
    has_submitted = next(session.layout.job_scripts.glob("*"), None) is not None
    partition = _insisted(ask, say) if patient and has_submitted else ask()
    if partition is None:
        return session
    if session.partition is not None:
        partition = replace(partition, cores_per_node=session.partition.cores_per_node)  # decided once
    if partition != session.partition:
        write_json(session.layout.partition(keys.partition), {"schema": 1, **vars(partition)})
        session = replace(session).in_partition()
    check_points(session.campaign, partition)
    return session


def _insisted(ask: Callable[[], Partition | None], say: Callable[[str], None]) -> Partition | None:
    has_warned = False
    while True:
        try:
            return ask()
        except CommandMissing:
            raise
        except ToolError as error:
            if not has_warned:
                say(f"{error.line}; since {time.strftime('%H:%M:%S')}, waiting until it does")
                has_warned = True
            time.sleep(_ASK_AGAIN_S)


def check_now(campaign: Campaign, scheduler: Scheduler) -> Campaign:
    """Ask the scheduler, compare every point with its partition, and return the campaign spread over its nodes.

    Raises
    ------
    ToolError
        The scheduler does not answer.
    ConfigError
        There is no such partition, or points do not fit into it.
    """
    keys = campaign.config.resources
    partition = scheduler.partition(keys.partition, keys.constraint)
    if partition is None:
        return campaign
    campaign = partition.spread(campaign)
    check_points(campaign, partition)
    return campaign


def check_points(campaign: Campaign, partition: Partition) -> None:
    """Compare every point with a partition.

    Raises
    ------
    ConfigError
        Naming points that do not fit, with the number of those that are like it and the key.
    """
    keys = campaign.config.resources
    for key, value, known in (("account", keys.account, partition.accounts), ("qos", keys.qos, partition.qos)):
        if value is not None and known is not None and value not in known:
            raise ConfigError(
                f"{key} {value!r} cannot be used in the partition {partition.name}",
                where=f"{campaign.path}, key resources.{key}",
                hint=f"yours there: {', '.join(known) or 'none'}",
            )
    points = () if campaign.is_simulated else (*campaign.points, *campaign.evaluation_points)
    misfits: dict[str, list[str]] = {}
    for point in points:
        for key, why in _misfits(campaign, partition, point):
            misfits.setdefault(key, []).append(f"{point.key}: {why}")
    if misfits:
        key, lines = next(iter(misfits.items()))
        shown = [*lines[:_SHOWN], *([f"and {len(lines) - _SHOWN} more"] if len(lines) > _SHOWN else [])]
        raise ConfigError(
            f"{len(lines)} of {len(points)} points do not fit into the partition {partition.name}",
            where=f"{campaign.path}, key resources.{key}",
            why="\n".join(shown),
            hint=_HINTS[key],
        )


_HINTS = {
    "nodes": "take these points out, choose another partition, or let nodes be `auto`",
    "threads": "give the ranks fewer threads, or choose another partition",
    "memory_mb": "ask for less on each node, spread the ranks over more nodes, or choose another partition",
    "expected_time": "take these points out, or choose a partition with more time",
}


def _misfits(campaign: Campaign, partition: Partition, point: Mapping[str, Value]) -> Iterator[tuple[str, str]]:
    """Yield for each key that does not fit why; time is what one run is expected to take, as jobs may be short."""
    placement, memory_mb = campaign.placement(point), campaign.memory_mb(point)
    cores = placement.ranks_per_node * placement.threads
    if placement.nodes > partition.nodes:
        yield "nodes", f"{placement.nodes} nodes, and a job has at most {partition.nodes}"
    if placement.threads > partition.cores_per_node:
        yield "threads", f"{placement.threads} threads of a rank, and a node has {partition.cores_per_node} cores"
    elif cores > partition.cores_per_node:
        yield "nodes", f"{cores} cores on each of {placement.nodes} nodes, which have {partition.cores_per_node}"
    if memory_mb is not None and partition.memory_mb is not None and memory_mb > partition.memory_mb:
        yield "memory_mb", f"{memory_mb} MB on a node, which has {partition.memory_mb}"
    expected_s = campaign.expected_s(point)
    if partition.longest_s is not None and expected_s is not None and expected_s + STARTUP_S > partition.longest_s:
        yield (
            "expected_time",
            f"{expected_s:.0f} s and {STARTUP_S:.0f} s to start, and a job has {partition.longest_s:.0f}",
        )
