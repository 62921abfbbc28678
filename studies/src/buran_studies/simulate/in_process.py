"""Campaigns carried out in one process, without the workflow's engine."""

from __future__ import annotations

from collections.abc import Iterator

from buran.campaign.plan import Plan
from buran.workflow.session import Session
from buran.workflow.specs import plan_in_force
from buran.workflow.steps import Step, steps_of_plan, steps_to_plan


def carry_out(session: Session) -> Plan:
    """Plan, build, measure, model and refine until a plan says that the campaign is done; return that plan.

    What is there already is not made again, so that a campaign that was interrupted goes on.
    """
    iteration = 0
    while True:
        _make_missing(steps_to_plan(session, iteration))
        plan = plan_in_force(session.layout, session.id, iteration)
        if plan.done:
            return plan
        _make_missing(steps_of_plan(session, plan))
        iteration += 1


def _make_missing(steps: Iterator[Step]) -> None:
    for step in steps:
        if not all(path.is_file() for path in step.makes):
            step.carry_out()
