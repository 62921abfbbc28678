"""The points to begin with: a base of lines and points off them, pilot points, and the fewest that models need."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Self

import numpy as np

from buran.campaign.strategies import Abilities
from buran.modeling.numerics.least_squares import SINGULAR
from buran.modeling.numerics.tuning import FEW
from buran.planning.protocol import Advice, PlanningState, Settings
from buran.planning.space import Array, Ids, Mask, Space

BASE = "points of the base, needed for a first model"

# Values along each parameter's line; with fewer, a one-parameter model cannot tell its terms apart. Tuned: five
# values tell n from n log n (tutorial/your-own-program.md).
LINE_LENGTH = 5


def base_indices(
    space: Space,
    length: int = LINE_LENGTH,
    off_lines: bool = True,
    affordable: Mask | None = None,
    whole: bool = False,
    published: bool = False,
) -> Ids:
    """Return the indices of the base, cheapest first as far as one can tell.

    For each parameter the `length` cheapest points with the others at their cheapest (section III and Fig. 3 of the
    paper on cost-effective modelling: 9, 13 and 17 points for two to four parameters), and off these lines as many
    points as there are parameters, see `_far_points`: only they tell a product of terms from a sum. With one rank
    nothing is communicated: lines along other parameters lie where there are two, if they can. In a space that is no
    product, the lines that hold most points are taken. Where a line has more values, `whole` takes all of them. Points
    off the lines do not depend on that: a further value adds its own points alone. `affordable` (point,) says which
    points off the lines may be taken; all by default. With `published`, they are the cheapest, as sections III-A and
    III-B have it.
    """
    cost = _weight(space)
    lines = [_line(space, cost, column, length) for column in range(len(space.parameters))]
    chosen = [index for judged, every in lines for index in (every if whole else judged)]
    if off_lines and published:
        others = np.setdiff1d(np.arange(len(cost)), [index for _, every in lines for index in every])
        chosen += others[np.argsort(cost[others], kind="stable")][: len(lines)].tolist()
    elif off_lines and len(space.parameters) > 1:
        chosen += _far_points(space, [judged for judged, _ in lines], cost, affordable)
    indices = np.unique(np.array(chosen, dtype=np.int64))
    return indices[np.lexsort((indices, cost[indices]))]


def _far_points(space: Space, lines: Sequence[Sequence[int]], cost: Array, affordable: Mask | None) -> list[int]:
    """Return points where parameters are at the far ends of their lines together, as many as there are parameters.

    Each leaves one parameter at its smallest value. So every pair of parameters is varied together, and as far as
    the lines reach, where a sum and a product differ most: of sums of three terms on 16 points with 1 % noise 96 % are
    then predicted within 5 %, and 62 % with the cheapest points instead. Two parameters are varied together at
    the far corner and halfway to it. The nearest point stands for one that the space does not have.
    """
    indices = [np.array(members, dtype=np.int64) for members in lines]
    parameters = len(indices)
    across = [np.concatenate([other for k, other in enumerate(indices) if k != column]) for column in range(parameters)]
    low = np.array([space.points[across[column], column].min() for column in range(parameters)])
    high = np.array([space.points[indices[column], column].max() for column in range(parameters)])
    ranks = np.stack([_ranks(space.points[:, column]) for column in range(parameters)], axis=1)
    first, last = (
        np.array([ranks[space.points[:, column] == end[column], column][0] for column in range(parameters)])
        for end in (low, high)
    )
    wanted = [np.where(np.arange(parameters) == column, first, last) for column in range(parameters)]
    if parameters == 2:
        wanted = [last, (first + last) // 2]
    taken = np.zeros(len(cost), dtype=bool)
    taken[np.concatenate(indices)] = True
    # Below the lines, as with one rank, a parameter shows nothing of what it does beyond them.
    varied = np.where(high > low, space.points > low, space.points != low)
    open_ = ~taken & (varied.sum(axis=1) >= 2) & (True if affordable is None else affordable)
    out: list[int] = []
    for corner in wanted:
        if open_.any():
            apart = np.abs(ranks - corner).sum(axis=1) + 1e-6 * cost / cost.max()
            out.append(int(np.argmin(np.where(open_, apart, np.inf))))
            open_[out[-1]] = False
    return out


def _ranks(values: Array) -> Ids:
    """Return the index of each value among the different ones."""
    return np.unique(values, return_inverse=True)[1].reshape(-1)


def _weight(space: Space) -> Array:
    """Relative cost of a run before anything ran; ties keep the order of the space."""
    guess = space.cores if space.expected_s is None else space.cores * space.expected_s
    return np.asarray(guess * (1 + 1e-9 * np.arange(len(guess))))


def _line(space: Space, cost: Array, column: int, length: int) -> tuple[list[int], list[int]]:
    """Return the cheapest places of the line along a parameter that holds most points, and all its places."""
    others = np.delete(space.points, column, axis=1)
    keys, group = np.unique(others, axis=0, return_inverse=True)
    group = group.reshape(-1)
    names = [name for k, name in enumerate(space.parameters) if k != column]
    best: tuple[tuple[int, bool, float], list[int], list[int]] | None = None
    for number in range(len(keys)):
        members = np.flatnonzero(group == number)
        members = members[np.argsort(cost[members], kind="stable")]
        judged = members[:length]
        communicates = space.ranks not in names or bool(keys[number][names.index(str(space.ranks))] > 1)
        merit = (len(judged), communicates, -float(cost[judged].sum()))
        if best is None or merit > best[0]:
            best = (merit, judged.tolist(), members.tolist())
    assert best is not None
    return best[1:]


def _rungs(space: Space, indices: Ids) -> Ids:
    """Return how far up each point is: the largest rank of its values among those of the base."""
    base = space.points[indices]
    out = np.zeros(len(indices), dtype=np.int64)
    for column in range(base.shape[1]):
        out = np.maximum(out, np.searchsorted(np.unique(base[:, column]), base[:, column]))
    return out


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
    published
        Whether the points off the lines are the cheapest, as published, instead of far ones.
    """

    repetitions: int = 2
    length: int = LINE_LENGTH
    off_lines: bool = True
    published: bool = False

    def indices(self, space: Space, affordable: Mask | None = None) -> Ids:
        """Return the indices of the base, cheapest first; off the lines only `affordable` ones (point,)."""
        return base_indices(space, self.length, self.off_lines, affordable, published=self.published)

    def advice(self, state: PlanningState, share: float = 1.0, together: float = 1.0) -> Advice | None:
        """Return the missing runs of the base; None if no affordable one is missing.

        The first repetition of all points comes before the second of any. Nothing is known before the first run: then
        only the lower three values of each parameter are taken, afterwards one value more at a time, so that models
        can warn of what does not fit.

        Parameters
        ----------
        share, together
            Of what is left of the budget, that one run and all runs of a round may take.
        """
        affordable = (state.cost <= share * state.left) | (state.runs > 0) if state.has_costs else None
        base = self.indices(state.space, affordable)
        base = base[state.free[base]]
        height = _rungs(state.space, base)
        for repetition in range(1, self.repetitions + 1):
            missing = state.runs[base] < repetition
            if not missing.any():
                continue
            if not state.has_costs:
                return self._of(state, base[missing & (height < FEW)].tolist() or base[missing].tolist())
            open_ = missing & (state.cost[base] <= share * state.left)
            if not open_.any():
                return None
            reach = max(FEW - 1, int(height[open_].min()))
            chosen = base[open_ & (height <= reach)]
            total = np.cumsum(state.cost[chosen])
            return self._of(state, chosen[total <= max(together * state.left, state.cost[chosen[0]])].tolist())
        return None

    def _of(self, state: PlanningState, chosen: list[int]) -> Advice:
        return Advice(state.suggestions(chosen, [0.0] * len(chosen), [BASE] * len(chosen)))


