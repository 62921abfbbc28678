"""Fitting models to many call paths at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from buran.errors import UsageError
from buran.model.candidates import Ids, Mask, TermTable
from buran.model.quality import adjusted_r2, rss, smape
from buran.model.search import SearchOptions, search
from buran.model.space import HypothesisSpace, full_space
from buran.model.terms import Array, Factor, ModelFunction, Term, growth_order

_FLOOR = 1e-3  # of a call path's largest value: smaller values weigh no more than this one
_VOID = 1e-9  # share of the values below which a contribution is rounding
_NOISE_SHARE = 0.1  # of the leave-one-out error: smaller contributions cannot be told from nothing
_LARGEST = 1e150  # squares of larger values overflow
_BOUND = 1e-9  # 1 - leverage of a point that fixes a coefficient alone


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
        The prediction.
    quality
        The fit.
    covariance
        Of the constant and the coefficients, in the function's order; rows of a symmetric matrix. A constant
        that was dropped has zeros. Empty if no degree of freedom remains.
    """

    function: ModelFunction
    quality: Quality
    covariance: tuple[tuple[float, ...], ...] = ()

    def standard_error(self, points: Array) -> Array:
        """Return the standard error of the predicted mean at `points` (..., parameter).

        Holds for the chosen hypothesis; that another may be the right one is not in it. NaN without a
        covariance.
        """
        at = np.asarray(points, dtype=np.float64)
        if not self.covariance:
            return np.full(at.shape[:-1], np.nan)
        row = np.stack([np.ones(at.shape[:-1]), *(term.evaluate(at) for term in self.function.terms)], axis=-1)
        variance = np.einsum("...i,ij,...j->...", row, np.array(self.covariance), row)
        return np.asarray(np.sqrt(np.maximum(variance, 0)))


@dataclass(frozen=True)
class Fit:
    """Models of many call paths.

    Attributes
    ----------
    models
        One for each call path; None where there is no value to model.
    """

    models: tuple[Model | None, ...]

    def predict(self, points: Array) -> Array:
        """Return shape (call path, point) at `points` (point, parameter); NaN where there is no model."""
        return predict([None if model is None else model.function for model in self.models], points)


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


def relative_weights(values: Array) -> Array:
    """Weights for noise that is a share of the value.

    ``1 / max(|value|, 0.001 of the call path's largest)``: a value of 0 among larger ones counts like one of
    a thousandth of the largest, instead of infinitely. 1 for call paths of zeros.

    Returns
    -------
    array
        Shape (call path, point); NaN where `values` are.
    """
    size = np.abs(values)
    largest = np.max(np.where(np.isfinite(size), size, 0.0), axis=1, keepdims=True, initial=0.0)
    return np.asarray(1 / np.where(largest > 0, np.maximum(size, _FLOOR * largest), 1.0 + 0 * size))


def fit_models(
    points: Array,
    values: Array,
    *,
    space: HypothesisSpace | None = None,
    weights: Array | None = None,
    options: SearchOptions | None = None,
) -> Fit:
    """Find a model for each call path.

    Parameters
    ----------
    points
        Shape (point, parameter), distinct rows; in any layout: full, lines, scattered.
    values
        Shape (call path, point); NaN where nothing was measured: that call path uses the points it has.
    space
        Exponents to try; the full space by default.
    weights
        Shape (call path, point), positive: reciprocal standard deviations up to a factor for each call path;
        `relative_weights` by default.
    options
        How wide to search.

    Returns
    -------
    Fit
        Deterministic; does not depend on the order of points or on other call paths.

    Raises
    ------
    UsageError
        For shapes that do not match, points that repeat, parameter values below 0, values that are infinite
        and weights that are not positive.
    """
    points, values = np.asarray(points, dtype=np.float64), np.asarray(values, dtype=np.float64)
    _check(points, values, weights)
    space, options = space or full_space(), options or SearchOptions()
    models: list[Model | None] = [None] * len(values)
    order = np.lexsort(points.T[::-1])
    points = points[order]
    values, binary = _scaled(values[:, order])
    weights = relative_weights(values) if weights is None else _normalised(np.asarray(weights)[:, order], values)
    for calls, present in _patterns_of_absence(values):
        if not present.any():
            continue
        block = np.ix_(calls, present)
        fitted = _fit_complete(points[present], values[block], weights[block], binary[calls], space, options)
        for call, model in zip(calls, fitted, strict=True):
            models[call] = model
    return Fit(tuple(models))


