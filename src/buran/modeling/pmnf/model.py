"""Model objects: a function with its quality, its uncertainty and the hypotheses it competed with; and sums of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import fsum

import numpy as np
from numpy.typing import NDArray

from buran.errors import UsageError
from buran.modeling.functions.terms import Array, ModelFunction, Term, predict
from buran.modeling.numerics.intervals import of_sum
from buran.modeling.pmnf.alternative import Alternative, Target, mixture_interval, prepare
from buran.modeling.price.discrepancy import Discrepancy, left_over_at

_SAME = 1e-12  # of the largest value: differences below are rounding
_MOST_PARTS = 2000
"""Parts whose errors are added up for the interval of a sum, the largest first: of more it takes minutes."""


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
class Model:
    """A model function with its quality.

    Attributes
    ----------
    function
        How the metric grows; times the exponential of `discrepancy` it is the prediction.
    quality
        The fit of the function.
    alternatives
        The hypotheses within reach of the best, the best one first, weights adding up to 1. They are fitted when
        they are requested.
    parts
        The models a sum was made of, which predict for it.
    discrepancy
        The process on what the function leaves over; None where nothing is, and for sums.
    signed
        Whether values may be negative; predictions and intervals of others, such as times and
        counts, do not go below 0.
    """

    function: ModelFunction
    quality: Quality
    alternatives: Sequence[Alternative] = field(default=(), compare=False, repr=False)
    parts: Sequence[Model] = field(default=(), compare=False, repr=False)
    signed: bool = False
    discrepancy: Discrepancy | None = field(default=None, compare=False, repr=False)

    def predict_interval(self, points: Array, level: float = 0.9, of: Target = "value") -> tuple[Array, Array]:
        """Return lower and upper ends at `points` (point, parameter), each of shape (point,).

        See `prediction_interval`.
        """
        lower, upper = prediction_interval([self], points, level, of)
        return lower[0], upper[0]

    def predict(self, points: Array) -> Array:
        """Return what the model predicts at `points` (point, parameter), shape (point,). See `predict_models`."""
        return np.asarray(predict_models([self], points)[0])


def smape(predicted: Array, actual: Array) -> Array:
    """Symmetric mean absolute percentage error over the last axis, in percent (0 to 200).

    ``mean(2 |p - a| / (|a| + |p|)) * 100``; a pair that is equal but for rounding at the scale of the row,
    such as two zeros, counts 0. NaN where `actual` is NaN at every point; other NaN points are left out.
    """
    gap = np.abs(predicted - actual)
    size = np.abs(actual) + np.abs(predicted)
    present = np.isfinite(actual)
    scale = np.max(np.where(present, np.abs(actual), 0.0), axis=-1, keepdims=True, initial=0.0)
    same = gap <= _SAME * scale
    parts = np.divide(2 * gap, size, out=np.zeros_like(gap), where=present & ~same & (size > 0))
    number = present.sum(axis=-1)
    out = np.full(number.shape, np.nan)
    return np.asarray(np.divide(100 * parts.sum(axis=-1), number, out=out, where=number > 0))


def rss(predicted: Array, actual: Array) -> Array:
    """Residual sum of squares over the last axis, without NaN points."""
    return np.asarray(np.nansum((predicted - actual) ** 2, axis=-1))


def adjusted_r2(predicted: Array, actual: Array, coefficients: int | NDArray[np.int64]) -> Array:
    """Share of the variance over the last axis that is explained, corrected for the number of coefficients.

    NaN where no degree of freedom remains or all values are equal.
    """
    number = np.isfinite(actual).sum(axis=-1)
    mean = np.divide(np.nansum(actual, axis=-1), number, out=np.zeros(number.shape), where=number > 0)
    total = np.nansum((actual - mean[..., None]) ** 2, axis=-1)
    free = number - coefficients
    ratio = np.divide(
        rss(predicted, actual) * (number - 1),
        total * free,
        out=np.full(total.shape, np.nan),
        where=(total > 0) & (free > 0),
    )
    return np.asarray(1 - ratio)


def predict_models(models: Sequence[Model | None], points: Array) -> Array:
    """Return what models predict at `points` (point, parameter): shape (call path, point); NaN without a model.

    Times and counts cannot be negative: where a function would be, beyond the points it was made from, they are 0.
    """
    at = np.atleast_2d(np.asarray(points, dtype=np.float64))
    functions = [None if model is None else model.function for model in models]
    left_over = [None if model is None else model.discrepancy for model in models]
    predicted = predict(functions, at) * np.exp(left_over_at(left_over, functions, at)[0])
    parts = [part for model in models if model is not None for part in model.parts]
    if parts:
        of_parts = predict_models(parts, at)
        first = 0
        for row, model in enumerate(models):
            if model is not None and model.parts:
                predicted[row] = of_parts[first : first + len(model.parts)].sum(axis=0)
                first += len(model.parts)
    unsigned = np.array([model is not None and not model.signed for model in models], dtype=bool)
    return np.where(unsigned[:, None], np.maximum(predicted, 0.0), predicted)


def prediction_interval(
    models: Sequence[Model | None], points: Array, level: float = 0.9, of: Target = "value"
) -> tuple[Array, Array]:
    """Return the ends of intervals that hold a share `level` of what is going to be measured.

    Every alternative predicts a t distribution around its value: with the uncertainty of its coefficients and,
    `of` a "value" (such as were modelled: one measurement, or a mean of repetitions), its noise; `of` the "mean",
    without. The interval holds the middle of their mixture by weight, so that what the measurements cannot decide
    makes it wide, and always the prediction itself; nothing below 0 where values cannot be negative. The interval
    of a sum takes the errors of its parts as independent: their distances from the predictions add up in quadrature.

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
        Shape (call path, point). NaN without a model; infinite without a degree of freedom, and for sums that were
        read from a file, which do not keep their parts.

    Raises
    ------
    UsageError
        If `level` is not between 0 and 1.
    """
    if not 0 < level < 1:
        raise UsageError("the level of an interval lies between 0 and 1", why=f"it is {level:g}")
    at = np.atleast_2d(np.asarray(points, dtype=np.float64))
    predicted = predict_models(models, at)
    lower, upper = np.full(predicted.shape, np.nan), np.full(predicted.shape, np.nan)
    groups = {row: model.alternatives for row, model in enumerate(models) if model is not None}
    prepare(list(groups.values()))
    modelled = list(groups)
    counts = np.array([len(predicted) for predicted in groups.values()], dtype=np.int64)
    lower[modelled], upper[modelled] = -np.inf, np.inf
    # models with as many alternatives are evaluated together
    for count in np.unique(counts[counts > 0]).tolist():
        rows = [row for row, number in zip(modelled, counts, strict=True) if number == count]
        left_over = [None if (model := models[row]) is None else model.discrepancy for row in rows]
        bounds = mixture_interval([groups[row] for row in rows], at, level, of, left_over)
        lower[rows], upper[rows] = np.minimum(bounds[0], predicted[rows]), np.maximum(bounds[1], predicted[rows])
    sums = [(row, model.parts) for row, model in enumerate(models) if model is not None and model.parts]
    if sums:
        _of_sums(sums, at, level, of, predicted, lower, upper)
    unsigned = [row for row in modelled if (model := models[row]) is not None and not model.signed]
    lower[unsigned], upper[unsigned] = np.maximum(lower[unsigned], 0.0), np.maximum(upper[unsigned], 0.0)
    return lower, upper


def _of_sums(
    sums: Sequence[tuple[int, Sequence[Model]]],
    at: Array,
    level: float,
    of: Target,
    predicted: Array,
    lower: Array,
    upper: Array,
) -> None:
    """Enter the ends of intervals of sums, given as row and parts; a part of several sums is computed once."""
    parts = list({id(part): part for _, group in sums for part in group}.values())
    middle = predict_models(parts, at)
    largest = np.argsort(-np.nan_to_num(middle).max(axis=1, initial=0.0), kind="stable")[:_MOST_PARTS]
    parts, middle = [parts[row] for row in largest.tolist()], middle[largest]
    index = {id(part): number for number, part in enumerate(parts)}
    low, high = prediction_interval(parts, at, level, of)
    for row, group in sums:
        some = [index[id(part)] for part in group if id(part) in index]
        lower[row], upper[row] = of_sum(predicted[row], middle[some] - low[some], high[some] - middle[some])


def add_functions(functions: Iterable[ModelFunction]) -> ModelFunction:
    """Return the sum; equal terms are joined, so that it has the value of the sum at every point."""
    constants: list[float] = []
    parts: dict[Term, list[float]] = {}
    for function in functions:
        constants.append(function.constant)
        for coefficient, term in zip(function.coefficients, function.terms, strict=True):
            parts.setdefault(term, []).append(coefficient)
    terms = sorted(parts, key=lambda term: term.growth_order, reverse=True)
    kept = [(total, term) for term in terms if (total := fsum(parts[term]))]
    return ModelFunction(fsum(constants), tuple(c for c, _ in kept), tuple(t for _, t in kept))


def add_models(models: Sequence[Model | None], points: Array, values: Array) -> Model | None:
    """Return the sum of models, judged by the sum of what was measured.

    Parameters
    ----------
    models
        Those to add; None for call paths where nothing was measured.
    points
        Shape (point, parameter).
    values
        Shape (point,): the measured sum; NaN where it is not known.

    Returns
    -------
    Model or None
        None if there is none to add. Its intervals take the errors of the parts as independent. It has no
        alternatives, and no error at left-out points.
    """
    present = [model for model in models if model is not None]
    if not present:
        return None
    function = add_functions(model.function for model in present)
    known = np.isfinite(values)
    predicted, actual = predict_models(present, points).sum(axis=0)[known], values[known]
    count, signed = int(known.sum()), any(model.signed for model in present)
    quality = Quality(
        count,
        float(smape(predicted, actual)) if count else np.nan,
        np.nan,
        np.nan,
        float(adjusted_r2(predicted, actual, np.array(1 + len(function.terms)))) if count else np.nan,
        float(rss(predicted, actual)),
    )
    return Model(function, quality, parts=tuple(present), signed=signed)
