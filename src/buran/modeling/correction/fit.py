"""Fits of base models and of models with terms, of many candidates at once: projected Levenberg-Marquardt on arrays."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from buran.modeling.correction.base import BaseModel
from buran.modeling.correction.formula import Array
from buran.modeling.correction.terms import CorrectionTerm, Growth, TermModel, Threshold
from buran.modeling.numerics.least_squares import orthogonal_part
from buran.modeling.numerics.tuning import BEAM, COMBINATIONS

# Terms. Tuned: no record of its own; choices were made on the seeds 7001 and 7003 (evidence/correction.md).
MOST_TERMS = 3

_LIKELIHOOD = 3.84  # 95 % point of chi squared with one degree of freedom
_STARTS = 4  # of the fit of the base model: as it was given, and drawn ones
_STEP = 1e-6  # of the unit box, for differences

Residuals = Callable[[Array, NDArray[np.int64]], Array]
"""Shape (candidate, residual) of coordinates (candidate, coordinate) and the candidates' numbers (candidate,)."""


@dataclass(frozen=True)
class Fits:
    """Minima.

    Attributes
    ----------
    at
        Shape (candidate, coordinate).
    cost
        Sum of squared residuals, shape (candidate,); infinite where there is no value at the start.
    """

    at: Array
    cost: Array


def least_squares(residuals: Residuals, start: Array, upper: Array | float = 1.0, iterations: int = 30) -> Fits:
    """Minimise sums of squares over a box from 0 to `upper`.

    Parameters
    ----------
    residuals
        The function; non-finite values are allowed anywhere but at the start.
    start
        Shape (candidate, coordinate), inside the box.
    upper
        Upper ends, of a shape that broadcasts to that of `start`; 0 holds a coordinate fixed.
    iterations
        At most; each costs a Jacobian.
    """
    at = np.array(start, dtype=np.float64)
    batch, size = at.shape
    most = np.broadcast_to(np.asarray(upper, dtype=np.float64), at.shape)
    value = residuals(at, np.arange(batch))
    cost = _cost(value)
    damping = np.full(batch, 1e-3)
    active = np.flatnonzero(np.isfinite(cost))
    for _ in range(iterations):
        if not len(active):
            break
        current, residual, limit = at[active], value[active], most[active]
        jacobian = _jacobian(residuals, current, residual, limit, active)
        # g = J r and J J^T of each candidate; a coordinate at an end of its range, from where descent leads out, rests
        gradient = np.einsum("bcr,br->bc", jacobian, residual)
        stuck = ((current <= 0) & (gradient > 0)) | ((current >= limit) & (gradient < 0))
        jacobian = np.where(stuck[:, :, None], 0.0, jacobian)
        gradient = np.where(stuck, 0.0, gradient)
        normal = jacobian @ jacobian.transpose(0, 2, 1)
        diagonal = np.einsum("bcc->bc", normal)
        # Levenberg-Marquardt: (J J^T + damping diag(J J^T)) step = -g, with an identity for coordinates that rest
        scale = np.maximum(diagonal, 1e-12 * np.max(diagonal, axis=1, keepdims=True, initial=0.0) + 1e-30)
        system = normal + damping[active][:, None, None] * (scale[:, :, None] * np.eye(size))
        step = -np.linalg.solve(system + np.eye(size) * (stuck * 1.0)[:, :, None], gradient[:, :, None])[:, :, 0]
        trial = np.clip(current + np.where(stuck, 0.0, step), 0.0, limit)
        tried = residuals(trial, active)
        new = _cost(tried)
        # a step that lowers the cost is kept and damped less from there; another one is damped more and tried again
        better = new < cost[active]
        gain = cost[active] - new
        kept = active[better]
        at[kept], value[kept] = trial[better], tried[better]
        settled = (better & (gain <= 1e-7 * cost[active])) | (cost[active] <= 1e-24)
        cost[kept] = new[better]
        damping[active] = np.where(better, damping[active] * 0.2, damping[active] * 8.0)
        settled |= damping[active] > 1e8
        active = active[~settled]
    return Fits(at, cost)


