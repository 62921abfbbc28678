"""Batched weighted regression of priors, with noise that is a share of the value."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from scipy.special import log_ndtr

from buran.modeling.functions.terms import Array
from buran.modeling.numerics.least_squares import Ids, Mask, Solution, condensed, solve, without_negative
from buran.modeling.numerics.tuning import FLOOR, STEPS

_SETTLED = 1e-8  # of the largest prediction: the rounds that follow change nothing
_SAME = 1e-10  # square of what columns of length 1 may differ by to be one: rounding
_NORMAL = 1.4826  # standard deviation of a normal distribution in median absolute deviations
_LEAST_RATIO = 1e-12  # of a value and its prediction: has a logarithm
_Problem = tuple[Array, Array, Array]  # columns, values and weights of each call path
# Standard deviations from which on a point pulls no harder. Tuned: the loss of Huber (1964); no record of why at 2.
OUTLIERS = 2.0

LEAST_NOISE = 1e-6  # relative: no time is known better, and no point that is met so well is wild
_NOTHING = 1e-100  # sizes of columns, predictions near 0, and pulls of columns that no point has: squares of
# reciprocals are finite


@dataclass(frozen=True, eq=False)
class Belief:
    """What is expected of coefficients before times are seen: a normal distribution for each.

    Attributes
    ----------
    mean, deviation
        Shape (call path, column); an infinite deviation leaves the coefficient to the times alone.
    given
        Shape (column,): whether it is known from elsewhere; then a coefficient takes a degree of freedom only if times
        tell more of it. False where all is expected of the same times.
    """

    mean: Array
    deviation: Array
    given: Mask | Literal[False] = False


@dataclass(frozen=True, eq=False)
class Fitted:
    """Coefficients of one prior for many call paths.

    Attributes
    ----------
    coefficients
        Shape (call path, column).
    covariance
        Shape (call path, column, column).
    noise
        Shape (call path,): standard deviation of a value, as a share of it; NaN without a degree of freedom.
    degrees
        Shape (call path,): degrees of freedom that remain.
    weights
        Shape (call path, point): 1 / prediction, times what they are worth; 0 where nothing was measured.
    leverage
        Shape (call path, point): diagonal of the hat matrix.
    """

    coefficients: Array
    covariance: Array
    noise: Array
    degrees: Array
    weights: Array
    leverage: Array

    def of(self, call: int) -> Fitted:
        """Return what was found for one call path, without its axis."""
        return Fitted(*(part[call] for part in vars(self).values()))

    def deviance(self, design: Array, values: Array) -> Array:
        """Return shape (call path, point): half the deviance of noise that is a share of the prediction (gamma)."""
        predicted = np.maximum(self.coefficients @ design.T, np.finfo(float).tiny)
        ratio = np.maximum(values / predicted, _LEAST_RATIO)
        return np.asarray(ratio - 1 - np.log(ratio))


def regress(
    design: Array,
    values: Array,
    *,
    nonnegative: bool,
    start: Array | None = None,
    belief: Belief | None = None,
    noise: Array | None = None,
    outliers: float = np.inf,
    worth: Array | None = None,
) -> Fitted:
    """Fit coefficients; each point weighs by the reciprocal of its prediction, found by iteration.

    Weights by the reciprocal of the measurement, as they are usual for noise that is a share of the value, pull a fit
    towards values that happen to be small: at a noise of 40 % by a third.

    Parameters
    ----------
    design
        Shape (point, column).
    values
        Shape (call path, point); NaN where nothing was measured.
    nonnegative
        Whether coefficients are fixed at 0 and above.
    start
        Shape (call path, point): first guess of the values up to a factor.
    belief
        Of coefficients.
    noise
        Shape (call path,): noise that `belief` is weighed against; by default that of the residuals.
    outliers
        Points that are farther from the prediction than so many standard deviations weigh less, so that their pull
        does not grow any more (Huber 1964); infinite to trust every point alike.
    worth
        Shape (call path, point): further weights, as of points with more repetitions than others; 1 by default.
    """
    if belief is None:
        nothing = np.zeros((len(values), design.shape[1]))
        belief = Belief(nothing, nothing + np.inf)
    scale = _column_sizes(design, values, belief)
    columns = design / scale
    present = np.isfinite(values)
    target = np.where(present, values, 0.0)
    guess = np.broadcast_to(np.abs(columns).sum(axis=1), values.shape) if start is None else start
    belief = Belief(belief.mean * scale, belief.deviation * scale, belief.given)
    share = np.full(len(values), 0.1) if noise is None else noise
    value_worth = np.ones_like(target) if worth is None else worth
    trust, before = np.ones_like(target), np.zeros((len(target), columns.shape[1]))
    for step in range(STEPS):
        # w_i = 1 / f(x_i), by the prediction before
        weights = _weights(guess, present) * value_worth * trust
        if step == 0:
            weights = _sized(weights, target)
        problem = _problem(columns, target, weights, belief, share, before)
        solution = solve(*problem)
        solution = without_negative(solution, *problem) if nonnegative else solution
        before, guess, last = solution.coefficients, solution.coefficients @ columns.T, guess
        rank = _rank(columns, weights, solution.free & _determined(columns, weights, belief, share))
        if np.isfinite(outliers):
            points = present.sum(axis=1)  # residuals are too small where coefficients follow few of them
            few = np.sqrt(points / np.maximum(points - rank, 1))
            trust = _trust(target, guess, present, outliers * few, value_worth)
        # s^2 = sum_i (w_i (y_i - f(x_i)))^2 / (n - rank)
        rest = ((weights * (target - guess)) ** 2).sum(axis=1)
        degrees = np.maximum(present.sum(axis=1) - rank, 0)
        if noise is None:
            share = np.sqrt(rest / np.maximum(degrees, 1)) + LEAST_NOISE
        if (np.abs(guess - last) <= _SETTLED * np.abs(guess).max(axis=1, keepdims=True)).all():
            break
    if nonnegative:
        solution = _with_expected(problem, solution, np.isfinite(belief.deviation), share)
    has_freedom = degrees > 0
    spread = np.where(has_freedom, np.sqrt(rest / np.maximum(degrees, 1)), np.nan)
    # h_i = w_i^2 x_i' (X' W^2 X)^-1 x_i, and the covariance s^2 (X' W^2 X)^-1
    leverage = np.einsum("pk,ckl,pl->cp", columns, solution.inverse, columns) * weights**2
    covariance = solution.inverse * (share**2)[:, None, None] / scale[:, None] / scale
    coefficients, leverage = solution.coefficients / scale, np.minimum(leverage, 1.0)
    return Fitted(coefficients, covariance, spread, degrees.astype(np.float64), weights, leverage)


def _column_sizes(design: Array, values: Array, belief: Belief) -> Array:
    """Return shape (column,): how large the columns of a design (point, column) are, never 0.

    What is known of a coefficient says how large its column can be where points hardly have it.
    """
    scale = np.abs(design).max(axis=0)
    if np.any(belief.given):
        usual = np.nanmedian(np.abs(values))
        scale = np.where(belief.given, np.maximum(scale, usual / belief.deviation.min(axis=0)), scale)
    return np.asarray(np.where(scale > _NOTHING, scale, 1.0))


def _sized(weights: Array, target: Array) -> Array:
    """Return weights (call path, point) of a first guess that has the right shape, but not the right size."""
    size = (weights * target).sum(axis=1) / np.maximum((weights > 0).sum(axis=1), 1)
    return np.asarray(weights / np.where(size > 0, size, 1.0)[:, None])


def _trust(target: Array, guess: Array, present: Mask, outliers: Array, worth: Array) -> Array:
    """Return shape (call path, point): square roots of the weights of Huber's loss."""
    # A call path that one rank has no use for takes no time there: that says nothing of how far the others scatter.
    some = present & (target != 0)
    gap = np.abs(np.where(present, target - guess, 0.0)) * _weights(guess, present) * worth
    shown = np.where(some | ~some.any(axis=1, keepdims=True), gap, np.nan)
    most = outliers * (_NORMAL * np.nanmedian(shown, axis=1) + LEAST_NOISE)
    far = gap > most[:, None]
    return np.asarray(np.sqrt(np.where(far, most[:, None] / np.where(far, gap, 1.0), 1.0)))