def _check(points: Array, values: Array, weights: Array | None) -> None:
    if points.ndim != 2 or values.ndim != 2 or values.shape[1] != len(points):
        raise UsageError(
            "points and values do not match",
            why=f"points have shape {points.shape}, values {values.shape}; "
            "wanted are (point, parameter) and (call path, point)",
        )
    if len(np.unique(points, axis=0)) != len(points):
        raise UsageError("a point stands twice", hint="aggregate repetitions before modelling")
    large = (np.abs(values) > _LARGEST).any(axis=1)
    if large.any():
        raise UsageError(
            "values to model must be finite, or NaN where missing",
            where=f"call path number {np.flatnonzero(large)[0]}",
        )
    if weights is not None and (
        np.shape(weights) != values.shape or not (np.asarray(weights)[np.isfinite(values)] > 0).all()
    ):
        raise UsageError("weights must be positive, one for each value")


def _scaled(values: Array) -> tuple[Array, Ids]:
    """Divide each row by a power of two that brings its largest value near 1; return the powers as well.

    Squares of values then neither overflow nor vanish, and no digit changes.
    """
    largest = np.max(np.where(np.isfinite(values), np.abs(values), 0.0), axis=1, initial=0.0)
    binary = np.frexp(largest)[1].astype(np.int64)
    return np.ldexp(values, -binary[:, None]), binary


def _normalised(weights: Array, values: Array) -> Array:
    """Scale weights so that weighted values have a root mean square of 1, and errors are relative ones."""
    square = np.where(np.isfinite(values), (weights * values) ** 2, 0.0)
    mean = square.sum(axis=1) / np.maximum(np.isfinite(values).sum(axis=1), 1)
    return np.asarray(weights / np.sqrt(np.where(mean > 0, mean, 1.0))[:, None])


def _patterns_of_absence(values: Array) -> Iterator[tuple[Ids, Mask]]:
    """Group call paths that were measured at the same points."""
    present = np.isfinite(values)
    if present.all():
        yield np.arange(len(values)), np.ones(values.shape[1], dtype=bool)
        return
    masks, group = np.unique(present, axis=0, return_inverse=True)
    for number, mask in enumerate(masks):
        yield np.flatnonzero(group.reshape(-1) == number), mask


def _fit_complete(
    points: Array,
    values: Array,
    weights: Array,
    binary: Ids,
    space: HypothesisSpace,
    options: SearchOptions,
) -> list[Model]:
    """Fit call paths that were measured at all `points`; `values` lack a factor of 2^`binary`."""
    tables, chosen = search(points, values, weights, space, options)
    models: list[Model | None] = [None] * len(values)
    size = chosen.any(axis=2).sum(axis=1)
    for terms in np.unique(size):
        calls = np.flatnonzero(size == terms)
        block = _final_fit(points, values[calls], weights[calls], binary[calls], tables, chosen[calls, :terms])
        for call, model in zip(calls, block, strict=True):
            models[call] = model
    return [model for model in models if model is not None]


def _design(points: Array, tables: list[TermTable], chosen: Ids) -> Array:
    """Return shape (call path, point, 1 + term): the constant and the terms, unscaled."""
    calls, terms, _ = chosen.shape
    out = np.ones((calls, len(points), 1 + terms))
    for p, table in enumerate(tables):
        x = points[:, p]
        raw = [np.ones_like(x), *(Factor(0, i, j).evaluate(x[:, None]) for i, j in table.pairs)]
        out[:, :, 1:] *= np.stack(raw)[chosen[..., p]].transpose(0, 2, 1)
    return out


def _solve(design: Array, values: Array, weights: Array, free: Mask) -> tuple[Array, Array, Array]:
    """Weighted least squares for each call path.

    Parameters
    ----------
    design
        Shape (call path, point, column).
    values, weights
        Shape (call path, point).
    free
        Shape (call path, column): False for coefficients held at 0.

    Returns
    -------
    coefficients
        Shape (call path, column).
    hat
        Shape (call path, point): diagonal of the hat matrix.
    inverse
        Shape (call path, column, column): of the normal matrix, 0 for held coefficients.
    """
    columns = design * weights[..., None] * free[:, None]
    scale = np.linalg.norm(columns, axis=1)
    scale = np.where(scale > 0, scale, 1.0)
    # a held column becomes a unit vector in a row of its own: it takes no part and keeps the rank full
    extra = np.eye(columns.shape[2])[None] * ~free[:, None]
    stacked = np.concatenate([columns / scale[:, None], extra], axis=1)
    q, r = np.linalg.qr(stacked)
    target = np.concatenate([values * weights, np.zeros((len(values), columns.shape[2]))], axis=1)
    coefficients = np.linalg.solve(r, np.einsum("cpk,cp->ck", q, target)[..., None])[..., 0] / scale
    back = np.linalg.inv(r) / scale[..., None]
    hat = (q[:, : values.shape[1]] ** 2).sum(axis=2)
    keep = free[:, :, None] & free[:, None]
    return np.where(free, coefficients, 0.0), hat, np.where(keep, back @ back.transpose(0, 2, 1), 0.0)