def left_out_cost(residuals: Residuals, at: Array, upper: Array | float = 1.0) -> Array:
    """Return the sum of squares with each residual predicted by a fit to the others, where the model is linear.

    Coordinates that lie on their bounds are taken as fixed. A residual that alone determines a coordinate makes
    the sum infinite.

    Returns
    -------
    array
        Shape (candidate,).
    """
    most = np.broadcast_to(np.asarray(upper, dtype=np.float64), at.shape)
    everyone = np.arange(len(at))
    residual = residuals(at, everyone)
    jacobian = _jacobian(residuals, at, residual, most, everyone)
    jacobian = np.where(((at <= 0) | (at >= most))[:, :, None], 0.0, jacobian)
    # leverage h from the singular vectors of J, its columns of length 1; r / (1 - h) when a point is left out
    size = np.sqrt(np.einsum("bcr,bcr->bc", jacobian, jacobian))
    scaled = np.divide(jacobian, size[:, :, None], out=np.zeros_like(jacobian), where=size[:, :, None] > 0)
    _, values, basis = np.linalg.svd(scaled, full_matrices=False)
    leverage = np.einsum("bcr,bc->br", basis**2, (values > 1e-6).astype(np.float64))
    rest = np.divide(residual, 1 - leverage, out=np.where(residual == 0, 0.0, np.inf), where=leverage < 1 - 1e-6)
    return _cost(rest)


def _jacobian(residuals: Residuals, current: Array, residual: Array, most: Array, active: NDArray[np.int64]) -> Array:
    """Return shape (candidate, coordinate, residual), by differences that stay inside the box."""
    batch, size = current.shape
    # forward differences, backward at the upper bound; fixed coordinates have no step
    step = np.where(current + _STEP <= most, _STEP, -_STEP)
    step = np.where(most > 0, step, 0.0)
    moved = current[:, None, :] + np.eye(size) * step[:, None, :]
    values = residuals(moved.reshape(batch * size, size), np.repeat(active, size)).reshape(
        batch, size, residual.shape[1]
    )
    # J = (r(x + h e_j) - r(x)) / h
    slope = np.divide(
        values - residual[:, None, :], step[:, :, None], out=np.zeros_like(values), where=step[:, :, None] != 0
    )
    return np.where(np.isfinite(slope), slope, 0.0)


def _cost(values: Array) -> Array:
    total = np.einsum("br,br->b", values, values)
    return np.where(np.isfinite(total), total, np.inf)


@dataclass(frozen=True)
class Problem:
    """Measurements that several searches share, each with a part of them.

    Attributes
    ----------
    base
        The model to correct.
    points, logs
        Shape (point, variable), and logarithms of the measured values, shape (point,).
    used
        Shape (search, point): which points each search may see.
    """

    base: BaseModel
    points: Array
    logs: Array
    used: NDArray[np.bool_]

    def theta(self, unit: Array) -> Array:
        """Return parameters of shape (..., parameter) for coordinates in the unit box."""
        low, high, log = self._box
        with np.errstate(divide="ignore"):
            straight = low + unit * (high - low)
            bent = np.exp(np.log(np.where(log, low, 1.0)) + unit * np.log(np.where(log, high / low, 1.0)))
        return np.where(log, bent, straight)

    def unit(self, theta: Array) -> Array:
        """Return the coordinates of parameters."""
        low, high, log = self._box
        with np.errstate(divide="ignore", invalid="ignore"):
            bent = np.log(np.where(log, theta / low, 1.0)) / np.log(np.where(log, high / low, math.e))
        return np.clip(np.where(log, bent, (theta - low) / (high - low)), 0.0, 1.0)

    @cached_property
    def _box(self) -> tuple[Array, Array, NDArray[np.bool_]]:
        """Lower and upper bounds, and whether the scale is logarithmic, shape (parameter,)."""
        rows = [(each.lower, each.upper, each.log) for each in self.base.parameters.values()]
        low, high, log = np.array(rows, dtype=np.float64).reshape(-1, 3).T
        return low, high, log.astype(bool)


def starts_of(problem: Problem) -> Array:
    """Return where fits of the base model's parameters begin, shape (start, parameter), in the unit box."""
    first = problem.unit(problem.base.start)
    return np.vstack([first, np.random.default_rng(0).uniform(0.15, 0.85, (_STARTS - 1, len(first)))])


def fit_base(problem: Problem) -> list[TermModel]:
    """Fit the base model's parameters to the logarithms of the values, for each search."""
    searches = len(problem.used)
    rows = np.repeat(np.arange(searches), _STARTS)
    nothing = np.zeros((len(rows), 0), dtype=np.int64)
    start = np.tile(starts_of(problem), (searches, 1))
    fits = least_squares(_Library(problem, ()).residuals(rows, nothing), start)
    best = fits.cost.reshape(searches, _STARTS).argmin(axis=1) + _STARTS * np.arange(searches)
    return [TermModel(tuple(problem.theta(fits.at[i]).tolist()), (), float(fits.cost[i])) for i in best]


