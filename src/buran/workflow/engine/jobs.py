"""What a bundle asks a scheduler for."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping

from buran.campaign.launcher import Placement
from buran.campaign.plan import Bundle
from buran.campaign.point import Point
from buran.campaign.sections import ResourcesKeys
from buran.measurement.build import tree
from buran.measurement.schedulers.jobs import JobRequest
from buran.workflow.session import Session

STARTUP_S = 120.0  # of a job: Python, file systems, reading profiles
_PER_RUN_S = 5.0  # of a job's time limit, in addition to the run itself
_NAMES = {"minutes": "runtime", "memory_mb": "mem_mb", "extra": "submit_options"}  # of resources, if not the request's


def job_request(session: Session, bundle: Bundle) -> JobRequest:
    """Return what a bundle's job asks for; its time grows each time a job ran out of it."""
    campaign, point = session.campaign, bundle.point
    minutes = minutes_of(session, job_limit_s(session, bundle), point)
    placement, memory_mb = campaign.placement(point), campaign.memory_mb(point)
    if campaign.is_simulated:  # one process simulates all ranks, in the memory of all their nodes
        placement, memory_mb = Placement(1), None if memory_mb is None else memory_mb * placement.nodes
    return _request(campaign.resources_in(campaign.partition(point)), placement, minutes, memory_mb)


def _request(resources: ResourcesKeys, placement: Placement, minutes: int, memory_mb: int | None) -> JobRequest:
    return JobRequest(
        nodes=placement.nodes,
        tasks=placement.ranks,
        cpus_per_task=placement.threads,
        ranks_per_node=placement.ranks_per_node,
        minutes=minutes,
        tasks_per_node=placement.tasks_per_node,
        memory_mb=memory_mb,
        partition=resources.partition,
        account=resources.account,
        constraint=resources.constraint,
        qos=resources.qos,
        exclusive=resources.exclusive,
        reservation=resources.reservation,
        extra=resources.extra,
    )


def engine_resources(request: JobRequest) -> dict[str, int | str]:
    """Return a job's resources under the names that profiles and the workflow engine's executors know.

    What the campaign file leaves open is not among them: the profile may say it.
    """
    named = {_NAMES.get(name, name): value for name, value in vars(request).items()}
    named |= {
        "exclusive": int(request.exclusive),
        "cores_per_node": request.ranks_per_node * request.cpus_per_task,
        "walltime_min": request.minutes,
        "walltime_s": request.minutes * 60,
    }
    return {name: value for name, value in named.items() if value is not None}


def request_from(resources: Mapping[str, int | str]) -> JobRequest:
    """Return what a job of the workflow engine asks for, of the resources that `engine_resources` names."""

    def number(name: str, usual: int) -> int:
        return int(resources.get(name, usual))

    def word(name: str) -> str | None:
        text = resources.get(name)
        return None if text in (None, "") else str(text)

    nodes, tasks = number("nodes", 1), number("tasks", 1)
    return JobRequest(
        nodes=nodes,
        tasks=tasks,
        cpus_per_task=number("cpus_per_task", 1),
        ranks_per_node=number("ranks_per_node", -(-tasks // nodes)),
        minutes=number("runtime", 60),
        tasks_per_node=number("tasks_per_node", 1) if "tasks_per_node" in resources else None,
        memory_mb=number("mem_mb", 0) or None,
        partition=word("partition"),
        account=word("account"),
        constraint=word("constraint"),
        qos=word("qos"),
        exclusive=bool(number("exclusive", 0)),
        reservation=word("reservation"),
        extra=word("submit_options"),
    )


def resource_names(session: Session) -> tuple[str, ...]:
    """Return the names of the resources that the campaign file decides for some point."""
    campaign = session.campaign
    memory_mb = None if campaign.formulas.memory_mb is None else 1
    placement = Placement(1, tasks_per_node=None if campaign.formulas.tasks_per_node is None else 1)
    requests = (_request(campaign.resources_in(name), placement, 1, memory_mb) for name in campaign.partitions)
    return tuple(dict.fromkeys(name for request in requests for name in engine_resources(request)))


def job_limit_s(session: Session, bundle: Bundle) -> float:
    """Return the time limit of a bundle's job in seconds: predicted, with a margin, at most what its runs may take."""
    campaign, runs = session.campaign, len(bundle.runs)
    most = runs * campaign.time_limit_s(bundle.point)
    overhead = STARTUP_S + _PER_RUN_S * runs
    if campaign.simulated_keys is not None:  # what runs take there tells nothing of what they take here
        return runs * campaign.simulated_keys.run_limit + overhead
    if bundle.predicted_s is None:
        return most + overhead
    path = session.layout.time_outs(bundle.id)
    time_outs = path.read_text().count("\n") if path.is_file() else 0
    likely = runs * bundle.predicted_s * campaign.config.resources.time_margin
    return float(min((likely + overhead) * 2.0**time_outs, most + overhead))


def minutes_of(session: Session, limit_s: float, point: Point) -> int:
    """Return a job's time limit in minutes; not more than the partition gives, as the next job goes on from there."""
    partition = session.partitions.get(session.campaign.partition(point))
    most_s = None if partition is None else partition.longest_s
    minutes = math.ceil(limit_s / 60.0)
    return minutes if most_s is None else max(min(minutes, int(most_s // 60)), 1)


def launch_lines(session: Session, bundle: Bundle) -> list[str]:
    """Return how a bundle's job starts the program, run by run."""
    target, layout = session.target.at(bundle.point), session.layout
    campaign, backend = target.campaign, target.backend
    cores = campaign.cores(bundle.point)
    lines = []
    for run in bundle.runs:
        argv, variables = backend.command(campaign, bundle.point, tree(layout, run.build), cores, run.mode)
        words = [*(f"{name}={value}" for name, value in variables.items()), *argv]
        lines.append(f"{shlex.join(words)}  # {run.mode}, {run.name}")
    return lines
