"""The fewest cheap points that show the effect of each parameter, which any model needs."""

from __future__ import annotations

from collections.abc import Collection
from itertools import combinations

import numpy as np

from buran.modeling.numerics.least_squares import SINGULAR
from buran.modeling.numerics.tuning import FEW
from buran.planning.forecast import Forecast
from buran.planning.space import Array, Space


def missing_points(forecast: Forecast, space: Space) -> list[int]:
    """Return the points that are to be added to those with runs, most needed first.

    Wanted are three values of each parameter, and points that tell the effects of all parameters, and a product of
    two from their sum, apart: the columns 1, log x and log x log y must be independent on them. In a full matrix
    these are lines through the cheapest point and points next to them; in a band along a diagonal, where such lines
    are expensive or do not exist, two cheap diagonals.

    A second value of each parameter comes first, then the cheapest: a model of runs that differ in one parameter alone
    says nothing of the others, whatever it costs to find that out.
    """
    assert forecast.cost is not None
    order = [
        int(index)
        for index in np.argsort(forecast.cost, kind="stable")
        if forecast.free[index] and not forecast.runs[index]
    ]
    chosen = np.flatnonzero(forecast.runs > 0).tolist()
    before = set(chosen)
    for index in order:
        if any(_new(space.points, chosen, index, column) for column in range(space.points.shape[1])):
            chosen.append(index)
    columns = _columns(space.points)
    rank, most = _rank(columns, chosen), _rank(columns, range(len(columns)))
    for index in order:
        if rank == most:
            break
        with_it = _rank(columns, [*chosen, index])
        if with_it > rank:
            chosen.append(index)
            rank = with_it
    return _most_needed_first(space.points, np.flatnonzero(forecast.runs > 0).tolist(), set(chosen) - before, order)


def smallest(space: Space) -> list[int]:
    """Return the first points of a space that together leave no `missing_points`."""
    return missing_points(_with_runs(space, ()), space)


def covered(space: Space, indices: Collection[int]) -> bool:
    """Tell whether these points leave no `missing_points`."""
    return not missing_points(_with_runs(space, indices), space)


def _with_runs(space: Space, indices: Collection[int]) -> Forecast:
    """Return a forecast with a run at each of these points, all at the same cost."""
    runs = np.zeros(len(space.points), dtype=np.int64)
    runs[list(indices)] = 1
    return Forecast(runs, np.ones(len(runs)), np.ones(len(runs), dtype=bool))


def _most_needed_first(points: Array, there: list[int], needed: set[int], order: list[int]) -> list[int]:
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


def _rank(columns: Array, indices: list[int] | range) -> int:
    if not len(indices):
        return 0
    sizes = np.linalg.svd(columns[list(indices)], compute_uv=False)
    return int((sizes > SINGULAR * sizes[0]).sum())
