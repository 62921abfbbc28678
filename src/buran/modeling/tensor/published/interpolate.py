"""Prediction of the paper's model between its grid points."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np

from buran.errors import UsageError
from buran.modeling.tensor.axes import Array
from buran.modeling.tensor.published.cells import TensorMode

MOST_CORNERS = 12
_CHUNK = 1 << 16


def predict_log_linear(points: Array, modes: Sequence[TensorMode], factors: Sequence[Array]) -> Array:
    """Interpolate elements exp(t) between grid points (Eq. 5 of the CPR paper and the paragraph below it).

    Between nodes the times at the corners are interpolated in the values themselves, as the reference
    implementation does; beyond the first and last bound, the rows of the factors instead.

    Parameters
    ----------
    points
        Shape (point, parameter), encoded.

    Returns
    -------
    Array
        Shape (point,): times.

    Raises
    ------
    UsageError
        More than `MOST_CORNERS` parameters lie between grid points: each doubles the work.
    """
    parts = [points[i : i + _CHUNK] for i in range(0, len(points), _CHUNK)]
    return np.concatenate([_predict(part, modes, factors) for part in parts]) if parts else np.empty(0)


def _predict(points: Array, modes: Sequence[TensorMode], factors: Sequence[Array]) -> Array:
    base = np.ones((len(points), factors[0].shape[1]))
    split: list[tuple[Array, Array, Array]] = []
    for j, (mode, factor) in enumerate(zip(modes, factors, strict=True)):
        x = points[:, j]
        if mode.axis.is_categorical or mode.size == 1:
            base *= np.where((x >= 0)[:, None], factor[mode.nearest(x)], factor.mean(axis=0))
            continue
        low = np.clip(np.searchsorted(mode.nodes, x, side="right") - 1, 0, mode.size - 2)
        share = (x - mode.nodes[low]) / (mode.nodes[low + 1] - mode.nodes[low])
        edge = (x <= mode.bounds[0]) | (x > mode.bounds[-1]) | (share == 0) | (share == 1)
        if edge.all():
            base *= _mix(factor[low], factor[low + 1], share)
            continue
        left, right = factor[low], factor[low + 1]
        mixed = _mix(left[edge], right[edge], share[edge])
        left[edge] = right[edge] = mixed
        split.append((left, right, share))
    if len(split) > MOST_CORNERS:
        raise UsageError(
            f"the published interpolation cannot predict between grid points of {len(split)} parameters",
            why=f"it adds up 2^{len(split)} corners",
            hint="choose preset='default'",
        )
    out = np.zeros(len(points))
    for corner in product((False, True), repeat=len(split)):
        rows, weight = base, np.ones(len(points))
        for upper, (left, right, share) in zip(corner, split, strict=True):
            rows = rows * (right if upper else left)
            weight = weight * (share if upper else 1 - share)
        out += weight * np.exp(np.minimum(rows.sum(axis=1), 700.0))
    return out


def _mix(left: Array, right: Array, share: Array) -> Array:
    return (1 - share)[:, None] * left + share[:, None] * right
