"""The planner: from the campaign file and what is known to the runs of the next iteration.

Planning is deterministic. It sees only results of earlier iterations, so that a plan that is made again
chooses the same runs.
"""

from __future__ import annotations

from dataclasses import replace

from buran.campaign.plan import Plan
from buran.planning.draft import Draft
from buran.planning.phases import PHASES, Phase
from buran.planning.question import Knowledge, Question
from buran.planning.shortfalls import shortfalls


def next_plan(question: Question, knowledge: Knowledge) -> Plan:
    """Decide what the next iteration builds and measures, or that the campaign is done.

    The first phase that has a plan decides. A campaign that ends without what was requested says so: an accuracy, a
    target that models can be trusted at, or counts that do not depend on the run.
    """
    draft = Draft(question, knowledge)
    first: tuple[Phase, ...] = () if question.first is None else (question.first,)
    plan = next(plan for phase in (*first, *PHASES) if (plan := phase(draft)) is not None)
    missing = shortfalls(question, knowledge) if plan.done else []
    return replace(plan, reason="; ".join([plan.reason, *missing]), budget_reached=True) if missing else plan
