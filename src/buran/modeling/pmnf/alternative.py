"""Hypotheses that a model competed with, and their mixture of t distributions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, overload

import numpy as np

from buran.modeling.numerics import intervals
from buran.modeling.pmnf.terms import Array, ModelFunction, Term, predict
from buran.modeling.price.discrepancy import Discrepancy, left_over_at

# Of the weight, at which the hypotheses of a call path are divided, each part with one that stands for it. Tuned: of
# 300 generated call paths the ends of 90 % intervals move by 2 % in the middle half.
MIXTURE_PARTS = (0.01, 0.03, 0.08, 0.2, 0.5, 0.8, 0.92, 0.97, 0.99)

_TOGETHER = 500  # call paths; more would need much memory at once


@dataclass(frozen=True)
class Alternative:
    """A hypothesis within reach of the best, fitted.

    Attributes
    ----------
    function
        The prediction.
    weight
        How much speaks for it, of 1 for all alternatives of a call path.
    covariance
        Covariance of the constant and the coefficients, in the function's order; not there without a degree of freedom.
    noise
        Standard deviation of a value around the function, as a share of the function's value.
    degrees
        Degrees of freedom that remain.
    """

    function: ModelFunction
    weight: float
    covariance: tuple[tuple[float, ...], ...]
    noise: float
    degrees: int


def divided(weights: Array, predicted: Array) -> tuple[list[int], list[float]]:
    """Return the hypotheses that stand for the parts of a mixture, the best first, and the weights of these parts.

    Sorted by their predictions far out, hypotheses fall into parts of the weight, narrow ones at the ends. The one in
    the middle of each stands for all of it.

    Parameters
    ----------
    weights, predicted
        Shape (hypothesis,): the best first; what has no weight stands for nothing.
    """
    edges = MIXTURE_PARTS
    if not weights.all():  # where there are many points, odds of what is not the best vanish
        some = np.flatnonzero(weights)
        rows, of_parts = divided(weights[some], predicted[some])
        return some[rows].tolist(), of_parts
    if len(weights) <= len(edges):
        return list(range(len(weights))), weights.tolist()
    # place of each hypothesis in the cumulative weight, and the part that it falls into
    order = np.argsort(predicted, kind="stable")
    middle = np.empty(len(weights))
    middle[order] = (np.cumsum(weights[order]) - weights[order] / 2) / weights.sum()
    part = np.searchsorted(edges, middle, side="right")
    # of each part the hypothesis nearest to its centre; the best stands for its own, wherever it lies there
    weight = np.bincount(part, weights)
    centre = np.bincount(part, weights * middle)
    gap = np.round(np.abs(middle - centre[part] / weight[part]), 9)  # rounding errors choose none
    gap[0] = -1.0
    nearest = np.lexsort((gap, part))
    first = nearest[np.unique(part[nearest], return_index=True)[1]]
    rows = [0, *first[first != 0].tolist()]
    return rows, weight[part[rows]].tolist()


class LazyAlternatives(Sequence[Alternative]):
    """Alternatives of one call path, fitted on first use, by a function of numbers of call paths."""

    def __init__(self, fit: Callable[[Sequence[int]], list[tuple[Alternative, ...]]], call: int) -> None:
        self._fit, self._call = fit, call
        self._fitted: tuple[Alternative, ...] | None = None

    def _all(self) -> tuple[Alternative, ...]:
        if self._fitted is None:
            (self._fitted,) = self._fit([self._call])
        return self._fitted

    def __len__(self) -> int:
        return len(self._all())

    @overload
    def __getitem__(self, index: int) -> Alternative: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Alternative, ...]: ...
    def __getitem__(self, index: int | slice) -> Alternative | tuple[Alternative, ...]:
        return self._all()[index]


def prepare(groups: Sequence[Sequence[Alternative]]) -> None:
    """Fit those that are not fitted yet, together."""
    by_block: dict[object, list[LazyAlternatives]] = {}
    for alternatives in groups:
        if isinstance(alternatives, LazyAlternatives) and alternatives._fitted is None:
            by_block.setdefault(alternatives._fit, []).append(alternatives)
    for waiting in by_block.values():
        for start in range(0, len(waiting), _TOGETHER):
            some = waiting[start : start + _TOGETHER]
            fitted = some[0]._fit([path._call for path in some])
            for path, alternatives in zip(some, fitted, strict=True):
                path._fitted = alternatives


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
