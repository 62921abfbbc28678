"""What strategies get, and what they return."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np

from buran.campaign.strategies import Abilities
from buran.planning.observations import Observations, by_powers_s, predicted_s
from buran.planning.space import Array, Ids, Mask, Space

if TYPE_CHECKING:
    from buran.planning.base import Base

Chooser = TypeVar("Chooser", bound=Any)

# Costs are taken for so much larger: a run that is stopped at the budget is lost. Tuned: judgement.
CAREFUL = 1.1

# Share of what is left of the budget that one round of a plan spends, at most on what models cannot do without.
# Tuned: named by evidence/point-selection.md: chosen on functions of seeds other than the reported ones.
ROUND_SHARE = 1 / 3


@dataclass(frozen=True, eq=False)
class PlanningState:
    """All that a strategy decides by.

    Attributes
    ----------
    measured
        Finished runs.
    space
        Candidate points.
    budget
        Core hours for everything; None without a limit.
    spent
        Core hours that finished runs were charged.
    seed
        Of strategies that draw.
    failed
        Points that are not requested again.
    errors
        SMAPE of the program's model after each earlier round, for strategies that stop without progress.
    most
        Suggestions wanted; None leaves it to the strategy, which knows best when it needs new models.
    points
        Points wanted, each with as many runs as it deserves; None for no limit.
    rounds_left
        So many rounds may still be made, this one among them; None without a limit.
    """

    measured: Observations
    space: Space
    budget: float | None = None
    spent: float = 0.0
    seed: int = 0
    failed: frozenset[int] = frozenset()
    errors: tuple[float, ...] = ()
    most: int | None = None
    points: int | None = None
    rounds_left: int | None = None

    @property
    def left(self) -> float:
        """What may still be spent, in core hours; infinite without a limit."""
        return float("inf") if self.budget is None else max(self.budget - self.spent, 0.0)

    @cached_property
    def runs(self) -> Ids:
        """Shape (point,): finished runs of each candidate point."""
        runs = np.zeros(len(self.space.points), dtype=np.int64)
        at = self.space.indices(self.measured.points)
        runs[at[at >= 0]] = self.measured.counts[at >= 0]
        return runs

    @cached_property
    def free(self) -> Mask:
        """Shape (point,): may be chosen."""
        free = self.runs < self.space.most_repetitions
        free[[index for index in self.failed if 0 <= index < len(free)]] = False
        return free

    @cached_property
    def predicted_s(self) -> Array | None:
        """Shape (point,): run times; None where nothing is known of them."""
        return predicted_s(self.measured, self.space)

    @property
    def has_costs(self) -> bool:
        """Whether costs are known."""
        return self.predicted_s is not None

    @cached_property
    def cost(self) -> Array:
        """Shape (point,): predicted core hours of one run; only where `has_costs`."""
        assert self.predicted_s is not None
        return self._core_hours(self.predicted_s)

    @cached_property
    def worst_cost(self) -> Array:
        """Shape (point,): largest core hours of one run, if models are wrong; only where `has_costs`."""
        assert self.predicted_s is not None
        worst_s = np.maximum(self.predicted_s, by_powers_s(self.measured, self.space))
        return self._core_hours(np.where(self.runs == 0, worst_s, self.predicted_s))

    def _core_hours(self, seconds: Array) -> Array:
        """Return what runs of so many seconds without hooks are charged, first ones with the runs that go with them."""
        further = self.space.first_runs * self.space.core_hours(seconds / self.space.overhead)
        return self.space.core_hours(seconds) + np.where(self.runs == 0, further, 0.0)

    def suggestions(self, chosen: list[int], scores: list[float], reasons: list[str]) -> tuple[Suggestion, ...]:
        """Return runs with their numbers, without those that no longer fit into the budget after those before them."""
        out: list[Suggestion] = []
        extra: dict[int, int] = {}
        left = self.left
        for index, score, reason in zip(chosen, scores, reasons, strict=True):
            cost = float(self.cost[index]) if self.has_costs else None
            if cost is not None:
                if cost > left:
                    continue
                left -= cost
            extra[index] = extra.get(index, 0) + 1
            out.append(Suggestion(index, int(self.runs[index]) + extra[index], cost, score, reason))
        return tuple(out)

    def best_rated(
        self, rating: Array, possible: Mask, reason: Callable[[int], str], notes: tuple[str, ...] = ()
    ) -> Advice:
        """Return the runs with the largest ratings (point,) among the possible ones (point,), one if none says more.

        Parameters
        ----------
        reason
            In words, of a point.
        """
        order = np.argsort(np.where(possible, -rating, np.inf), kind="stable")
        chosen = order[: min(self.most or 1, int(possible.sum()))].tolist()
        scores, reasons = [float(rating[index]) for index in chosen], [reason(index) for index in chosen]
        return Advice(self.suggestions(chosen, scores, reasons), notes=notes)

    def nothing_left(self, repetitions: int | None = None) -> Advice:
        """Return the advice to stop, with the reason: all points have as many runs as allowed, or `repetitions`."""
        wanted = self.free if repetitions is None else self.free & (self.runs < repetitions)
        open_ = bool(wanted.any())
        return Advice(
            stop="nothing more fits into the budget" if open_ else "every point is measured", budget_reached=open_
        )


@dataclass(frozen=True)
class Suggestion:
    """One run to make.

    Attributes
    ----------
    index
        Index of the point in the space.
    repetition
        Its number at this point, counted from 1.
    cost_core_hours
        Predicted; None where nothing is known.
    score
        The strategy's own figure of merit, larger is better.
    reason
        In words.
    """

    index: int
    repetition: int
    cost_core_hours: float | None
    score: float
    reason: str


@dataclass(frozen=True)
class Advice:
    """A strategy's answer.

    Attributes
    ----------
    suggestions
        Most wanted first; together they fit into what is left of the budget.
    stop
        In words, why nothing is suggested; None while there are suggestions.
    budget_reached
        Whether something worth measuring was left out for lack of budget.
    expected_error
        Relative standard deviation of the prediction at the target, the call paths weighing by their share of the
        run time; None where the strategy does not know.
    notes
        What the user should know.
    """

    suggestions: tuple[Suggestion, ...] = ()
    stop: str | None = None
    budget_reached: bool = False
    expected_error: float | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Settings:
    """What a user may wish of a strategy.

    Attributes
    ----------
    base
        How it begins; None for its own way.
    repetitions
        Repetitions of each point, for strategies that do not choose them.
    patience
        Rounds without a better fit that end it; None for never.
    accuracy
        Relative half width of the interval at the target that is enough; None to go on to the budget.
    """

    base: Base | None = None
    repetitions: int = 2
    patience: int | None = None
    accuracy: float | None = None

    def given_to(self, strategy: Chooser) -> Chooser:
        """Return a strategy, a dataclass, with the settings that it has attributes for; None leaves its own."""
        heeded = {name: wish for name, wish in vars(self).items() if wish is not None and hasattr(strategy, name)}
        return replace(strategy, **heeded)


class Chooses(Protocol):
    """Chooses what to measure next; deterministic in what it is given."""

    def suggest(self, state: PlanningState) -> Advice:
        """Return the next runs, most wanted first."""


class Strategy(Chooses, Protocol):
    """What a plug-in or a module of a strategy defines: how it chooses, and which settings it heeds."""

    @property
    def abilities(self) -> Abilities:
        """What it can do."""

    def configured(self, settings: Settings) -> Strategy:
        """Return it with settings, as far as its abilities heed them."""


class ChoosesAllAtOnce(Strategy, Protocol):
    """A strategy with the ability `all_at_once`."""

    def indices(self, space: Space) -> Ids:
        """Return all points that it measures, cheapest first."""


class AimsAtAccuracy(Strategy, Protocol):
    """A strategy with the ability `accuracy`."""

    def width_at_target(self, measured: Observations, space: Space) -> float | None:
        """Return the relative half width of the interval at the target; None without models."""
