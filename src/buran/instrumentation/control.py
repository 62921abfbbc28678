"""Overhead as a controlled quantity: what a visit costs is known, so what a filter costs can be chosen."""

from __future__ import annotations

import numpy as np
from scipy.stats import t as student_t

from buran.instrumentation.measured import MeasuredOverhead
from buran.instrumentation.prediction import Floats, Mask, RegionPrediction
from buran.instrumentation.tuning import MOST_EXPENSIVE_VISIT
from buran.modeling.numerics.least_squares import nonnegative
from buran.modeling.numerics.tuning import MATTERS


def times_as_expensive(predicted: Floats, measured: Floats, plain_s: Floats) -> float:
    """Return how many times what was predicted hooks cost in the program itself, up to `MOST_EXPENSIVE_VISIT`.

    Hooks keep a compiler from inlining, and a loop over an empty function has its caches for itself. Start-up and
    shutdown of the measurement, which take as long in every run, are fitted beside the factor.

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
    return min(max(factor, 1.0), MOST_EXPENSIVE_VISIT)


def beyond_startup(left: Floats, plain_s: Floats, ranks: Floats) -> tuple[MeasuredOverhead | None, Floats]:
    """Tell what grows with the run time from start-up of the measurement system, the same time in every process.

    Parameters
    ----------
    left
        Shape (point,): measured overhead, of the time without instrumentation.
    plain_s
        Shape (point,): CPU time without instrumentation, of all ranks.
    ranks
        Shape (point,): number of processes.

    Returns
    -------
    beyond
        Share that is the same at all points, with its 90 % interval; None without points, and without an interval where
        fewer than four tell.
    startup
        Shape (point,): share of start-up. It takes all where the points do not prove that something else grows.
    """
    if not len(left):
        return None, np.zeros(0)
    # left = beyond + seconds * ranks / plain, seconds >= 0
    each = ranks / plain_s
    columns = np.stack([np.ones_like(each), each], axis=1)
    solution, *_ = np.linalg.lstsq(columns, left, rcond=None)
    if solution[1] < 0 or np.ptp(each) <= 0:
        columns, solution = columns[:, :1], np.array([left.mean(), 0.0])
    free = len(left) - columns.shape[1]
    interval = None
    if free >= 2:
        scatter = float(((left - columns @ solution[: columns.shape[1]]) ** 2).sum()) / free
        error = float(np.sqrt(scatter * np.linalg.inv(columns.T @ columns)[0, 0])) * float(student_t.ppf(0.95, free))
        interval = (float(solution[0]) - error, float(solution[0]) + error)
    proven = interval is not None and interval[0] > 0
    alone = max(float((left * each).sum() / (each**2).sum()), 0.0)
    return MeasuredOverhead(float(solution[0]), interval), (solution[1] if proven else alone) * each


def within_overhead(prediction: RegionPrediction, keep: Mask, worth: Floats, fixed: Mask, limit: float | None) -> Mask:
    """Choose functions as far as the predicted overhead is allowed, at the target and over all points together.

    Those stay first whose time without their hooks is the largest for each second of hooks; one that no longer fits
    makes room for the next. What all together costs next to nothing stays in any case.

    Parameters
    ----------
    prediction
        Predictions for all regions.
    keep, fixed
        Shape (region,): what would be kept, and what of it may not be dropped.
    worth
        Shape (region,): what is known by a function's hooks, as a share of the time; 0 where it only leads to others.
    limit
        Time in hooks over time without; None for no limit.
    """
    hooks, bare = prediction.at_most
    if limit is None:
        return keep.copy()
    costs = hooks / np.where(bare > 0, limit * bare, np.inf)[None]  # of what is allowed
    most = costs.max(axis=1)
    cheapest = np.argsort(most, kind="stable")
    few = np.zeros_like(keep)
    few[cheapest] = np.cumsum(np.where(keep & ~fixed, most, 0.0)[cheapest]) <= MATTERS
    out: Mask = keep & (fixed | few | ~prediction.filterable)
    choice = np.flatnonzero(keep & ~out)
    spent = costs[out].sum(axis=0)
    for i in choice[np.lexsort((most[choice], -worth[choice] / most[choice]))].tolist():
        if (spent + costs[i] <= 1).all():
            out[i] = True
            spent += costs[i]
    return out
