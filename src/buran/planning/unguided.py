"""Strategies that use costs alone: all points, lines, the cheapest points first, random points, and a finer grid."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from buran.campaign.strategies import Abilities
from buran.planning.base import BeginsWithBase, base_indices
from buran.planning.protocol import ROUND_SHARE, Advice, PlanningState, Settings
from buran.planning.space import Ids, Space

DECIDES = "shows whether what grows with the parameters is added or multiplied"


@dataclass(frozen=True)
class Fixed:
    """Measures the full matrix, or whole lines and points off them, without regard to results."""

    lines: bool = False
    repetitions: int = 5

    abilities = Abilities(all_at_once=True)

    def configured(self, settings: Settings) -> Fixed:
        """Return it with other repetitions."""
        return settings.given_to(self)

    def indices(self, space: Space) -> Ids:
        """Return all points that it measures, cheapest first."""
        return base_indices(space, whole=True) if self.lines else np.arange(len(space.points))

    def suggest(self, state: PlanningState) -> Advice:
        """Return all missing runs."""
        decide = self._deciding(state)
        indices = [*decide, *(index for index in self.indices(state.space).tolist() if index not in decide)]
        missing = {index: self.repetitions - int(state.runs[index]) for index in indices if state.free[index]}
        runs = [index for index, count in missing.items() for _ in range(count)]
        if not runs:
            return Advice(stop="the lines are measured" if self.lines else "every point is measured")
        why = "on the lines or off them" if self.lines else "full matrix"
        out = state.suggestions(runs, [0.0] * len(runs), [DECIDES if index in decide else why for index in runs])
        return Advice(out[: state.most], budget_reached=len(out) < len(runs)) if out else state.nothing_left()

    def _deciding(self, state: PlanningState) -> list[int]:
        """Return the points off the lines, which come first: without them nothing tells a sum from a product.

        None while costs are not known, and none that would take too much of the budget from the lines.
        """
        if not self.lines or not state.has_costs or not np.isfinite(state.left):
            return []
        off = np.setdiff1d(self.indices(state.space), base_indices(state.space, off_lines=False, whole=True))
        off = off[np.argsort(-state.cost[off], kind="stable")]
        room = ROUND_SHARE * state.left
        return [int(index) for index in off if state.cost[index] * self.repetitions <= room / len(off)]


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

    def next(self, state: PlanningState) -> Advice:
        """Return the next point with its repetitions."""
        order = np.argsort(state.cost, kind="stable")
        return without_progress(state, self.patience) or next_in_order(
            order, state, self.repetitions, "the cheapest point"
        )


@dataclass(frozen=True)
class Random(BeginsWithBase):
    """After the base any run of any point that fits into the budget."""

    def next(self, state: PlanningState) -> Advice:
        """Return the next runs."""
        order = np.random.default_rng([state.seed, int(state.runs.sum())]).permutation(len(state.space.points))
        wanted = order[state.free[order] & (state.cost[order] <= state.left)][: state.most or 1].tolist()
        scores = [-float(state.cost[index]) for index in wanted]
        out = state.suggestions(wanted, scores, ["drawn at random"] * len(wanted))
        return Advice(out) if out else state.nothing_left()


@dataclass(frozen=True)
class Grid(BeginsWithBase):
    """After the base points spread evenly over the space, from the coarsest grid to the finest."""

    repetitions: int = 2

    def next(self, state: PlanningState) -> Advice:
        """Return the next point with its repetitions."""
        return next_in_order(grid_order(state.space), state, self.repetitions, "next of the grid")


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


def without_progress(state: PlanningState, patience: int | None) -> Advice | None:
    """End where the last `patience` models did not fit better than the best one before (lambda of the paper)."""
    errors = state.errors
    if patience is None or len(errors) <= patience or min(errors[-patience:]) < min(errors[:-patience]):
        return None
    return Advice(stop=f"the model did not fit better for {patience} rounds")


def next_in_order(order: Ids, state: PlanningState, repetitions: int, why: str) -> Advice:
    """Return the missing runs of the next points of an order, until one does not fit into the budget.

    Parameters
    ----------
    order
        All points, the next one first.
    """
    most = state.most or repetitions
    runs: list[int] = []
    for index in order.tolist():
        to_make = repetitions - int(state.runs[index])
        if not state.free[index] or to_make <= 0:
            continue
        if state.cost[index] > state.left:
            break
        runs += [index] * to_make
        if len(runs) >= most:
            break
    out = state.suggestions(runs, [-float(state.cost[index]) for index in runs], [why] * len(runs))
    return Advice(out[:most]) if out else state.nothing_left(repetitions)


FULL, LINES, CHEAPEST, RANDOM, GRID = Fixed(), Fixed(lines=True), CheapestFirst(), Random(), Grid()
