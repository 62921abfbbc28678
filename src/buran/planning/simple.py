"""Strategies without a model of what they gain, all points and lines; and what others share with them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from buran.campaign.strategies import Abilities
from buran.planning.base import base_indices, next_of_base
from buran.planning.forecast import Forecast
from buran.planning.observations import Observations
from buran.planning.protocol import Advice, Budget, PlanningState, Settings, Suggestion
from buran.planning.space import Array, Ids, Mask, Space
from buran.planning.tuning import ROUND_SHARE

BASE = "points of the base, needed for a first model"
DECIDES = "shows whether what grows with the parameters is added or multiplied"


@dataclass(frozen=True)
class Base:
    """How strategies begin.

    Attributes
    ----------
    repetitions
        Repetitions of each point of the base.
    length
        Values along each line.
    off_lines
        Whether points off the lines are measured, as many as there are parameters.
    spread
        Whether values come from the whole range of a parameter, evenly on a logarithmic scale, instead of the cheapest.
    whole
        Whether the whole base is needed: without it nothing else is suggested.
    published
        Whether the points off the lines are the cheapest, as published, instead of far ones.
    """

    repetitions: int = 2
    length: int = 5
    off_lines: bool = True
    spread: bool = False
    whole: bool = False
    published: bool = False

    def indices(self, space: Space, affordable: Mask | None = None) -> Ids:
        """Return the indices of the base, cheapest first; off the lines only `affordable` ones (point,)."""
        return base_indices(space, self.length, self.off_lines, self.spread, affordable, published=self.published)

    def advice(
        self, forecast: Forecast, space: Space, budget: Budget, share: float = 1.0, together: float = 1.0
    ) -> Advice | None:
        """Return the missing runs of the base; None if no affordable one is missing.

        Parameters
        ----------
        share, together
            Of what is left of the budget, that one run and all runs of a round may take.
        """
        affordable = None if forecast.cost is None else (forecast.cost <= share * budget.left) | (forecast.runs > 0)
        indices = [index for index in self.indices(space, affordable).tolist() if forecast.free[index]]
        chosen, held_back = next_of_base(
            space, indices, forecast.runs, self.repetitions, forecast.cost, share * budget.left, together * budget.left
        )
        if chosen:
            return Advice(suggestions(chosen, forecast, [0.0] * len(chosen), [BASE] * len(chosen), budget))
        if held_back and self.whole:
            return Advice(stop="the budget does not reach for the base points", budget_reached=True)
        return None


TWICE, ONCE = Base(2, published=True), Base(1)


@dataclass(frozen=True)
class BeginsWithBase:
    """What strategies have in common that begin with a base, by default the published one."""

    base: Base = TWICE

    @property
    def abilities(self) -> Abilities:
        """What it can do."""
        return Abilities(
            base_repetitions=self.base.repetitions, base="published" if self.base.published else "cheapest"
        )

    def configured(self, settings: Settings) -> Self:
        """Return it with another base."""
        return replace(self, base=settings.base or self.base)

    def suggest(self, measured: Observations, space: Space, budget: Budget, state: PlanningState) -> Advice:
        """Return the missing runs of the base, afterwards what the strategy itself chooses."""
        forecast = Forecast.of(measured, space, state)
        opening = self.base.advice(forecast, space, budget)
        return self.next(forecast, measured, space, budget, state) if opening is None else opening

    def next(
        self, forecast: Forecast, measured: Observations, space: Space, budget: Budget, state: PlanningState
    ) -> Advice:
        """Return the next runs once the base is measured, as far as it is affordable."""
        raise NotImplementedError


def suggestions(
    chosen: list[int], forecast: Forecast, scores: list[float], reasons: list[str], budget: Budget
) -> tuple[Suggestion, ...]:
    """Return runs with their numbers, without those that no longer fit into the budget after those before them."""
    out: list[Suggestion] = []
    extra: dict[int, int] = {}
    left = budget.left
    for index, score, reason in zip(chosen, scores, reasons, strict=True):
        cost = None if forecast.cost is None else float(forecast.cost[index])
        if cost is not None:
            if cost > left:
                continue
            left -= cost
        extra[index] = extra.get(index, 0) + 1
        out.append(Suggestion(index, int(forecast.runs[index]) + extra[index], cost, score, reason))
    return tuple(out)


def best_rated(
    rating: Array,
    possible: Mask,
    forecast: Forecast,
    budget: Budget,
    most: int | None,
    reason: Callable[[int], str],
    notes: tuple[str, ...] = (),
) -> Advice:
    """Return the runs with the largest ratings among the possible ones.

    Parameters
    ----------
    rating, possible
        Shape (point,).
    most
        Runs; None for one.
    reason
        In words, of a point.
    """
    order = np.argsort(np.where(possible, -rating, np.inf), kind="stable")
    chosen = order[: min(most or 1, int(possible.sum()))].tolist()
    scores, reasons = [float(rating[index]) for index in chosen], [reason(index) for index in chosen]
    return Advice(suggestions(chosen, forecast, scores, reasons, budget), notes=notes)


def nothing_left(forecast: Forecast, repetitions: int | None = None) -> Advice:
    """Return the advice to stop, with the reason: all points have as many runs as allowed, or `repetitions`."""
    wanted = forecast.free if repetitions is None else forecast.free & (forecast.runs < repetitions)
    open_ = bool(wanted.any())
    return Advice(
        stop="nothing more fits into the budget" if open_ else "every point is measured", budget_reached=open_
    )


@dataclass(frozen=True)
class Fixed:
    """Measures the full matrix, or whole lines and points off them, without regard to results."""

    lines: bool = False
    repetitions: int = 5

    @property
    def abilities(self) -> Abilities:
        """What it can do."""
        return Abilities(all_at_once=True)

    def configured(self, settings: Settings) -> Fixed:
        """Return it with other repetitions."""
        return replace(self, repetitions=settings.repetitions)

    def indices(self, space: Space) -> Ids:
        """Return all points that it measures, cheapest first."""
        return base_indices(space, whole=True) if self.lines else np.arange(len(space.points))

    def suggest(self, measured: Observations, space: Space, budget: Budget, state: PlanningState) -> Advice:
        """Return all missing runs."""
        forecast = Forecast.of(measured, space, state)
        decide = self._deciding(forecast, space, budget)
        indices = [*decide, *(index for index in self.indices(space).tolist() if index not in decide)]
        missing = {index: self.repetitions - int(forecast.runs[index]) for index in indices if forecast.free[index]}
        runs = [index for index, count in missing.items() for _ in range(count)]
        if not runs:
            return Advice(stop="the lines are measured" if self.lines else "every point is measured")
        why = "on the lines or off them" if self.lines else "full matrix"
        reasons = [DECIDES if index in decide else why for index in runs]
        out = suggestions(runs, forecast, [0.0] * len(runs), reasons, budget)
        return Advice(out[: state.most], budget_reached=len(out) < len(runs)) if out else nothing_left(forecast)

    def _deciding(self, forecast: Forecast, space: Space, budget: Budget) -> list[int]:
        """Return the points off the lines, which come first: without them nothing tells a sum from a product.

        None while costs are not known, and none that would take too much of the budget from the lines.
        """
        if not self.lines or forecast.cost is None or not np.isfinite(budget.left):
            return []
        off = np.setdiff1d(self.indices(space), base_indices(space, off_lines=False, whole=True))
        off = off[np.argsort(-forecast.cost[off], kind="stable")]
        room = ROUND_SHARE * budget.left
        return [int(index) for index in off if forecast.cost[index] * self.repetitions <= room / len(off)]


def without_progress(errors: tuple[float, ...], patience: int | None) -> bool:
    """Tell whether the last `patience` models did not fit better than the best one before (lambda of the paper)."""
    if patience is None or len(errors) <= patience:
        return False
    return min(errors[-patience:]) >= min(errors[:-patience])


def next_in_order(
    order: Ids, forecast: Forecast, budget: Budget, repetitions: int, most: int | None, why: str
) -> Advice:
    """Return the missing runs of the next points of an order, until one does not fit into the budget.

    Parameters
    ----------
    order
        All points, the next one first.
    most
        Runs; None for one point.
    """
    assert forecast.cost is not None
    most = most or repetitions
    runs: list[int] = []
    for index in order.tolist():
        to_make = repetitions - int(forecast.runs[index])
        if not forecast.free[index] or to_make <= 0:
            continue
        if forecast.cost[index] > budget.left:
            break
        runs += [index] * to_make
        if len(runs) >= most:
            break
    out = suggestions(runs, forecast, [-float(forecast.cost[index]) for index in runs], [why] * len(runs), budget)
    return Advice(out[:most]) if out else nothing_left(forecast, repetitions)


FULL, LINES = Fixed(), Fixed(lines=True)
