"""What jobs ask a scheduler for, and how measurements are divided: bundles that share a job, and batches of jobs.

Small points need not wait in a queue one by one. The engine needs milliseconds and 20 kB for each of its jobs, so that
it is given many jobs of a scheduler, or of this machine, as one.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Literal

from buran.campaign.launcher import Placement
from buran.campaign.plan import SCHEMA, Bundle, Plan
from buran.campaign.point import Point
from buran.campaign.resources import JOB_S
from buran.campaign.sections import ResourcesKeys
from buran.files import Stored, not_synced, write_json
from buran.measurement.build import tree
from buran.measurement.schedulers.jobs import JobRequest
from buran.workflow.measure import Jobs, name_of
from buran.workflow.session import Session
from buran.workflow.steps import Step

STARTUP_S = 120.0  # of a job: Python, file systems, reading profiles
_PER_RUN_S = 5.0  # of a job's time limit, in addition to the run itself
_NAMES = {"minutes": "runtime", "memory_mb": "mem_mb", "extra": "submit_options"}  # of resources, if not the request's
_WORDS = ("partition", "account", "constraint", "qos", "reservation", "extra")  # of a request, from the campaign file


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
        exclusive=resources.exclusive,
        **{name: getattr(resources, name) for name in _WORDS},
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

    nodes, tasks = number("nodes", 1), number("tasks", 1)
    words = {name: resources.get(_NAMES.get(name, name)) for name in _WORDS}
    return JobRequest(
        nodes=nodes,
        tasks=tasks,
        cpus_per_task=number("cpus_per_task", 1),
        ranks_per_node=number("ranks_per_node", -(-tasks // nodes)),
        minutes=number("runtime", 60),
        tasks_per_node=number("tasks_per_node", 1) if "tasks_per_node" in resources else None,
        memory_mb=number("mem_mb", 0) or None,
        exclusive=bool(number("exclusive", 0)),
        **{name: None if word in (None, "") else str(word) for name, word in words.items()},
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


_OVERHEAD_OF_A_RUN_S = 0.3  # reading and sealing: what a run took in addition to the program with twenty points a job
_MOST_JOBS = 100  # that the engine takes for what they are: it shows each, and starts a process for each
_LONGEST_ARRAY = 1000  # of schedulers where nobody has set another


@dataclass(frozen=True)
class Division(Stored):
    """How the measurements of a plan are divided into jobs.

    Attributes
    ----------
    in_arrays
        Whether the engine may take many jobs for one.
    batches
        Bundles of each job, by the name of the batch; a bundle that the engine takes for what it is, is in none.
    """

    kind_of_file = "division into jobs"

    points_per_job: int | Literal["auto"]
    in_arrays: bool = False
    batches: Mapping[str, Jobs] = field(default_factory=dict)

    def steps(self, plan: Plan) -> list[Step]:
        """Return what the engine does to measure a plan."""
        inside = {bundle for jobs in self.batches.values() for bundle in chain(*jobs)}
        bundles = (Step("measure", bundle.id) for bundle in plan.bundles if bundle.id not in inside)
        return [*bundles, *(Step("measure_together", batch) for batch in self.batches)]


def division_of(session: Session, plan: Plan, *, in_arrays: bool) -> Division:
    """Return how the measurements of a plan are divided into jobs.

    It is decided once for each plan and then kept: it is what the workflow engine waits for. Bundles that are measured
    by then are left out, so that another division measures nothing again.
    """
    layout, requested = session.layout, Division(session.campaign.config.resources.points_per_job, in_arrays)
    if requested.points_per_job == 1 and not (in_arrays and len(plan.bundles) > _MOST_JOBS):
        return requested
    path = layout.division(session.id, plan.iteration)
    decided = Division.read(path) if path.is_file() else None
    if decided is None or replace(decided, batches={}) != requested:
        batches = _batches(jobs_of(session, plan), in_arrays=in_arrays)
        decided = replace(requested, batches={name_of(jobs): jobs for jobs in batches if len([*chain(*jobs)]) > 1})
        of_one_job = {name_of((job,)): (job,) for job in chain(*batches) if len(job) > 1}
        with not_synced():  # they are many, and made again with the division where a power cut left them empty
            for name, jobs in {**of_one_job, **decided.batches}.items():
                # A pointer of the same name is of an earlier time, when what it stands for was there.
                layout.batch_pointer(name).unlink(missing_ok=True)
                write_json(layout.batch_spec(name), jobs)
        write_json(path, {"schema": SCHEMA, **vars(decided)})
    return decided


def jobs_of(session: Session, plan: Plan) -> list[Jobs]:
    """Return the jobs for what is not measured of a plan, those together that ask for the same, short ones first."""
    most, is_simulated = session.campaign.config.resources.points_per_job, session.campaign.is_simulated
    shapes = list[Jobs]()
    for of_shape in _shapes(session, plan):
        minutes = {bundle.id: minutes for minutes, bundle in of_shape}
        jobs = _divided([bundle for _, bundle in of_shape], most, is_simulated=is_simulated)
        shapes.append(tuple(sorted(jobs, key=lambda job: sum(map(minutes.__getitem__, job)))))
    return shapes


def _batches(shapes: Sequence[Jobs], *, in_arrays: bool) -> list[Jobs]:
    """Return the jobs that are one for the engine: each alone, unless it would have too many."""
    most = _LONGEST_ARRAY if in_arrays and sum(map(len, shapes)) > _MOST_JOBS else 1
    return [jobs[first : first + most] for jobs in shapes for first in range(0, len(jobs), most)]


def _shapes(session: Session, plan: Plan) -> list[list[tuple[int, Bundle]]]:
    """Return the bundles to be measured with the minutes of their jobs, those together whose jobs are else alike."""
    shapes: dict[JobRequest | None, list[tuple[int, Bundle]]] = {}
    # Nothing is occupied while a simulated point is measured.
    virtual = session.target.backend.machine.clock == "virtual"
    for bundle in plan.bundles:
        if not session.layout.bundle_pointer(bundle.id).is_file():
            request = None if virtual else job_request(session, bundle)
            shape = request and replace(request, minutes=0)
            shapes.setdefault(shape, []).append((request.minutes if request else 0, bundle))
    return list(shapes.values())


def _divided(bundles: Sequence[Bundle], most: int | Literal["auto"], *, is_simulated: bool) -> Jobs:
    """Return bundles of one shape in groups of so many, or of ten minutes; of what nothing is known, each is alone."""
    groups, taken_s = list[list[str]](), 0.0
    for bundle in bundles:
        run_s = math.inf if bundle.predicted_s is None or is_simulated else bundle.predicted_s
        bundle_s = len(bundle.runs) * (run_s + _OVERHEAD_OF_A_RUN_S)
        if not groups or (taken_s + bundle_s > JOB_S if most == "auto" else len(groups[-1]) >= most):
            groups.append([])
            taken_s = 0.0
        groups[-1].append(bundle.id)
        taken_s += bundle_s
    return tuple(map(tuple, groups))


def batch_request(session: Session, jobs: Sequence[Sequence[Bundle]]) -> JobRequest:
    """Return what each job of a batch asks for: the shape that they share, and time for the longest.

    Nothing is asked for what is measured by now.
    """
    requests = []
    for bundles in jobs:
        unmeasured = [bundle for bundle in bundles if not session.layout.bundle_pointer(bundle.id).is_file()]
        requests.append(together(session, unmeasured or bundles))
    return replace(requests[0], minutes=max(request.minutes for request in requests))


def together(session: Session, bundles: Sequence[Bundle]) -> JobRequest:
    """Return what one job for several bundles of the same shape asks for; it starts only once."""
    limit_s = STARTUP_S + sum(job_limit_s(session, bundle) - STARTUP_S for bundle in bundles)
    return replace(job_request(session, bundles[0]), minutes=minutes_of(session, limit_s, bundles[0].point))
