"""Strategies by name, checked against their protocol."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from buran.campaign.strategies import STRATEGIES, Abilities, abilities_of
from buran.crash import shown_error
from buran.errors import CrashError, PluginError, UsageError
from buran.planning.base import TWICE, Base
from buran.planning.observations import Observations
from buran.planning.protocol import (
    Advice,
    AimsAtAccuracy,
    ChoosesAllAtOnce,
    PlanningState,
    Settings,
    Strategy,
    Suggestion,
)
from buran.planning.space import Ids, Space

_TINY = 1e-9  # of the budget, that sums of costs may miss it by in floating point


def base_of(name: str, kind: str | None = None, repetitions: int | None = None) -> Base:
    """Return how a strategy begins.

    Parameters
    ----------
    kind
        ``cheapest``: lines of the five cheapest points, and a far point off them for each parameter; ``published``: the
        cheapest points off them; ``lines``: none of these. By default what the strategy says.
    repetitions
        Repetitions of each point; by default as many as the strategy says.
    """
    abilities = abilities_of(name)
    runs, kind = repetitions or abilities.base_repetitions or TWICE.repetitions, kind or abilities.base
    return Base(runs, off_lines=kind != "lines", published=kind == "published")


def strategy_of(
    name: str,
    *,
    base: Base | None = None,
    repetitions: int = 2,
    patience: int | None = None,
    accuracy: float | None = None,
) -> ValidatedStrategy:
    """Return a strategy with settings; see `Settings`.

    Raises
    ------
    UsageError
        There is none of this name, or it cannot aim at an accuracy, or does not count rounds.
    PluginError
        It does not work, or has no method for an ability that it claims.
    """
    abilities = abilities_of(name)
    for setting, able, what in (
        (accuracy, abilities.accuracy, "aim at an accuracy"),
        (patience, abilities.patience, "stop after rounds without a better fit"),
    ):
        if setting is not None and not able:
            raise UsageError(f"the strategy {name!r} cannot {what}", hint="leave it out, or choose another strategy")
    protocol: Any = Strategy
    if abilities.all_at_once:
        protocol = ChoosesAllAtOnce
    elif abilities.accuracy:
        protocol = AimsAtAccuracy
    loaded: Strategy = replace(STRATEGIES, protocol=protocol).load(name)  # type: ignore[assignment]
    strategy = ValidatedStrategy(name, abilities, loaded.configured(Settings(base, repetitions, patience, accuracy)))
    if not callable(getattr(strategy.strategy, "suggest", None)):
        raise strategy.broken(f"with settings it becomes a {type(strategy.strategy).__name__}, which suggests nothing")
    return strategy


@dataclass(frozen=True)
class ValidatedStrategy:
    """A strategy whose answers are looked at: an answer that breaks a promise is refused, not measured."""

    name: str
    abilities: Abilities
    strategy: Strategy

    def suggest(self, state: PlanningState) -> Advice:
        """Return the next runs, most wanted first; the end, with the reason, where the strategy itself fails.

        Raises
        ------
        PluginError
            The answer is no advice, or suggests what is outside of the space, failed before, or exceeds the budget; or
            the strategy fails before anything is measured.
        """
        try:
            advice = self.strategy.suggest(state)
        except Exception as error:
            failure = self._failed(error)
            if not state.measured.counts.any():
                raise failure from error
            # what is measured must not be lost for that
            file = f", see {failure.where}" if failure.where else ""
            return Advice(stop=f"{failure.line}{file}; no further runs are chosen", budget_reached=True)
        if not isinstance(advice, Advice):
            raise self.broken(f"it answers with {type(advice).__name__} instead of Advice")
        for suggestion in advice.suggestions:
            if not isinstance(suggestion, Suggestion):
                raise self.broken(f"it suggests a {type(suggestion).__name__} instead of a Suggestion")
        indices = [suggestion.index for suggestion in advice.suggestions]
        self._check_indices(indices, state.space)
        for index in indices:
            if index in state.failed:
                raise self.broken(f"it suggests {state.space.spelled(index)}, where a run failed")
        if state.budget is not None and state.has_costs:
            total = float(state.cost[indices].sum())
            if total > state.left + _TINY * state.budget:
                raise self.broken(f"its runs cost {total:.4g} core hours, and {state.left:.4g} are left")
        return advice

    def indices(self, space: Space) -> Ids:
        """Return all points that a strategy measures which chooses all at once."""
        indices = np.asarray(cast(ChoosesAllAtOnce, self.strategy).indices(space)).tolist()
        self._check_indices(indices, space)
        return np.array(indices, dtype=np.int64)

    def width_at_target(self, measured: Observations, space: Space) -> float | None:
        """Return the relative half width of the interval at the target, if it aims at an accuracy.

        Infinite where the strategy itself fails: it says so when runs are requested.
        """
        try:
            return cast(AimsAtAccuracy, self.strategy).width_at_target(measured, space)
        except Exception as error:
            self._failed(error)
            return float("inf")

    def _failed(self, error: Exception) -> PluginError:
        """Return as text that the strategy itself failed, with its traceback in a file.

        Raises
        ------
        BuranError, MemoryError
            The error is one that says what to do, the disk's, or one that need not come again.
        """
        shown = shown_error(error)
        if isinstance(error, MemoryError) or not isinstance(shown, CrashError):
            raise error
        hint = "choose another strategy, and send this file to its author"
        return PluginError(f"the strategy {self.name!r} failed", where=shown.where, why=shown.why, hint=hint)

    def _check_indices(self, indices: Sequence[object], space: Space) -> None:
        for index in indices:
            if not isinstance(index, int | np.integer) or isinstance(index, bool):
                raise self.broken(f"it gives {index!r} for the number of a point")
            if not 0 <= index < len(space.points):
                raise self.broken(f"it suggests the point {index} of a space that has {len(space.points)}")

    def broken(self, why: str) -> PluginError:
        """Return the error that says which promise it breaks."""
        return PluginError(
            f"the strategy {self.name!r} does not do what it promises",
            where=f"{type(self.strategy).__module__}.{type(self.strategy).__qualname__}",
            why=why,
            hint="choose another strategy, and report it to its author; nothing was measured for this answer",
        )
