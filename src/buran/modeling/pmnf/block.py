"""The hypotheses within reach of the best, fitted when somebody asks for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from buran.modeling.numerics.tuning import MATTERS
from buran.modeling.pmnf.alternative import Alternative, divided
from buran.modeling.pmnf.beam import first_occurrence
from buran.modeling.pmnf.best_hypotheses import BestHypotheses, odds
from buran.modeling.pmnf.candidates import Ids, TermTable
from buran.modeling.pmnf.few_values import with_other_growth
from buran.modeling.pmnf.regression import Functions, Regression, regress
from buran.modeling.pmnf.structures import OpenStructure, with_structures
from buran.modeling.pmnf.terms import Array


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
        Tables of the terms, one for each parameter.
    found
        The hypotheses.
    """

    points: Array
    values: Array
    weights: Array
    binary: Ids
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
        groups = []
        for terms in np.unique(size).tolist():
            some = np.flatnonzero(size == terms)
            at = call_rows[index[some]]
            chosen = rows[some, :terms].astype(np.int64)
            fitted = regress(self.points, self.values[at], self.weights[at], self.tables, chosen)
            groups.append((some, chosen, fitted))
        # the few that stand for the mixture of a call path: only these become functions
        alike, predicted = self._distinguished(call_rows[index], index, groups)
        standing, shares = _representatives(len(calls), index, alike, weight[index, hypothesis], predicted)
        share = np.zeros(len(index))
        share[standing] = shares
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
        values = np.ldexp(self.values[call_rows], self.binary[call_rows, None])
        return [
            with_structures(group, self.points, values[row], left_open)
            for row, group in enumerate(with_other_growth(alternatives, self.points))
        ]

    def _distinguished(
        self, calls: Ids, index: Ids, groups: Sequence[tuple[Ids, Ids, Regression]]
    ) -> tuple[Ids, Array]:
        """Return a number for each different hypothesis of a call path, and its prediction far out, (hypothesis,).

        Some became the same when contributions were dropped.

        Parameters
        ----------
        calls, index
            Shape (hypothesis,): its call path, and the index of that among those that are fitted.
        groups
            Hypotheses of the same number of terms: their numbers, rows of the tables, and their fit.
        """
        there = [table.far for table in self.tables]
        most = max((chosen.shape[1] for _, chosen, _ in groups), default=0)
        identity = np.zeros((len(index), 1 + most), dtype=np.int64)
        identity[:, 0] = index
        predicted = np.zeros(len(index))
        for some, chosen, fitted in groups:
            number, columns = np.zeros(chosen.shape[:2], dtype=np.int64), np.ones(chosen.shape[:2])
            for p, factors in enumerate(there):
                number = number * len(factors) + chosen[..., p]
                columns *= factors[chosen[..., p]]
            identity[some, 1 : 1 + chosen.shape[1]] = np.sort(np.where(fitted.free[:, 1:], number, 0))[:, ::-1]
            # f(x) = c_0 + sum_k c_k prod_p x_p^i_pk log^j_pk(x_p), where x has the ends of all ranges
            sums = fitted.coefficients[:, 0] + (fitted.coefficients[:, 1:] * columns).sum(axis=1)
            predicted[some] = np.ldexp(sums, self.binary[calls[some]])
        return np.unique(identity, axis=0, return_inverse=True)[1].reshape(-1), predicted

    def _alternatives(self, calls: Ids, chosen: Ids, regression: Regression, weights: list[float]) -> list[Alternative]:
        """Make hypotheses, one for each of `calls`."""
        binary = self.binary[calls]
        coefficients = np.ldexp(regression.coefficients, binary[:, None])
        variances = np.ldexp(regression.inverse * regression.spread[:, None, None], 2 * binary[:, None, None])
        # noise is a share of the value, but values below the floor of the weights count for less than 1
        size = ((self.values[calls] * self.weights[calls]) ** 2).mean(axis=1)
        share = 1 / np.sqrt(np.where(size > 0, size, 1.0))
        # exponents were chosen as well: each factor takes a degree of freedom from the noise
        factors = first_occurrence(np.where(regression.free[:, 1:, None], chosen, 0)).sum(axis=(1, 2))
        excess = regression.degrees / np.maximum(regression.degrees - factors, 1)
        noise = (share * np.sqrt(regression.spread * excess)).tolist()
        rows = (variances * excess[:, None, None]).tolist()
        out = []
        functions = map(self.functions.make, chosen.tolist(), coefficients.tolist(), regression.free.tolist())
        for c, (degrees, (function, order)) in enumerate(zip(regression.degrees.tolist(), functions, strict=True)):
            covariance: tuple[tuple[float, ...], ...] = ()
            if degrees > 0:
                covariance = tuple(tuple([row[j] for j in order]) for row in [rows[c][i] for i in order])
            out.append(Alternative(function, weights[c], covariance, noise[c], degrees))
        return out


def _representatives(
    calls: int, index: Ids, alike: Ids, weight: Array, predicted: Array
) -> tuple[list[int], list[float]]:
    """Return the hypotheses that stand for the mixtures, those of each call path the best first, and their weights.

    Parameters
    ----------
    index, alike, weight, predicted
        Shape (hypothesis,): index of the call path, ascending, a number for each different one, weight, prediction.
    """
    first, number = np.unique(alike, return_index=True, return_inverse=True)[1:]
    merged = np.bincount(number.reshape(-1), weight)[number.reshape(-1)]
    different = np.sort(first)
    starts = np.searchsorted(index[different], np.arange(calls + 1)).tolist()
    rows: list[int] = []
    shares: list[float] = []
    for start, end in pairwise(starts):
        some = different[start:end]
        chosen, of_parts = divided(merged[some] / merged[some].sum(), predicted[some])
        rows += some[chosen].tolist()
        shares += of_parts
    return rows, shares
