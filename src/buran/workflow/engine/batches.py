"""How measurements are divided: bundles that share a job, and jobs that are one for the workflow engine.

Small points need not wait in a queue one by one. The engine needs milliseconds and 20 kB for each of its jobs, so that
it is given many jobs of a scheduler, or of this machine, as one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from buran.campaign.layout import Layout
from buran.campaign.plan import SCHEMA, Bundle, Plan
from buran.campaign.resources import JOB_S
from buran.files import Stored, digest, not_synced, write_json
from buran.measurement.schedulers.base import JobRequest
from buran.workflow.engine.jobs import STARTUP_S, job_limit_s, job_request, minutes_of
from buran.workflow.session import Session

_OVERHEAD_OF_A_RUN_S = 0.3  # reading and sealing: what a run took in addition to the program with twenty points a job
_MOST_JOBS = 100  # that the engine takes for what they are: it shows each, and starts a process for each
_LONGEST_ARRAY = 1000  # of schedulers where nobody has set another


@dataclass(frozen=True)
class Division(Stored):
    """How the measurements of a plan are divided into jobs.

    Attributes
    ----------
    batches
        Bundles that share a job, by its name; a bundle with a job of its own is in none.
    in_arrays
        Whether the engine may take many jobs for one.
    arrays
        Bundles and batches whose jobs are one for the engine, by its name; what it takes as it is, is in none.
    """

    kind_of_file = "division into jobs"

    points_per_job: int | Literal["auto"]
    batches: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    in_arrays: bool = False
    arrays: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def pointers(self, layout: Layout, plan: Plan) -> list[Path]:
        """Return what the engine waits for until a plan is measured."""
        inside = set[str]().union(*self.batches.values(), *self.arrays.values())
        bundles = (layout.bundle_pointer(bundle.id) for bundle in plan.bundles if bundle.id not in inside)
        batches = (layout.batch_pointer(batch) for batch in self.batches if batch not in inside)
        return [*bundles, *batches, *map(layout.array_pointer, self.arrays)]


def division_of(session: Session, plan: Plan, *, in_arrays: bool) -> Division:
    """Return how the measurements of a plan are divided into jobs.

    It is decided once for each plan and then kept: it is what the workflow engine waits for. Bundles that are measured
    by then are left out, so that another division measures nothing again.
    """
    layout, keys = session.layout, session.campaign.config.resources
    requested = Division(keys.points_per_job, in_arrays=in_arrays)
    is_needed = in_arrays and len(plan.bundles) > _MOST_JOBS
    if requested.points_per_job == 1 and not is_needed:
        return requested
    path = layout.batches(session.id, plan.iteration)
    decided = Division.read(path) if path.is_file() else None
    if decided is None or replace(decided, batches={}, arrays={}) != requested:
        decided = _decided(session, plan, requested)
        with not_synced():  # they are many, and made again with the division where a power cut left them empty
            # Pointers of the same name are of an earlier time, when what they stand for was there.
            for batch, bundles in decided.batches.items():
                layout.batch_pointer(batch).unlink(missing_ok=True)
                write_json(layout.batch_spec(batch), bundles)
            for array, jobs in decided.arrays.items():
                layout.array_pointer(array).unlink(missing_ok=True)
                write_json(layout.array_spec(array), jobs)
        write_json(path, {"schema": SCHEMA, **vars(decided)})
    return decided


def _decided(session: Session, plan: Plan, requested: Division) -> Division:
    batches: dict[str, tuple[str, ...]] = {}
    arrays = list[tuple[str, ...]]()
    jobs = 0
    for of_shape in _shapes(session, plan):
        minutes = {bundle.id: minutes for minutes, bundle in of_shape}
        of_job: dict[str, int] = {}
        for group in _divided(
            [bundle for _, bundle in of_shape], requested.points_per_job, is_simulated=session.campaign.is_simulated
        ):
            bundles = tuple(bundle.id for bundle in group)
            name = bundles[0] if len(bundles) == 1 else digest(bundles, 16)
            of_job[name] = sum(minutes[bundle] for bundle in bundles)
            batches |= {name: bundles} if len(bundles) > 1 else {}
        jobs += len(of_job)
        names = sorted(of_job, key=of_job.__getitem__)  # so that short ones ask for less time
        arrays += [tuple(names[first : first + _LONGEST_ARRAY]) for first in range(0, len(names), _LONGEST_ARRAY)]
    is_needed = requested.in_arrays and jobs > _MOST_JOBS
    named = {digest(array, 16): array for array in arrays if is_needed and len(array) > 1}
    return replace(requested, batches=batches, arrays=named)


def _shapes(session: Session, plan: Plan) -> list[list[tuple[int, Bundle]]]:
    """Return the bundles to be measured with the minutes of their jobs, those together whose jobs are else alike."""
    shapes: dict[JobRequest | None, list[tuple[int, Bundle]]] = {}
    virtual = (
        session.target.backend.machine.clock == "virtual"
    )  # nothing is occupied while a simulated point is measured
    for bundle in plan.bundles:
        if not session.layout.bundle_pointer(bundle.id).is_file():
            request = None if virtual else job_request(session, bundle)
            shape = request and replace(request, minutes=0)
            shapes.setdefault(shape, []).append((request.minutes if request else 0, bundle))
    return list(shapes.values())


def _divided(bundles: Sequence[Bundle], most: int | Literal["auto"], *, is_simulated: bool) -> list[list[Bundle]]:
    """Return bundles of one shape in groups of so many, or of ten minutes; of what nothing is known, each is alone."""
    groups, taken_s = list[list[Bundle]](), 0.0
    for bundle in bundles:
        run_s = math.inf if bundle.predicted_s is None or is_simulated else bundle.predicted_s
        bundle_s = len(bundle.runs) * (run_s + _OVERHEAD_OF_A_RUN_S)
        if not groups or (taken_s + bundle_s > JOB_S if most == "auto" else len(groups[-1]) >= most):
            groups.append([])
            taken_s = 0.0
        groups[-1].append(bundle)
        taken_s += bundle_s
    return groups


def batch_request(session: Session, bundles: Sequence[Bundle]) -> JobRequest:
    """Return what a batch's job asks for: the shape that its bundles share, and time for those not measured yet."""
    unmeasured = [bundle for bundle in bundles if not session.layout.bundle_pointer(bundle.id).is_file()]
    return together(session, unmeasured or bundles)


def array_request(session: Session, jobs: Sequence[Sequence[Bundle]]) -> JobRequest:
    """Return what each job of an array asks for: the shape that they share, and time for the longest."""
    requests = [batch_request(session, bundles) for bundles in jobs]
    return replace(requests[0], minutes=max(request.minutes for request in requests))


def together(session: Session, bundles: Sequence[Bundle]) -> JobRequest:
    """Return what one job for several bundles of the same shape asks for; it starts only once."""
    limit_s = STARTUP_S + sum(job_limit_s(session, bundle) - STARTUP_S for bundle in bundles)
    return replace(job_request(session, bundles[0]), minutes=minutes_of(session, limit_s, bundles[0].point))