def grow(problem: Problem, bases: Sequence[TermModel], terms: Sequence[CorrectionTerm]) -> list[list[TermModel]]:
    """Add one term after the other, for each search.

    Parameters
    ----------
    problem
        Measurements and which of them each search sees.
    bases
        The fitted base model of each search.
    terms
        The library.

    Returns
    -------
    list
        For each search all models that were fitted: the base model, then those with 1, 2, ... terms, the best of each
        number first.
    """
    library = _Library(problem, terms, bases)
    out = [[base] for base in bases]
    states: list[tuple[TermModel, tuple[int, ...]]] = [(base, ()) for base in bases]
    for _ in range(MOST_TERMS):
        rows, chosen, start = [], [], []
        for search, (model, numbers) in enumerate(states):
            shares = [t.coefficient / library.scales[search, n] for t, n in zip(model.terms, numbers, strict=True)]
            for term in library.promising(search, model, numbers):
                rows.append(search)
                chosen.append((*numbers, term))
                start.append([*problem.unit(np.array(model.theta)), *shares, 0.05])
        if not rows:
            break
        models = library.fitted(np.array(rows), np.array(chosen), np.array(start))
        for search in sorted(set(rows)):
            fitted = [(m, numbers) for m, numbers, row in zip(models, chosen, rows, strict=True) if row == search]
            fitted.sort(key=lambda pair: pair[0].cost)
            states[search] = fitted[0]
            out[search] += [model for model, _ in fitted]
    return out


def refit(problem: Problem, theta: Sequence[float], models: Sequence[Sequence[CorrectionTerm]]) -> list[TermModel]:
    """Fit models with given terms, all of one number, to what the first search may see; costs are in sample."""
    terms = tuple(dict.fromkeys(term for model in models for term in model))
    library = _Library(problem, terms, [TermModel(tuple(theta), (), 0.0)])
    chosen = np.array([[terms.index(term) for term in model] for model in models])
    sizes = library.scales[0, chosen]
    shares = np.array([[term.coefficient for term in model] for model in models])
    shares = np.divide(shares, sizes, out=np.zeros_like(sizes), where=sizes > 0)
    units = np.tile(problem.unit(np.array(theta)), (len(models), 1))
    start = np.concatenate([units, np.maximum(shares, 0)], axis=1)
    return library.fitted(np.zeros(len(models), dtype=np.int64), chosen, start, left_out=False)


