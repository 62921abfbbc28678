"""The hypotheses within reach of the best, fitted when somebody asks for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import overload

import numpy as np

from buran.model.candidates import Ids, TermTable
from buran.model.model import Alternative
from buran.model.regression import Functions, Regression, regress
from buran.model.search import Found
from buran.model.terms import Array, ModelFunction

_LEAST = 1e-3  # smaller weights move no end of an interval


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
    """

    points: Array
    values: Array
    weights: Array
    binary: Ids
    tables: list[TermTable]
    found: Found

    @cached_property
    def functions(self) -> Functions:
        """Makes the functions of this block."""
        return Functions(self.tables)

    def unscaled(self, calls: Ids, own: Regression) -> tuple[Array, Array]:
        """Return coefficients and covariances of `calls` in the metric's unit."""
        binary = self.binary[calls]
        variances = own.inverse * own.spread[:, None, None]
        return np.ldexp(own.coefficients, binary[:, None]), np.ldexp(variances, 2 * binary[:, None, None])

    def alternatives(self, call: int) -> tuple[Alternative, ...]:
        """Fit the hypotheses within reach for one call path."""
        scores = self.found.scores[call]
        here = np.flatnonzero(np.isfinite(scores))
        if not len(here):
            here = np.array([0])
        odds = np.exp(-likelihood_power(len(self.points)) * (scores[here] - scores[here[0]]))
        odds[0] = 1.0
        here, odds = here[odds > _LEAST], odds[odds > _LEAST]
        fitted = [self._fit(call, self.found.rows[call, place], odd) for place, odd in zip(here, odds, strict=True)]
        return _merged(fitted)

    def _fit(self, call: int, rows: Ids, odds: float) -> Alternative:
        calls = np.array([call])
        chosen = rows[rows.any(axis=1)][None]
        values, weights = self.values[calls], self.weights[calls]
        own = regress(self.points, values, weights, self.tables, chosen)
        coefficients, variances = self.unscaled(calls, own)
        function, order = self.functions.make(chosen[0], coefficients[0], own.free[0])
        degrees = int(own.degrees[0])
        covariance = tuple(map(tuple, variances[0][np.ix_(order, order)].tolist())) if degrees > 0 else ()
        size = np.abs(values[0])
        share = float(np.median(1 / (weights[0] * size)[size > 0])) if size.any() else 0.0
        # exponents were chosen as well: each factor takes a degree of freedom from the noise
        excess = (degrees / max(degrees - _factors(function), 1)) if degrees > 0 else 1.0
        covariance = tuple(tuple(value * excess for value in row) for row in covariance)
        return Alternative(function, float(odds), covariance, share * (float(own.spread[0]) * excess) ** 0.5, degrees)


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


class LazyAlternatives(Sequence[Alternative]):
    """Alternatives of one call path, fitted on first use."""

    def __init__(self, block: Block, call: int) -> None:
        self._block = block
        self._call = call
        self._fitted: tuple[Alternative, ...] | None = None

    def _all(self) -> tuple[Alternative, ...]:
        if self._fitted is None:
            self._fitted = self._block.alternatives(self._call)
        return self._fitted

    def __len__(self) -> int:
        return len(self._all())

    @overload
    def __getitem__(self, index: int) -> Alternative: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Alternative, ...]: ...
    def __getitem__(self, index: int | slice) -> Alternative | tuple[Alternative, ...]:
        return self._all()[index]
