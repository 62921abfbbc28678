"""The order of a campaign's steps: what makes which files. The workflow's rules say the same for its engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from buran.campaign.plan import BuildSpec, Bundle, Plan
from buran.files import write_text
from buran.measurement.build import build
from buran.workflow.history import History
from buran.workflow.measure import measure
from buran.workflow.model import make_models
from buran.workflow.plan import make_plan
from buran.workflow.refine import refined_filter, start_build, starts_by_itself
from buran.workflow.session import Session
from buran.workflow.specs import write_plan


@dataclass(frozen=True)
class Step:
    """A step of an iteration.

    Attributes
    ----------
    makes
        Files that are there when it is done.
    """

    makes: tuple[Path, ...]
    carry_out: Callable[[], None]


def steps_to_plan(session: Session, iteration: int) -> Iterator[Step]:
    """Yield the steps up to the plan of an iteration."""
    layout, campaign = session.layout, session.id
    graph = None if iteration else start_build(session)
    if graph is not None:
        yield _build(session, graph)
    if iteration or starts_by_itself(session):
        chosen = layout.filter(campaign, iteration)
        yield Step((chosen,), lambda: write_text(chosen, refined_filter(History.open(session, iteration))))
    path = layout.plan(campaign, iteration)
    yield Step((path,), lambda: write_plan(layout, campaign, make_plan(History.open(session, iteration))))


def steps_of_plan(session: Session, plan: Plan) -> Iterator[Step]:
    """Yield the steps that carry a plan out: what it builds, measures and models."""
    layout, campaign = session.layout, session.id
    if plan.done:
        return
    yield from (_build(session, spec) for spec in plan.builds)
    yield from (_measure(session, bundle) for bundle in plan.bundles)
    made = (layout.models, layout.findings, layout.table)
    models, findings, table = (path(campaign, plan.iteration) for path in made)
    history = History.open(session, plan.iteration + 1)
    yield Step((models, findings, table), lambda: make_models(history, models, findings, table))


def _build(session: Session, spec: BuildSpec) -> Step:
    pointer = session.layout.build_pointer(spec.hash)
    return Step((pointer,), lambda: build(session.target, session.layout, spec).write(pointer))


def _measure(session: Session, bundle: Bundle) -> Step:
    pointer = session.layout.bundle_pointer(bundle.id)
    return Step((pointer,), lambda: measure(session, bundle.id).write(pointer))
