"""Which terms are worth combining: a short list for each call path and parameter."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations, product
from math import comb, prod

import numpy as np
from numpy.typing import NDArray

from buran.modeling.numerics.intervals import ROUNDING
from buran.modeling.numerics.tuning import COMBINATIONS, FEW
from buran.modeling.pmnf.powers import NO_GROWTH, Array, BasisFunction
from buran.modeling.pmnf.tuning import BEAM, REACH

Ids = NDArray[np.int64]
Mask = NDArray[np.bool_]

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
    growth
        Shape (row,): place in the order of asymptotic growth.
    degree
        Shape (row,): of growth beyond 1, a logarithm counting a quarter.
    levels
        Number of values of the parameter.
    edges
        Shape (row, edge): at the ends of the range in which no prediction may be negative, and between measured values
        where the parameters are few; scaled like `values`.
    far
        Shape (row,): the factors at `REACH` times the largest value, not scaled.
    """

    functions: tuple[BasisFunction, ...]
    raw: Array
    values: Array
    falling: Mask
    plain: Mask
    growth: Ids
    degree: Array
    levels: int
    edges: Array
    far: Array

    @classmethod
    def of(cls, functions: tuple[BasisFunction, ...], x: Array, gaps: int = 0) -> TermTable:
        """Tabulate functions at the values `x` (point,) of a parameter.

        The edges are those of the range and the middles of the first `gaps` gaps between values.
        """
        measured = np.unique(x)
        reach = REACH * measured[-1]
        middles = (measured[:-1] + measured[1:]) / 2
        at = np.concatenate([x, [measured[0], reach], middles[:gaps]])
        both = np.ones((len(functions) + 1, len(at)))
        for row, function in enumerate(functions, start=1):
            both[row] = function.evaluate(at)
        raw = np.ascontiguousarray(both[:, : len(x)])
        largest = np.abs(raw).max(axis=1)
        return cls(
            functions,
            raw,
            raw / largest[:, None],
            *_nature(functions),
            len(measured),
            both[:, len(x) :] / largest[:, None],
            both[:, len(x) + 1],
        )


@lru_cache(maxsize=64)
def _nature(functions: tuple[BasisFunction, ...]) -> tuple[Mask, Mask, Ids, Array]:
    """Return what does not depend on values: `falling`, `plain`, `growth` and `degree` of a table."""
    leads = [NO_GROWTH, *(function.lead for function in functions)]
    order = {lead: index for index, lead in enumerate(sorted(set(leads)))}
    return (
        np.array([False, *(function.falls for function in functions)]),
        np.array([False, *(function.is_plain for function in functions)]),
        np.array([order[lead] for lead in leads]),
        np.array([0.0, *(max(float(power) + log / 4 - 1, 0.0) for power, log in leads[1:])]),
    )


def is_dense(points: Array) -> bool:
    """Tell whether at least half of the grid that the values of the parameters span was measured."""
    return 2 * len(points) >= prod(len(np.unique(column)) for column in points.T)


def falls_with(points: Array, values: Array) -> Mask:
    """Return shape (call path, parameter): whether values fall with a parameter, the others fixed.

    The sign of the parameter's coefficient in a linear fit of values to logarithms of parameters. The ranking
    of candidates uses it; it excludes none.
    """
    logs = np.log(np.maximum(points, np.finfo(np.float64).tiny))
    design = np.column_stack([np.ones(len(points)), logs - logs.mean(axis=0)])
    coefficients = np.linalg.lstsq(design, values.T, rcond=None)[0]
    rounding = ROUNDING * np.abs(values).max(axis=1, keepdims=True, initial=0.0)
    return np.asarray(-rounding > coefficients[1:].T)


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
            variance[some] = w[some] @ shifted**2 - (w[some] @ shifted) ** 2 / total[some]
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


def short_list(table: TermTable, misfit: Array, falls: Mask) -> Ids:
    """Choose rows of the table for each call path: the best by misfit, then the plain ones.

    Terms against the direction of the values (those that fall where values rise) have to be three times
    better in rank.

    Returns
    -------
    array
        Shape (call path, choice), best first, no row twice.
    """
    rows = len(table.functions)
    if rows <= BEAM:
        order = np.argsort(misfit[:, 1:], axis=1, kind="stable")
        return order + 1
    key = np.empty((len(misfit), rows))
    for against in (False, True):
        members = np.flatnonzero(table.falling[1:] == against)
        rank = _ranks(misfit[:, 1 + members])
        key[:, members] = np.where((falls == against)[:, None], rank, 3 * rank + 1)
    key = _ranks(key)
    plain = np.flatnonzero(table.plain[1:])
    key[:, plain] = np.minimum(key[:, plain], BEAM - 0.5)
    count = min(rows, BEAM + len(plain))
    return np.argsort(key, axis=1, kind="stable")[:, :count] + 1


def _ranks(values: Array) -> Array:
    """Return the rank of each value in its row; equal values keep their order."""
    order = np.argsort(values, axis=1, kind="stable")
    out = np.empty(values.shape)
    np.put_along_axis(out, order, np.arange(values.shape[1], dtype=np.float64)[None], axis=1)
    return out


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
