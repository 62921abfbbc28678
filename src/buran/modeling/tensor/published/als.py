"""Completion of a tensor in CP form by alternating least squares."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from buran.modeling.tensor.axes import Array, Whole

Factors = list[Array]


def rows_product(factors: Sequence[Array], index: Whole, without: int | None = None) -> Array:
    """Return shape (element, rank): products of the factors' rows, one mode left out."""
    out: Array | None = None
    for j, factor in enumerate(factors):
        if j != without:
            rows = factor[index[:, j]]
            out = rows if out is None else np.multiply(out, rows, out=out)
    return np.ones((len(index), factors[0].shape[1])) if out is None else out


def balance(factors: Factors) -> None:
    """Give the columns of all modes one norm, without changing their products."""
    norms = np.stack([np.linalg.norm(factor, axis=0) for factor in factors])
    norms[norms == 0] = 1.0
    mean = np.exp(np.log(norms).mean(axis=0))
    for factor, norm in zip(factors, norms, strict=True):
        factor *= mean / norm


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
    count = len(values)
    weight = ridge * count
    columns = [np.ascontiguousarray(index[:, j]) for j in range(len(sizes))]
    orders = [np.argsort(column, kind="stable") for column in columns]
    starts = [np.searchsorted(c[o], np.arange(s + 1)).tolist() for c, o, s in zip(columns, orders, sizes, strict=True)]
    eye = weight * np.eye(rank)
    # Products are kept in single precision, for speed: their rounding is far below the ridge.
    after = [np.ones((count, rank), dtype=np.float32) for _ in sizes]
    before, rows = np.empty_like(after[0]), np.empty_like(after[0])
    work = np.empty((count, rank + 1), dtype=np.float32)
    work[:, rank] = values
    ordered = np.empty_like(work)
    for _ in range(sweeps):
        for j in range(len(sizes) - 1, 0, -1):
            np.take(factors[j].astype(np.float32), columns[j], axis=0, out=rows, mode="clip")
            np.multiply(after[j], rows, out=after[j - 1])
        before[:] = 1
        for j, size in enumerate(sizes):
            np.multiply(before, after[j], out=work[:, :rank])
            np.take(work, orders[j], axis=0, out=ordered, mode="clip")
            sums = np.zeros((size, rank + 1, rank + 1), dtype=np.float32)
            start = starts[j]
            for i in range(size):
                part = ordered[start[i] : start[i + 1]]
                np.dot(part.T, part, out=sums[i])
            both = sums.astype(np.float64)
            right = both[:, rank, :rank] - weight * factors[j]
            factors[j] = np.asarray(np.linalg.solve(both[:, :rank, :rank] + eye, right[..., None])[..., 0])
            factors[j][np.diff(start) == 0] = 0.0
            np.take(factors[j].astype(np.float32), columns[j], axis=0, out=rows, mode="clip")
            np.multiply(before, rows, out=before)
        balance(factors)
    return factors
