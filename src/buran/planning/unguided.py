"""Strategies that use costs alone: random points, and a grid that becomes finer."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from buran.planning.forecast import Forecast
from buran.planning.observations import Observations
from buran.planning.protocol import Advice, Budget, PlanningState, Settings
from buran.planning.simple import BeginsWithBase, next_in_order, nothing_left, suggestions
from buran.planning.space import Ids, Space


@dataclass(frozen=True)
class Random(BeginsWithBase):
    """After the base any run of any point that fits into the budget."""

    def next(
        self, forecast: Forecast, measured: Observations, space: Space, budget: Budget, state: PlanningState
    ) -> Advice:
        """Return the next runs."""
        assert forecast.cost is not None
        order = np.random.default_rng([state.seed, int(forecast.runs.sum())]).permutation(len(space.points))
        most = state.most or 1
        wanted = order[forecast.free[order] & (forecast.cost[order] <= budget.left)][:most].tolist()
        scores = [-float(forecast.cost[index]) for index in wanted]
        out = suggestions(wanted, forecast, scores, ["drawn at random"] * len(wanted), budget)
        return Advice(out) if out else nothing_left(forecast)


@dataclass(frozen=True)
class Grid(BeginsWithBase):
    """After the base points spread evenly over the space, from the coarsest grid to the finest."""

    repetitions: int = 2

    def configured(self, settings: Settings) -> Grid:
        """Return it with another base, and other repetitions."""
        return replace(super().configured(settings), repetitions=settings.repetitions)

    def next(
        self, forecast: Forecast, measured: Observations, space: Space, budget: Budget, state: PlanningState
    ) -> Advice:
        """Return the next point with its repetitions."""
        return next_in_order(grid_order(space), forecast, budget, self.repetitions, state.most, "next of the grid")


def grid_order(space: Space) -> Ids:
    """Return the points from the corners of the space inwards: each value by how coarse a grid has it."""
    level = np.zeros(len(space.points))
    for column in space.points.T:
        values = np.unique(column)
        coarse = {0: 0, len(values) - 1: 0}
        queue, depth = [(0, len(values) - 1)], 1
        while queue:
            halves = []
            for low, high in queue:
                if high - low > 1:
                    middle = (low + high) // 2
                    coarse[middle] = depth
                    halves += [(low, middle), (middle, high)]
            queue, depth = halves, depth + 1
        level += np.array([coarse[k] for k in range(len(values))])[np.searchsorted(values, column)]
    return np.argsort(level, kind="stable")


RANDOM, GRID = Random(), Grid()
