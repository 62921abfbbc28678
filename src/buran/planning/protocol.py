"""What strategies get, and what they return."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from buran.campaign.strategies import Abilities
from buran.planning.observations import Observations
from buran.planning.space import Ids, Space

if TYPE_CHECKING:
    from buran.planning.simple import Base


@dataclass(frozen=True)
class Budget:
    """Core hours.

    Attributes
    ----------
    core_hours
        For everything; None without a limit.
    spent
        What finished runs were charged.
    """

    core_hours: float | None = None
    spent: float = 0.0

    @property
    def left(self) -> float:
        """What may still be spent, in core hours; infinite without a limit."""
        return float("inf") if self.core_hours is None else max(self.core_hours - self.spent, 0.0)


@dataclass(frozen=True)
class PlanningState:
    """What a strategy may know in addition to the measurements.

    Attributes
    ----------
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

    seed: int = 0
    failed: frozenset[int] = frozenset()
    errors: tuple[float, ...] = ()
    most: int | None = None
    points: int | None = None
    rounds_left: int | None = None


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
    notes: tuple[str, ...] = field(default=())


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


class Strategy(Protocol):
    """Chooses what to measure next; deterministic in what it is given."""

    @property
    def abilities(self) -> Abilities:
        """What it can do."""

    def configured(self, settings: Settings) -> Strategy:
        """Return it with settings, as far as its abilities heed them."""

    def suggest(self, measured: Observations, space: Space, budget: Budget, state: PlanningState) -> Advice:
        """Return the next runs, most wanted first."""


class ChoosesAllAtOnce(Strategy, Protocol):
    """A strategy with the ability `all_at_once`."""

    def indices(self, space: Space) -> Ids:
        """Return all points that it measures, cheapest first."""


class AimsAtAccuracy(Strategy, Protocol):
    """A strategy with the ability `accuracy`."""

    def width_at_target(self, measured: Observations, space: Space) -> float | None:
        """Return the relative half width of the interval at the target; None without models."""
