"""Model objects: a function with its quality, its uncertainty and the hypotheses it competed with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from scipy.special import stdtr, stdtrit

from buran.errors import UsageError
from buran.model.terms import Array, ModelFunction, Term

Target = Literal["value", "mean"]
_STEPS = 60  # halvings of the search for a quantile


@dataclass(frozen=True)
class Quality:
    """How well a model fits the points it was made from.

    Attributes
    ----------
    points
        Number of points used.
    smape, loo_smape
        Percent; in sample, and with each point predicted by the fit to the others.
    error
        Mean of the absolute relative leave-one-out errors, the measure the hypotheses compete by.
    adjusted_r2
        NaN if all values are equal or there are as many coefficients as points.
    rss
        Residual sum of squares, in squared units of the metric.
    """

    points: int
    smape: float
    loo_smape: float
    error: float
    adjusted_r2: float
    rss: float


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
        Of the constant and the coefficients, in the function's order; not there without a degree of freedom.
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


@dataclass(frozen=True)
class Model:
    """A model function with its quality.

    Attributes
    ----------
    function
        The prediction.
    quality
        The fit.
    covariance
        Of the constant and the coefficients, in the function's order; rows of a symmetric matrix. A constant
        that was dropped has zeros. Empty if no degree of freedom remains.
    alternatives
        The hypotheses within reach of the best, the best one first, weights adding up to 1. They are fitted when
        they are asked for.
    """

    function: ModelFunction
    quality: Quality
    covariance: tuple[tuple[float, ...], ...] = ()
    alternatives: Sequence[Alternative] = field(default=(), compare=False, repr=False)

    def predict_interval(self, points: Array, level: float = 0.9, of: Target = "value") -> tuple[Array, Array]:
        """Return lower and upper ends at `points` (point, parameter), each of shape (point,).

        See `prediction_interval`.
        """
        lower, upper = prediction_interval([self], points, level, of)
        return lower[0], upper[0]

    def contributions(self, points: Array) -> Array:
        """Return what the constant and each term add at `points` (..., parameter): shape (1 + term, ...)."""
        at = np.asarray(points, dtype=np.float64)
        terms = zip(self.function.coefficients, self.function.terms, strict=True)
        constant = np.full(at.shape[:-1], self.function.constant)
        return np.stack([constant, *(coefficient * term.evaluate(at) for coefficient, term in terms)])

    def standard_error(self, points: Array) -> Array:
        """Return the standard error of the predicted mean at `points` (..., parameter).

        Holds for the chosen hypothesis; that another may be the right one is in `predict_interval`. NaN without
        a covariance.
        """
        at = np.asarray(points, dtype=np.float64)
        if not self.covariance:
            return np.full(at.shape[:-1], np.nan)
        row = np.stack([np.ones(at.shape[:-1]), *(term.evaluate(at) for term in self.function.terms)], axis=-1)
        variance = np.einsum("...i,ij,...j->...", row, np.array(self.covariance), row)
        return np.asarray(np.sqrt(np.maximum(variance, 0)))


def predict(functions: list[ModelFunction | None], points: Array) -> Array:
    """Evaluate many functions at `points` (point, parameter): shape (function, point), NaN for None.

    Each distinct term is evaluated once.
    """
    at = np.atleast_2d(np.asarray(points, dtype=np.float64))
    out = np.array([np.nan if f is None else f.constant for f in functions])[:, None] * np.ones(len(at))
    number: dict[Term, int] = {}
    entries = [
        (row, number.setdefault(term, len(number)), coefficient)
        for row, function in enumerate(functions)
        if function is not None
        for coefficient, term in zip(function.coefficients, function.terms, strict=True)
    ]
    if entries:
        rows, columns, coefficients = (np.array(part) for part in zip(*entries, strict=True))
        values = np.stack([term.evaluate(at) for term in number])
        np.add.at(out, rows, coefficients[:, None] * values[columns])
    return out


def prediction_interval(
    models: Sequence[Model | None], points: Array, level: float = 0.9, of: Target = "value"
) -> tuple[Array, Array]:
    """Return the ends of intervals that hold a share `level` of what is going to be measured.

    Every alternative predicts a t distribution around its value: with the uncertainty of its coefficients and,
    `of` a "value" (such as were modelled: one measurement, or a mean of repetitions), its noise; `of` the "mean",
    without. The interval holds the middle of their mixture by weight, so that what the measurements cannot decide
    makes it wide, and always the prediction itself.

    Parameters
    ----------
    models
        One for each call path.
    points
        Shape (point, parameter).
    level
        Between 0 and 1.
    of
        What the interval is for.

    Returns
    -------
    lower, upper
        Shape (call path, point). NaN without a model; infinite without a degree of freedom.

    Raises
    ------
    UsageError
        If `level` is not between 0 and 1.
    """
    if not 0 < level < 1:
        raise UsageError("the level of an interval lies between 0 and 1", why=f"it is {level:g}")
    at = np.atleast_2d(np.asarray(points, dtype=np.float64))
    own = predict([None if model is None else model.function for model in models], at)
    lower, upper = np.full(own.shape, np.nan), np.full(own.shape, np.nan)
    known = [row for row, model in enumerate(models) if model is not None]
    counts = np.array([len(models[row].alternatives) for row in known], dtype=np.int64)  # type: ignore[union-attr]
    lower[known], upper[known] = -np.inf, np.inf
    for count in np.unique(counts[counts > 0]):
        rows = [row for row, own_count in zip(known, counts, strict=True) if own_count == count]
        ends = _mixture_interval([models[row].alternatives for row in rows], at, level, of)  # type: ignore[union-attr]
        lower[rows], upper[rows] = np.minimum(ends[0], own[rows]), np.maximum(ends[1], own[rows])
    return lower, upper


def _mixture_interval(
    groups: Sequence[Sequence[Alternative]], at: Array, level: float, of: Target
) -> tuple[Array, Array]:
    """Return the ends for call paths with the same number of alternatives."""
    flat = [alternative for group in groups for alternative in group]
    shape = (len(groups), len(groups[0]))
    middle = predict([each.function for each in flat], at)
    variance = _variance(flat, at)
    if of == "value":
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
    for size in np.unique(sizes[sizes >= 0]):
        rows = np.flatnonzero(sizes == size)
        covariance = np.array([alternatives[row].covariance for row in rows])
        design = values[np.array([[-1, *columns[row]] for row in rows])]
        out[rows] = np.maximum(np.einsum("aip,aij,ajp->ap", design, covariance, design), 0.0)
    return out
