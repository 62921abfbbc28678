"""A strategy guided by tensor models of the run time: for many parameters, and for choices without an order."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from buran.planning.base import ONCE, Base, BeginsWithBase
from buran.planning.observations import Observations
from buran.planning.protocol import Advice, PlanningState
from buran.planning.space import Array, Space


@dataclass(frozen=True)
class TensorGuided(BeginsWithBase):
    """Measures where the models of an ensemble disagree most, squared and by core hours.

    The ensemble is of tensor models of the whole program's run time that differ in their random start: they agree
    where measurements hold them together. Choices that were never measured come first.
    """

    base: Base = ONCE

    def next(self, state: PlanningState) -> Advice:
        """Return the most uncertain points."""
        possible = state.free & (state.cost <= state.left) & (state.runs == 0)
        if not possible.any():
            open_ = bool((state.free & (state.runs == 0)).any())
            return state.nothing_left() if open_ else Advice(stop="every point is measured")
        spread, unknown = self._spread(state.measured, state.space, state.seed)
        floor = np.finfo(np.float64).tiny
        rating = 2 * np.log(np.maximum(spread, floor)) - np.log(np.maximum(state.cost, floor))
        rating = np.where(unknown, rating + 1e3, rating)
        why = {True: "a choice without measurements", False: "tensor models disagree"}
        wanted = replace(state, most=state.most or state.points)
        return wanted.best_rated(rating, possible, lambda at: why[bool(unknown[at])])

    def _spread(self, measured: Observations, space: Space, seed: int) -> tuple[Array, Array]:
        """Return the ensemble's standard deviation of log times at each point, and where a choice is unknown."""
        from buran.modeling.tensor import CPRegressor

        present = (measured.counts > 0) & (measured.program_means_s > 0)
        points, times = measured.points[present], measured.program_means_s[present]
        unknown = np.zeros(len(space.points), dtype=bool)
        for name in space.choices:
            column = space.parameters.index(name)
            unknown |= ~np.isin(space.points[:, column], points[:, column])
        if len(points) <= len(space.parameters):  # too few for an ensemble: far from what is measured
            return _gap(points, space), unknown
        scale = ["categorical" if name in space.choices else "auto" for name in space.parameters]
        model = CPRegressor(
            scale=scale, names=space.parameters, outside="clamp", unseen="mean", rank=2, trees=0, random_state=seed,
        ).fit(points, times)  # fmt: skip
        return model.predict_spread(space.points), unknown


def _gap(points: Array, space: Space) -> Array:
    """Return the distance to the nearest measured point, as the number of parameters that differ."""
    if not len(points):
        return np.ones(len(space.points))
    out = np.full(len(space.points), np.inf)
    for point in points:
        out = np.minimum(out, (space.points != point).sum(axis=1))
    return out


TENSOR = TensorGuided()
