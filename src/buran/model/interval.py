"""Intervals of a mixture of hypotheses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from scipy.special import stdtr, stdtrit

from buran.model.alternative import Alternative
from buran.model.terms import Array, Term, predict

Target = Literal["value", "mean"]
_STEPS = 60  # halvings of the search for a quantile


def mixture_interval(
    groups: Sequence[Sequence[Alternative]], at: Array, level: float, of: Target
) -> tuple[Array, Array]:
    """Return the ends for call paths with the same number of alternatives."""
    flat = [alternative for group in groups for alternative in group]
    shape = (len(groups), len(groups[0]))
    middle = predict([each.function for each in flat], at)
    variance = _variance(flat, at)
    if of == "value":
        with np.errstate(over="ignore"):  # an infinite variance leaves the interval without ends
            variance += (np.array([each.noise for each in flat])[:, None] * middle) ** 2
    weight = np.array([each.weight for each in flat]).reshape(*shape, 1)
    degrees = np.array([float(each.degrees) for each in flat]).reshape(*shape, 1)
    middle, scale = middle.reshape(*shape, -1), np.sqrt(variance).reshape(*shape, -1)
    known = (degrees > 0) & np.isfinite(scale)
    usable = np.maximum(degrees, 1.0)
    tail = (1 - level) / 2
    reach = stdtrit(usable, 1 - min(tail, 0.5) * 1e-3) * scale
    reach = np.where(known, reach, 0.0)
    low, high = (middle - reach).min(axis=1), (middle + reach).max(axis=1)
    safe = np.where(scale > 0, scale, np.finfo(np.float64).tiny)
    ends = []
    for target in (tail, 1 - tail):
        left, right = low.copy(), high.copy()
        for _ in range(_STEPS):
            half = (left + right) / 2
            with np.errstate(over="ignore"):
                below = (weight * stdtr(usable, (half[:, None] - middle) / safe)).sum(axis=1)
            left, right = np.where(below < target, half, left), np.where(below < target, right, half)
        ends.append((left + right) / 2)
    void = ~known.all(axis=1)
    return np.where(void, -np.inf, ends[0]), np.where(void, np.inf, ends[1])


def _variance(alternatives: Sequence[Alternative], at: Array) -> Array:
    """Return shape (alternative, point): of the predicted mean; NaN without a covariance."""
    out = np.full((len(alternatives), len(at)), np.nan)
    number: dict[Term, int] = {}
    columns = [[number.setdefault(term, len(number)) for term in each.function.terms] for each in alternatives]
    values = np.stack([*(term.evaluate(at) for term in number), np.ones(len(at))])  # the constant is the last
    sizes = np.array([len(own) if each.covariance else -1 for own, each in zip(columns, alternatives, strict=True)])
    for size in np.unique(sizes[sizes >= 0]).tolist():
        rows = np.flatnonzero(sizes == size)
        covariance = np.array([alternatives[row].covariance for row in rows.tolist()])
        design = values[np.array([[-1, *columns[row]] for row in rows])]
        with np.errstate(over="ignore", invalid="ignore"):
            out[rows] = np.maximum(np.einsum("aip,aij,ajp->ap", design, covariance, design), 0.0)
    return out
