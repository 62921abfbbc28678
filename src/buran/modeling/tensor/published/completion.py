"""Completion of a tensor in CP form: alternating least squares, and alternating Newton steps for positive factors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from buran.modeling.numerics.tuning import STEPS
from buran.modeling.tensor.axes import Array, Whole

# Weight of the barrier at first (eta). Tuned: Section 6.0.4 of the CPR paper.
BARRIER_FIRST = 10.0
# Weight at and below which Newton steps end. Tuned: Section 6.0.4 of the CPR paper.
BARRIER_LAST = 1e-11
# By what the weight falls. Tuned: Section 6.0.4 of the CPR paper.
BARRIER_QUOTIENT = 8.0
# Newton steps for one weight, at most. Tuned: Section 6.0.4 of the CPR paper.
NEWTON_STEPS = 40
# Relative change of a factor that ends them. Tuned: the authors' program.
SMALL_STEP = 1e-3
# Share of an element that a step leaves, and of the curvature where the loss is not convex. Tuned: no record of its
# own; choices were made under seeds other than the reported one (evidence/tensor.md).
LEAST_SHARE = 0.1

Factors = list[Array]


def rows_product(factors: Sequence[Array], index: Whole, without: int | None = None) -> Array:
    """Return shape (element, rank): products of the factors' rows, one mode left out."""
    out: Array | None = None
    for j, factor in enumerate(factors):
        if j != without:
            rows = factor[index[:, j]]
            out = rows if out is None else np.multiply(out, rows, out=out)
    return np.ones((len(index), factors[0].shape[1])) if out is None else out


def complete(
    index: Whole, values: Array, sizes: Sequence[int], rank: int, ridge: float, sweeps: int, random: np.random.Generator
) -> Factors:
    """Fit a CP decomposition to the observed elements of a tensor.

    Row i of a mode solves ``(G + l I) u = b - l u_old``, where G and b are sums over the elements of the row: the
    update of the paper's reference implementation, at whose fixed point the ridge is 2 l. Rows without elements,
    which that update would only flip in sign, become zero, its fixed point.

    Parameters
    ----------
    index
        Shape (element, mode).
    values
        Shape (element,): logarithms of times.
    sizes
        Length of each mode.
    rank, ridge, sweeps
        l is `ridge` times the number of elements.
    random
        Source of the initial factors.

    Returns
    -------
    list of arrays
        Shape (length of the mode, rank), for each mode.
    """
    factors = [random.random((size, rank)) for size in sizes]
    weight = ridge * len(values)
    columns = list(index.T)
    orders = [np.argsort(column, kind="stable") for column in columns]
    starts = [np.searchsorted(c[o], np.arange(s + 1)) for c, o, s in zip(columns, orders, sizes, strict=True)]
    # Products are in single precision, for speed: their rounding is far below the ridge.
    target = values.astype(np.float32)[:, None]
    for _ in range(sweeps):
        # prod_{i > j} u_i for each mode j, then prod_{i < j} u_i on the way
        after = [np.ones((len(values), rank), dtype=np.float32)]
        for factor, column in zip(factors[:0:-1], columns[:0:-1], strict=True):
            after.append(after[-1] * factor.astype(np.float32)[column])
        before = np.ones_like(after[0])
        for j, (column, order, start) in enumerate(zip(columns, orders, starts, strict=True)):
            # (G + l I) u = b - l u_old for each row u
            both = np.concatenate([before * after.pop(), target], axis=1)[order]
            parts = np.split(both, start[1:-1])
            sums = np.stack([np.dot(part.T, part) for part in parts]).astype(np.float64)
            right = sums[:, rank, :rank] - weight * factors[j]
            system = sums[:, :rank, :rank] + weight * np.eye(rank)
            factors[j] = np.asarray(np.linalg.solve(system, right[..., None])[..., 0])
            factors[j][np.diff(start) == 0] = 0.0
            before *= factors[j].astype(np.float32)[column]
        # the columns of all modes get one norm, without a change of their products
        norms = np.stack([np.linalg.norm(factor, axis=0) for factor in factors])
        norms[norms == 0] = 1.0
        factors = [
            factor * (np.exp(np.log(norms).mean(axis=0)) / norm) for factor, norm in zip(factors, norms, strict=True)
        ]
    return factors


