"""The loop without the workflow engine, for simulated campaigns inside of one process: the same steps in its order."""

from __future__ import annotations

from buran.campaign.plan import BuildSpec, Plan
from buran.files import write_json, write_text
from buran.loop.import_runs import import_runs
from buran.loop.measure import measure
from buran.loop.model import make_models
from buran.loop.plan import make_plan
from buran.loop.refine import refined_filter, start_build, starts_by_itself
from buran.loop.session import Session
from buran.measure.build import build


def carry_out(session: Session) -> Plan:
    """Plan, build, measure, model and refine until a plan says that the campaign is done; return that plan.

    What is there already is not made again, so that a campaign that was interrupted goes on.
    """
    layout, campaign = session.layout, session.id
    iteration = 0
    while True:
        spec = None if iteration else start_build(session)
        if spec is not None:
            _build(session, spec)
        if (iteration or starts_by_itself(session)) and not layout.filter(campaign, iteration).is_file():
            write_text(layout.filter(campaign, iteration), refined_filter(session, iteration))
        if not layout.plan(campaign, iteration).is_file():
            write_json(layout.plan(campaign, iteration), make_plan(session, iteration).to_json())
        plan = layout.read_plan(campaign, iteration)
        if plan.done:
            return plan
        if plan.imported:
            import_runs(session, plan).write(layout.imports(campaign, iteration))
        for spec in () if plan.imported else plan.builds:
            _build(session, spec)
        for bundle in plan.bundles:
            if not layout.bundle_pointer(bundle.id).is_file():
                measure(session, bundle.id).write(layout.bundle_pointer(bundle.id))
        made = (layout.models, layout.findings, layout.table)
        if not all(path(campaign, iteration).is_file() for path in made):
            make_models(session, iteration, *(path(campaign, iteration) for path in made))
        iteration += 1


def _build(session: Session, spec: BuildSpec) -> None:
    pointer = session.layout.build_pointer(spec.hash)
    if not pointer.is_file():
        build(session.target, session.layout, spec).write(pointer)
