"""Making a calibration: what computing costs on the machine of a measured campaign, for simulated ones."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from buran.campaign.calibration import Calibration, weights
from buran.campaign.config import Campaign
from buran.experiment.build import Run, experiment_from_profiles
from buran.experiment.merge import merge_metrics, project
from buran.experiment.table import Experiment
from buran.loop.collect import only
from buran.profile.profile import CallTree

Costs = NDArray[np.float64]
"""Logarithms of seconds for each block, shape (call path, point); NaN where nothing was computed."""


def calibration_of(timed: Sequence[Run], counted: Sequence[Run], campaign: Campaign) -> Calibration | None:
    """Return what computing costs by the times and the basic blocks of runs; None if they do not tell.

    Functions that the timed runs have no hooks in are part of their callers. Runs with more than one thread a rank do
    not count: their blocks take turns with others.

    Parameters
    ----------
    timed, counted
        Profiles with times, and with basic blocks.
    """
    sides = []
    for runs, metric in ((timed, "time"), (counted, "basic_blocks")):
        alone = [run for run in runs if campaign.threads(run[0]) == 1 and metric in run[2].metrics]
        if not alone:
            return None
        sides.append(only(experiment_from_profiles(alone), [metric]))
    hooked = {region.mangled for region in sides[0].tree.regions}
    table = merge_metrics(sides[0], project(sides[1], lambda region: region.mangled in hooked))
    time, blocks = (np.nan_to_num(table.over_locations(name, "sum"), nan=-1.0) for name in ("time", "basic_blocks"))
    blocks = blocks.max(axis=2)
    seconds = np.where(time > 0, time, np.inf).min(axis=2)
    computed = (blocks > 0) & np.isfinite(seconds)
    if not computed.any():
        return None
    log_costs = np.where(computed, np.log(np.where(computed, seconds, 1.0) / np.where(computed, blocks, 1.0)), np.nan)
    there = computed.any(axis=0)
    return _calibration(table, log_costs[:, there], np.where(computed, seconds, 0.0)[:, there], there, campaign)


def _calibration(
    table: Experiment, log_costs: Costs, seconds: NDArray[np.float64], there: NDArray[np.bool_], campaign: Campaign
) -> Calibration:
    rows = _rows(table.tree, np.any(np.isfinite(log_costs), axis=1))
    points = table.points[there]
    log_costs, seconds = log_costs[rows], seconds[rows]
    # The root has the program's mean cost where it computes nothing itself: call paths without any take it.
    blocks = np.where(np.isfinite(log_costs), seconds / np.exp(log_costs), 0.0).sum(axis=0)
    log_costs[0] = np.where(np.isfinite(log_costs[0]), log_costs[0], np.log(seconds.sum(axis=0) / blocks))
    model = _fit(points, log_costs)
    cuts = np.cumsum([len(np.unique(column)) for column in points.T])[:-1]
    effects = np.split(model[:, 1:], cuts, axis=1)
    has_base = np.any(np.isfinite(log_costs), axis=1).tolist()
    return Calibration(
        parameters=table.parameters,
        parallel=campaign.parallel_parameters,
        choices=campaign.choices,
        points=tuple(map(tuple, points.tolist())),
        depths=tuple(table.tree.depth[rows].tolist()),
        symbols=tuple(
            "" if table.tree.parent[row] < 0 else table.tree.regions[table.tree.region[row]].mangled for row in rows
        ),
        seconds_per_block=tuple(
            tuple(float(cost) if np.isfinite(cost) else None for cost in row) for row in np.exp(log_costs)
        ),
        base=tuple(float(row[0]) if has else None for row, has in zip(model, has_base, strict=True)),
        effects={
            name: tuple(map(tuple, effect.tolist())) for name, effect in zip(table.parameters, effects, strict=True)
        },
        doubt=_doubt(points, log_costs, seconds),
    )


def _rows(tree: CallTree, computing: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return the first root, and what computes or calls what does, in the tree's order."""
    needed = computing.copy()
    for row in range(len(tree) - 1, -1, -1):
        if needed[row] and tree.parent[row] >= 0:
            needed[tree.parent[row]] = True
    needed[0] = True
    beyond = np.flatnonzero(tree.parent < 0)[1:]  # of other processes: no part of the program's own tree
    needed[beyond[0] if len(beyond) else len(tree) :] = False
    return np.flatnonzero(needed)


def _design(points: NDArray[np.float64], values: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Return shape (point, 1 + value): the constant, and how much each value of each parameter counts."""
    out = np.zeros((len(points), 1 + sum(map(len, values))))
    out[:, 0] = 1.0
    first = 1
    for column, of_parameter in zip(points.T, values, strict=True):
        for row, value in enumerate(column.tolist()):
            for place, weight in weights(of_parameter.tolist(), value).items():
                out[row, first + place] = weight
        first += len(of_parameter)
    return out


def _fit(points: NDArray[np.float64], log_costs: Costs) -> NDArray[np.float64]:
    """Return shape (call path, 1 + value): the constant and the effects; of several as good, the smallest."""
    design = _design(points, [np.unique(column) for column in points.T])
    model = np.zeros((len(log_costs), design.shape[1]))
    patterns, pattern_of = np.unique(np.isfinite(log_costs), axis=0, return_inverse=True)
    for number, there in enumerate(patterns):
        if there.any():
            rows = np.flatnonzero(pattern_of.ravel() == number)
            costs = log_costs[rows][:, there]
            middle = np.median(costs, axis=1)
            model[rows] = np.linalg.lstsq(design[there], (costs - middle[:, None]).T, rcond=None)[0].T
            model[rows, 0] += middle
    return model


def _doubt(points: NDArray[np.float64], log_costs: Costs, seconds: NDArray[np.float64]) -> float | None:
    """Return the mean relative error at inner values that were left out, weighted by time."""
    errors, shares = [], []
    for column in points.T:
        for value in np.unique(column)[1:-1]:
            without, at = column != value, column == value
            model = _fit(points[without], log_costs[:, without])
            known = [np.unique(values) for values in points[without].T]
            inside = at & np.array([all(k[0] <= x <= k[-1] for k, x in zip(known, p, strict=True)) for p in points])
            predicted = model @ _design(points[inside], known).T
            right = log_costs[:, inside]
            told = np.isfinite(right) & np.any(np.isfinite(log_costs[:, without]), axis=1, keepdims=True)
            errors.append(np.abs(np.expm1(predicted - right))[told])
            shares.append(seconds[:, inside][told])
    if not errors or not sum(share.sum() for share in shares):
        return None
    return float(np.average(np.concatenate(errors), weights=np.concatenate(shares)))