class _Library:
    """Terms that searches choose from, with their values at the points.

    Attributes
    ----------
    carriers, shapes
        Shape (term,) and (term, point): numbers of the carriers, and growth.
    scales
        Shape (search, term): what makes each term as large as the base model on average, or 0.
    """

    def __init__(self, problem: Problem, terms: Sequence[CorrectionTerm], bases: Sequence[TermModel] = ()) -> None:
        self.problem, self.terms = problem, terms
        self.carriers = np.array([term.carrier for term in terms], dtype=np.int64)
        growths = [term.growth(problem.points) for term in terms]
        self.shapes = np.array(growths).reshape(len(terms), len(problem.points))
        self.scales = np.zeros((len(problem.used), len(terms)))
        for search, model in enumerate(bases):
            parts = problem.base.parts(np.array(model.theta), problem.points)
            with np.errstate(all="ignore"):
                share = parts.carriers[self.carriers] * self.shapes / parts.total
                share = share[:, problem.used[search]].copy()  # a term in one piece: sums differ by their order
                # at least two points must see a term, or it only memorises one of them
                seen = np.isfinite(share).all(axis=1) & (share >= 0).all(axis=1) & ((share != 0).sum(axis=1) >= 2)
                self.scales[search] = np.where(seen, 1.0 / share.mean(axis=1), 0.0)

    def promising(self, search: int, model: TermModel, numbers: Sequence[int]) -> list[int]:
        """Rank terms by what they gain where the residuals are linear, with the parameters free to move."""
        problem, base, scales = self.problem, self.problem.base, self.scales[search]
        used, theta = problem.used[search], np.array(model.theta)
        points = problem.points[used]
        value = model.evaluate(base, points)
        residual = problem.logs[used] - np.log(value)
        parts = base.parts(theta, points)
        columns = scales[:, None] * parts.carriers[self.carriers] * self.shapes[:, used].copy() / value
        unit = problem.unit(theta)
        # d log(t) / d theta by differences, and the columns of terms that are there already
        step = np.where(unit < 0.5, 1e-5, -1e-5)
        moved = base.evaluate(problem.theta(unit + np.diag(step)), points)
        slopes = [(values - base.evaluate(theta, points)) / value / h for values, h in zip(moved, step, strict=True)]
        slopes += [columns[n] for n in numbers]
        # what a candidate explains beyond these, by the gain in squares
        projected, rest = columns, residual
        if slopes:
            basis = np.linalg.qr(np.stack(slopes).T + 0.0)[0]
            rest, projected = orthogonal_part(residual, basis), orthogonal_part(columns.T, basis).T
        gains = np.maximum(_gains(projected, rest), 0.5 * _gains(columns, residual))
        gains[scales <= 0] = 0
        gains[list(numbers)] = 0
        order = np.argsort(-gains, kind="stable")[:BEAM]
        return [int(n) for n in order if gains[n] > 0]

    def residuals(self, rows: NDArray[np.int64], chosen: NDArray[np.int64]) -> Residuals:
        """Return the residuals' function: logarithm of prediction over measurement at the points used.

        Parameters
        ----------
        rows, chosen
            Shape (candidate,) and (candidate, k): searches, and numbers of terms.
        """
        base, points, size = self.problem.base, self.problem.points, len(self.problem.base.parameters)
        used, sizes = self.problem.used[rows], np.take_along_axis(self.scales[rows], chosen, axis=1)

        def residuals(at: Array, numbers: NDArray[np.int64]) -> Array:
            theta = self.problem.theta(at[:, :size])
            if chosen.shape[1]:
                # f + sum_k c_k * carrier_k * growth_k
                parts = base.parts(theta, points)
                value, every = np.array(parts.total), np.arange(len(at))
                for weight, term in zip((at[:, size:] * sizes[numbers]).T, chosen[numbers].T, strict=True):
                    value += weight[:, None] * parts.carriers[self.carriers[term], every] * self.shapes[term]
            else:
                value = base.evaluate(theta, points)
            with np.errstate(all="ignore"):
                out = np.log(value) - self.problem.logs
            return np.where(used[numbers], out, 0.0)

        return residuals

    def fitted(
        self, rows: NDArray[np.int64], chosen: NDArray[np.int64], start: Array, *, left_out: bool = True
    ) -> list[TermModel]:
        """Fit candidates, see `residuals`; their costs are in sample, or those of points left out."""
        size = len(self.problem.base.parameters)
        upper = np.concatenate([np.ones((len(rows), size)), np.full(chosen.shape, np.inf)], axis=1)
        function = self.residuals(rows, chosen)
        fits = least_squares(function, start, upper)
        costs = left_out_cost(function, fits.at, upper) if left_out else fits.cost
        theta = self.problem.theta(fits.at[:, :size])
        coefficients = fits.at[:, size:] * np.take_along_axis(self.scales[rows], chosen, axis=1)
        out = []
        for values, numbers, weights, cost in zip(theta, chosen, coefficients, costs, strict=True):
            terms = (replace(self.terms[n], coefficient=float(c)) for n, c in zip(numbers, weights, strict=True))
            out.append(TermModel(tuple(values.tolist()), tuple(terms), float(cost)))
        return out


def _gains(columns: Array, residual: Array) -> Array:
    """Return what each column takes off the sum of squares with a coefficient of 0 and more."""
    along = columns @ residual
    size = np.einsum("tp,tp->t", columns, columns)
    return np.where(along > 0, along**2 / np.maximum(size, 1e-12), 0.0)


def find_thresholds(problem: Problem, model: TermModel) -> tuple[Threshold, ...]:
    """Return the thresholds of a model's hinges, each moved while all else is fitted again.

    The interval holds the places whose likelihood ratio to the best one is not below that of 95 %, widened to the
    neighbours of the grid they were tried on.
    """
    out = []
    base = problem.base
    for number, term in enumerate(model.terms):
        if term.growth.shape != "hinge":
            continue
        i = term.growth.variable
        values = np.unique(problem.points[problem.used[0], i])
        candidates = np.unique([*np.geomspace(values[0], values[-1], COMBINATIONS)[:-1], term.growth.number])
        others = [other for k, other in enumerate(model.terms) if k != number]
        tried = [CorrectionTerm(term.carrier, Growth("hinge", i, float(at)), term.coefficient) for at in candidates]
        costs = np.array([other.cost for other in refit(problem, model.theta, [[*others, other] for other in tried])])
        best = int(np.argmin(costs))
        count = int(problem.used[0].sum())
        inside = np.flatnonzero(count * np.log(costs / costs[best]) <= _LIKELIHOOD)
        low, high = candidates[max(inside[0] - 1, 0)], candidates[min(inside[-1] + 1, len(candidates) - 1)]
        name = list(base.variables)[i]
        out.append(Threshold(name, base.carrier_names[term.carrier], float(candidates[best]), float(low), float(high)))
    return tuple(out)
