"""Which terms are worth combining: a short list for each call path and parameter."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations, product
from math import comb, prod

import numpy as np

from buran.modeling.functions.powers import Array, BasisFunction
from buran.modeling.numerics.least_squares import Ids, Mask
from buran.modeling.numerics.tuning import BEAM, COMBINATIONS, FEW, REACH

DEPENDENT = 1e-10  # share of a column's squared length that must remain beside other columns


@dataclass(frozen=True, eq=False)
class TermTable:
    """Candidate factors of one parameter; row 0 is the absent factor.

    Attributes
    ----------
    functions
        Rows 1 and up.
    raw, values
        Shape (row, point); in `values` each row is scaled to a largest absolute value of 1.
    falling, plain
        Shape (row,): what falls with the parameter; what programs often lead to.
    levels
        Number of values of the parameter.
    edges
        Shape (row, edge): at the ends of the range in which no prediction may be negative; scaled like `values`.
    far
        Shape (row,): the factors at `REACH` times the largest value, not scaled.
    """

    functions: tuple[BasisFunction, ...]
    raw: Array
    values: Array
    falling: Mask
    plain: Mask
    levels: int
    edges: Array
    far: Array

    @classmethod
    def of(cls, functions: tuple[BasisFunction, ...], x: Array) -> TermTable:
        """Tabulate functions at the values `x` (point,) of a parameter."""
        at = np.concatenate([x, [x.min(), REACH * x.max()]])
        both = np.stack([np.ones(len(at)), *(function.evaluate(at) for function in functions)])
        raw, edges = np.ascontiguousarray(both[:, :-2]), both[:, -2:]
        largest = np.abs(raw).max(axis=1, keepdims=True)
        falling = np.array([False, *(function.falls for function in functions)])
        plain = np.array([False, *(function.is_plain for function in functions)])
        return cls(functions, raw, raw / largest, falling, plain, len(np.unique(x)), edges / largest, edges[:, 1])


def is_dense(points: Array) -> bool:
    """Tell whether at least half of the grid that the values of the parameters span was measured."""
    return 2 * len(points) >= prod(len(np.unique(column)) for column in points.T)


def lines(points: Array, parameter: int) -> list[Ids]:
    """Find points that differ in one parameter alone.

    Returns
    -------
    list of arrays
        Each of shape (line, point on the line), by ascending values of the parameter: an array for all lines of three
        points and more with the same values.
    """
    others = np.delete(points, parameter, axis=1)
    _, group = np.unique(others, axis=0, return_inverse=True)
    order = np.lexsort((points[:, parameter], group.reshape(-1)))
    by_values: dict[bytes, list[Ids]] = {}
    for line in np.split(order, 1 + np.flatnonzero(np.diff(group.reshape(-1)[order]))):
        if len(line) >= FEW:
            by_values.setdefault(points[line, parameter].tobytes(), []).append(line)
    return [np.stack(same_values) for same_values in by_values.values()]


def line_misfit(table: TermTable, on_lines: list[Ids], values: Array, weights: Array) -> Array:
    """Weighted residual sum of squares of each term along all lines of its parameter.

    On each line the model is ``a + b * term`` with free a and b, so that the misfit is zero for every
    function in which the parameter occurs in this one term, whatever the other parameters do.

    Returns
    -------
    array
        Shape (call path, row of the table).
    """
    out = np.zeros((len(values), len(table.values)))
    for line in on_lines:
        terms = table.values[:, line[0]].T  # point, row
        w, y = (each[:, line].reshape(-1, line.shape[1]) for each in (weights**2, values))  # call path and line, point
        total = w.sum(axis=1, keepdims=True)
        y = y - (w * y).sum(axis=1, keepdims=True) / total
        along, variance, before = (w * y) @ terms, np.empty((len(w), terms.shape[1])), w @ terms**2
        # sum w t^2 - (sum w t)^2 / sum w loses few digits where t is 0 at the point with the largest weight
        heaviest = np.argmax(w, axis=1)
        for point in np.unique(heaviest):
            some, shifted = heaviest == point, terms - terms[point]
            mean = w[some] @ shifted / total[some]
            variance[some] = w[some] @ shifted**2 - total[some] * mean**2
        gain = np.divide(along**2, variance, out=np.zeros_like(along), where=variance > DEPENDENT * before)
        left = np.maximum((w * y**2).sum(axis=1, keepdims=True) - gain, 0)
        out += left.reshape(len(values), len(line), -1).sum(axis=1)
    return out


def log_misfit(table: TermTable, points: Array, parameter: int, values: Array, weights: Array) -> Array:
    """Rank terms where no line exists: residuals of log(value) against log(term) plus powers of the others.

    Returns
    -------
    array
        Shape (call path, row of the table); right for a single product of factors, a guess for others.
    """
    tiny = np.finfo(np.float64).tiny
    others = np.log(np.maximum(np.delete(points, parameter, axis=1), tiny))
    design = np.column_stack([np.ones(len(points)), others - others.mean(axis=0)])
    q, _ = np.linalg.qr(design)
    target = np.log(np.maximum(np.abs(values), 1 / weights))  # 1/weight is never below the floor of the values
    logs = np.log(np.maximum(np.abs(table.values), tiny))
    y = target - (target @ q) @ q.T
    t = logs - (logs @ q) @ q.T
    return np.asarray((y**2).sum(axis=1, keepdims=True) - 2 * y @ t.T + (t**2).sum(axis=1))


def short_list(table: TermTable, misfit: Array) -> Ids:
    """Choose rows of the table for each call path: the best by misfit, then the plain ones.

    Returns
    -------
    array
        Shape (call path, choice), best first, no row twice.
    """
    rank = np.argsort(np.argsort(misfit[:, 1:], axis=1, kind="stable"), axis=1, kind="stable").astype(np.float64)
    plain = np.flatnonzero(table.plain[1:])
    rank[:, plain] = np.minimum(rank[:, plain], BEAM - 0.5)
    count = min(len(table.functions), BEAM + len(plain))
    return np.argsort(rank, axis=1, kind="stable")[:, :count] + 1


@lru_cache(maxsize=64)
def patterns(lengths: tuple[int, ...]) -> Ids:
    """List the products to form from short lists of these lengths.

    Every single factor is there; of the products of s parameters, those of the best few of each, so that
    there are about 200 for each s.

    Returns
    -------
    array
        Shape (product, parameter): place in the short list counted from 1, 0 where the factor is absent.
    """
    parameters = len(lengths)
    out: list[tuple[int, ...]] = []
    for size in range(1, parameters + 1):
        best = max(lengths, default=0)
        if size > 1:
            best = max(int((COMBINATIONS / comb(parameters, size)) ** (1 / size)), size // parameters)
        for chosen in combinations(range(parameters), size):
            for indices in product(*(range(1, 1 + min(lengths[p], best)) for p in chosen)):
                row = [0] * parameters
                for parameter, index in zip(chosen, indices, strict=True):
                    row[parameter] = index
                out.append(tuple(row))
    return np.array(out, dtype=np.int64).reshape(-1, parameters)
