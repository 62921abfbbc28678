"""Completion of a tensor in CP form by alternating least squares."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from buran.tensor.axes import Array, Whole

Factors = list[Array]
_SMALL_MSE = 1e-5


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
        Of the initial factors.

    Returns
    -------
    list of arrays
        Shape (length of the mode, rank), for each mode.
    """
    factors = [random.random((size, rank)) for size in sizes]
    weight = ridge * len(values)
    orders = [np.argsort(index[:, j], kind="stable") for j in range(len(sizes))]
    starts = [
        np.searchsorted(index[o, j], np.arange(s + 1)) for j, (o, s) in enumerate(zip(orders, sizes, strict=True))
    ]
    sorted_values = [values[order] for order in orders]
    eye = weight * np.eye(rank)
    for _ in range(sweeps):
        after = _products_after(factors, index)
        before = np.ones((len(values), rank))
        for j, size in enumerate(sizes):
            product = before * after[j] if j else after[j]
            product = product[orders[j]]
            gram, right = np.empty((size, rank, rank)), np.empty((size, rank))
            start = starts[j]
            for i in range(size):
                part = product[start[i] : start[i + 1]]
                gram[i] = part.T @ part
                right[i] = sorted_values[j][start[i] : start[i + 1]] @ part
            right -= weight * factors[j]
            factors[j] = np.asarray(np.linalg.solve(gram + eye, right[..., None])[..., 0], dtype=np.float64)
            factors[j][start[1:] == start[:-1]] = 0.0
            before *= factors[j][index[:, j]]
        error = before.sum(axis=1) - values
        balance(factors)
        if error @ error / len(error) < _SMALL_MSE:
            break
    return factors


def _products_after(factors: Sequence[Array], index: Whole) -> list[Array]:
    """Return, for each mode, the products of the rows of all later modes."""
    out = [np.ones((len(index), factors[0].shape[1]))]
    for j in range(len(factors) - 1, 0, -1):
        out.append(out[-1] * factors[j][index[:, j]])
    return out[::-1]
