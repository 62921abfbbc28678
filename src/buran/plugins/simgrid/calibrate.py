"""Making a calibration: what computing costs on the machine of a measured campaign, for simulated ones."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from buran.campaign.config import Campaign
from buran.campaign.plan import Mode
from buran.features import sections_of
from buran.files import write_json
from buran.modeling.functions.terms import Array, predict
from buran.modeling.pmnf.model_set import ModelSet
from buran.modeling.priors.effort import effort_of
from buran.plugins.simgrid.calibration import CALIBRATION, Calibration, weights
from buran.profiles.experiment.build import Run, experiment_from_profiles
from buran.profiles.experiment.merge import merge_metrics, project
from buran.profiles.experiment.table import Experiment
from buran.profiles.profile import CallTree
from buran.reporting.content import Report
from buran.workflow.collect import counts_at, only
from buran.workflow.history import History
from buran.workflow.report import counting_runs, newest_runs

Costs = NDArray[np.float64]
"""Logarithms of seconds for each block, shape (call path, point); NaN where nothing was computed."""
_TINY = np.finfo(np.float64).tiny
_STEP = 1.25
"""Factor between sizes beyond the measured ones: a cache is left over a factor of about two."""


@dataclass(frozen=True, eq=False)
class CostsBeyond:
    """What computing costs beyond the measured sizes, by models of times and of blocks.

    Attributes
    ----------
    points, nearest
        Shape (point, parameter): the measured point that each is compared with.
    growth
        By call path, shape (point,): factor by which a block is more expensive than there.
    uncertainty
        Half the width of the interval of the program's time at the farthest point, as a share of it.
    """

    points: Array
    nearest: Array
    growth: Mapping[str, Array]
    uncertainty: float


def costs_beyond(times: ModelSet, counted: Sequence[Run], tree: CallTree, campaign: Campaign) -> CostsBeyond | None:
    """Return what computing costs up to the target; None where all its sizes are among the measured ones.

    Parameters
    ----------
    times
        Models with the misses of caches.
    counted
        Profiles with basic blocks.
    tree
        Call paths of the times.
    """
    measured = np.array(times.points, dtype=np.float64)
    aim = np.array([float(campaign.target[name]) for name in times.parameters])
    fixed = {*campaign.parallel_parameters, *campaign.choices}
    grown = [k for k, name in enumerate(times.parameters) if name not in fixed and 0 < measured[:, k].max() < aim[k]]
    # points from the largest measured value to the target, along each parameter and along all
    points, nearest = [], []
    for k in grown:
        largest = measured[measured[:, k] == measured[:, k].max()]
        near = largest[np.argmin(np.abs(largest - aim).sum(axis=1))]
        steps = math.ceil(math.log(aim[k] / near[k], _STEP))
        for value in np.geomspace(near[k], aim[k], steps + 1)[1:].tolist():
            points.append(np.where(np.arange(len(aim)) == k, value, near))
            nearest.append(near)
    if len(grown) > 1:
        points.append(np.where(np.isin(np.arange(len(aim)), grown), aim, near))
        nearest.append(near)
    # growth of the time of a basic block, relative to the nearest measured point
    blocks = counts_at(counted, "basic_blocks", tree, np.array([*points, *nearest])) if points else None
    if blocks is None:
        return None
    with np.errstate(divide="ignore", invalid="ignore"):
        costs = times.predict(np.array([*points, *nearest])) / blocks
        growth = costs[:, : len(points)] / costs[:, len(points) :]
    farthest = np.array(points[-1:])
    low, high = (np.nansum(end[np.isfinite(end).all(axis=1)]) for end in times.predict_interval(farthest))
    return CostsBeyond(
        np.array(points),
        np.array(nearest),
        dict(zip(times.call_paths, np.where(np.isfinite(growth) & (growth > 0), growth, 1.0), strict=True)),
        float((high - max(low, 0.0)) / 2 / np.nansum(times.predict(farthest))),
    )


def write_calibration(history: History, report: Report, folder: Path) -> None:
    """Write what computing cost in a campaign that was measured, if its runs tell."""
    session, last = history.session, history.plans[-1].iteration - 1
    if session.campaign.is_simulated:
        return
    times, counted = history.models(last).get("time"), counting_runs(history)
    known = any(each.knows_costs for each, _ in sections_of(report))
    tree = history.findings(last).tree
    beyond = costs_beyond(times, counted, tree, session.campaign) if known and times is not None else None
    calibration = calibration_of(newest_runs(history, Mode.TIME), counted, session.campaign, beyond)
    if calibration is not None:
        write_json(folder / CALIBRATION, {"schema": Calibration.schema_read, **asdict(calibration)})


def calibration_of(
    timed: Sequence[Run], counted: Sequence[Run], campaign: Campaign, beyond: CostsBeyond | None = None
) -> Calibration | None:
    """Return what computing costs by the times and the basic blocks of runs; None if they do not say.

    Functions that the timed runs have no hooks in are part of their callers. Runs with more than one thread a rank do
    not count: their blocks take turns with others.

    Parameters
    ----------
    timed, counted
        Profiles with times, and with basic blocks.
    beyond
        Growth of costs beyond the measured sizes, where misses of caches are known.
    """
    sides = []
    for runs, metric in ((timed, "time"), (counted, "basic_blocks")):
        alone = [run for run in runs if campaign.threads(run[0]) == 1 and metric in run[2].metrics]
        if not alone:
            return None
        sides.append(only(experiment_from_profiles(alone), [metric]))
    hooked = {region.mangled for region in sides[0].tree.regions}
    table = merge_metrics(sides[0], project(sides[1], lambda region: region.mangled in hooked))
    time, blocks = np.nan_to_num(table.over_locations("time", "sum"), nan=-1.0), _blocks(table)
    seconds = np.where(time > 0, time, np.inf).min(axis=2)
    computed = (blocks > 0) & np.isfinite(seconds)
    if not computed.any():
        return None
    log_costs = np.where(computed, np.log(np.where(computed, seconds, 1.0) / np.where(computed, blocks, 1.0)), np.nan)
    there = computed.any(axis=0)
    seconds = np.where(computed, seconds, 0.0)[:, there]
    return _calibration(table, log_costs[:, there], seconds, there, campaign, beyond)


def _blocks(table: Experiment) -> Array:
    """Return the blocks of all ranks, shape (call path, point); -1 where they are not known.

    Strategies that weigh runs count at some points only: models of these counts tell those of the others.
    """
    blocks = np.nan_to_num(table.over_locations("basic_blocks", "sum"), nan=-1.0).max(axis=2)
    whole, mean = (np.nansum(table.over_locations("time", how), axis=(0, 2)) for how in ("sum", "mean"))
    counted = (blocks > 0).any(axis=0)
    missing = ~counted & (mean > 0)
    if missing.any() and counted.any():
        effort = effort_of(table.points[counted], table.over_locations("basic_blocks", "mean")[:, counted])
        there = predict(effort.functions, table.points[missing]) * (whole / np.maximum(mean, _TINY))[missing]
        blocks[:, missing] = np.nan_to_num(there, nan=-1.0)
    return np.asarray(blocks)


def _calibration(
    table: Experiment,
    log_costs: Costs,
    seconds: Array,
    there: NDArray[np.bool_],
    campaign: Campaign,
    beyond: CostsBeyond | None,
) -> Calibration:
    rows = _rows(table.tree, np.any(np.isfinite(log_costs), axis=1))
    points = table.points[there]
    log_costs, seconds = log_costs[rows], seconds[rows]
    # The root has the program's mean cost where it computes nothing itself: call paths without any take it.
    blocks = np.where(np.isfinite(log_costs), seconds / np.exp(log_costs), 0.0).sum(axis=0)
    log_costs[0] = np.where(np.isfinite(log_costs[0]), log_costs[0], np.log(seconds.sum(axis=0) / blocks))
    uncertainty, measured = _uncertainty(points, log_costs, seconds), len(points)
    if beyond is not None:
        points, log_costs = _with_costs_beyond(points, log_costs, [table.tree.names[row] for row in rows], beyond)
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
        uncertainty=uncertainty,
        modelled=len(points) - measured,
        uncertainty_beyond=None if beyond is None or len(points) == measured else beyond.uncertainty,
    )


def _with_costs_beyond(
    points: Array, log_costs: Costs, names: Sequence[str], beyond: CostsBeyond
) -> tuple[Array, Costs]:
    """Add points beyond the measured sizes: how much more expensive blocks are there is known."""
    index = {point: row for row, point in enumerate(map(tuple, points.tolist()))}
    at = np.array([index.get(tuple(point), -1) for point in beyond.nearest.tolist()])
    known = at >= 0
    growth = np.array([beyond.growth.get(name, np.ones(len(at)))[known] for name in names])
    further = log_costs[:, at[known]] + np.log(growth)
    return np.concatenate([points, beyond.points[known]]), np.concatenate([log_costs, further], axis=1)


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
            for index, weight in weights(of_parameter.tolist(), value).items():
                out[row, first + index] = weight
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


def _uncertainty(points: NDArray[np.float64], log_costs: Costs, seconds: NDArray[np.float64]) -> float | None:
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
            usable = np.isfinite(right) & np.any(np.isfinite(log_costs[:, without]), axis=1, keepdims=True)
            errors.append(np.abs(np.expm1(predicted - right))[usable])
            shares.append(seconds[:, inside][usable])
    if not errors or not sum(share.sum() for share in shares):
        return None
    return float(np.average(np.concatenate(errors), weights=np.concatenate(shares)))
