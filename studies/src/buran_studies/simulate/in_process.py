"""Campaigns carried out in one process, without the workflow's engine."""

from __future__ import annotations

from buran.campaign.plan import Plan
from buran.workflow.history import History
from buran.workflow.session import Session
from buran.workflow.steps import Course, Step


def carry_out(session: Session) -> Plan:
    """Plan, build, measure, model and refine until a plan says that the campaign is done; return that plan.

    What is there already is not made again, so that a campaign that was interrupted goes on.
    """
    for step in Course.of(session).until(Step("report")):
        made = step.makes(session.layout, session.id)
        if step.kind != "report" and not all(path.is_file() for path in made):
            step.carry_out(session)
    return History.open(session).plans[-1]
