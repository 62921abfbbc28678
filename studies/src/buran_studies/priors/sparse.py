"""Sparse plans: which few points tell a prior, and which the coefficients."""

from __future__ import annotations

import numpy as np

from buran.errors import UsageError
from buran.modeling.functions.terms import Array
from buran.modeling.numerics.least_squares import Ids

_LEAST_VALUES = 5  # of a parameter, to tell its factors
_CROSSING = 3  # values of each line that crosses the first


def effort_points(points: Array, costs: Array) -> Ids:
    """Choose points that exact counts are modelled from: the cheapest line of each parameter, and a piece of the next.

    Counts have no noise: a line tells the factors of a parameter, and three points of another one tell whether the
    other parameters change them.

    Parameters
    ----------
    points
        Shape (point, parameter), distinct rows.
    costs
        Shape (point,): what a run costs.

    Returns
    -------
    array
        Shape (chosen,): rows of `points`, ascending.

    Raises
    ------
    UsageError
        If there is no line of points along a parameter that varies.
    """
    chosen: set[int] = set()
    for parameter in range(points.shape[1]):
        if len(np.unique(points[:, parameter])) < 2:
            continue
        others = np.delete(points, parameter, axis=1)
        _, group = np.unique(others, axis=0, return_inverse=True)
        group = group.reshape(-1)
        number = np.bincount(group)
        price = np.bincount(group, weights=costs)
        longest = number.max()
        if longest < 3:
            raise UsageError(
                "a prior needs points that differ in one parameter alone",
                why=f"along parameter {parameter} no three points do",
            )
        full = np.flatnonzero(number >= min(longest, _LEAST_VALUES))
        for place, line in enumerate(full[np.argsort(price[full], kind="stable")[:2]].tolist()):
            rows = np.flatnonzero(group == line)
            rows = rows[np.argsort(costs[rows], kind="stable")]
            chosen.update((rows if place == 0 else rows[:_CROSSING]).tolist())
    return np.array(sorted(chosen), dtype=np.int64)


def time_points(points: Array, costs: Array, budget: float) -> Ids:
    """Choose the cheapest points for times that a budget allows; coefficients of a prior need no more than that.

    Parameters
    ----------
    points
        Shape (point, parameter).
    costs
        Shape (point,): what a run costs.
    budget
        In the unit of `costs`.

    Returns
    -------
    array
        Shape (chosen,): rows of `points`, ascending; the cheapest one at least.
    """
    order = np.argsort(costs, kind="stable")
    affordable = int((np.cumsum(costs[order]) <= budget).sum())
    return np.sort(order[: max(affordable, 1)]).astype(np.int64)
