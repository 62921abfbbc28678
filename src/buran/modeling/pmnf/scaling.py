"""Strong scaling: times that fall because the work is divided."""

from __future__ import annotations

import numpy as np

from buran.errors import UsageError
from buran.modeling.pmnf.candidates import lines
from buran.modeling.pmnf.terms import Array
from buran.modeling.pmnf.tuning import STEADY


def falling_parameters(points: Array, totals: Array) -> tuple[int, ...]:
    """Find the parameters along which the whole program gets faster: signs of strong scaling.

    Parameters
    ----------
    points
        Shape (point, parameter).
    totals
        Shape (point,): the metric of the whole program; NaN where it is not known.

    Returns
    -------
    tuple
        Columns of `points`. On most lines of three and more points that differ in this parameter alone, the value
        falls from step to step, and by a share of `STEADY` at least from the first point to the last.
    """
    measured = np.isfinite(totals)
    points, totals = points[measured], totals[measured]
    out = []
    for p in range(points.shape[1]):
        falls = []
        for group in lines(points, p) if len(points) else ():
            series = totals[group]
            falls += (
                (np.diff(series, axis=1) < 0).all(axis=1) & (series[:, -1] < (1 - STEADY) * series[:, 0])
            ).tolist()
        if falls and np.mean(falls) > 0.5:
            out.append(p)
    return tuple(out)


def to_resources(points: Array, values: Array, parameter: int) -> Array:
    """Multiply values (..., point) by the number of processes: what a run consumes, as in core seconds.

    Raises
    ------
    UsageError
        If a number of processes is not positive.
    """
    processes = points[:, parameter]
    if not (processes > 0).all():
        raise UsageError(
            "the number of processes must be positive", why=f"a point has {processes[~(processes > 0)][0]:g}"
        )
    return values * processes
