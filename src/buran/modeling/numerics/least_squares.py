"""Weighted least squares for many problems at once, columns scaled by the points that are used.

Columns are scaled to length 1 over the points that carry weight, and solved by QR: normal equations would square the
condition, and parameters that span orders of magnitude have little of it to spare.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Ids = NDArray[np.int64]

_CHUNK = 1 << 21  # numbers of one working array, 16 MiB: keeps memory small, whatever the number of problems
SINGULAR = 1e-6  # of the largest singular value: what is smaller, the points do not determine
_STEPS = 30  # for each column, until no coefficient is freed again
_SAME = 1e-13  # of the largest singular value: what is smaller is rounding


@dataclass(frozen=True, eq=False)
class Solution:
    """Coefficients of many problems.

    Attributes
    ----------
    coefficients, free
        Shape (problem, column); 0 and False where fixed at 0.
    hat
        Shape (problem, point): diagonal of the hat matrix.
    inverse
        Shape (problem, column, column): of the normal matrix, 0 for held coefficients.
    """

    coefficients: Array
    free: Mask
    hat: Array
    inverse: Array


def best(values: Array, count: int) -> NDArray[np.int64]:
    """Places of the `count` smallest values of each row, in ascending order of the values."""
    count = min(count, values.shape[1])
    if count == 0:
        return np.zeros((len(values), 0), dtype=np.int64)
    indices = np.argpartition(values, count - 1, axis=1)[:, :count]
    indices.sort(axis=1)  # ties keep their order
    order = np.argsort(np.take_along_axis(values, indices, axis=1), axis=1, kind="stable")
    return np.take_along_axis(indices, order, axis=1)


def unit_columns(columns: Array) -> tuple[Array, Array]:
    """Return columns (..., point, column) at length 1, and their lengths; a column of zeros stays, at length 1."""
    length = np.linalg.norm(columns, axis=-2)
    length = np.where(length > 0, length, 1.0)
    return columns / length[..., None, :], length


def solve(design: Array, values: Array, weights: Array, free: Mask | None = None) -> Solution:
    """Solve each problem exactly.

    Parameters
    ----------
    design
        Shape (problem, point, column).
    values, weights
        Shape (problem, point); residuals are multiplied by the weights.
    free
        Shape (problem, column): False for coefficients fixed at 0; by default all are free.
    """
    problems, _, width = design.shape
    free = np.ones((problems, width), dtype=bool) if free is None else free
    columns, length = unit_columns(design * weights[..., None] * free[:, None])
    # a held column becomes a unit vector in a row of its own: it takes no part and keeps the rank full
    q, r = np.linalg.qr(np.concatenate([columns, np.eye(width)[None] * ~free[:, None]], axis=1))
    target = np.concatenate([values * weights, np.zeros((problems, width))], axis=1)
    coefficients = np.linalg.solve(r, np.einsum("cpk,cp->ck", q, target)[..., None])[..., 0] / length
    back = np.linalg.inv(r) / length[..., None]
    hat = (q[:, : values.shape[1]] ** 2).sum(axis=2)
    keep = free[:, :, None] & free[:, None]
    inverse = np.where(keep, back @ back.transpose(0, 2, 1), 0.0)
    return Solution(np.where(free, coefficients, 0.0), free, hat, inverse)


def again(solution: Solution, design: Array, values: Array, weights: Array, free: Mask) -> Solution:
    """Solve again where other coefficients are free now."""
    rows = np.flatnonzero((free != solution.free).any(axis=1))
    if not len(rows):
        return solution
    other = solve(design[rows], values[rows], weights[rows], free[rows])
    parts = [part.copy() for part in vars(solution).values()]
    for part, anew in zip(parts, vars(other).values(), strict=True):
        part[rows] = anew
    return Solution(*parts)


def without_negative(
    solution: Solution, design: Array, values: Array, weights: Array, selected: Mask | bool = True
) -> Solution:
    """Hold coefficients of the `selected` problems at 0: none is then negative, and the fit the best of such ones.

    In turn the last one of each that is negative, or would be better above 0, changes sides: no set comes twice
    (K. G. Murty, "Note on a Bard-type scheme for solving the complementarity problem", Opsearch 11 (1974)).
    """
    able = solution.free & np.asarray(selected)[..., None]
    target, (columns, _) = values * weights, unit_columns(design * weights[..., None])
    for step in count():
        # slope of the fit with each coefficient, a_k . (y - A c)
        left = target - weights * np.einsum("cpk,ck->cp", design, solution.coefficients)
        slope = np.einsum("cpk,cp->ck", columns, left) > _SAME * np.linalg.norm(target, axis=1, keepdims=True)
        slope &= step < _STEPS * columns.shape[2]  # rounding goes in circles
        wrong = able & np.where(solution.free, solution.coefficients < 0, slope)
        rows = np.flatnonzero(wrong.any(axis=1))
        if not len(rows):
            break
        free = solution.free.copy()
        free[rows, wrong.shape[1] - 1 - np.argmax(wrong[rows, ::-1], axis=1)] ^= True
        solution = again(solution, design, values, weights, free)
    return solution


def nonnegative(design: Array, values: Array) -> Array:
    """Return the best coefficients, shape (column,), of which none is negative, of one problem (point, column)."""
    from scipy.optimize import nnls  # it takes long, and models do without

    columns, length = unit_columns(design)
    return np.asarray(nnls(columns, values, maxiter=_STEPS * columns.shape[1])[0] / length)


def least_norm(design: Array, values: Array) -> Array:
    """Return coefficients, shape (column,), the shortest ones where points do not decide, to the last digits.

    Parameters
    ----------
    design
        Shape (point, column).
    values
        Shape (point,).
    """
    columns, length = unit_columns(design)
    coefficients = np.linalg.lstsq(columns, values, rcond=_SAME)[0] / length
    rest = values - design @ coefficients  # one step of refinement: large counts need all digits
    return np.asarray(coefficients + np.linalg.lstsq(columns, rest, rcond=_SAME)[0] / length)


def exponents(points: Array, values: Array) -> Array:
    """Return the exponents of products of powers of the parameters, the best ones for the logarithms of values.

    Parameters that vary together share what grows with both.

    Parameters
    ----------
    points
        Shape (point, parameter), positive.
    values
        Shape (problem, point), positive.

    Returns
    -------
    array
        Shape (problem, parameter).
    """
    # ln y = a + sum_p e_p ln x_p
    x, y = np.log(points), np.log(values)
    powers = np.linalg.lstsq(x - x.mean(axis=0), (y - y.mean(axis=1, keepdims=True)).T, rcond=SINGULAR)[0]
    return np.asarray(powers.T)


def span(columns: Array, same: float = 1e-10) -> Array:
    """Return an orthonormal basis, shape (point, direction), of what columns (point, column) reach.

    Directions whose singular value is below `same` of the largest are rounding; the columns count at length 1.
    """
    basis = np.linalg.svd(unit_columns(columns)[0], full_matrices=False)
    return np.asarray(basis.U[:, same * basis.S.max(initial=0.0) < basis.S])


def orthogonal_part(columns: Array, basis: Array) -> Array:
    """Return what columns (point, column) have beside an orthonormal basis (point, direction)."""
    return np.asarray(columns - basis @ (basis.T @ columns))


def condensed(design: Array, values: Array, weights: Array, expected: Array, sureness: Array) -> tuple[Array, Array]:
    """Return problems with the same solutions, and as few points as columns.

    Parameters
    ----------
    design
        Shape (point, column), the same for all problems.
    values, weights
        Shape (problem, point).
    expected, sureness
        Shape (problem, column): what coefficients are expected to be, and the weight of that; 0 for no expectation.

    Returns
    -------
    design
        Shape (problem, column, column), triangular.
    values
        Shape (problem, column).
    """
    count, width = design.shape
    out = np.empty((len(values), width, width + 1))
    size = max(1, _CHUNK // ((count + width) * (width + 1)))
    for first in range(0, len(values), size):
        part = slice(first, first + size)
        # a QR decomposition of [W X, W y; S, S c0] keeps its normal equations
        rows = np.zeros((len(out[part]), count + width, width + 1))
        rows[:, :count, :width] = design * weights[part, :, None]
        rows[:, :count, width] = values[part] * weights[part]
        rows[:, count:, :width] = sureness[part, :, None] * np.eye(width)
        rows[:, count:, width] = sureness[part] * expected[part]
        out[part] = np.asarray(np.linalg.qr(rows, mode="r"))[:, :width]
    return out[..., :width], out[..., width]
