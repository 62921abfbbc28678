"""The phases that only find functions: pilot runs, and the end of a campaign that wants no more than a filter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from buran.campaign.plan import Plan, Purpose
from buran.campaign.point import Point
from buran.planning.draft import Draft
from buran.planning.pilot import pilot_indices


def find_functions(draft: Draft) -> Plan | None:
    """Plan the next runs that only find functions; None where there are none left or they gain nothing.

    The first is a single one at the smallest point. The others follow only if it succeeded. A strategy that
    adapts begins with cheap points of its own: what they show of functions needs no runs that are lost to models.
    """
    question, knowledge = draft.question, draft.knowledge
    if knowledge.rounds:
        return None
    if len(knowledge.run_plans) > 1 and not question.models:
        return _again(draft)
    alone = question.models and question.adaptive and bool(knowledge.run_plans)
    if not question.pilot or len(knowledge.run_plans) > 1 or alone or (question.models and knowledge.tells_growth):
        return None
    if not knowledge.run_plans:
        reason = "pilot run at the smallest point, to find functions whose instrumentation costs too much"
        return _affordable(draft, question.points[:1], reason)
    indices = pilot_indices(question.space.points)
    if not knowledge.all_measured or (question.models and len(indices) >= len(question.points)):
        return None
    reason = f"pilot runs at {len(indices)} small points, to choose functions before everything is measured"
    return _affordable(draft, [question.points[index] for index in indices], reason)


def _again(draft: Draft) -> Plan | None:
    """Plan the pilot runs under a new filter; None if the filter has settled, or nothing more may be made."""
    question, knowledge = draft.question, draft.knowledge
    changed = knowledge.filter_text != knowledge.plans[-1].filter_text
    if not changed or not knowledge.complete or len(knowledge.plans) >= question.max_iterations:
        return None
    indices = pilot_indices(question.space.points)
    reason = f"the filter changed: pilot runs at {len(indices)} small points again, to see whether it has settled"
    return _affordable(draft, [question.points[index] for index in indices], reason)


def _affordable(draft: Draft, points: Sequence[Point], reason: str) -> Plan | None:
    plan = draft.plan(dict.fromkeys(points, 1), Purpose.PILOT, reason, draft.knowledge.filter_text)
    return plan if len(plan.bundles) == len(points) else None


def settle_filter(draft: Draft) -> Plan | None:
    """End a campaign that only wanted a filter, and say whether it has settled; None for one that wants models."""
    question, knowledge = draft.question, draft.knowledge
    missed = knowledge.missed_limit
    if knowledge.rounds or question.models:
        return None
    if not knowledge.any_measured:
        nothing = "the budget does not reach for a single run" if not knowledge.run_plans else "no run succeeded"
        return draft.done(nothing, budget_reached=not knowledge.run_plans)
    if knowledge.complete and knowledge.filter_text == knowledge.plans[-1].filter_text:
        return draft.done(f"the filter gets no smaller, but {missed}" if missed else "the filter has settled")
    newest = replace(draft.done("", budget_reached=True), filter_text=knowledge.filter_text)
    if knowledge.complete and len(knowledge.plans) >= question.max_iterations:
        why = f"the limit of {question.max_iterations} iterations is reached before the filter has settled"
        return replace(newest, reason=why, budget_reached=False)
    return replace(newest, reason="the budget is spent before the filter has settled")
