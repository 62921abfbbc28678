"""The loop without the workflow engine, for simulated campaigns inside of one process: the same steps in its order."""

from __future__ import annotations

from buran.campaign.plan import Plan
from buran.files import write_json, write_text
from buran.measure.build import build
from buran.steps.measure import measure
from buran.steps.model import make_models
from buran.steps.plan import make_plan
from buran.steps.refine import refined_filter
from buran.steps.session import Session


def carry_out(session: Session) -> Plan:
    """Plan, build, measure, model and refine until a plan says that the campaign is done; return that plan.

    What is there already is not made again, so that a campaign that was interrupted goes on.
    """
    layout, campaign, target = session.layout, session.id, session.target
    iteration = 0
    while True:
        if iteration and not layout.filter(campaign, iteration).is_file():
            write_text(layout.filter(campaign, iteration), refined_filter(session, iteration))
        if not layout.plan(campaign, iteration).is_file():
            write_json(layout.plan(campaign, iteration), make_plan(session, iteration).to_json())
        plan = layout.read_plan(campaign, iteration)
        if plan.done:
            return plan
        for spec in plan.builds:
            if not layout.build_pointer(spec.hash).is_file():
                write_json(layout.build_pointer(spec.hash), build(target, layout, spec))
        for bundle in plan.bundles:
            if not layout.bundle_pointer(bundle.id).is_file():
                write_json(layout.bundle_pointer(bundle.id), measure(session, bundle.id))
        made = (layout.models, layout.findings, layout.table)
        if not all(path(campaign, iteration).is_file() for path in made):
            make_models(session, iteration, *(path(campaign, iteration) for path in made))
        iteration += 1
