"""A univariate regression spline of hinges, grown and pruned as MARS does (Section 3.2 of the CPR paper)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from buran.modeling.tensor.axes import Array

# Of a knot, in degrees of freedom. Tuned: Friedman, Multivariate Adaptive Regression Splines, 1991.
PENALTY = 3.0
# Distinct values at either end without a knot. Tuned: Friedman, Multivariate Adaptive Regression Splines, 1991: the
# end span at a level of 0.05.
END_SPAN = 7
# Of the squared error: what a pair of hinges saves at least. Tuned: no record of its own; choices were made under
# seeds other than the reported one (evidence/tensor.md).
LEAST_GAIN = 1e-3


@dataclass(frozen=True, eq=False)
class Hinges:
    """A continuous piecewise linear function ``c + sum_i b_i max(0, s_i (x - k_i))``."""

    constant: float
    slopes: Array
    knots: Array
    signs: Array

    def __call__(self, x: Array) -> Array:
        """Return shape (point,)."""
        return self.constant + np.maximum(0.0, self.signs * (x[:, None] - self.knots)) @ self.slopes


def fit_hinges(x: Array, y: Array) -> Hinges:
    """Fit by adding pairs of hinges while the error falls, then dropping terms by generalised cross-validation.

    Parameters
    ----------
    x, y
        Shape (point,).
    """
    terms: list[tuple[float, float]] = []
    error = _rss(x, y, terms)[0]
    distinct = np.unique(x)
    # Near the ends, noise would decide on the slope that goes on beyond them (Friedman's end span).
    knots = np.concatenate([distinct[:1], distinct[END_SPAN : len(distinct) - END_SPAN]])
    while len(terms) + 3 < len(x) and error > 1e-12 * max(float(y @ y), 1e-300):
        tried = [(_rss(x, y, [*terms, (float(k), 1.0), (float(k), -1.0)])[0], float(k)) for k in knots]
        best, knot = min(tried)
        if error - best < LEAST_GAIN * error:
            break
        terms += [(knot, 1.0), (knot, -1.0)]
        error = best
    chosen, score = terms, _gcv(x, y, terms)
    while terms:
        tries = [terms[:i] + terms[i + 1 :] for i in range(len(terms))]
        scores = [_gcv(x, y, knots) for knots in tries]
        i = int(np.argmin(scores))
        terms = tries[i]
        if scores[i] <= score:
            chosen, score = terms, scores[i]
    found = _rss(x, y, chosen)[1]
    own = np.array(chosen, dtype=np.float64).reshape(-1, 2)
    return Hinges(float(found[0]), found[1:], own[:, 0], own[:, 1])


def _design(x: Array, terms: list[tuple[float, float]]) -> Array:
    return np.stack([np.ones(len(x)), *(np.maximum(0.0, sign * (x - knot)) for knot, sign in terms)], axis=1)


def _rss(x: Array, y: Array, terms: list[tuple[float, float]]) -> tuple[float, Array]:
    design = _design(x, terms)
    found = np.linalg.lstsq(design, y, rcond=None)[0]
    rest = y - design @ found
    return float(rest @ rest), np.asarray(found, dtype=np.float64)


def _gcv(x: Array, y: Array, terms: list[tuple[float, float]]) -> float:
    cost = len(terms) + 1 + PENALTY * len(terms) / 2
    free = 1 - cost / len(x)
    return np.inf if free <= 0 else _rss(x, y, terms)[0] / len(x) / free**2
