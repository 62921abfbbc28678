"""Fitting models to many call paths at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from buran.errors import UsageError
from buran.modeling.exact.formulas import exact_models, passes_through
from buran.modeling.exact.nearly import near_models, without_rounding
from buran.modeling.functions.derived import DerivedValue
from buran.modeling.functions.powers import Spaces, full_space, is_full, space_of
from buran.modeling.functions.terms import Array
from buran.modeling.numerics.intervals import ROUNDING
from buran.modeling.numerics.least_squares import Ids, Mask
from buran.modeling.numerics.tuning import DEVIATIONS, MATTERS
from buran.modeling.pmnf.alternative import LazyAlternatives, Target
from buran.modeling.pmnf.beam import BOUND
from buran.modeling.pmnf.block import Block, regress
from buran.modeling.pmnf.model import Model, Quality, adjusted_r2, predict_models, prediction_interval, rss, smape
from buran.modeling.pmnf.repetitions import Scatter, relative_weights
from buran.modeling.pmnf.search import Progress, SearchOptions, search
from buran.modeling.price.discrepancy import discrepancies

_LARGEST = 1e150  # squares of larger values overflow
_SMALLEST = 1e-142  # squares of the weights of smaller values overflow, times those of steep terms


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
        Shape (call path, point); NaN where nothing was measured: that call path uses the points it has. Values below
        1e-142 count as 0.
    space
        Exponents to try, the same for all parameters or for each of them; the full space by default.
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
    values = np.where(np.abs(values) < _SMALLEST, 0.0, values)
    space, options = space or full_space(), options or SearchOptions()
    models: list[Model | None] = [None] * len(values)
    order = np.lexsort(points.T[::-1])
    points, values = points[order], values[:, order]
    exact = np.zeros(len(values), dtype=bool) if exact is None else np.asarray(exact, dtype=bool)
    same = _first_alike(values, exact)
    open_calls = same == np.arange(len(values))
    exact = exact & open_calls
    open_calls &= ~_explain(points, values, exact, variables, models)
    for calls, known, present in _layouts(points, values, np.flatnonzero(open_calls), exact):
        seen = values[np.ix_(calls, present)]
        searched = _searched(known, seen, space, options, progress)
        if all(is_full(space_of(space, p)) for p in range(known.shape[1])):
            _follow(known, seen, exact[calls], searched, space)
        for call, model in zip(calls.tolist(), searched, strict=True):
            models[call] = models[call] or model
    for call in np.flatnonzero((values < 0).any(axis=1)).tolist():
        if (below := models[call]) is not None:
            models[call] = replace(below, signed=True)
    if options.criterion == "error":  # the plain criteria are those of other modellers, as published
        scatter = scatter or Scatter.unknown(len(values))
        left = [None if counted or not _leaves(model) else model for model, counted in zip(models, exact, strict=True)]
        found = with_discrepancies(points, values, left, scatter.share, scatter.degrees)
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


def _follow(points: Array, values: Array, exact: Mask, models: list[Model], space: Spaces) -> None:
    """Replace models that exact values do not follow by formulas that they follow nearly, where there are some.

    Exact values that a model follows but for their rounding are no reason for further terms either.
    """
    counted = np.flatnonzero(exact).tolist()
    missed = [index for index in counted if models[index].quality.error > MATTERS]
    bases = [space_of(space, p).candidates(column) for p, column in enumerate(points.T)] if counted else []
    for index, model in zip(missed, near_models(points, values[missed], bases) if missed else (), strict=True):
        models[index] = model or models[index]
    for index in counted:
        models[index] = without_rounding(points, values[index], models[index], bases)


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


def _patterns_of_absence(values: Array, calls: Ids) -> Iterator[tuple[Ids, Mask]]:
    """Group those of `calls` that were measured at the same points, without those that were measured nowhere."""
    present = np.isfinite(values[calls])
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
        # parameters along which exact counts of a call path do not change are left out of its search
        idle = np.zeros((len(some), points.shape[1]), dtype=bool)
        for p in range(points.shape[1]) if exact[some].any() else ():
            _, group, sizes = np.unique(np.delete(known, p, axis=1), axis=0, return_inverse=True, return_counts=True)
            if sizes.min() > 1:
                first = np.unique(group, return_index=True)[1][group.reshape(-1)]
                idle[:, p] = exact[some] & (seen == seen[:, first]).all(axis=1)
        for without in np.unique(idle, axis=0):
            at, there = np.unique(np.where(without, known.min(axis=0), known), axis=0, return_index=True)
            yield some[(idle == without).all(axis=1)], at, present[there]


def _searched(
    points: Array, values: Array, space: Spaces, options: SearchOptions, progress: Progress | None
) -> list[Model]:
    """Search for the models of call paths that were measured at all points."""
    weights = relative_weights(values)
    tables, hypotheses = search(points, values, weights, space, options, progress)
    block = Block(points, values, weights, tables, hypotheses)
    models: dict[int, Model] = {}
    size = hypotheses.rows[:, 0].any(axis=2).sum(axis=1)
    for terms in np.unique(size):
        calls = np.flatnonzero(size == terms)
        models |= zip(calls.tolist(), _final_fit(block, calls, int(terms)), strict=True)
    return [models[call] for call in range(len(values))]


def _final_fit(block: Block, calls: Ids, terms: int) -> list[Model]:
    """Fit the chosen hypotheses exactly, drop what contributes nothing, and judge the result."""
    values, weights = block.values[calls], block.weights[calls]
    chosen = block.hypotheses.rows[calls, 0, :terms].astype(np.int64)
    regression = regress(block.points, values, weights, block.tables, chosen)
    predicted = values - regression.residual
    bound = 1 - regression.hat < BOUND
    gaps = np.where(bound, np.nan, regression.residual / np.where(bound, 1.0, 1 - regression.hat))
    with_loo = ~bound.any(axis=1) & (regression.degrees > 0)
    figures = zip(
        smape(predicted, values).tolist(),
        np.where(with_loo, smape(np.where(with_loo[:, None], values - gaps, 0.0), values), np.nan).tolist(),
        np.abs(gaps * weights).mean(axis=1).tolist(),
        adjusted_r2(predicted, values, regression.free.sum(axis=1)).tolist(),
        rss(predicted, values).tolist(),
        strict=True,
    )
    count = values.shape[1]
    functions = map(block.functions.make, chosen.tolist(), regression.coefficients.tolist(), regression.free.tolist())
    return [
        Model(function, Quality(count, *figure), LazyAlternatives(block.alternatives, call))
        for call, (function, _), figure in zip(calls.tolist(), functions, figures, strict=True)
    ]