def complete_positive(
    index: Whole,
    times: Array,
    sizes: Sequence[int],
    rank: int,
    ridge: float,
    random: np.random.Generator,
) -> Factors:
    """Fit a CP decomposition with positive elements (Sections 4.2.2 and 5.3 of the CPR paper).

    Minimises the sum of ``(log t - log t^)^2``. The barrier's weight falls from 10 to 1e-11 by factors of 8 for each
    factor and sweep, as in the reference implementation. The best sweep counts.

    Parameters
    ----------
    index
        Shape (element, mode).
    times
        Shape (element,): above zero.

    Returns
    -------
    list of arrays
        Shape (length of the mode, rank), for each mode; all above zero.
    """
    scale = float(np.exp(np.log(times).mean()))
    values = times / scale
    # Of the size of the data: the ridge would slow down factors that have to make up for much smaller ones.
    factors = [random.uniform(0.5, 1.5, (size, rank)) * rank ** (-1 / len(sizes)) for size in sizes]
    best, best_error = [f.copy() for f in factors], np.inf
    for _ in range(STEPS):
        for j in range(len(sizes)):
            factors[j] = _newton(index, values, factors, j, ridge)
        model = rows_product(factors, index).sum(axis=1)
        error = float(np.mean(np.log(values / model) ** 2))
        if not np.isfinite(error):
            break
        if error < best_error:
            best, best_error = [f.copy() for f in factors], error
    share = scale ** (1 / len(sizes))
    return [factor * share for factor in best]


def _newton(index: Whole, values: Array, factors: Factors, j: int, ridge: float) -> Array:
    """Minimise over one factor: all its rows at once, each a system of the rank's size."""
    factor = factors[j].copy()
    size, rank = factor.shape
    count = len(values)
    product = rows_product(factors, index, without=j)
    position = index[:, j]
    # elements in the order of their row i of this factor, u_i; z, the product of the other factors, for each
    order = np.argsort(position, kind="stable")
    present, start = np.unique(position[order], return_index=True)
    product, position, ordered = product[order], position[order], values[order]
    squares = (product[:, :, None] * product[:, None, :]).reshape(count, rank * rank)
    eye = np.eye(rank)
    weight = ridge * count
    barrier = BARRIER_FIRST
    while barrier > BARRIER_LAST:
        eta = barrier * count
        for _ in range(NEWTON_STEPS):
            # Eqs. of section 4.2.2: t^ = <u_i, z>, and of each row gradient and Hessian of the squared logarithms,
            # of the ridge and of the barrier -eta log u: sums over the elements of the row
            model = np.maximum(np.einsum("nr,nr->n", product, factor[position]), 1e-300)
            gap = np.log(ordered / model)
            gradient = weight * factor - eta / (2 * factor)
            gradient[present] -= np.add.reduceat((gap / model)[:, None] * product, start, axis=0)
            curvature = (np.maximum(1 + gap, LEAST_SHARE) / model**2)[:, None] * squares
            hessian = np.zeros((size, rank, rank))
            hessian[present] = np.add.reduceat(curvature, start, axis=0).reshape(-1, rank, rank)
            hessian += (weight + eta / (2 * factor**2))[:, :, None] * eye
            step = np.linalg.solve(hessian, gradient[..., None])[..., 0]
            # a Newton step, cut so that all elements stay above zero
            moved = np.clip(factor - step, LEAST_SHARE * factor, factor / LEAST_SHARE)
            change = np.linalg.norm(moved - factor) / max(float(np.linalg.norm(factor)), 1e-300)
            factor = moved
            if change < SMALL_STEP:
                break
        barrier /= BARRIER_QUOTIENT
    return factor