def _rank(columns: Array, weights: Array, free: Mask) -> Ids:
    """Return shape (call path,): how many coefficients the points tell, with weights (call path, point).

    Bytes sent and received, for example, grow alike: together they are one.
    """
    count, width = columns.shape
    pairs = (columns[:, :, None] * columns[:, None]).reshape(count, width * width)
    products = (weights**2 @ pairs).reshape(-1, width, width) * (free[:, :, None] & free[:, None])
    length = np.sqrt(np.maximum(np.einsum("ckk->ck", products), np.finfo(float).tiny))
    alike = products / length[:, :, None] / length[:, None]
    return np.asarray((np.linalg.eigvalsh(alike) > _SAME).sum(axis=1))


def _determined(columns: Array, weights: Array, belief: Belief, noise: Array) -> Mask:
    """Return shape (call path, column): whether times tell at least as much of a coefficient as was known before."""
    known = (noise[:, None] / belief.deviation) ** 2
    return np.asarray(np.logical_not(belief.given) | (weights**2 @ columns**2 > known))


def _weights(guess: Array, present: Mask) -> Array:
    size = np.abs(guess)
    largest = size.max(axis=1, keepdims=True, initial=0.0)
    floored = np.where(largest > _NOTHING, np.maximum(size, FLOOR * largest), 1.0)
    return np.where(present, 1 / floored, 0.0)


