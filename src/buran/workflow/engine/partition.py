"""The partitions that a campaign is measured in: over how many nodes runs are spread, and whether each point fits.

Inside a job of the user, the campaign is measured in that job, whose nodes are then the room that points must fit in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace

from buran.campaign.config import Campaign
from buran.campaign.document import read_campaign_file
from buran.campaign.mistakes import CampaignError, KeyPath, Mistake, listed
from buran.campaign.point import Value
from buran.errors import ConfigError, ToolError
from buran.files import write_json
from buran.measurement.schedulers.base import SCHEDULERS, Partition, Scheduler, current_scheduler, spread
from buran.wording import counted
from buran.workflow.engine.jobs import STARTUP_S
from buran.workflow.session import Session

_SHOWN = 5  # points that do not fit
Partitions = Mapping[str | None, Partition]


def measured_in(session: Session, scheduler: Scheduler) -> Session:
    """Return the campaign spread over the nodes of its partitions.

    The cores of their nodes are requested once and kept: the same point has as many nodes ever after.

    Raises
    ------
    ConfigError
        There is no such partition, points do not fit into it, or this is another cluster.
    ToolError
        The scheduler does not answer.
    """
    if session.campaign.is_simulated:
        return session
    session = _decided(session, _requested(session.campaign, scheduler))
    check_points(session.campaign, session.partitions)
    return session


def _requested(campaign: Campaign, scheduler: Scheduler) -> dict[str | None, Partition]:
    """Ask for the partitions of a campaign; raise `ConfigError` for those of the file that are not there, too."""
    keys, found = campaign.config.resources, dict[str | None, Partition]()
    _check_cluster(campaign, scheduler)
    for name in dict.fromkeys((*campaign.partitions, *keys.partitions)):
        try:
            partition = scheduler.partition(name, campaign.resources_in(name).constraint)
        except ConfigError as error:
            key = str(error.where).rpartition(".")[2]
            raise _refused(campaign, _key(campaign, name, key), error.what, error.why, error.hint) from None
        if partition is not None and name in campaign.partitions:
            found[name] = partition
    return found


def _refused(campaign: Campaign, key: KeyPath, what: str, why: str | None, hint: str | None) -> CampaignError:
    """Return the error that names the line of a key, in whichever of the campaign's files it stands."""
    return CampaignError([read_campaign_file(campaign.path).located(Mistake(key, what, why, hint))])


def _key(campaign: Campaign, partition: str | None, key: str) -> KeyPath:
    """Return where a key of `resources` stands that partitions may have of their own."""
    is_own = key == "partition" or getattr(campaign.described(partition), key, None) is not None
    if partition in campaign.config.resources.partitions and partition is not None and is_own:
        return ("resources", "partitions", partition, *(() if key == "partition" else (key,)))
    return ("resources", key)


def _check_cluster(campaign: Campaign, scheduler: Scheduler) -> None:
    """Refuse to measure on another cluster than the file is for."""
    wanted = campaign.config.resources.cluster
    cluster = None if wanted is None else scheduler.cluster()
    if cluster != wanted:
        raise _elsewhere(campaign, f"this is {cluster or scheduler.title}, and not the cluster {wanted}")


def _check_machine(campaign: Campaign) -> None:
    """Refuse to measure outside of jobs on a machine that is not of the cluster the file is for."""
    wanted = campaign.config.resources.cluster
    if wanted is None or campaign.is_simulated:
        return
    for scheduler in SCHEDULERS:
        with suppress(ToolError):
            if scheduler.is_available() and scheduler.cluster() == wanted:
                return
    raise _elsewhere(campaign, f"this machine is not of the cluster {wanted}")


def _elsewhere(campaign: Campaign, what: str) -> CampaignError:
    hint = "measure there, or name the system of this machine (`buran doctor --write-system NAME` writes one)"
    return _refused(campaign, ("resources", "cluster"), what, None, hint)


def _decided(session: Session, partitions: Partitions) -> Session:
    """Keep what is known of partitions, and return the campaign spread over their nodes."""
    for name, partition in _as_before(partitions, session.partitions).items():
        if partition != session.partitions.get(name):
            write_json(session.layout.partition(name), {"schema": 1, **vars(partition)})
    return replace(session).in_partitions()


def _as_before(partitions: Partitions, before: Partitions) -> dict[str | None, Partition]:
    """Return partitions with the cores of nodes that were decided once."""
    cores = {name: before.get(name, partition).cores_per_node for name, partition in partitions.items()}
    return {name: replace(partition, cores_per_node=cores[name]) for name, partition in partitions.items()}


