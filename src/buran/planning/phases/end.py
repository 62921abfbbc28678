"""The phases that end a campaign: after what went wrong, and when everything is measured."""

from __future__ import annotations

from buran.campaign.plan import Plan, Purpose
from buran.planning.draft import Draft


def halt(draft: Draft) -> Plan | None:
    """End where runs were left out, where none succeeded, or where the evaluation points are measured; else None."""
    knowledge = draft.knowledge
    last = knowledge.plans[-1]
    if _is_spent(draft):
        return draft.ending("the budget is spent; some planned runs were not started", budget_reached=True)
    if not knowledge.any_measured:
        return draft.done("no run succeeded: there is nothing to model")
    if knowledge.planned(Purpose.EVALUATION):
        return draft.done(last.ended or "the evaluation points are measured", last.budget_reached)
    return None


def _is_spent(draft: Draft) -> bool:
    """Tell whether runs of the last plan were left out, and it could have spent all that there is for models."""
    last, limit = draft.knowledge.plans[-1], draft.limit(Purpose.MODEL)
    ids = {bundle.id for bundle in last.bundles}
    left_out = any(outcome.id in ids and not outcome.complete for outcome in draft.knowledge.outcomes)
    most = last.most_core_hours
    return left_out and (limit is None or most is None or most >= limit * (1 - 1e-9))


def end(draft: Draft) -> Plan:
    """Plan the evaluation points, or the end: all that was chosen is measured."""
    question, knowledge = draft.question, draft.knowledge
    reached = not knowledge.complete or any(plan.budget_reached for plan in knowledge.rounds)
    chosen = "every point" if len(knowledge.planned(Purpose.MODEL)) == len(question.points) else "every chosen point"
    what = "every affordable point is measured" if reached else f"{chosen} is measured"
    if question.refine and knowledge.missed_limit:
        what = f"{what}, but {knowledge.missed_limit}"
    elif question.refine and knowledge.filter_text == knowledge.plans[-1].filter_text:
        what = f"{what} and the filter has settled"
    return draft.ending(what, budget_reached=reached)
