"""Fitting models to many call paths at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from buran.errors import UsageError
from buran.modeling.exact.formulas import exact_models, passes_through
from buran.modeling.exact.nearly import near_models, without_rounding
from buran.modeling.numerics.intervals import ROUNDING
from buran.modeling.numerics.tuning import MATTERS
from buran.modeling.pmnf.alternative import LazyAlternatives
from buran.modeling.pmnf.beam import BOUND
from buran.modeling.pmnf.block import Block
from buran.modeling.pmnf.candidates import Ids, Mask
from buran.modeling.pmnf.derived import DerivedValue
from buran.modeling.pmnf.mixture import Target
from buran.modeling.pmnf.model import Model, Quality, predict_models, prediction_interval
from buran.modeling.pmnf.quality import adjusted_r2, relative_weights, rss, smape
from buran.modeling.pmnf.regression import loo_error, regress
from buran.modeling.pmnf.scatter import Scatter
from buran.modeling.pmnf.scoring import MEAN_ABSOLUTE
from buran.modeling.pmnf.search import Progress, SearchOptions, search
from buran.modeling.pmnf.space import Spaces, full_space, is_full, space_of
from buran.modeling.pmnf.terms import Array
from buran.modeling.pmnf.tuning import DEVIATIONS, PROGRESS, STEADY
from buran.modeling.price.discrepancy import discrepancies

_LARGEST = 1e150  # squares of larger values overflow


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
        return predict_models(self.models, points)

    def predict_interval(self, points: Array, level: float = 0.9, of: Target = "value") -> tuple[Array, Array]:
        """Return lower and upper ends, each of shape (call path, point); see `prediction_interval`."""
        return prediction_interval(self.models, points, level, of)


def default_weights(values: Array) -> Array:
    """Weights of the fit: those of `relative_weights`, scaled.

    Returns
    -------
    array
        Shape (call path, point), such that weighted values have a root mean square of 1; NaN where `values` are.
    """
    weights = relative_weights(values)
    square = np.where(np.isfinite(values), (weights * values) ** 2, 0.0)
    mean = square.sum(axis=1) / np.maximum(np.isfinite(values).sum(axis=1), 1)
    return np.asarray(weights / np.sqrt(np.where(mean > 0, mean, 1.0))[:, None])


def fit_models(
    points: Array,
    values: Array,
    *,
    space: Spaces | None = None,
    scatter: Scatter | None = None,
    options: SearchOptions | None = None,
    progress: Progress | None = None,
    exact: Mask | None = None,
    variables: Sequence[Sequence[DerivedValue]] = (),
) -> Fit:
    """Find a model for each call path.

    Parameters
    ----------
    points
        Shape (point, parameter), distinct rows; in any layout: full, lines, scattered.
    values
        Shape (call path, point); NaN where nothing was measured: that call path uses the points it has.
    space
        Exponents to try, the same for all parameters or for each of them; the full space by default. It is extended
        for exact values that lead to its end.
    scatter
        What repetitions tell about the noise; see `buran.modeling.pmnf.repetitions.scatter_of`.
    options
        How wide to search.
    progress
        Called with the number of call paths that were newly searched.
    exact
        Shape (call path,): whether values have no noise at all, such as counts; a formula that gives all of them comes
        before any search. None are by default.
    variables
        Groups of values derived from parameters that formulas may have, see `exact_models`.

    Returns
    -------
    Fit
        Deterministic; does not depend on the order of points or on other call paths.

    Raises
    ------
    UsageError
        For shapes that do not match, points that repeat, parameter values below 0, and values that are infinite.
    """
    points, values = np.asarray(points, dtype=np.float64), np.asarray(values, dtype=np.float64)
    _check(points, values)
    space, options = space or full_space(), options or SearchOptions()
    models: list[Model | None] = [None] * len(values)
    order = np.lexsort(points.T[::-1])
    points, values = points[order], values[:, order]
    exact = np.zeros(len(values), dtype=bool) if exact is None else np.asarray(exact, dtype=bool)
    same = _first_alike(values, exact)
    open_calls = same == np.arange(len(values))
    exact = exact & open_calls
    open_calls &= ~_explain(points, values, exact, variables, models)
    values, binary = _scaled(values)
    if scatter is None:
        scatter = Scatter.unknown(len(values))
    for calls, known, present in _layouts(points, values, np.flatnonzero(open_calls), exact):
        block = np.ix_(calls, present)
        weighted = _Weighted(values[block], default_weights(values[block]), scatter.of(calls), binary[calls])
        searched = _searched(known, weighted, exact[calls], space, options, progress)
        for call, model in zip(calls, searched, strict=True):
            formula = models[call]
            if formula is None or _is_simpler(model, formula):
                models[call] = model
    for call in np.flatnonzero((values < 0).any(axis=1)).tolist():
        if (below := models[call]) is not None:
            models[call] = replace(below, signed=True)
    if options.criterion == "error":  # the plain criteria are those of other modellers, as published
        unscaled = np.ldexp(values, binary[:, None])
        left = [None if counted or not _leaves(model) else model for model, counted in zip(models, exact, strict=True)]
        found = with_discrepancies(points, unscaled, left, scatter.share, scatter.degrees)
        models = [own or model for own, model in zip(found, models, strict=True)]
    return Fit(tuple(models[call] for call in same.tolist()))


def with_discrepancies(
    points: Array,
    values: Array,
    models: Sequence[Model | None],
    noise: Array,
    degrees: Ids | Array,
    deviations: Sequence[float] = DEVIATIONS,
    along: Ids | None = None,
) -> list[Model | None]:
    """Return models with the processes on what their functions leave over; see `discrepancies` for the arguments."""
    rows = [row for row, model in enumerate(models) if model is not None]
    modelled = predict_models([models[row] for row in rows], points)
    some = None if along is None else along[rows]
    made = discrepancies(points, values[rows], modelled, noise[rows], degrees[rows], deviations, some)
    found = dict(zip(rows, made, strict=True))
    return [None if model is None else replace(model, discrepancy=found[row]) for row, model in enumerate(models)]


def _leaves(model: Model | None) -> bool:
    """Tell whether a model leaves something over that has a logarithm: no negative values, no exact ones."""
    return model is not None and not model.signed and not model.quality.error < ROUNDING


def _first_alike(values: Array, exact: Mask) -> Ids:
    """Return for each call path the first one with the same exact values: these are modelled once."""
    same = np.arange(len(values))
    first: dict[bytes, int] = {}
    for row in np.flatnonzero(exact).tolist():
        same[row] = first.setdefault(values[row].tobytes(), row)
    return same


@dataclass(frozen=True, eq=False)
class _Weighted:
    """Values of call paths that were measured at the same points, with what they are fitted with.

    Attributes
    ----------
    values, weights
        Shape (call path, point); values lack a factor of 2^`binary`.
    scatter
        What is known about the noise.
    binary
        Shape (call path,).
    """

    values: Array
    weights: Array
    scatter: Scatter
    binary: Ids

    def of(self, calls: list[int]) -> _Weighted:
        """Return the part for some call paths."""
        return _Weighted(self.values[calls], self.weights[calls], self.scatter.of(np.array(calls)), self.binary[calls])


def _searched(
    points: Array, weighted: _Weighted, exact: Mask, space: Spaces, options: SearchOptions, progress: Progress | None
) -> list[Model]:
    """Search for the models of call paths that were measured at all `points`; the full space may be left."""
    fitted = _fit_complete(points, weighted, space, options, progress)
    if all(is_full(space_of(space, p)) for p in range(points.shape[1])):
        _extend(points, weighted, exact, fitted, options)
        _follow(points, weighted, exact, fitted, space)
    return fitted


def _extend(points: Array, weighted: _Weighted, exact: Mask, fitted: list[Model], options: SearchOptions) -> None:
    """Replace models that lead to the end of the full space, and exact ones that follow nothing, by better ones.

    Of values that are not exact only models that miss by more than noise, and have the steepest power or miss widely;
    by others with half the error at most.
    """
    space, noise = full_space(), MEAN_ABSOLUTE * weighted.scatter.share

    def is_lost(model: Model, is_exact: bool, noise: float) -> bool:
        error = model.quality.error
        bases = (factor.basis for term in model.function.terms for factor in term.factors)
        if is_exact:
            return error > STEADY or any(space.is_extreme(basis) for basis in bases)
        missed = options.criterion == "error" and error > max(noise, ROUNDING)
        return missed and (error > STEADY or any(basis.lead[0] >= space.steepest for basis in bases))

    lost = [
        index for index, case in enumerate(zip(fitted, exact.tolist(), noise.tolist(), strict=True)) if is_lost(*case)
    ]
    if lost:
        steeper = _fit_complete(points, weighted.of(lost), space.extended(), options, None)
        for index, model in zip(lost, steeper, strict=True):
            share = 1.0 if exact[index] else PROGRESS
            still_lost = exact[index] and model.quality.error > STEADY
            if model.quality.error < share * fitted[index].quality.error and not still_lost:
                fitted[index] = model


def _follow(points: Array, weighted: _Weighted, exact: Mask, fitted: list[Model], space: Spaces) -> None:
    """Replace models that exact values do not follow by formulas that they follow nearly, where there are some.

    Those that they follow lose the terms that follow rounding.
    """
    counted = np.flatnonzero(exact).tolist()
    if not counted:
        return
    values = np.ldexp(weighted.values, weighted.binary[:, None])
    missed = [index for index in counted if fitted[index].quality.error > MATTERS]
    for index, model in zip(missed, near_models(points, values[missed]) if missed else (), strict=True):
        fitted[index] = model or fitted[index]
    bases = [space_of(space, p).candidates(column) for p, column in enumerate(points.T)]
    for index in counted:
        fitted[index] = without_rounding(points, values[index], fitted[index], bases)


def _explain(
    points: Array, values: Array, exact: Mask, variables: Sequence[Sequence[DerivedValue]], models: list[Model | None]
) -> Mask:
    """Enter formulas of exact values into `models`; return shape (call path,): whether no search is needed."""
    explained = np.zeros(len(values), dtype=bool)
    for calls, present in _patterns_of_absence(values, np.flatnonzero(exact)):
        formulas = exact_models(points[present], values[np.ix_(calls, present)], variables)
        for call, model in zip(calls.tolist(), formulas, strict=True):
            models[call] = model
            explained[call] = model is not None and not passes_through(model.function, points[present])
    return explained


def _is_simpler(model: Model, formula: Model) -> bool:
    """Tell whether a model in normal form gives all counts but for their rounding, with fewer terms than a formula."""
    quality = model.quality
    rounded = quality.rss <= quality.points / 4 and quality.error <= MATTERS  # whole numbers leave a half at most
    return rounded and len(model.function.terms) < len(formula.function.terms)


def _check(points: Array, values: Array) -> None:
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
            "values to model must be finite, or NaN where missing", where=f"call path number {np.flatnonzero(large)[0]}"
        )


def _scaled(values: Array) -> tuple[Array, Ids]:
    """Divide each row by a power of two that brings its largest value near 1; return the powers as well.

    Squares of values then neither overflow nor vanish, and no digit changes.
    """
    largest = np.max(np.where(np.isfinite(values), np.abs(values), 0.0), axis=1, initial=0.0)
    binary = np.frexp(largest)[1].astype(np.int64)
    return np.ldexp(values, -binary[:, None]), binary


def _patterns_of_absence(values: Array, calls: Ids) -> Iterator[tuple[Ids, Mask]]:
    """Group those of `calls` that were measured at the same points, without those that were measured nowhere."""
    present = np.isfinite(values[calls])
    if present.all():
        if present.size:
            yield calls, np.ones(values.shape[1], dtype=bool)
        return
    masks, group = np.unique(present, axis=0, return_inverse=True)
    for number, mask in enumerate(masks):
        if mask.any():
            yield calls[group.reshape(-1) == number], mask


def _layouts(points: Array, values: Array, calls: Ids, exact: Mask) -> Iterator[tuple[Ids, Array, Ids]]:
    """Group `calls` by the points they are modelled from; yield these and their places among `points`.

    What is exact and the same for each value of a parameter was counted once. As points of their own, the copies would
    prove whatever follows the rounding of the first ones.
    """
    for some, mask in _patterns_of_absence(values, calls):
        present, seen = np.flatnonzero(mask), values[np.ix_(some, mask)]
        known = points[present]
        idle = np.zeros((len(some), points.shape[1]), dtype=bool)
        for p in range(points.shape[1]) if exact[some].any() else ():
            _, group, sizes = np.unique(np.delete(known, p, axis=1), axis=0, return_inverse=True, return_counts=True)
            if sizes.min() > 1:
                first = np.unique(group, return_index=True)[1][group.reshape(-1)]
                idle[:, p] = exact[some] & (seen == seen[:, first]).all(axis=1)
        for without in np.unique(idle, axis=0):
            at, there = np.unique(np.where(without, known.min(axis=0), known), axis=0, return_index=True)
            yield some[(idle == without).all(axis=1)], at, present[there]


def _fit_complete(
    points: Array, weighted: _Weighted, space: Spaces, options: SearchOptions, progress: Progress | None
) -> list[Model]:
    """Fit call paths that were measured at all `points`."""
    values, weights, binary = weighted.values, weighted.weights, weighted.binary
    tables, hypotheses = search(points, values, weights, space, options, progress)
    block = Block(points, values, weights, binary, tables, hypotheses)
    models: list[Model | None] = [None] * len(values)
    size = hypotheses.rows[:, 0].any(axis=2).sum(axis=1)
    for terms in np.unique(size):
        calls = np.flatnonzero(size == terms)
        for call, model in zip(calls.tolist(), _final_fit(block, calls, int(terms)), strict=True):
            models[call] = model
    return [model for model in models if model is not None]


def _final_fit(block: Block, calls: Ids, terms: int) -> list[Model]:
    """Fit the chosen hypotheses exactly, drop what contributes nothing, and judge the result."""
    values, weights, binary = block.values[calls], block.weights[calls], block.binary[calls]
    chosen = block.hypotheses.rows[calls, 0, :terms].astype(np.int64)
    regression = regress(block.points, values, weights, block.tables, chosen)
    predicted = values - regression.residual
    bound = 1 - regression.hat < BOUND
    left_out = np.where(bound, np.nan, values - regression.residual / np.where(bound, 1.0, 1 - regression.hat))
    with_loo = ~bound.any(axis=1) & (regression.degrees > 0)
    figures = zip(
        smape(predicted, values).tolist(),
        np.where(with_loo, smape(np.where(with_loo[:, None], left_out, 0.0), values), np.nan).tolist(),
        loo_error(regression.residual, regression.hat, relative_weights(values)).tolist(),
        adjusted_r2(predicted, values, regression.free.sum(axis=1)).tolist(),
        np.ldexp(rss(predicted, values), 2 * binary).tolist(),
        strict=True,
    )
    coefficients = np.ldexp(regression.coefficients, binary[:, None])
    count = values.shape[1]
    functions = map(block.functions.make, chosen.tolist(), coefficients.tolist(), regression.free.tolist())
    return [
        Model(function, Quality(count, *figure), LazyAlternatives(block, call))
        for call, (function, _), figure in zip(calls.tolist(), functions, figures, strict=True)
    ]
