"""Bundles that share a job: small points need not wait in a queue one by one."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from buran.campaign.config import Campaign
from buran.campaign.packing import NodeRoom, WaitingNeeds, makespan_s, side_by_side, within
from buran.campaign.plan import SCHEMA, Bundle, Mode, Plan
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
    share_nodes: str = "none"


def batches_of(session: Session, plan: Plan) -> dict[str, tuple[str, ...]]:
    """Return which bundles of a plan share a job; a bundle with a job of its own is in none.

    It is decided once for each plan and then kept: a batch is what the workflow engine waits for. Bundles that are
    measured by then are left out, so that a changed number of points per job measures nothing again.
    """
    layout, keys = session.layout, session.campaign.config.resources
    most, share = keys.points_per_job, keys.share_nodes
    if most == 1 and share == "none":
        return {}
    path = layout.batches(session.id, plan.iteration)
    decided = _Batches.read(path) if path.is_file() else None
    if decided is None or (decided.points_per_job, decided.share_nodes) != (most, share):
        groups = [tuple(bundle.id for bundle in group) for group in _groups(session, plan, most)]
        decided = _Batches(most, {digest(group, 16): group for group in groups}, share)
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
            if request is not None and session.campaign.shares_node(bundle.point):
                shape = whole_node(session, replace(request, minutes=0))
            shapes.setdefault(shape, []).append(bundle)
    groups = [group for bundles in shapes.values() for group in _divided(session.campaign, bundles, most)]
    return [group for group in groups if len(group) > 1]


def _divided(campaign: Campaign, bundles: Sequence[Bundle], most: int | Literal["auto"]) -> list[list[Bundle]]:
    """Return bundles of one shape in groups of so many, or of ten minutes; of what nothing is known, each is alone.

    On a node that is shared, a group has at least as many as fit side by side.
    """
    groups, taken_s, free = list[list[Bundle]](), 0.0, NodeRoom(0)
    for bundle in _filling_nodes(campaign, bundles):
        point = bundle.point
        need, is_shared = within(campaign.need(point), campaign.node), campaign.shares_node(point)
        at_once = side_by_side(need, campaign.node) if campaign.times_are_shared(point) else 1
        run_s = math.inf if bundle.predicted_s is None or campaign.is_simulated else bundle.predicted_s
        bundle_s = len(bundle.runs) * (run_s + _BESIDE_A_RUN_S) / at_once
        is_full = not groups or (taken_s + bundle_s > JOB_S if most == "auto" else len(groups[-1]) >= most)
        if is_full and not (is_shared and free.fits(need)):
            groups.append([])
            taken_s, free = 0.0, replace(campaign.node)
        groups[-1].append(bundle)
        free.take(need)
        taken_s += bundle_s
    return groups


def _filling_nodes(campaign: Campaign, bundles: Sequence[Bundle]) -> list[Bundle]:
    """Return bundles of one shape in an order in which neighbours fill nodes, where they may share these."""
    if not campaign.shares_node(bundles[0].point):
        return list(bundles)
    waiting = WaitingNeeds([within(campaign.need(bundle.point), campaign.node) for bundle in bundles])
    order, free = list[Bundle](), replace(campaign.node)
    while waiting:
        while (number := waiting.pop(free)) is not None:
            order.append(bundles[number])
            free.take(waiting.needs[number])
        free = replace(campaign.node)
    return order


def batch_request(session: Session, bundles: Sequence[Bundle]) -> JobRequest:
    """Return what a batch's job asks for: the shape that its bundles share, and time for those not measured yet."""
    unmeasured = [bundle for bundle in bundles if not session.layout.bundle_pointer(bundle.id).is_file()]
    return together(session, unmeasured or bundles)


def together(session: Session, bundles: Sequence[Bundle]) -> JobRequest:
    """Return what one job for several bundles of the same shape asks for; it starts only once."""
    campaign, request = session.campaign, job_request(session, bundles[0])
    limits_s = [job_limit_s(session, bundle) - STARTUP_S for bundle in bundles]
    if not campaign.shares_node(bundles[0].point):
        return replace(request, minutes=minutes_of(session, STARTUP_S + sum(limits_s)))
    pairs = zip(bundles, limits_s, strict=True)
    limit_s = makespan_s([campaign.need(bundle.point, limit_s) for bundle, limit_s in pairs], campaign.node)
    if not campaign.may_share(Mode.TIME):  # what is timed comes before, alone
        limit_s += sum(limits_s)
    request = whole_node(session, request, [campaign.memory_mb(bundle.point) for bundle in bundles])
    return replace(request, minutes=minutes_of(session, STARTUP_S + limit_s))


def whole_node(session: Session, request: JobRequest, memories_mb: Sequence[int | None] = ()) -> JobRequest:
    """Return what a job asks for whose runs share its node: all cores, and memory for all, as far as there is any."""
    cores, most_mb = session.campaign.node.cores, session.campaign.node.memory_mb
    memory_mb = sum(asked or 0 for asked in memories_mb) or None
    if memory_mb is not None and most_mb is not None:
        memory_mb = min(memory_mb, most_mb)
    return replace(
        request, tasks=cores, cpus_per_task=1, ranks_per_node=cores, tasks_per_node=None, memory_mb=memory_mb
    )