def _final_fit(
    points: Array, values: Array, weights: Array, binary: Ids, tables: list[TermTable], chosen: Ids
) -> list[Model]:
    """Fit the chosen hypotheses exactly, drop what contributes nothing, and judge the result."""
    design = _design(points, tables, chosen)
    calls, count, columns = design.shape
    free = np.ones((calls, columns), dtype=bool)
    if columns == 1:
        coefficients, hat, inverse = _solve(design, values, weights, free)
    else:
        coefficients, hat, _ = _solve(design, values, weights, free)
        error = _loo_error(design, coefficients, hat, values, weights)
        share = np.abs(coefficients[:, None] * design * weights[..., None]).max(axis=1)
        free = share > np.maximum(_VOID, _NOISE_SHARE * np.where(np.isfinite(error), error, 0.0))[:, None]
        coefficients, hat, inverse = _solve(design, values, weights, free)
    predicted = np.einsum("cpk,ck->cp", design, coefficients)
    residual = values - predicted
    used = free.sum(axis=1)
    bound = 1 - hat < _BOUND
    left_out = np.where(bound, np.nan, values - residual / np.where(bound, 1.0, 1 - hat))
    degrees = count - used
    spread = np.divide(((residual * weights) ** 2).sum(axis=1), degrees, out=np.full(calls, np.nan), where=degrees > 0)
    with_loo = ~bound.any(axis=1) & (degrees > 0)
    loo_smape = np.where(with_loo, smape(np.where(with_loo[:, None], left_out, 0.0), values), np.nan)
    error = _loo_error(design, coefficients, hat, values, weights)
    figures = zip(
        smape(predicted, values).tolist(),
        loo_smape.tolist(),
        error.tolist(),
        adjusted_r2(predicted, values, used).tolist(),
        np.ldexp(rss(predicted, values), 2 * binary).tolist(),
        strict=True,
    )
    coefficients = np.ldexp(coefficients, binary[:, None])
    variances = np.ldexp(inverse * spread[:, None, None], 2 * binary[:, None, None])
    out = []
    for c, (own_smape, own_loo, own_error, r2, own_rss) in enumerate(figures):
        function, order = _function(tables, chosen[c], coefficients[c], free[c])
        covariance: tuple[tuple[float, ...], ...] = ()
        if degrees[c] > 0:
            covariance = tuple(map(tuple, variances[c][np.ix_(order, order)].tolist()))
        quality = Quality(count, own_smape, own_loo, own_error, r2, own_rss)
        out.append(Model(function, quality, covariance))
    return out


def _loo_error(design: Array, coefficients: Array, hat: Array, values: Array, weights: Array) -> Array:
    """Mean absolute weighted leave-one-out error, shape (call path,); NaN where not defined."""
    residual = (values - np.einsum("cpk,ck->cp", design, coefficients)) * weights
    bound = 1 - hat < _BOUND
    out = np.mean(np.abs(residual / np.where(bound, 1.0, 1 - hat)), axis=1)
    return np.asarray(np.where(bound.any(axis=1), np.nan, out))


def _function(tables: list[TermTable], chosen: Ids, coefficients: Array, free: Mask) -> tuple[ModelFunction, Ids]:
    """Make the model function; also return the columns of the design in its order, the constant first."""
    terms = [
        Term(tuple(Factor(p, *table.pairs[row - 1]) for p, table in enumerate(tables) if (row := rows[p])))
        for rows in chosen.tolist()
    ]
    kept = [number for number in range(len(terms)) if free[1 + number]]
    kept.sort(key=lambda number: growth_order(terms[number]), reverse=True)
    function = ModelFunction(
        float(coefficients[0]) + 0.0,  # no negative zero
        tuple(float(coefficients[1 + number]) for number in kept),
        tuple(terms[number] for number in kept),
    )
    return function, np.array([0, *(1 + number for number in kept)])
