"""Bundles that share a job: small points need not wait in a queue one by one."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from buran.campaign.plan import SCHEMA, Bundle, Plan
from buran.campaign.resources import JOB_S
from buran.engine.jobs import STARTUP_S, job_limit_s, job_request, minutes_of
from buran.files import Stored, digest, write_json
from buran.loop.session import Session
from buran.measure.schedulers.base import JobRequest

_BESIDE_A_RUN_S = 0.3  # reading and sealing: what a run took beside the program with twenty points a job


@dataclass(frozen=True)
class _Batches(Stored):
    kind_of_file = "division into jobs"

    points_per_job: int | Literal["auto"]
    batches: Mapping[str, tuple[str, ...]]


def batches_of(session: Session, plan: Plan) -> dict[str, tuple[str, ...]]:
    """Return which bundles of a plan share a job; a bundle with a job of its own is in none.

    It is decided once for each plan and then kept: a batch is what the workflow engine waits for. Bundles that are
    measured by then are left out, so that a changed number of points per job measures nothing again.
    """
    layout, most = session.layout, session.campaign.config.resources.points_per_job
    if most == 1:
        return {}
    path = layout.batches(session.id, plan.iteration)
    decided = _Batches.read(path) if path.is_file() else None
    if decided is None or decided.points_per_job != most:
        groups = [tuple(bundle.id for bundle in group) for group in _groups(session, plan, most)]
        decided = _Batches(most, {digest(group, 16): group for group in groups})
        for batch, group in decided.batches.items():
            layout.batch_pointer(batch).unlink(missing_ok=True)  # of an earlier time, when its bundles were there
            write_json(layout.batch_spec(batch), group)
        write_json(path, {"schema": SCHEMA, **vars(decided)})
    return dict(decided.batches)


def _groups(session: Session, plan: Plan, most: int | Literal["auto"]) -> list[list[Bundle]]:
    shapes: dict[JobRequest | None, list[Bundle]] = {}
    virtual = session.target.backend.machine.clock == "virtual"  # nothing is held while a simulated point is measured
    for bundle in plan.bundles:
        if not session.layout.bundle_pointer(bundle.id).is_file():
            request = None if virtual else job_request(session, bundle)
            shape = request and replace(request, minutes=0)
            shapes.setdefault(shape, []).append(bundle)
    groups = list[list[Bundle]]()
    for bundles in shapes.values():
        if isinstance(most, int):
            groups += [bundles[first : first + most] for first in range(0, len(bundles), most)]
        else:
            groups += _of_ten_minutes(bundles, is_simulated=session.campaign.is_simulated)
    return [group for group in groups if len(group) > 1]


def _of_ten_minutes(bundles: Sequence[Bundle], *, is_simulated: bool) -> list[list[Bundle]]:
    """Return bundles in groups that are expected to take ten minutes; of what nothing is known, each is alone."""
    groups, taken_s = list[list[Bundle]](), math.inf
    for bundle in bundles:
        run_s = math.inf if bundle.predicted_s is None or is_simulated else bundle.predicted_s
        bundle_s = len(bundle.runs) * (run_s + _BESIDE_A_RUN_S)
        if taken_s + bundle_s > JOB_S:
            groups.append([])
            taken_s = 0.0
        groups[-1].append(bundle)
        taken_s += bundle_s
    return groups


def batch_request(session: Session, bundles: Sequence[Bundle]) -> JobRequest:
    """Return what a batch's job asks for: the shape that its bundles share, and time for those not measured yet."""
    unmeasured = [bundle for bundle in bundles if not session.layout.bundle_pointer(bundle.id).is_file()]
    return together(session, unmeasured or bundles)


def together(session: Session, bundles: Sequence[Bundle]) -> JobRequest:
    """Return what one job for several bundles of the same shape asks for; it starts only once."""
    limit_s = STARTUP_S + sum(job_limit_s(session, bundle) - STARTUP_S for bundle in bundles)
    return replace(job_request(session, bundles[0]), minutes=minutes_of(session, limit_s))