def local_room(campaign: Campaign, before: Partitions | None = None) -> tuple[dict[str | None, Partition], str]:
    """Return the partitions of the job that this process runs in, whoever submitted it, and the job in words.

    There is neither outside of jobs, and for simulated campaigns.

    Parameters
    ----------
    before
        Partitions over which the campaign's runs were spread.

    Raises
    ------
    ConfigError
        Points do not fit into the job, or belong to another partition; this is another cluster, or none.
    RunError, ToolError
        The scheduler does not answer.
    """
    scheduler = current_scheduler()
    allocation = None if campaign.is_simulated else scheduler.allocation()
    if allocation is None:
        _check_machine(campaign)
        return {}, ""
    _check_cluster(campaign, scheduler)
    own, nodes, job = allocation.partition or None, len(allocation.nodes), f"{scheduler.title} job {allocation.job}"
    for name in campaign.partitions:
        if None not in (own, name) and name != own:
            what = f"this is {job} in the partition {own}, and points belong to {name}"
            hint = f"ask for a job in {name}, write resources.partition: {own}, or submit jobs, with --profile"
            raise _refused(campaign, _key(campaign, name, "partition"), what, None, hint)
    cpus = max(allocation.cpus // max(nodes, 1), 1)
    whole = scheduler.partition(own, None) or Partition(own or "any", nodes, cpus, cpus)
    cores = max(cpus * whole.cores_per_node // whole.cpus_per_node, 1)
    room = replace(whole, nodes=nodes, cores_per_node=cores, longest_s=None, accounts=None, qos=None)
    partitions = _as_before(dict.fromkeys(campaign.partitions, whole), before or {})
    check_points(spread(campaign, partitions), dict.fromkeys(partitions, room), job)
    return partitions, f"{job}: measured on {counted(nodes, 'node')} of {counted(cores, 'core')}, no jobs are submitted"


def measured_locally(session: Session, say: Callable[[str], None]) -> Session:
    """Return the campaign spread over the nodes of the job that this process runs in; as it is outside of jobs.

    Raises as `room_here` does.
    """
    partitions, words = local_room(session.campaign, session.partitions)
    if not words:
        return session
    say(f"{words} (with --profile they would be)")
    return _decided(session, partitions)


def check_now(campaign: Campaign, scheduler: Scheduler) -> Campaign:
    """Ask the scheduler, compare every point with its partition, and return the campaign spread over its nodes.

    Raises
    ------
    ToolError
        The scheduler does not answer.
    ConfigError
        There is no such partition, points do not fit into it, or this is another cluster.
    """
    partitions = _requested(campaign, scheduler)
    campaign = spread(campaign, partitions)
    check_points(campaign, partitions)
    return campaign


def check_points(campaign: Campaign, partitions: Partitions, job: str = "") -> None:
    """Compare every point with its partition, or with a job of the user.

    Raises
    ------
    ConfigError
        Naming points that do not fit, with the number of those that are like it and the key.
    """
    everywhere = () if campaign.is_simulated else (*campaign.points, *campaign.evaluation_points)
    for name, partition in partitions.items():
        points = [point for point in everywhere if campaign.partition(point) == name]
        used = partition.as_described(campaign.described(name))
        _check_accounts(campaign, name, used)
        misfits: dict[str, list[str]] = {}
        for point in points:
            for key, why in _misfits(campaign, used, point):
                misfits.setdefault(key, []).append(f"{point.key}: {why}")
        if misfits:
            key, lines = next(iter(misfits.items()))
            shown = [*lines[:_SHOWN], *([f"and {len(lines) - _SHOWN} more"] if len(lines) > _SHOWN else [])]
            limits = job or f"the partition {partition.name}"
            what = f"{len(lines)} of {len(points)} points do not fit into {limits}"
            hint = "ask for more or whole nodes, or take these points out" if job else _HINTS[key]
            raise _refused(campaign, ("resources", key), what, "\n".join(shown), hint)


def _check_accounts(campaign: Campaign, name: str | None, partition: Partition) -> None:
    keys = campaign.resources_in(name)
    for key, value, known in (("account", keys.account, partition.accounts), ("qos", keys.qos, partition.qos)):
        if value is not None and known is not None and value not in known:
            what = f"{key} {value!r} cannot be used in the partition {partition.name}"
            raise _refused(campaign, _key(campaign, name, key), what, None, f"yours there: {listed(known) or 'none'}")


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
