"""What speaks for a hypothesis: its error at left-out points, and what it pays for its freedom."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from buran.modeling.pmnf.beam import BOUND, Dictionary
from buran.modeling.pmnf.candidates import Ids, Mask, TermTable
from buran.modeling.pmnf.terms import Array

Criterion = Literal["error", "smape"]
ROUNDING_ERROR = 1e-11  # relative error below which two fits differ by rounding alone
_EQUAL = 1e-6  # of the score, for each factor: of hypotheses that differ by rounding alone, the shortest comes first


@dataclass(frozen=True)
class Costs:
    """What a hypothesis has to pay for its freedom, in nats; see `score`.

    What is added to the score counts however many points there are: noise is no reason to predict values that fall
    below zero.
    """

    # For each coefficient in addition to the constant, and each further factor of a parameter that is not plain; added
    # to the score for each negative coefficient of a term that does not fall or of which two values say so. Tuned: first 1.5, then 3, then 5;
    # ablation: without, 86 instead of 92 % are found (evidence/models.md).
    coefficient: float = 4.0
    # For each parameter that matters, and each further plain factor of it. Tuned: ablation: without, noise around a
    # constant stays a constant in 83 instead of 90 % (evidence/models.md).
    factor: float = 1.5


def score(error: Array, cost: Array, points: int | Ids, coefficients: int | Ids) -> Array:
    """Compare hypotheses of different size: smaller is better.

    ``log(error) + cost / (d + 1)``, d = points - coefficients. By chance alone a superfluous coefficient
    shrinks the residuals to a share r with a probability near r^d, so that to ask for a probability below
    exp(-cost) is to ask for log r < -cost / d. Few points thus demand a large improvement and many points a
    small one, and exact data always pass. The 1 lets three points show growth.
    """
    return np.asarray(np.log(np.hypot(error, ROUNDING_ERROR)) + cost / (points - coefficients + 1))


def smape_left_out(free: Array, residual: Array, values: Array, weights: Array) -> Array:
    """Compare hypotheses by the SMAPE of predictions at left-out points, as Extra-P does: smaller is better.

    Parameters
    ----------
    free, residual
        Shape (call path, hypothesis, point): 1 - leverage, and weighted residuals.
    values, weights
        Shape (call path, point).

    Returns
    -------
    array
        Shape (call path, hypothesis); infinite where a point fixes a coefficient alone.
    """
    bound = free < BOUND
    gaps = residual / weights[:, None] / np.where(bound, 1.0, free)
    size = np.abs(values[:, None]) + np.abs(values[:, None] - gaps)
    error = np.divide(np.abs(gaps), size, out=np.zeros_like(gaps), where=size > 0).mean(axis=2)
    return np.where(bound.any(axis=2), np.inf, error)


@dataclass(frozen=True, eq=False)
class Sums:
    """Hypotheses of one size that compete.

    Attributes
    ----------
    rows, new
        Shape (call path, hypothesis, term, parameter): of the term tables; factors that are of no term before.
    coefficients
        Shape (call path, hypothesis, term).
    predicted
        Shape (call path, hypothesis, place): at the edges.
    errors
        Shape (call path, hypothesis): at left-out points; infinite where not usable.
    """

    rows: Ids
    new: Mask
    coefficients: Array
    predicted: Array
    errors: Array


def cost_of(tables: list[TermTable], dictionary: Dictionary, sums: Sums, costs: Costs) -> tuple[Array, Array]:
    """Return shape (call path, hypothesis), twice: cost of the freedom, and the handicap on the score.

    The handicap is infinite for hypotheses that are negative at an edge of the range in which nothing may be.
    """
    rows, coefficients = sums.rows, sums.coefficients
    out = np.full(sums.errors.shape, float(costs.coefficient * rows.shape[2]))
    through, falling = np.zeros(out.shape, dtype=bool), np.zeros(coefficients.shape, dtype=bool)
    for p, table in enumerate(tables):
        of_table, first = rows[..., p], sums.new[..., p]
        distinct, fancy = first.sum(axis=2), (first & ~table.plain[of_table]).sum(axis=2)
        # the first factor is free to be fancy; further ones pay by their kind
        expensive = np.minimum(fancy, np.maximum(distinct - 1, 0))
        out += costs.factor * (distinct - expensive) + costs.coefficient * expensive
        through |= distinct > max(table.levels - 2, 1)  # with more, it could pass through any values
        falling |= table.falling[of_table] & (table.levels > 2)  # no two values show a bound that is risen to
    handicap = _EQUAL * (rows > 0).sum(axis=(2, 3))
    handicap += costs.coefficient * ((coefficients < 0) & ~falling).sum(axis=2)
    handicap[through] = np.inf
    below = sums.predicted.min(axis=2) < -BOUND * np.abs(sums.predicted).max(axis=2)
    handicap[below & dictionary.positive[:, None]] = np.inf
    return out, handicap


# Nats of odds for a nat of the score, times the points. Tuned: ablation, seed 4242 (evidence/models.md).
SCORE_WEIGHT = 0.3


@dataclass(frozen=True, eq=False)
class BestHypotheses:
    """The best hypotheses of each call path, best first.

    Attributes
    ----------
    rows
        Shape (call path, hypothesis, term, parameter): rows of the term tables; all 0 for a term that is not there.
    scores
        Shape (call path, hypothesis): infinite where there are fewer hypotheses.
    """

    rows: NDArray[np.int16]
    scores: Array

    @classmethod
    def of(cls, calls: int, hypotheses: int, terms: int, parameters: int) -> BestHypotheses:
        """Make room for that many hypotheses."""
        rows = np.zeros((calls, hypotheses, terms, parameters), dtype=np.int16)
        scores = np.full((calls, hypotheses), np.inf)
        return cls(rows, scores)

    def of_calls(self, part: slice) -> BestHypotheses:
        """Return a view of some call paths."""
        return BestHypotheses(self.rows[part], self.scores[part])

    def enter(self, calls: Ids, rows: Ids, scores: Array) -> None:
        """Add hypotheses (call path, hypothesis, term, parameter) with their scores; the best remain."""
        terms, count = rows.shape[2], self.scores.shape[1]
        padded = np.zeros((*rows.shape[:2], *self.rows.shape[2:]), dtype=np.int16)
        padded[:, :, :terms] = rows
        all_scores = np.concatenate([self.scores[calls], scores], axis=1)
        all_rows = np.concatenate([self.rows[calls], padded], axis=1)
        order = np.argsort(all_scores, axis=1, kind="stable")[:, :count]  # of equals the smaller hypothesis
        at = np.arange(len(calls))[:, None]
        self.scores[calls], self.rows[calls] = all_scores[at, order], all_rows[at, order]


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
