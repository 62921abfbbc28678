"""Points for finding functions, not for modelling them well: few, small, and along every parameter."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from buran.modeling.numerics.tuning import FEW


def pilot_indices(points: NDArray[np.float64]) -> list[int]:
    """Return the indices of pilot points, ascending.

    These are the lines through the smallest point along each parameter, with the three smallest values, and the point
    at which all parameters have their second value, which tells products from sums. Where a campaign's points have no
    such lines, the cheapest ones stand in.

    Parameters
    ----------
    points
        Shape (point, parameter), cheapest first.
    """
    count, parameters = points.shape
    ranks = np.stack([np.unique(column, return_inverse=True)[1] for column in points.T], axis=1).reshape(count, -1)
    moved = (ranks > 0).sum(axis=1)
    chosen = (moved <= 1) & (ranks.max(axis=1) < FEW)
    if parameters > 1:
        chosen |= (ranks == 1).all(axis=1)
    least = np.array([min(FEW, len(np.unique(column))) for column in points.T])
    there = [len(np.unique(ranks[chosen, i])) for i in range(parameters)]
    if (np.array(there) < least).any():
        chosen[: 2 * parameters + 2] = True
    return np.flatnonzero(chosen).tolist()