def _problem(columns: Array, target: Array, weights: Array, belief: Belief, noise: Array, before: Array) -> _Problem:
    """Return the system of equations with weights (call path, point).

    What is expected of coefficients counts like further points. Where nothing is, a term of a sum of positive ones is
    not larger than the values. It is drawn towards the solution before, shape (call path, column), which leaves
    what points decide as it is.
    """
    # pull_k = (noise / deviation_k)^2; weighted values have a size of 1
    size = weights**2 @ columns**2 / np.maximum((weights > 0).sum(axis=1, keepdims=True), 1)
    sure = np.isfinite(belief.deviation)
    own = (noise[:, None] / np.where(sure, belief.deviation, 1.0)) ** 2
    pull = np.where(sure, own, noise[:, None] ** 2 * size + _NOTHING)
    expected = np.where(sure, belief.mean, before)
    system = condensed(columns, target, weights, expected, np.sqrt(pull))
    return (*system, np.ones(system[1].shape))


def _with_expected(problem: _Problem, solution: Solution, costs: Mask, noise: Array) -> Solution:
    """Give costs that are fixed at 0 what is expected of them: each counted unit takes some time.

    That is the mean of a normal distribution without its negative part, whose deviation is their error (Johnson, Kotz,
    Balakrishnan 1994, chapter 13). The others are solved again, with the errors of a solution that holds none.
    """
    at_zero = costs & ~solution.free
    rows = np.flatnonzero(at_zero.any(axis=1) & (noise > 0))
    if not len(rows):
        return solution
    design, values, weights = (part[rows] for part in problem)
    without = solve(design, values, weights)
    deviation = noise[rows, None] * np.sqrt(np.maximum(np.einsum("ckk->ck", without.inverse), np.finfo(float).tiny))
    # mean and variance of a normal variable that is not negative, by the inverse Mills ratio
    below = without.coefficients / deviation
    hazard = np.exp(-(below**2) / 2 - log_ndtr(below)) / np.sqrt(2 * np.pi)
    expected = np.where(at_zero[rows], deviation * (below + hazard), 0.0)
    narrower = np.where(at_zero[rows], np.sqrt(np.clip(1 - hazard * (below + hazard), 0.0, 1.0)), 1.0)
    # the other coefficients, given these
    rest = values - np.einsum("cpk,ck->cp", design, expected)
    others = without_negative(solve(design, rest, weights, ~at_zero[rows]), design, rest, weights)
    coefficients, inverse = solution.coefficients.copy(), solution.inverse.copy()
    coefficients[rows], inverse[rows] = (
        expected + others.coefficients,
        narrower[:, :, None] * without.inverse * narrower[:, None],
    )
    return replace(solution, coefficients=coefficients, inverse=inverse)
