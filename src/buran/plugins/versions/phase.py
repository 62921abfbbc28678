"""The phase that looks whether the program changed since an earlier version."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from buran.campaign.plan import Plan, Purpose
from buran.planning.draft import Draft
from buran.planning.pilot import pilot_indices
from buran.planning.space import Array
from buran.plugins.versions.changes import Changes, informative_indices


def compare(draft: Draft) -> Plan | None:
    """Plan the next runs that tell whether the program changed, or the end because it did not.

    None without an earlier version, and as soon as something is known to have changed. Counts come first: they
    are exact, and one run is enough.
    """
    question, knowledge = draft.question, draft.knowledge
    if knowledge.rounds or not question.earlier:
        return None
    if not knowledge.plans and question.earlier_counts:
        positions = pilot_indices(_earlier_points(draft))
        reason = f"counts at {len(positions)} small points, to see whether the work of the program changed"
        return _affordable(draft, positions, reason)
    if knowledge.plans and not knowledge.any_measured:
        return draft.done("no run succeeded: there is nothing to compare")
    if not knowledge.complete:
        return draft.done("the budget is spent; whether the program changed is not known", budget_reached=True)
    changes = knowledge.changes
    assert changes is None or isinstance(changes, Changes)
    if changes is not None and changes.changed:
        return None
    if changes is None or not (changes.timed or changes.open):
        positions = informative_indices(_earlier_points(draft))
        before = f"{changes.counts_in_words()}; " if changes is not None and changes.counted else ""
        reason = f"{before}times at {len(positions)} points, to compare them with the earlier version's predictions"
        return _affordable(draft, positions, reason)
    if changes.open:
        return None
    reached = any(plan.budget_reached for plan in knowledge.plans)
    less = "; the budget does not reach for more points" if reached else ""
    return draft.done(f"{changes.in_words()}{less}", budget_reached=reached)


def _earlier_points(draft: Draft) -> Array:
    """Shape (point, parameter): those of the earlier version, cheapest first."""
    rows = [[point[name] for name in draft.question.space.parameters] for point in draft.question.earlier]
    return np.array(rows, dtype=np.float64)


def _affordable(draft: Draft, positions: Sequence[int], reason: str) -> Plan:
    runs = dict.fromkeys((draft.question.earlier[position] for position in positions), draft.question.repetitions)
    plan = draft.plan(runs, Purpose.COMPARISON, reason, draft.knowledge.filter_text)
    if plan.bundles:
        return plan
    return draft.done("the budget does not reach for comparing with the earlier version", budget_reached=True)
