"""Hypotheses as a mixture of t distributions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from buran.modeling.numerics import intervals
from buran.modeling.pmnf.alternative import Alternative
from buran.modeling.pmnf.terms import Array, Term, predict
from buran.modeling.price.discrepancy import Discrepancy, left_over_at

Target = Literal["value", "mean"]


def mixture_interval(
    groups: Sequence[Sequence[Alternative]],
    at: Array,
    level: float,
    of: Target,
    left_over: Sequence[Discrepancy | None],
) -> tuple[Array, Array]:
    """Return the ends for call paths with the same number of alternatives, and what each leaves over."""
    from scipy.special import ndtri  # as all that intervals need, only where they are asked for

    flat = [one for group in groups for one in group]
    shape = (len(groups), len(groups[0]))
    middle = predict([one.function for one in flat], at)
    found = [one for one, group in zip(left_over, groups, strict=True) for _ in group]
    noise = np.array([one.noise for one in flat])
    # residuals that the process explains are no noise, neither of a value nor of coefficients
    explained = np.array([np.inf if one is None else one.process.noise for one in found])
    known = np.isfinite(noise) & (noise > 0)
    share = np.where(known, np.minimum(explained / np.where(known, noise, 1.0), 1.0), 1.0)
    variance = share[:, None] ** 2 * _variance(flat, at)
    if of == "value":
        with np.errstate(over="ignore"):  # an infinite variance leaves the interval without ends
            variance += ((share * noise)[:, None] * middle) ** 2
    # f exp(g): a normal g reaches farther above f than below, and never below 0
    shift, deviation = left_over_at(found, [one.function for one in flat], at)
    factor = np.exp(shift)
    middle, variance = factor * middle, factor**2 * variance
    total = variance + (deviation * middle) ** 2
    z = ndtri((1 + level) / 2)
    with np.errstate(over="ignore"):
        reach = [np.abs(middle * np.expm1(sign * z * deviation)) / z for sign in (-1, 1)]
    below, above = (np.sqrt(variance + np.where(middle < 0, *pair) ** 2) for pair in (reach[::-1], reach))
    weight = np.array([one.weight for one in flat]).reshape(shape)
    # only the noise is estimated from residuals: degrees of freedom of the sum after Satterthwaite (1946)
    ratio = np.divide(total, variance, out=np.ones_like(total), where=(variance > 0) & np.isfinite(variance))
    degrees = np.array([float(one.degrees) for one in flat])[:, None] * ratio**2
    middle, below, above, degrees = (each.reshape(*shape, -1) for each in (middle, below, above, degrees))
    return intervals.of_mixture(middle, below, degrees, weight, level, above)


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