TWICE, ONCE = Base(2, published=True), Base(1)


@dataclass(frozen=True)
class BeginsWithBase:
    """What strategies have in common that begin with a base, by default the published one."""

    base: Base = TWICE

    @property
    def abilities(self) -> Abilities:
        """What it can do."""
        return Abilities(
            base_repetitions=self.base.repetitions,
            base="published" if self.base.published else "cheapest",
            patience=hasattr(self, "patience"),
        )

    def configured(self, settings: Settings) -> Self:
        """Return it with the settings that it has attributes for, and its own base where none is wished."""
        return settings.given_to(self)

    def suggest(self, state: PlanningState) -> Advice:
        """Return the missing runs of the base, afterwards what the strategy itself chooses."""
        return self.base.advice(state) or self.next(state)

    def next(self, state: PlanningState) -> Advice:
        """Return the next runs once the base is measured, as far as it is affordable."""
        raise NotImplementedError


def pilot_indices(points: Array) -> list[int]:
    """Return the indices of pilot points, ascending.

    These are the lines through the smallest point along each parameter, with the three smallest values, and the point
    at which all parameters have their second value, which tells products from sums. Where a campaign's points have no
    such lines, the cheapest ones stand in.

    Parameters
    ----------
    points
        Shape (point, parameter), cheapest first.
    """
    count, parameters = points.shape
    ranks = np.stack([np.unique(column, return_inverse=True)[1] for column in points.T], axis=1).reshape(count, -1)
    # the first values along each axis from the smallest point, and the second of all
    moved = (ranks > 0).sum(axis=1)
    chosen = (moved <= 1) & (ranks.max(axis=1) < FEW)
    if parameters > 1:
        chosen |= (ranks == 1).all(axis=1)
    least = np.array([min(FEW, len(np.unique(column))) for column in points.T])
    there = [len(np.unique(ranks[chosen, i])) for i in range(parameters)]
    if (np.array(there) < least).any():
        chosen[: 2 * parameters + 2] = True
    return np.flatnonzero(chosen).tolist()


