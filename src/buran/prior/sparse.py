"""Sparse plans: which few points tell a prior, and which the coefficients."""

from __future__ import annotations

import numpy as np

from buran.errors import UsageError
from buran.model.candidates import Ids
from buran.model.terms import Array

LEAST_VALUES = 5  # of a parameter, to tell its factors


def effort_points(points: Array, costs: Array) -> Ids:
    """Choose points that exact counts are modelled from: the cheapest line of each parameter, and one that crosses it.

    Counts have no noise, so that two lines tell the factors of a parameter and whether other parameters change them.

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
        full = np.flatnonzero(number >= min(longest, LEAST_VALUES))
        for line in full[np.argsort(price[full], kind="stable")[:2]]:
            chosen.update(np.flatnonzero(group == line).tolist())
    return np.array(sorted(chosen), dtype=np.int64)


def time_points(design: Array, costs: Array, budget: float, noise: Array | None = None) -> Ids:
    """Choose points that tell coefficients well for their price, at most for a budget.

    Beginning with the cheapest points that tell all coefficients, the point is added that gains most information on
    the prediction at the largest point (its relative variance) for its cost, until nothing more can be paid.

    Parameters
    ----------
    design
        Shape (point, column): a prior, or the columns of several; divided by the expected times, so that noise is the
        same everywhere. The last row is the point to predict, which cannot be chosen.
    costs
        Shape (point,): without the last row.
    budget
        In the unit of `costs`.
    noise
        Shape (point,): relative noise; the same everywhere by default.
    """
    rows, target = design[:-1], design[-1]
    if noise is not None:
        rows = rows / noise[:, None]
    columns = rows.shape[1]
    scale = np.maximum(np.abs(rows).max(axis=0), np.finfo(float).tiny)
    rows, target = rows / scale, target / scale
    information = 1e-9 * np.eye(columns)
    left, spent, chosen = set(range(len(rows))), 0.0, list[int]()
    while left:
        inverse = np.linalg.inv(information)
        affordable = np.array([i for i in sorted(left) if spent + costs[i] <= budget], dtype=np.int64)
        if not len(affordable):
            break
        own = rows[affordable]
        reach = own @ inverse
        gain = (reach @ target) ** 2 / (1 + (reach * own).sum(axis=1))
        best = int(affordable[int(np.argmax(gain / costs[affordable]))])
        information = information + np.outer(rows[best], rows[best])
        spent += float(costs[best])
        chosen.append(best)
        left.remove(best)
    return np.array(sorted(chosen), dtype=np.int64)
