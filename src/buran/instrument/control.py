"""Overhead as a controlled quantity: what a visit costs is known, so what a filter costs can be chosen."""

from __future__ import annotations

import numpy as np

from buran.instrument.prediction import Mask, RegionPrediction
from buran.instrument.tuning import FILTERS


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
