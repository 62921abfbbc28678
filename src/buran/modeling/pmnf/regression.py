"""Batched weighted least squares of given hypotheses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from buran.modeling.numerics.least_squares import again, solve
from buran.modeling.pmnf.beam import BOUND
from buran.modeling.pmnf.candidates import Ids, Mask, TermTable
from buran.modeling.pmnf.terms import Array, Factor, ModelFunction, Term

_VOID = 1e-9  # share of the values below which a contribution is rounding


@dataclass(frozen=True, eq=False)
class Regression:
    """One hypothesis for each call path, all of the same number of terms, fitted.

    Attributes
    ----------
    design
        Shape (call path, point, column): the constant and the terms.
    coefficients, free
        Shape (call path, column); 0 and False for contributions that were dropped.
    hat
        Shape (call path, point): diagonal of the hat matrix.
    residual
        Shape (call path, point), not weighted.
    degrees
        Shape (call path,): degrees of freedom that remain.
    spread
        Shape (call path,): variance of the weighted residuals; NaN without a degree of freedom.
    inverse
        Shape (call path, column, column): of the normal matrix.
    """

    design: Array
    coefficients: Array
    free: Mask
    hat: Array
    residual: Array
    degrees: Ids
    spread: Array
    inverse: Array

    def of(self, rows: Ids) -> Regression:
        """Return the part for some call paths."""
        return Regression(**{each.name: getattr(self, each.name)[rows] for each in fields(self)})


def regress(points: Array, values: Array, weights: Array, tables: list[TermTable], chosen: Ids) -> Regression:
    """Fit `chosen` hypotheses (call path, term, parameter) exactly and drop what contributes nothing."""
    design = _design(points, tables, chosen)
    calls, count, columns = design.shape
    free = np.ones((calls, columns), dtype=bool)
    solution = solve(design, values, weights)
    if columns > 1:
        share = np.abs(solution.coefficients[:, None] * design * weights[..., None]).max(axis=1)
        free = share > _VOID
        solution = again(solution, design, values, weights, free)
    residual = values - np.einsum("cpk,ck->cp", design, solution.coefficients)
    degrees = count - solution.free.sum(axis=1)
    squares = ((residual * weights) ** 2).sum(axis=1)
    spread = np.divide(squares, degrees, out=np.full(calls, np.nan), where=degrees > 0)
    return Regression(
        design, solution.coefficients, solution.free, solution.hat, residual, degrees, spread, solution.inverse
    )


def loo_error(residual: Array, hat: Array, weights: Array) -> Array:
    """Mean absolute weighted leave-one-out error, shape (call path,); NaN where not defined."""
    bound = 1 - hat < BOUND
    out = np.mean(np.abs(residual * weights / np.where(bound, 1.0, 1 - hat)), axis=1)
    return np.asarray(np.where(bound.any(axis=1), np.nan, out))


class Functions:
    """Makes model functions of coefficients; every distinct term is made once."""

    def __init__(self, tables: list[TermTable]) -> None:
        self._tables = tables
        self._terms: dict[tuple[int, ...], Term] = {}

    def term(self, rows: tuple[int, ...]) -> Term:
        """Return the term of rows of the tables, one for each parameter."""
        term = self._terms.get(rows)
        if term is None:
            factors = (Factor(p, table.functions[rows[p] - 1]) for p, table in enumerate(self._tables) if rows[p])
            term = self._terms[rows] = Term(tuple(factors))
        return term

    def make(
        self, chosen: Sequence[Sequence[int]], coefficients: Sequence[float], free: Sequence[bool]
    ) -> tuple[ModelFunction, list[int]]:
        """Make a function; also return the columns of the design in its order, the constant first."""
        terms = [self.term(tuple(rows)) for rows in chosen]
        kept = [number for number, use in enumerate(free[1:]) if use]
        if len(kept) > 1:
            kept.sort(key=lambda number: terms[number].growth_order, reverse=True)
        function = ModelFunction(
            coefficients[0] + 0.0,  # no negative zero
            tuple(coefficients[1 + number] for number in kept),
            tuple(terms[number] for number in kept),
        )
        return function, [0, *(1 + number for number in kept)]


def _design(points: Array, tables: list[TermTable], chosen: Ids) -> Array:
    """Return shape (call path, point, 1 + term): the constant and the terms, unscaled."""
    calls, terms, _ = chosen.shape
    out = np.ones((calls, len(points), 1 + terms))
    for p, table in enumerate(tables):
        out[:, :, 1:] *= table.raw[chosen[..., p]].transpose(0, 2, 1)
    return out
