"""The hypotheses within reach of the best, fitted when somebody asks for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from buran.model.alternative import Alternative
from buran.model.candidates import Ids, TermTable
from buran.model.regression import Functions, Regression, regress
from buran.model.search import Found
from buran.model.terms import Array, ModelFunction

_LEAST = 1e-2  # smaller weights move no end of an interval


@dataclass(frozen=True, eq=False)
class Block:
    """Call paths that were measured at the same points, and the hypotheses found for them.

    Attributes
    ----------
    points
        Shape (point, parameter).
    values, weights
        Shape (call path, point); values lack a factor of 2^`binary`.
    binary
        Shape (call path,).
    tables
        Of the terms, one for each parameter.
    found
        The hypotheses.
    nonnegative
        Whether negative coefficients are held at 0.
    """

    points: Array
    values: Array
    weights: Array
    binary: Ids
    tables: list[TermTable]
    found: Found
    nonnegative: bool = False

    @cached_property
    def functions(self) -> Functions:
        """Makes the functions of this block."""
        return Functions(self.tables)

    def unscaled(self, calls: Ids, own: Regression) -> tuple[Array, Array]:
        """Return coefficients and covariances of `calls` in the metric's unit."""
        binary = self.binary[calls]
        variances = own.inverse * own.spread[:, None, None]
        return np.ldexp(own.coefficients, binary[:, None]), np.ldexp(variances, 2 * binary[:, None, None])

    def alternatives(self, calls: Sequence[int]) -> list[tuple[Alternative, ...]]:
        """Fit the hypotheses within reach for some call paths, all of the same size together."""
        own = np.array(calls, dtype=np.int64)
        scores = self.found.scores[own]
        gap = scores - scores[:, :1]
        odds = np.exp(-likelihood_power(len(self.points)) * np.where(np.isfinite(gap), gap, np.inf))
        odds[:, 0] = 1.0
        place, hypothesis = np.nonzero(odds > _LEAST)
        rows = self.found.rows[own[place], hypothesis]
        size = rows.any(axis=2).sum(axis=1)
        fitted: list[Alternative | None] = [None] * len(place)
        for terms in np.unique(size).tolist():
            some = np.flatnonzero(size == terms)
            group = self._fit(
                own[place[some]], rows[some, :terms].astype(np.int64), odds[place[some], hypothesis[some]]
            )
            for at, each in zip(some.tolist(), group, strict=True):
                fitted[at] = each
        out: list[list[Alternative]] = [[] for _ in calls]
        for at, maybe in zip(place.tolist(), fitted, strict=True):
            if maybe is not None:
                out[at].append(maybe)
        return [_merged(group) for group in out]

    def _fit(self, calls: Ids, chosen: Ids, odds: Array) -> list[Alternative]:
        values, weights = self.values[calls], self.weights[calls]
        own = regress(self.points, values, weights, self.tables, chosen, self.nonnegative)
        coefficients, variances = self.unscaled(calls, own)
        # noise is a share of the value, but values below the floor of the weights count for less than 1
        size = ((values * weights) ** 2).mean(axis=1)
        share = 1 / np.sqrt(np.where(size > 0, size, 1.0))
        noise, rows = (share * np.sqrt(own.spread)).tolist(), variances.tolist()
        out = []
        for c, degrees in enumerate(own.degrees.tolist()):
            function, order = self.functions.make(chosen[c], coefficients[c], own.free[c])
            # exponents were chosen as well: each factor takes a degree of freedom from the noise
            excess = degrees / max(degrees - _factors(function), 1)
            covariance: tuple[tuple[float, ...], ...] = ()
            if degrees > 0:
                covariance = tuple(tuple(rows[c][i][j] * excess for j in order) for i in order)
            out.append(Alternative(function, float(odds[c]), covariance, noise[c] * excess**0.5, degrees))
        return out


def _factors(function: ModelFunction) -> int:
    """Return the number of distinct factors."""
    return len({factor for term in function.terms for factor in term.factors})


def likelihood_power(points: int) -> float:
    """Return by how much one nat of the score, the logarithm of an error, changes the logarithm of the odds.

    Gaussian noise would give the number of points. Half of it is what the errors of the best of many hypotheses,
    small by choice, are worth: intervals then hold what they should (benchmarks/modeller.py).
    """
    return 0.45 * points


def _merged(alternatives: Sequence[Alternative]) -> tuple[Alternative, ...]:
    """Join hypotheses that became the same when contributions were dropped; let weights add up to 1."""
    total = sum(each.weight for each in alternatives)
    weights: dict[object, float] = {}
    first: dict[object, Alternative] = {}
    for each in alternatives:
        terms = each.function.terms
        first.setdefault(terms, each)
        weights[terms] = weights.get(terms, 0.0) + each.weight / total
    return tuple(
        Alternative(own.function, weights[terms], own.covariance, own.noise, own.degrees)
        for terms, own in first.items()
    )
