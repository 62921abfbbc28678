"""Hypotheses as a mixture of t distributions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from buran.model.alternative import Alternative
from buran.model.terms import Array, Term, predict
from buran.numerics import intervals

Target = Literal["value", "mean"]


def mixture_interval(
    groups: Sequence[Sequence[Alternative]], at: Array, level: float, of: Target
) -> tuple[Array, Array]:
    """Return the ends for call paths with the same number of alternatives."""
    flat = [one for group in groups for one in group]
    shape = (len(groups), len(groups[0]))
    middle = predict([one.function for one in flat], at)
    variance = _variance(flat, at)
    if of == "value":
        with np.errstate(over="ignore"):  # an infinite variance leaves the interval without ends
            variance += (np.array([one.noise for one in flat])[:, None] * middle) ** 2
    for row, one in enumerate(flat):
        if one.discrepancy is not None:
            variance[row] += (one.discrepancy.at(at) * middle[row]) ** 2
    weight = np.array([one.weight for one in flat]).reshape(shape)
    degrees = np.array([float(one.degrees) for one in flat]).reshape(shape)
    middle, scale = middle.reshape(*shape, -1), np.sqrt(variance).reshape(*shape, -1)
    return intervals.of_mixture(middle, scale, degrees, weight, level)


def _variance(alternatives: Sequence[Alternative], at: Array) -> Array:
    """Return shape (alternative, point): of the predicted mean; NaN without a covariance."""
    out = np.full((len(alternatives), len(at)), np.nan)
    number: dict[Term, int] = {}
    columns = [[number.setdefault(term, len(number)) for term in one.function.terms] for one in alternatives]
    values = np.stack([*(term.evaluate(at) for term in number), np.ones(len(at))])  # the constant is the last
    sizes = np.array(
        [len(numbers) if one.covariance else -1 for numbers, one in zip(columns, alternatives, strict=True)]
    )
    for size in np.unique(sizes[sizes >= 0]).tolist():
        rows = np.flatnonzero(sizes == size)
        covariance = np.array([alternatives[row].covariance for row in rows.tolist()])
        design = values[np.array([[-1, *columns[row]] for row in rows])]
        with np.errstate(over="ignore", invalid="ignore"):
            out[rows] = np.maximum(np.einsum("aip,aij,ajp->ap", design, covariance, design), 0.0)
    return out
