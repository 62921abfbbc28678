"""The best hypotheses of each call path, as the search finds them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from buran.modeling.pmnf.candidates import Ids
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
