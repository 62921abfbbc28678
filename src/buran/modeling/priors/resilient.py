"""Noise-resilient models: priors with coefficients from times."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

import numpy as np

from buran.errors import UsageError
from buran.modeling.fit import with_discrepancies
from buran.modeling.functions.terms import Array, ModelFunction, Term, parts_of
from buran.modeling.numerics.least_squares import Mask
from buran.modeling.numerics.tuning import DEVIATIONS, FEW, WORTH
from buran.modeling.pmnf.alternative import Alternative, with_other_growth
from buran.modeling.pmnf.model import Model, Quality, adjusted_r2, rss, smape
from buran.modeling.pmnf.repetitions import PointNoise
from buran.modeling.pmnf.structures import OpenStructure, with_structures
from buran.modeling.price.discrepancy import Along
from buran.modeling.price.regression import LEAST_NOISE, OUTLIERS, Belief, Fitted, regress
from buran.modeling.priors.prior import Prior
from buran.modeling.priors.waiting import alike, with_algorithms

# By what share the cost of a unit is expected to differ between the terms of a call path. Tuned: judgement.
COST_SPREAD = 1.0


@dataclass(frozen=True)
class FitOptions:
    """How coefficients are found.

    Attributes
    ----------
    nonnegative
        Whether effort never makes a program faster.
    cost_spread
        By what share the time of a basic block is expected to differ between the terms of one call path; infinite to
        expect nothing, as in the noise-resilient priors paper.
    share
        Whether call paths with the same prior share what they tell about noise and costs.
    outliers
        Standard deviations from which on a point pulls no harder (Huber 1964); infinite for least squares.
    price
        Whether the price of a unit of work drifts, as a Gaussian process; constant otherwise.
    """

    nonnegative: bool = True
    cost_spread: float = COST_SPREAD
    share: bool = True
    outliers: float = OUTLIERS
    price: bool = True


PUBLISHED = FitOptions(nonnegative=False, cost_spread=np.inf, share=False, outliers=np.inf, price=False)
"""As in the paper on noise-resilient priors: linear regression of each call path alone."""


@dataclass(frozen=True)
class Resilient:
    """A noise-resilient model.

    Attributes
    ----------
    prior
        Its skeleton.
    coefficients
        Coefficients of the prior's columns.
    model
        Function, quality and covariance.
    costs
        What the coefficients may be, all as likely: one, or, where costs of misses are not told by times, one for each
        part of what may be expected of these.
    """

    prior: Prior
    coefficients: tuple[float, ...]
    model: Model
    costs: tuple[Fitted, ...] = field(default=(), compare=False, repr=False)


def fit_priors(
    points: Array,
    values: Array,
    priors: Sequence[Prior | None],
    options: FitOptions | None = None,
    noise: PointNoise | None = None,
    counted: Array | None = None,
) -> tuple[Resilient | None, ...]:
    """Find the coefficients of each call path's prior; one repetition is enough.

    Parameters
    ----------
    points
        Shape (point, parameter), distinct rows.
    values
        Shape (call path, point): times, or another noisy metric; NaN where nothing was measured.
    priors
        One for each call path; None for those without.
    options
        See there.
    noise
        Noise of the values; without it, all points weigh alike.
    counted
        Points whose counts the priors are made of, shape (point, parameter). Where no two parameters were varied
        together there, sums and products of them stand next to each other.

    Returns
    -------
    tuple
        None for call paths without a prior or without a value.

    Raises
    ------
    UsageError
        If shapes do not match.
    """
    options, values = options or FitOptions(), np.asarray(values, dtype=np.float64)
    out: list[Resilient | None] = [None] * len(priors)
    left_open = None if counted is None else OpenStructure.untold(counted)
    groups, others = _grouped(points, values, priors, options, noise)
    for group in groups:
        fitted = group.fitted(others)
        models = _models(points, group, fitted, left_open)
        parts, fits = [], []
        untold = _untold(group.priors[0], fitted)
        for some in zip(*(prior.with_parts(untold) for prior in group.priors), strict=True):
            part = replace(group, priors=some)
            fits.append(part.fitted(others))
            parts.append(_models(points, part, fits[-1], left_open))
        models = [_mixed(model, some) for model, *some in zip(models, *parts, strict=True)]
        for index, row in enumerate(group.rows):
            costs = tuple(each.of(index) for each in fits or [fitted])
            coefficients = tuple(fitted.coefficients[index].tolist())
            out[row] = Resilient(group.priors[index], coefficients, models[index], costs)
    return _priced(points, values, out, noise) if options.price and any(out) else tuple(out)


def _priced(
    points: Array, values: Array, fitted: Sequence[Resilient | None], noise: PointNoise | None
) -> tuple[Resilient | None, ...]:
    """Return models with the price of their work: the process on what counts at constant costs leave over."""
    deviation, degrees = np.zeros(len(fitted)), np.zeros(len(fitted))
    if noise is not None:
        deviation, degrees = np.nanmin(noise.deviation, axis=1, initial=np.inf), noise.degrees
    models = [None if one is None else one.model for one in fitted]
    count = points.shape[1]
    along = np.array([[Along.TREND] * count if one is None else one.prior.along(count) for one in fitted])
    found = with_discrepancies(points, values, models, deviation, degrees, (DEVIATIONS[-1],), along)
    return tuple(
        None if one is None or model is None else replace(one, model=model)
        for one, model in zip(fitted, found, strict=True)
    )


def predictions(
    points: Array, values: Array, priors: Sequence[Prior | None], at: Array, options: FitOptions | None = None
) -> Array:
    """Return what the models of `fit_priors` predict, without making the models.

    Parameters
    ----------
    points, values, priors, options
        As for `fit_priors`.
    at
        Shape (target, parameter).

    Returns
    -------
    array
        Shape (call path, target): NaN without a prior or a value.
    """
    out = np.full((len(priors), len(at)), np.nan)
    groups, others = _grouped(points, np.asarray(values, dtype=np.float64), priors, options or FitOptions())
    for group in groups:
        out[group.rows] = group.fitted(others).coefficients @ group.priors[0].design(at).T
    return out


@dataclass(frozen=True, eq=False)
class _Group:
    """Call paths that have the same columns.

    Attributes
    ----------
    rows
        Numbers of the call paths.
    priors
        Prior of each.
    values
        Shape (call path, point).
    design
        Shape (point, column).
    worth
        Shape (call path, point): weights of points; None where all weigh alike.
    options
        Options of the fit.
    """

    rows: list[int]
    priors: Sequence[Prior]
    values: Array
    design: Array
    worth: Array | None
    options: FitOptions

    @cached_property
    def effort(self) -> Array:
        """Shape (call path, column): what each column counts."""
        return np.array([[column.effort for column in prior.columns] for prior in self.priors])

    @cached_property
    def start(self) -> Array:
        """Shape (call path, point): a first guess of the values, up to a factor."""
        counted: Mask = np.asarray(self.effort[:, 1:].any(axis=1))
        start = np.where(counted[:, None], self.effort @ self.design.T, np.abs(self.design).sum(axis=1))
        return np.where(start > 0, start, start.max(axis=1, keepdims=True, initial=0.0))

    @cached_property
    def belief(self) -> Belief:
        """What is expected of coefficients: each term costs about the same for each count, or what the machine says."""
        terms: Mask = np.array(self.effort > 0, dtype=np.bool_)
        terms[:, 0] = False  # what a call path takes without any effort is not in its counts
        present = np.isfinite(self.values)
        ratio = np.where(present, self.values, 0.0) / np.where(self.start > 0, self.start, 1.0)
        cost = ratio.sum(axis=1, keepdims=True) / present.sum(axis=1, keepdims=True)
        sure = terms & (cost > 0) & (terms.sum(axis=1, keepdims=True) > 1)
        mean = np.where(sure, cost * self.effort, 0.0)
        deviation = np.where(sure, self.options.cost_spread * np.where(sure, mean, 1.0), np.inf)
        costs = [column.cost for column in self.priors[0].columns]  # the same for all call paths with these columns
        given: Mask = np.array([cost is not None for cost in costs], dtype=np.bool_)
        known = np.array([cost or (0.0, np.inf) for cost in costs])
        return Belief(np.where(given, known[:, 0], mean), np.where(given, known[:, 1], deviation), given)

    @cached_property
    def _regress(self) -> Callable[..., Fitted]:
        return partial(regress, self.design, self.values, outliers=self.options.outliers, worth=self.worth)

    @cached_property
    def alone(self) -> Fitted:
        """Fits of each call path by its values alone."""
        return self._regress(nonnegative=self.options.nonnegative, start=self.start, belief=self.belief)

    def fitted(self, others: float | None) -> Fitted:
        """Return fits that borrow the noise of `others`, a share of the value, and costs within the group.

        The moderated variance of G. K. Smyth, Statistical Applications in Genetics and Molecular Biology 3 (2004): a
        call path with no more points than coefficients has an interval, too.
        """
        if others is None:
            return self.alone
        belief = self.belief
        if len(self.priors) >= FEW and self.design.shape[1] >= 2:
            # what is fixed at 0 would make the mean over call paths too large
            positive = np.maximum(self.alone.coefficients @ self.design.T, 0.0)
            belief = _shared_belief(self._regress(nonnegative=False, start=positive), self.effort, belief)
        # s~^2 = (d s^2 + d0 s0^2) / (d + d0), with d + d0 degrees of freedom
        degrees = self.alone.degrees + WORTH
        own = self.alone.degrees * np.nan_to_num(self.alone.noise) ** 2
        noise = np.sqrt((own + WORTH * others**2) / degrees) + LEAST_NOISE
        made = self._regress(nonnegative=self.options.nonnegative, start=self.start, belief=belief, noise=noise)
        return replace(made, noise=noise, degrees=degrees)


def _grouped(
    points: Array,
    values: Array,
    priors: Sequence[Prior | None],
    options: FitOptions,
    noise: PointNoise | None = None,
) -> tuple[list[_Group], float | None]:
    """Return call paths in groups, and the noise that they borrow from each other; None where they share nothing.

    Columns with the same function count different things: seconds of a message are no price of a basic block.
    """
    if values.shape != (len(priors), len(points)):
        raise UsageError(
            "points, values and priors do not match",
            why=f"{len(points)} points, values of shape {values.shape}, {len(priors)} priors",
        )
    measured: Mask = np.asarray(np.isfinite(values).any(axis=1))
    some = [
        prior if seen else None for prior, seen in zip(with_algorithms(points, values, priors), measured, strict=True)
    ]
    groups = []
    for rows, own in alike(some, lambda prior: tuple((column.name, column.function) for column in prior.columns)):
        worth = None if noise is None else noise.of_rows(rows).worth
        groups.append(_Group(rows, own, values[rows], own[0].design(points), worth, options))
    return groups, _noise_of_all(groups) if options.share else None


def _noise_of_all(groups: Sequence[_Group]) -> float | None:
    """Return the noise of a value, as a share of it, from the residuals of all call paths; None if none tells it."""
    fits = [group.alone for group in groups]
    degrees = sum(float(fitted.degrees.sum()) for fitted in fits)
    squares = sum(float((fitted.degrees * np.nan_to_num(fitted.noise) ** 2).sum()) for fitted in fits)
    return float(np.sqrt(squares / degrees)) if degrees > 0 else None


def _shared_belief(fitted: Fitted, effort: Array, belief: Belief) -> Belief:
    """Expect coefficients, for each unit of effort, near those of the other call paths with this prior.

    Mean and spread over call paths are those of a random-effects model (DerSimonian and Laird 1986).
    """
    unit = np.where(effort > 0, effort, 1.0)
    unit[:, 0] = 1.0
    cost = fitted.coefficients / unit
    variance = np.einsum("ckk->ck", fitted.covariance) / unit**2
    mean, deviation = belief.mean.copy(), belief.deviation.copy()
    for column in range(1, cost.shape[1]):  # constants are each call path's own
        some = np.flatnonzero(variance[:, column] > 0)
        if len(some) < FEW:
            continue
        weight = 1 / variance[some, column]
        centre = (weight * cost[some, column]).sum() / weight.sum()
        excess = (weight * (cost[some, column] - centre) ** 2).sum() - (len(some) - 1)
        between = max(excess / (weight.sum() - (weight**2).sum() / weight.sum()), 0.0)
        weight = 1 / (variance[some, column] + between)
        centre = max(float((weight * cost[some, column]).sum() / weight.sum()), 0.0)
        spread = max(float(np.sqrt(between)), float(np.sqrt(1 / weight.sum())))
        closer = spread * unit[:, column] < deviation[:, column]
        mean[:, column] = np.where(closer, centre * unit[:, column], mean[:, column])
        deviation[:, column] = np.where(closer, spread * unit[:, column], deviation[:, column])
    return replace(belief, mean=mean, deviation=deviation)


def _models(points: Array, group: _Group, fitted: Fitted, left_open: OpenStructure | None) -> list[Model]:
    values, design, priors = group.values, group.design, group.priors
    predicted = fitted.coefficients @ design.T
    known = np.isfinite(values)
    bound = 1 - fitted.leverage < 1e-9
    left_out = values - (values - predicted) / np.where(bound, 1.0, 1 - fitted.leverage)
    shown = np.where(known, predicted, np.nan)
    loo = np.abs(np.where(known, (values - left_out) * fitted.weights, 0.0)).sum(axis=1) / known.sum(axis=1)
    free, followed = (fitted.coefficients != 0).sum(axis=1), (bound & known).any(axis=1)
    columns = [
        smape(shown, values),
        np.where(followed, np.nan, smape(np.where(known, left_out, np.nan), values)),
        np.where(followed, np.nan, loo),
        adjusted_r2(shown, values, free),
        rss(shown, values),
    ]
    figures = np.stack(columns, axis=1).tolist()
    out = []
    for index, prior in enumerate(priors):
        function = prior.function(fitted.coefficients[index])
        covariance: tuple[tuple[float, ...], ...] = ()
        if fitted.degrees[index] > 0:
            mapping = _mapping(function, prior)
            covariance = tuple(map(tuple, (mapping @ fitted.covariance[index] @ mapping.T).tolist()))
        alone = Alternative(function, 1.0, covariance, float(fitted.noise[index]), int(fitted.degrees[index]))
        (alternatives,) = with_other_growth([[alone]], points, prior.repeated)
        if all(column.cost is None for column in prior.columns):  # what is known of memory is no open structure
            alternatives = with_structures(alternatives, points[known[index]], values[index, known[index]], left_open)
        out.append(Model(function, Quality(int(known[index].sum()), *figures[index]), alternatives))
    return out


def _untold(prior: Prior, fitted: Fitted) -> list[bool]:
    """Return for each column whether times tell less of its cost than the machine does, for any of the call paths."""
    deviation = np.sqrt(np.maximum(np.einsum("ckk->ck", fitted.covariance), 0.0)).max(axis=0).tolist()
    return [
        column.cost is not None and 2 * error**2 > column.cost[1] ** 2
        for column, error in zip(prior.columns, deviation, strict=True)
    ]


def _mixed(model: Model, parts: Sequence[Model]) -> Model:
    """Return a model whose alternatives are those of its parts: costs that no time tells, from least to most."""
    if not parts:
        return model
    alternatives = [replace(each, weight=each.weight / len(parts)) for part in parts for each in part.alternatives]
    return replace(model, alternatives=tuple(alternatives))


def _mapping(function: ModelFunction, prior: Prior) -> Array:
    """Return shape (1 + term of the function, column): what each column's coefficient adds to each coefficient."""
    out = np.zeros((1 + len(function.terms), len(prior.columns)))
    index: dict[Term | None, int] = {term: number for number, term in enumerate((None, *function.terms))}
    for number, column in enumerate(prior.columns):
        for coefficient, term in parts_of(column.function):
            if term in index:
                out[index[term], number] = coefficient
    return out
