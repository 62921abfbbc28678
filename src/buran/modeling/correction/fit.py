"""Bounded least squares for many candidates at once: projected Levenberg-Marquardt on arrays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from buran.modeling.correction.formula import Array

Residuals = Callable[[Array, NDArray[np.int64]], Array]
"""Shape (candidate, residual) of coordinates (candidate, coordinate) and the candidates' numbers (candidate,)."""

_STEP = 1e-6  # of the unit box, for differences


@dataclass(frozen=True)
class Fits:
    """Minima.

    Attributes
    ----------
    at
        Shape (candidate, coordinate).
    cost
        Sum of squared residuals, shape (candidate,); infinite where there is no value at the start.
    """

    at: Array
    cost: Array


def least_squares(residuals: Residuals, start: Array, upper: Array | float = 1.0, iterations: int = 30) -> Fits:
    """Minimise sums of squares over a box from 0 to `upper`.

    Parameters
    ----------
    residuals
        The function; non-finite values are allowed anywhere but at the start.
    start
        Shape (candidate, coordinate), inside the box.
    upper
        Upper ends, of a shape that broadcasts to that of `start`; 0 holds a coordinate fixed.
    iterations
        At most; each costs a Jacobian.
    """
    at = np.array(start, dtype=np.float64)
    batch, size = at.shape
    most = np.broadcast_to(np.asarray(upper, dtype=np.float64), at.shape)
    value = residuals(at, np.arange(batch))
    cost = _cost(value)
    damping = np.full(batch, 1e-3)
    active = np.flatnonzero(np.isfinite(cost))
    for _ in range(iterations):
        if not len(active):
            break
        current, residual, limit = at[active], value[active], most[active]
        jacobian = _jacobian(residuals, current, residual, limit, active)
        # g = J r and J J^T of each candidate; a coordinate at an end of its range, from where descent leads out, rests
        gradient = np.einsum("bcr,br->bc", jacobian, residual)
        stuck = ((current <= 0) & (gradient > 0)) | ((current >= limit) & (gradient < 0))
        jacobian = np.where(stuck[:, :, None], 0.0, jacobian)
        gradient = np.where(stuck, 0.0, gradient)
        normal = jacobian @ jacobian.transpose(0, 2, 1)
        diagonal = np.einsum("bcc->bc", normal)
        # Levenberg-Marquardt: (J J^T + damping diag(J J^T)) step = -g, with an identity for coordinates that rest
        scale = np.maximum(diagonal, 1e-12 * np.max(diagonal, axis=1, keepdims=True, initial=0.0) + 1e-30)
        system = normal + damping[active][:, None, None] * (scale[:, :, None] * np.eye(size))
        step = -np.linalg.solve(system + np.eye(size) * (stuck * 1.0)[:, :, None], gradient[:, :, None])[:, :, 0]
        trial = np.clip(current + np.where(stuck, 0.0, step), 0.0, limit)
        tried = residuals(trial, active)
        new = _cost(tried)
        # a step that lowers the cost is kept and damped less from there; another one is damped more and tried again
        better = new < cost[active]
        gain = cost[active] - new
        kept = active[better]
        at[kept], value[kept] = trial[better], tried[better]
        settled = (better & (gain <= 1e-7 * cost[active])) | (cost[active] <= 1e-24)
        cost[kept] = new[better]
        damping[active] = np.where(better, damping[active] * 0.2, damping[active] * 8.0)
        settled |= damping[active] > 1e8
        active = active[~settled]
    return Fits(at, cost)


def left_out_cost(residuals: Residuals, at: Array, upper: Array | float = 1.0) -> Array:
    """Return the sum of squares with each residual predicted by a fit to the others, where the model is linear.

    Coordinates that lie on their bounds are taken as fixed. A residual that alone determines a coordinate makes
    the sum infinite.

    Returns
    -------
    array
        Shape (candidate,).
    """
    most = np.broadcast_to(np.asarray(upper, dtype=np.float64), at.shape)
    everyone = np.arange(len(at))
    residual = residuals(at, everyone)
    jacobian = _jacobian(residuals, at, residual, most, everyone)
    jacobian = np.where(((at <= 0) | (at >= most))[:, :, None], 0.0, jacobian)
    size = np.sqrt(np.einsum("bcr,bcr->bc", jacobian, jacobian))
    scaled = np.divide(jacobian, size[:, :, None], out=np.zeros_like(jacobian), where=size[:, :, None] > 0)
    _, values, basis = np.linalg.svd(scaled, full_matrices=False)
    leverage = np.einsum("bcr,bc->br", basis**2, (values > 1e-6).astype(np.float64))
    rest = np.divide(residual, 1 - leverage, out=np.where(residual == 0, 0.0, np.inf), where=leverage < 1 - 1e-6)
    return _cost(rest)


def _jacobian(residuals: Residuals, current: Array, residual: Array, most: Array, active: NDArray[np.int64]) -> Array:
    """Return shape (candidate, coordinate, residual), by differences that stay inside the box."""
    batch, size = current.shape
    step = np.where(current + _STEP <= most, _STEP, -_STEP)
    step = np.where(most > 0, step, 0.0)
    moved = current[:, None, :] + np.eye(size) * step[:, None, :]
    values = residuals(moved.reshape(batch * size, size), np.repeat(active, size)).reshape(batch, size, -1)
    slope = np.divide(
        values - residual[:, None, :], step[:, :, None], out=np.zeros_like(values), where=step[:, :, None] != 0
    )
    return np.where(np.isfinite(slope), slope, 0.0)


def _cost(values: Array) -> Array:
    total = np.einsum("br,br->b", values, values)
    return np.where(np.isfinite(total), total, np.inf)
