"""How measurements are divided: bundles that share a job, and jobs that are one for the workflow engine, a batch.

Small points need not wait in a queue one by one. The engine needs milliseconds and 20 kB for each of its jobs, so that
it is given many jobs of a scheduler, or of this machine, as one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Literal

from buran.campaign.plan import SCHEMA, Bundle, Plan
from buran.campaign.resources import JOB_S
from buran.files import Stored, not_synced, write_json
from buran.measurement.schedulers.jobs import JobRequest
from buran.workflow.engine.jobs import STARTUP_S, job_limit_s, job_request, minutes_of
from buran.workflow.session import Session
from buran.workflow.specs import Jobs, name_of
from buran.workflow.steps import Step

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
