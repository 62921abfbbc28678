"""Campaigns played against runs that are known: a strategy chooses, the table answers, the budget decides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from buran.modeling.fit import Fit, fit_models
from buran.modeling.pmnf.repetitions import over_repetitions, scatter_of
from buran.modeling.priors.prior import Prior
from buran.planning.base import base_indices
from buran.planning.observations import Observations
from buran.planning.protocol import Chooses, PlanningState
from buran.planning.space import Array, Ids, Space, cheapest_first

MOST_ROUNDS = 1000
FULL_REPETITIONS = 5
"""Runs of each point of the full matrix that budgets are shares of."""


@dataclass(frozen=True)
class Outcome:
    """What came of a campaign.

    Attributes
    ----------
    runs, points, lost
        Runs made, points they were made at, and runs that were stopped because the budget was used up.
    spent
        Share of the budget.
    rounds
        Times that the strategy was asked.
    """

    runs: int
    points: int
    lost: int
    spent: float
    rounds: int


def space_of(points: Array, target: Array) -> Space:
    """Make the space of a program whose first parameter counts the processes."""
    order = cheapest_first(points, points[:, 0])
    return Space(tuple("abcd"[: points.shape[1]]), points[order], points[order, 0], target)


def full_matrix_core_hours(space: Space, seconds: Array, repetitions: int = FULL_REPETITIONS) -> float:
    """Return what all points cost, each with that many repetitions; `seconds` has shape (place,)."""
    return repetitions * float(space.core_hours(seconds).sum())


def base_core_hours(space: Space, seconds: Array, repetitions: int) -> float:
    """Return what the base costs."""
    return repetitions * float(space.core_hours(seconds)[base_indices(space)].sum())


def play(
    strategy: Chooses,
    space: Space,
    values: Array,
    program_s: Array,
    budget_core_hours: float,
    *,
    seed: int = 0,
    most: int | None = None,
    priors: Sequence[Prior] = (),
    known: bool = False,
) -> tuple[Outcome, Observations]:
    """Let a strategy spend a budget.

    It sees finished runs only, and predicts what others will cost. A run that exceeds what is left is stopped: it
    gives no value, and the budget is used up.

    Parameters
    ----------
    values
        Shape (call path, place, repetition): what runs will give.
    program_s
        Shape (place, repetition): how long they will take.
    most
        Runs between two models; None leaves it to the strategy.
    priors
        What the time of each call path is made of, where that is known beforehand.
    known
        Whether the strategy knows what the very next run of each point will take, as in the published evaluation.
    """
    count = np.zeros(len(space.points), dtype=np.int64)
    left, lost, rounds = budget_core_hours, 0, 0
    measured = _seen(space, values, program_s, count, priors)
    while left > 0 and rounds < MOST_ROUNDS:
        if known:
            space = replace(space, known_s=program_s[np.arange(len(count)), np.minimum(count, program_s.shape[1] - 1)])
        spent = budget_core_hours - left
        advice = strategy.suggest(PlanningState(measured, space, budget_core_hours, spent, seed, most=most))
        if not advice.suggestions:
            break
        rounds += 1
        for suggestion in advice.suggestions:
            seconds = program_s[suggestion.index, count[suggestion.index]]
            cost = float(space.core_hours(np.full(len(count), seconds))[suggestion.index])
            if cost > left:
                left, lost = 0.0, lost + 1
                break
            left -= cost
            count[suggestion.index] += 1
        measured = _seen(space, values, program_s, count, priors)
    spent = 1 - left / budget_core_hours
    return Outcome(int(count.sum()), int((count > 0).sum()), lost, spent, rounds), measured


def modelled(measured: Observations) -> Fit:
    """Return models of what was measured as the product makes them in the end, whichever strategy chose the points.

    Where terms are known beforehand, they are kept.
    """
    if any(measured.priors):
        return measured.fit
    # medians, and weights by values alone: the defaults of `model`
    medians, scatter = over_repetitions(measured.values, "median"), scatter_of(measured.values, "median")
    return fit_models(measured.points, medians, scatter=scatter)


def _seen(space: Space, values: Array, program_s: Array, count: Ids, priors: Sequence[Prior]) -> Observations:
    here = np.flatnonzero(count)
    made = np.arange(program_s.shape[1]) < count[here, None]
    program = None if len(values) == 1 else np.where(made, program_s[here], np.nan)
    return Observations(space.points[here], np.where(made, values[:, here], np.nan), program, tuple(priors))
