"""The best hypotheses of each call path, as the search finds them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from buran.modeling.numerics.tuning import MATTERS
from buran.modeling.pmnf.candidates import Ids, Mask
from buran.modeling.pmnf.terms import Array

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
    ahead
        Shape (call path, hypothesis): prediction one step beyond the points; see `beyond`.
    """

    rows: NDArray[np.int16]
    scores: Array
    ahead: Array

    @classmethod
    def of(cls, calls: int, hypotheses: int, terms: int, parameters: int) -> BestHypotheses:
        """Make room for that many hypotheses."""
        rows = np.zeros((calls, hypotheses, terms, parameters), dtype=np.int16)
        scores = np.full((calls, hypotheses), np.inf)
        return cls(rows, scores, np.zeros(scores.shape))

    def of_calls(self, part: slice) -> BestHypotheses:
        """Return a view of some call paths."""
        return BestHypotheses(self.rows[part], self.scores[part], self.ahead[part])

    def enter(self, calls: Ids, rows: Ids, scores: Array, ahead: Array) -> None:
        """Add hypotheses (call path, hypothesis, term, parameter) with their scores; the best remain."""
        terms, count = rows.shape[2], self.scores.shape[1]
        padded = np.zeros((*rows.shape[:2], *self.rows.shape[2:]), dtype=np.int16)
        padded[:, :, :terms] = rows
        all_scores = np.concatenate([self.scores[calls], scores], axis=1)
        all_rows = np.concatenate([self.rows[calls], padded], axis=1)
        all_ahead = np.concatenate([self.ahead[calls], ahead], axis=1)
        order = np.argsort(all_scores, axis=1, kind="stable")[:, :count]  # of equals the smaller hypothesis
        at = np.arange(len(calls))[:, None]
        self.scores[calls], self.rows[calls] = all_scores[at, order], all_rows[at, order]
        self.ahead[calls] = all_ahead[at, order]

    def put_central_first(self, points: int, steady: Mask, plain: Mask) -> None:
        """Move the hypothesis that predicts the median of the mixture to the front, for `steady` call paths.

        Of hypotheses that are likely, those go first that are `plain` (call path, hypothesis).

        Where several hypotheses are as good, the best of them by a hair may be the one that grows fastest; one
        whose prediction beyond the points has as much weight above as below errs less. Not where values scatter so
        much that most hypotheses are guesses: the best, which then pays for growth, is the more cautious one. And not
        where the best is constant: noise is no reason to claim growth.
        """
        best = self.rows[np.arange(len(self.rows)), np.argmin(self.scores, axis=1)]
        steady = steady & best.any(axis=(1, 2))
        weight = odds(self.scores, points)
        likely = weight >= MATTERS
        some = likely & plain
        likely = np.where(some.any(axis=1, keepdims=True), some, likely)
        order = np.argsort(self.ahead, axis=1, kind="stable")
        at = np.arange(len(order))
        share = np.cumsum(np.take_along_axis(weight, order, axis=1), axis=1)
        middle = np.argmax(share >= share[:, -1:] / 2, axis=1)
        median = self.ahead[at, order[at, middle]]
        central = np.argmin(np.where(likely, np.abs(self.ahead - median[:, None]), np.inf), axis=1)
        chosen = np.where(steady, central, np.argmax(np.where(likely, weight, 0.0), axis=1))
        moved = np.flatnonzero(chosen > 0)
        self._put_first(moved, chosen[moved])

    def _put_first(self, calls: Ids, chosen: Ids) -> None:
        """Move the hypothesis `chosen` (call path,) of some `calls` to the front; the others keep their order."""
        column = np.arange(self.scores.shape[1])[None]
        old = chosen[:, None]
        order = np.where(column == 0, old, np.where(column <= old, column - 1, column))
        for array in (self.rows, self.scores, self.ahead):
            array[calls] = array[calls[:, None], order]


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


def beyond(points: Array) -> Array:
    """Return the point ahead of all (parameter,): every parameter a quarter of its range on a log scale further.

    Five values that double, 4 to 64, go on with 128. Parameters with values of 0 go on linearly.
    """
    low, high = points.min(axis=0), points.max(axis=0)
    ratio = np.where(low > 0, high / np.where(low > 0, low, 1.0), 1.0)
    return np.asarray(np.where(low > 0, high * ratio**0.25, high + (high - low) / 4))