def missing_points(points: Array, measured: Sequence[int], order: Sequence[int]) -> list[int]:
    """Return the points that are to be added to those that are measured, most needed first.

    Wanted are three values of each parameter, and points that tell the effects of all parameters, and a product of
    two from their sum, apart: the columns 1, log x and log x log y must be independent on them. In a full matrix
    these are lines through the cheapest point and points next to them; in a band along a diagonal, where such lines
    are expensive or do not exist, two cheap diagonals.

    A second value of each parameter comes first, then the cheapest: a model of runs that differ in one parameter alone
    says nothing of the others, whatever it costs to find that out.

    Parameters
    ----------
    points
        Shape (point, parameter).
    measured, order
        Indices of points with runs, and of those that may be added, cheapest first.
    """
    chosen = list(measured)
    for index in order:
        if any(_new(points, chosen, index, column) for column in range(points.shape[1])):
            chosen.append(index)
    columns = _columns(points)
    rank, most = _rank(columns, chosen), _rank(columns, range(len(columns)))
    for index in order:
        if rank == most:
            break
        with_it = _rank(columns, [*chosen, index])
        if with_it > rank:
            chosen.append(index)
            rank = with_it
    return _most_needed_first(points, list(measured), set(chosen) - set(measured), order)


def smallest(space: Space) -> list[int]:
    """Return the first points of a space that together leave no `missing_points`."""
    return missing_points(space.points, (), range(len(space.points)))


def covered(space: Space, indices: Collection[int]) -> bool:
    """Tell whether these points leave no `missing_points`."""
    others = [index for index in range(len(space.points)) if index not in set(indices)]
    return not missing_points(space.points, sorted(set(indices)), others)


def _most_needed_first(points: Array, there: list[int], needed: set[int], order: Sequence[int]) -> list[int]:
    """Sort wanted points: those with a second value of a parameter, then the others, each by the given order."""
    rest = [index for index in order if index in needed]
    first: list[int] = []
    while rest:
        seen = [*there, *first]
        new = (p for p in rest if any(_new(points, seen, p, column, 2) for column in range(points.shape[1])))
        index = next(new, None)
        if index is None:
            break
        first.append(index)
        rest.remove(index)
    return first + rest


def _new(points: Array, chosen: list[int], index: int, column: int, most: int = FEW) -> bool:
    """Tell whether a point has a value of a parameter that is wanted in addition to those that were chosen."""
    seen = np.unique(points[chosen, column])
    return len(seen) < most and points[index, column] not in seen


def _columns(points: Array) -> Array:
    """Return shape (point, column): 1, the parameters' logarithms between -1 and 1, and their products."""
    logs = np.log(np.maximum(points, np.finfo(np.float64).tiny))
    middle, half = (logs.max(axis=0) + logs.min(axis=0)) / 2, np.ptp(logs, axis=0) / 2
    scaled = (logs - middle) / np.where(half > 0, half, 1.0)
    products = [scaled[:, i] * scaled[:, j] for i, j in combinations(range(scaled.shape[1]), 2)]
    return np.stack([np.ones(len(points)), *scaled.T, *products], axis=1)


def _rank(columns: Array, indices: Sequence[int]) -> int:
    if not len(indices):
        return 0
    sizes = np.linalg.svd(columns[list(indices)], compute_uv=False)
    return int((sizes > SINGULAR * sizes[0]).sum())
