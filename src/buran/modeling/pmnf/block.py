"""The hypotheses within reach of the best, fitted by batched least squares when somebody asks for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from buran.modeling.functions.terms import Array, Factor, ModelFunction, Term
from buran.modeling.numerics.least_squares import Ids, Solution, again, solve
from buran.modeling.numerics.tuning import MATTERS
from buran.modeling.pmnf.alternative import Alternative, divided, with_other_growth
from buran.modeling.pmnf.beam import BestHypotheses, first_occurrence
from buran.modeling.pmnf.candidates import TermTable
from buran.modeling.pmnf.structures import OpenStructure, with_structures

# Nats of odds for a nat of the score, times the points. Tuned: ablation, seed 4242 (evidence/models.md).
SCORE_WEIGHT = 0.3

_VOID = 1e-9  # share of the values below which a contribution is rounding


@dataclass(frozen=True, eq=False)
class Regression(Solution):
    """One hypothesis for each call path, all of the same number of terms, fitted without what contributes nothing.

    Attributes
    ----------
    residual
        Shape (call path, point), not weighted.
    degrees
        Shape (call path,): degrees of freedom that remain.
    spread
        Shape (call path,): variance of the weighted residuals; NaN without a degree of freedom.
    """

    residual: Array
    degrees: Ids
    spread: Array

    def of(self, rows: Ids) -> Regression:
        """Return the part for some call paths."""
        return Regression(**{name: part[rows] for name, part in vars(self).items()})


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
    return Regression(**vars(solution), residual=residual, degrees=degrees, spread=spread)


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


@dataclass(frozen=True, eq=False)
class Block:
    """Call paths that were measured at the same points, and the hypotheses found for them.

    Attributes
    ----------
    points
        Shape (point, parameter).
    values, weights
        Shape (call path, point).
    tables
        Tables of the terms, one for each parameter.
    found
        The hypotheses.
    """

    points: Array
    values: Array
    weights: Array
    tables: list[TermTable]
    hypotheses: BestHypotheses

    @cached_property
    def functions(self) -> Functions:
        """Makes the functions of this block."""
        return Functions(self.tables)

    def alternatives(self, calls: Sequence[int]) -> list[tuple[Alternative, ...]]:
        """Fit the hypotheses within reach for some call paths, all of the same size together."""
        call_rows = np.array(calls, dtype=np.int64)
        weight = odds(self.hypotheses.scores[call_rows], len(self.points))
        index, hypothesis = np.nonzero(weight > MATTERS)
        rows = self.hypotheses.rows[call_rows[index], hypothesis]
        size = rows.any(axis=2).sum(axis=1)
        groups, predicted = [], np.zeros(len(index))
        for terms in np.unique(size).tolist():
            some = np.flatnonzero(size == terms)
            at = call_rows[index[some]]
            chosen = rows[some, :terms].astype(np.int64)
            fitted = regress(self.points, self.values[at], self.weights[at], self.tables, chosen)
            groups.append((some, chosen, fitted))
            # f(x) = c_0 + sum_k c_k prod_p x_p^i_pk log^j_pk(x_p), where x has the ends of all ranges
            columns = np.prod([table.far[chosen[..., p]] for p, table in enumerate(self.tables)], axis=0)
            predicted[some] = fitted.coefficients[:, 0] + (fitted.coefficients[:, 1:] * columns).sum(axis=1)
        # the few that stand for the mixture of a call path, the best first: only these become functions
        standing: list[int] = []
        share, weight = np.zeros(len(index)), weight[index, hypothesis]
        for some in np.split(np.arange(len(index)), np.searchsorted(index, np.arange(1, len(calls)))):
            parts, shares = divided(weight[some] / weight[some].sum(), predicted[some])
            standing += some[parts].tolist()
            share[some[parts]] = shares
        made: dict[int, Alternative] = {}
        for some, chosen, fitted in groups:
            kept = np.flatnonzero(np.isin(some, standing))
            of_made, paths = some[kept], index[some[kept]]
            of_group = self._alternatives(call_rows[paths], chosen[kept], fitted.of(kept), share[of_made].tolist())
            made |= zip(of_made.tolist(), of_group, strict=True)
        alternatives: list[list[Alternative]] = [[] for _ in calls]
        for row in standing:
            alternatives[index[row]].append(made[row])
        left_open = OpenStructure.of(self.points)
        return [
            with_structures(group, self.points, self.values[call_rows[row]], left_open)
            for row, group in enumerate(with_other_growth(alternatives, self.points))
        ]

    def _alternatives(self, calls: Ids, chosen: Ids, regression: Regression, weights: list[float]) -> list[Alternative]:
        """Make hypotheses, one for each of `calls`."""
        variances = regression.inverse * regression.spread[:, None, None]
        # noise is a share of the value, but values below the floor of the weights count for less than 1
        size = ((self.values[calls] * self.weights[calls]) ** 2).mean(axis=1)
        share = 1 / np.sqrt(np.where(size > 0, size, 1.0))
        # exponents were chosen as well: each factor takes a degree of freedom from the noise
        factors = first_occurrence(np.where(regression.free[:, 1:, None], chosen, 0)).sum(axis=(1, 2))
        excess = regression.degrees / np.maximum(regression.degrees - factors, 1)
        noise = (share * np.sqrt(regression.spread * excess)).tolist()
        rows = (variances * excess[:, None, None]).tolist()
        out = []
        fitted = (chosen, regression.coefficients, regression.free)
        functions = map(self.functions.make, *(part.tolist() for part in fitted))
        for c, (degrees, (function, order)) in enumerate(zip(regression.degrees.tolist(), functions, strict=True)):
            covariance: tuple[tuple[float, ...], ...] = ()
            if degrees > 0:
                covariance = tuple(tuple([row[j] for j in order]) for row in [rows[c][i] for i in order])
            out.append(Alternative(function, weights[c], covariance, noise[c], degrees))
        return out


def odds(scores: Array, points: int) -> Array:
    """Return what speaks for each hypothesis, 1 for the one with the best score.

    Parameters
    ----------
    scores
        Shape (call path, hypothesis).
    points
        Number of points. Gaussian noise would give as many nats for one of the score, the logarithm of an error.
        A third of it is what the errors of the best of many hypotheses, small by choice, are worth: intervals then
        hold what they should (studies/benchmarks/modeller.py).
    """
    gap = scores - scores.min(axis=1, keepdims=True)
    return np.asarray(np.exp(-SCORE_WEIGHT * points * np.where(np.isfinite(gap), gap, np.inf)))
