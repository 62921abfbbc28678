"""Overhead as a controlled quantity: what a visit costs is known, so what a filter costs can be chosen."""

from __future__ import annotations

import numpy as np

from buran.instrument.prediction import Floats, Mask, RegionPrediction
from buran.instrument.tuning import FILTERS
from buran.numerics.least_squares import nonnegative


def times_as_expensive(predicted: Floats, measured: Floats, plain_s: Floats) -> float:
    """Return how many times what was predicted hooks cost in the program itself, up to `FILTERS.dearest_visit`.

    Hooks keep a compiler from inlining, and a loop over an empty function has its caches for itself. What is as long in
    every run, starting and ending the measurement, is told apart from them.

    Parameters
    ----------
    predicted, measured
        Shape (point,): overhead.
    plain_s
        Shape (point,): CPU time without hooks.
    """
    some = (predicted > 0) & (plain_s > 0)
    if not some.any():
        return 1.0
    columns = np.stack([predicted[some], 1 / plain_s[some]], axis=1)
    factor = float(nonnegative(columns if some.sum() > 1 else columns[:, :1], measured[some])[0])
    return min(max(factor, 1.0), FILTERS.dearest_visit)


def within_overhead(prediction: RegionPrediction, keep: Mask, kernels: Mask, fixed: Mask, limit: float | None) -> Mask:
    """Drop functions until the predicted overhead is allowed at every measured point.

    The least informative go first: those whose time, without their hooks, is the smallest for each visit they cost.
    A function that only leads to others informs of nothing but the way.

    Parameters
    ----------
    prediction
        Predictions for all regions.
    keep, kernels, fixed
        Shape (region,): what would be kept, what of it is kept for itself, and what may not be dropped.
    limit
        Time in hooks over time without; None for no limit.
    """
    overhead = prediction.overhead(keep)
    if limit is None or not (overhead > limit).any():
        return keep
    hooks = np.nan_to_num(prediction.by_region(prediction.visits[:, 1:]) * prediction.visit_cost_s)
    hooks[~(keep & prediction.filterable)] = 0.0
    visits = np.nansum(prediction.by_region(prediction.visits[:, 1:])[prediction.filterable], axis=0)
    bare = np.nansum(prediction.measured_s, axis=0) - visits * prediction.visit_cost_s
    allowed = limit * np.maximum(bare, 0.0)
    costs = (hooks / np.where(allowed > 0, allowed, np.inf)[None]).max(axis=1)  # of what is allowed
    worth = np.where(kernels, np.nan_to_num(prediction.bare_share), 0.0)
    out = keep.copy()
    for least in (FILTERS.worth_a_look, 0.0):
        choice = np.flatnonzero(out & prediction.filterable & ~fixed & (costs > least))
        order = np.lexsort((-costs[choice], worth[choice] / costs[choice]))
        for i in choice[order].tolist():
            if (hooks[out].sum(axis=0) <= allowed).all():
                return out
            out[i] = False
    return out
