"""What a bundle asks a scheduler for."""

from __future__ import annotations

import math
import shlex
from dataclasses import dataclass

from buran.campaign.plan import Bundle
from buran.loop.session import Session
from buran.measure.build import tree

STARTUP_S = 120.0  # of a job: the workflow engine, file systems, reading profiles
_PER_RUN_S = 5.0


@dataclass(frozen=True)
class JobRequest:
    """Resources of a job, under the names the workflow engine's executors and our profiles know."""

    nodes: int
    tasks: int
    cpus_per_task: int
    ranks_per_node: int
    cores_per_node: int
    runtime: int
    walltime_min: int
    walltime_s: int
    slurm_extra: str
    mem_mb: int | None
    slurm_partition: str | None
    slurm_account: str | None
    constraint: str | None
    qos: str | None


def job_request(session: Session, bundle: Bundle) -> JobRequest:
    """Return what a bundle's job asks for; its time grows each time a job ran out of it."""
    campaign, point = session.campaign, bundle.point
    resources, placement = campaign.config.resources, campaign.placement(point)
    minutes = math.ceil(job_limit_s(session, bundle) / 60.0)
    return JobRequest(
        nodes=placement.nodes,
        tasks=placement.ranks,
        cpus_per_task=placement.threads,
        ranks_per_node=placement.ranks_per_node,
        cores_per_node=placement.ranks_per_node * placement.threads,
        runtime=minutes,
        walltime_min=minutes,
        walltime_s=minutes * 60,
        slurm_extra=shlex.join(_extra(session, bundle)) + (f" {resources.extra}" if resources.extra else ""),
        mem_mb=campaign.memory_mb(point),
        slurm_partition=resources.partition,
        slurm_account=resources.account,
        constraint=resources.constraint,
        qos=resources.qos,
    )


def _extra(session: Session, bundle: Bundle) -> list[str]:
    resources, per_node = session.campaign.config.resources, session.campaign.placement(bundle.point).tasks_per_node
    return [
        *(["--exclusive"] if resources.exclusive else []),
        *([f"--ntasks-per-node={per_node}"] if per_node is not None else []),
        *([f"--reservation={resources.reservation}"] if resources.reservation else []),
    ]


def job_limit_s(session: Session, bundle: Bundle) -> float:
    """Return the time limit of a bundle's job in seconds: predicted, with a margin, at most what its runs may take."""
    campaign, runs = session.campaign, len(bundle.runs)
    most = runs * campaign.time_limit_s(bundle.point)
    overhead = STARTUP_S + _PER_RUN_S * runs
    if bundle.predicted_s is None:
        return most + overhead
    path = session.layout.time_outs(bundle.id)
    time_outs = path.read_text().count("\n") if path.is_file() else 0
    likely = runs * bundle.predicted_s * campaign.config.resources.time_margin
    return float(min((likely + overhead) * 2.0**time_outs, most + overhead))


def launch_lines(session: Session, bundle: Bundle) -> list[str]:
    """Return how a bundle's job starts the program, run by run."""
    campaign, backend, layout = session.campaign, session.target.backend, session.layout
    cores = campaign.cores(bundle.point)
    lines = []
    for run in bundle.runs:
        folder = tree(layout, run.build)
        argv, variables = campaign.launch(
            bundle.point, folder / campaign.binary, folder, backend.mpi_flavour, backend.mpiexec, cores
        )
        words = [*(f"{name}={value}" for name, value in variables.items()), *argv]
        lines.append(f"{shlex.join(words)}  # {run.mode}, {run.name}")
    return lines


def resource_names(session: Session) -> tuple[str, ...]:
    """Return the resources that the campaign file decides; what it leaves open, the profile may say."""
    resources = session.campaign.config.resources
    given = {
        "mem_mb": session.campaign.formulas.memory_mb,
        "slurm_partition": resources.partition,
        "slurm_account": resources.account,
        "constraint": resources.constraint,
        "qos": resources.qos,
    }
    optional = [name for name, value in given.items() if value is not None]
    shape = ("nodes", "tasks", "cpus_per_task", "ranks_per_node", "cores_per_node")
    return (*shape, "runtime", "walltime_min", "walltime_s", "slurm_extra", *optional)
