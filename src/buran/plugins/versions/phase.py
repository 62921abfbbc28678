"""Which runs show whether the program changed since an earlier version."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from buran.campaign.point import Point
from buran.planning.pilot import pilot_indices
from buran.planning.question import ComparisonRuns, Knowledge
from buran.plugins.versions.changes import Changes, informative_indices


def next_comparison(
    earlier: Sequence[Point], has_counts: bool, changes: Changes, knowledge: Knowledge
) -> ComparisonRuns | None:
    """Return the next runs that tell whether the program changed, or the end because it did not.

    None as soon as something is known to have changed. Counts come first: they are exact, and one run is enough.

    Parameters
    ----------
    earlier
        Points of the earlier version, cheapest first.
    has_counts
        Whether counts can be compared.
    """
    if knowledge.rounds:
        return None
    points = np.array([[point[name] for name in earlier[0]] for point in earlier], dtype=np.float64)
    if not knowledge.plans and has_counts:
        chosen = tuple(earlier[position] for position in pilot_indices(points))
        reason = f"counts at {len(chosen)} small points, to see whether the work of the program changed"
        return ComparisonRuns(reason, chosen, counts=True)
    if knowledge.plans and not knowledge.any_measured:
        return ComparisonRuns("no run succeeded: there is nothing to compare")
    if not knowledge.complete:
        return ComparisonRuns("the budget is spent; whether the program changed is not known", budget_reached=True)
    if changes.changed:
        return None
    if not (changes.timed or changes.open):
        chosen = tuple(earlier[position] for position in informative_indices(points))
        before = f"{changes.counts_in_words()}; " if changes.counted else ""
        reason = f"{before}times at {len(chosen)} points, to compare them with the earlier version's predictions"
        return ComparisonRuns(reason, chosen)
    if changes.open:
        return None
    reached = any(plan.budget_reached for plan in knowledge.plans)
    less = "; the budget does not reach for more points" if reached else ""
    return ComparisonRuns(f"{changes.in_words()}{less}", budget_reached=reached)
