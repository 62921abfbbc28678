"""Cheapest points first, the generic strategy of Fig. 2 in the paper on cost-effective modelling, see `gpr`."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from buran.campaign.strategies import Abilities
from buran.planning.forecast import Forecast
from buran.planning.observations import Observations
from buran.planning.protocol import Advice, Budget, PlanningState, Settings
from buran.planning.simple import BeginsWithBase, next_in_order, without_progress
from buran.planning.space import Space


@dataclass(frozen=True)
class CheapestFirst(BeginsWithBase):
    """CPF, Fig. 2 of the paper: after the base one point after the other, the cheapest first, until one does not fit.

    Attributes
    ----------
    repetitions
        Repetitions of each point.
    patience
        So many rounds without a better fit end it; None for never.
    """

    repetitions: int = 2
    patience: int | None = None

    @property
    def abilities(self) -> Abilities:
        """What it can do."""
        return replace(super().abilities, patience=True)

    def configured(self, settings: Settings) -> CheapestFirst:
        """Return it with another base, other repetitions, and a patience."""
        return replace(super().configured(settings), repetitions=settings.repetitions, patience=settings.patience)

    def next(
        self, forecast: Forecast, measured: Observations, space: Space, budget: Budget, state: PlanningState
    ) -> Advice:
        """Return the next point with its repetitions."""
        if without_progress(state.errors, self.patience):
            return Advice(stop=f"the model did not fit better for {self.patience} rounds")
        assert forecast.cost is not None
        order = np.argsort(forecast.cost, kind="stable")
        return next_in_order(order, forecast, budget, self.repetitions, state.most, "the cheapest point")


CHEAPEST = CheapestFirst()
