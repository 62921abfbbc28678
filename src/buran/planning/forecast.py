"""Predicted run times, from models of finished runs."""

from __future__ import annotations

import numpy as np

from buran.modeling.numerics.least_squares import exponents
from buran.modeling.numerics.tuning import FEW, FLOOR
from buran.planning.observations import Observations
from buran.planning.space import Array, Mask, Space


def predicted_s(measured: Observations, space: Space) -> Array | None:
    """Predict the run time at each point (point,); None where nothing is known.

    From the models of call paths, or of the whole program; at measured points their mean. A prediction below the
    shortest run that was seen, a negative one among them, is none: powers of the parameters take its place. Before
    three points ran, the longest run so far counts for all, unless counts say how the times of call paths grow.
    """
    if space.known_s is not None:
        return space.known_s
    measured_before = measured.is_timed
    if not measured_before.any():
        return space.expected_s
    seen = measured.program_means_s[measured_before]
    known = measured_before.sum() >= FEW or known_share(measured) > 1 / 2
    out = _modelled_s(measured, space, measured_before) if known else None
    if out is None:
        out = np.full(len(space.points), seen.max()) if space.expected_s is None else space.expected_s.copy()
    else:
        out = np.maximum(np.where(out >= seen.min(), out, by_powers_s(measured, space)), seen.min())
    at = space.indices(measured.points[measured_before])
    out[at[at >= 0]] = seen[at >= 0]
    return np.asarray(out)


def known_share(measured: Observations) -> float:
    """Return the share of the time that is in call paths whose growth counts show; 1 for all before any is timed."""
    if not measured.priors:
        return 0.0
    times = np.ones(len(measured.priors)) if measured.groups is None else measured.groups == 0
    seconds = times * np.nansum(measured.means, axis=1)
    known = np.array([prior is not None for prior in measured.priors])
    total = float(seconds.sum())
    return float(seconds[known].sum()) / total if total > 0 else float(known.all())


def by_powers_s(measured: Observations, space: Space) -> Array:
    """Return the run time at each point (point,) by powers; zero where too few points ran, or run times are known."""
    present = measured.is_timed
    if space.known_s is not None or present.sum() < FEW:
        return np.zeros(len(space.points))
    return np.asarray(by_powers(measured.points[present], measured.program_means_s[None, present], space.points)[0])


def by_powers(points: Array, values: Array, at: Array) -> Array:
    """Predict by products of powers of the parameters, which have no outliers.

    Sums of terms with coefficients from few points may come to anything far from these.

    Parameters
    ----------
    points
        Shape (point, parameter).
    values
        Shape (call path, point); what is missing, or less than a thousandth of the largest, counts as that.
    at
        Shape (target, parameter).

    Returns
    -------
    array
        Shape (call path, target).
    """
    tiny = np.finfo(np.float64).tiny
    largest = np.nanmax(np.abs(values), axis=1, initial=tiny, keepdims=True)
    known = np.fmax(values, FLOOR * largest)
    there, sample = np.maximum(at, tiny), np.maximum(points, tiny)
    growth = (np.log(there) - np.log(sample).mean(axis=0)) @ exponents(sample, known).T
    return np.asarray(np.exp(np.log(known).mean(axis=1, keepdims=True) + growth.T))


def _modelled_s(measured: Observations, space: Space, measured_before: Mask) -> Array | None:
    """Predict by models: shape (point,), None without one.

    Start and end of a program hide in its wall time how the rest of it grows. Where the terms of call paths are known
    from counts, their models are added up, and what wall times have beyond them is taken to stay.
    """
    if measured.program_s is None or not any(prior is not None for prior in measured.priors):
        model = measured.program_fit.models[0]
        return None if model is None else model.predict(space.points)
    times = slice(None) if measured.groups is None else measured.groups == 0
    at = np.vstack([space.points, measured.points[measured_before]])
    total = np.nansum(measured.fit.predict(at)[times], axis=0)
    remainder = measured.program_means_s[measured_before] - total[len(space.points) :]
    return np.asarray(total[: len(space.points)] + np.median(remainder))
