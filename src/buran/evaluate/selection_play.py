"""Campaigns played against functions that are known: a strategy chooses, noise answers, the budget decides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from buran.model import Term
from buran.select.base import base_places
from buran.select.measured import Measured
from buran.select.protocol import Budget, State, Strategy
from buran.select.space import Array, Space

MOST_ROUNDS = 400


@dataclass(frozen=True)
class Outcome:
    """What came of a campaign.

    Attributes
    ----------
    predicted
        At the target; NaN without a model.
    runs, points, lost
        Runs made, points they were made at, and runs that were stopped because the budget was used up.
    spent
        Share of the budget.
    rounds
        Times that models were made.
    """

    predicted: float
    runs: int
    points: int
    lost: int
    spent: float
    rounds: int


def space_of(points: Array, target: Array) -> Space:
    """Make the space of a simulated program whose first parameter counts the processes."""
    names = tuple("abcd"[: points.shape[1]])
    order = np.lexsort((*points.T[::-1], points[:, 0]))
    return Space(names, points[order], points[order, 0], target)


def full_matrix_core_hours(space: Space, truth: Array, repetitions: int = 5) -> float:
    """Return what all points cost, each with that many repetitions; `truth` has shape (place,)."""
    return repetitions * float(space.core_hours(truth).sum())


def base_core_hours(space: Space, truth: Array, repetitions: int) -> float:
    """Return what the base costs."""
    return repetitions * float(space.core_hours(truth)[base_places(space)].sum())


def play(
    strategy: Strategy,
    space: Space,
    runs_s: Array,
    budget_core_hours: float,
    *,
    seed: int,
    most: int | None = None,
    skeleton: Sequence[Term] | None = None,
) -> tuple[Outcome, Measured]:
    """Let a strategy spend a budget.

    It sees finished runs only, and predicts what others will cost. A run that exceeds what is left is stopped: it
    gives no value and the budget is used up.

    Parameters
    ----------
    runs_s
        Shape (place, repetition): the times that runs will take.
    most
        Runs between two models; None leaves it to the strategy.
    skeleton
        Terms that are known beforehand.
    """
    count = np.zeros(len(space.points), dtype=np.int64)
    left, lost, rounds = budget_core_hours, 0, 0
    measured = _seen(space, runs_s, count, skeleton)
    while left > 0 and rounds < MOST_ROUNDS:
        budget = Budget(budget_core_hours, budget_core_hours - left)
        advice = strategy.suggest(measured, space, budget, State(seed=seed, most=most))
        if not advice.suggestions:
            break
        rounds += 1
        for each in advice.suggestions:
            seconds = runs_s[each.place, count[each.place]]
            cost = float(space.core_hours(np.full(len(count), seconds))[each.place])
            if cost > left:
                left, lost = 0.0, lost + 1
                break
            left -= cost
            count[each.place] += 1
        measured = _seen(space, runs_s, count, skeleton)
    model = measured.fit.models[0] if count.any() else None
    predicted = float(model.function.evaluate(space.target)) if model is not None else float("nan")
    spent = 1 - left / budget_core_hours
    return Outcome(predicted, int(count.sum()), int((count > 0).sum()), lost, spent, rounds), measured


def _seen(space: Space, runs_s: Array, count: np.ndarray[tuple[int], np.dtype[np.int64]], skeleton: Sequence[Term] | None) -> Measured:
    here = np.flatnonzero(count)
    values = np.where(np.arange(runs_s.shape[1]) < count[here, None], runs_s[here], np.nan)
    return Measured(space.points[here], values[None], None, (tuple(skeleton),) if skeleton is not None else ())
