"""Correction by positive terms: named components of the base model times simple functions of a variable."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import sympy
from numpy.typing import NDArray
from sympy.codegen.cfunctions import log2

from buran.modeling.correction.base import BaseModel
from buran.modeling.correction.fit import Residuals, least_squares, left_out_cost
from buran.modeling.correction.formula import Array, exact
from buran.modeling.numerics.least_squares import orthogonal_part
from buran.modeling.pmnf.tuning import BEAM

# Exponents of a term's growth. Tuned: no record of its own; choices were made on the seeds 7001 and 7003
# (evidence/correction.md).
POWERS = (-1.0, -0.5, 0.5, 1.0)
# Terms. Tuned: no record of its own; choices were made on the seeds 7001 and 7003 (evidence/correction.md).
MOST_TERMS = 3

Shape = Literal["power", "log2", "hinge", "one"]
_STARTS = 4  # of the fit of the base model: as it was given, and drawn ones


@dataclass(frozen=True)
class Growth:
    """A function of one variable: ``x^number``, ``log2(x)``, ``max(0, x / number - 1)`` or 1."""

    shape: Shape
    variable: int = 0
    number: float = 1.0

    def __call__(self, points: Array) -> Array:
        """Return values at points (point, variable)."""
        x = points[:, self.variable]
        if self.shape == "power":
            return np.asarray(x**self.number)
        if self.shape == "log2":
            return np.asarray(np.log2(np.maximum(x, 1.0)))
        if self.shape == "hinge":
            return np.asarray(np.maximum(0.0, x / self.number - 1.0))
        return np.ones(len(points))

    def expression(self, variables: Sequence[sympy.Symbol]) -> sympy.Expr:
        """Return it in sympy's terms."""
        x = variables[self.variable]
        if self.shape == "power":
            return x ** sympy.nsimplify(self.number)
        if self.shape == "log2":
            return log2(x)
        return sympy.Max(0, x / exact(self.number) - 1) if self.shape == "hinge" else sympy.Integer(1)


@dataclass(frozen=True)
class CorrectionTerm:
    """A carrier of the base model (see `Parts`) times a growth, with the coefficient in front."""

    carrier: int
    growth: Growth
    coefficient: float = 0.0


@dataclass(frozen=True)
class TermModel:
    """Base model with its parameters and added terms.

    Attributes
    ----------
    theta
        The parameters, refitted together with the coefficients.
    terms
        None for the refitted base model alone.
    cost
        Sum of squared logarithms of prediction over measurement; with terms, each point predicted by a fit to the
        others.
    """

    theta: tuple[float, ...]
    terms: tuple[CorrectionTerm, ...]
    cost: float

    def expression(self, base: BaseModel) -> sympy.Expr:
        """Return the base model with its terms in sympy's terms, of the variables."""
        variables = [base.symbols[name] for name in base.variables]
        theta = {base.symbols[name]: exact(value) for name, value in zip(base.parameters, self.theta, strict=True)}
        added = (
            term.coefficient * base.carriers[term.carrier] * term.growth.expression(variables) for term in self.terms
        )
        return sympy.Add(base.total, *added).subs(theta)

    def evaluate(self, base: BaseModel, points: Array, clamped: Array | None = None) -> Array:
        """Return values at points (point, variable); terms grow as at `clamped` instead, if given."""
        parts = base.parts(np.array(self.theta), points)
        out = np.array(parts.total)
        for term in self.terms:
            out = out + term.coefficient * parts.carriers[term.carrier] * term.growth(
                points if clamped is None else clamped
            )
        return out


def library(base: BaseModel, points: Array) -> tuple[CorrectionTerm, ...]:
    """Return the terms that measurements at these points can tell apart."""
    growths: list[Growth] = []
    for i, variable in enumerate(base.variables.values()):
        values = np.unique(points[:, i])
        if len(values) < 2:
            continue
        growths += [Growth("power", i, power) for power in POWERS]
        if values[0] >= 1:
            growths.append(Growth("log2", i))
        if variable.thresholds if variable.thresholds is not None else variable.scale:
            first, last = math.ceil(math.log2(values[0])), math.floor(math.log2(values[-1]))
            steps = (2.0**k for k in range(first, last + 1))
            growths += [Growth("hinge", i, step) for step in steps if values[0] <= step < values[-1]]
    carriers = len(base.carrier_names)
    missing = [CorrectionTerm(carriers - 1, growth) for growth in (Growth("one"), *growths) if growth.shape != "hinge"]
    return (*(CorrectionTerm(carrier, growth) for carrier in range(carriers - 1) for growth in growths), *missing)


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

    @property
    def _box(self) -> tuple[Array, Array, NDArray[np.bool_]]:
        parameters = self.base.parameters.values()
        low, high = (
            np.array([getattr(parameter, end) for parameter in parameters], dtype=np.float64)
            for end in ("lower", "upper")
        )
        return low, high, np.array([parameter.log for parameter in parameters], dtype=bool)


def starts_of(problem: Problem) -> Array:
    """Return where fits of the base model's parameters begin, shape (start, parameter), in the unit box."""
    first = problem.unit(problem.base.start)
    return np.vstack([first, np.random.default_rng(0).uniform(0.15, 0.85, (_STARTS - 1, len(first)))])


def fit_base(problem: Problem) -> list[TermModel]:
    """Fit the base model's parameters to the logarithms of the values, for each search."""
    searches, size, starts = len(problem.used), len(problem.base.parameters), _STARTS
    if not size:
        residuals = _plain(problem)
        costs = np.square(residuals(np.zeros((searches, 0)), np.arange(searches))).sum(axis=1)
        return [TermModel((), (), float(cost)) for cost in costs]
    start = np.tile(starts_of(problem), (searches, 1))
    rows = np.repeat(np.arange(searches), starts)
    few = replace(problem, used=problem.used[rows])
    fits = least_squares(_plain(few), start)
    best = fits.cost.reshape(searches, starts).argmin(axis=1) + starts * np.arange(searches)
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
    shapes = np.stack([term.growth(problem.points) for term in terms]) if terms else np.zeros((0, len(problem.points)))
    scales = _scales(problem, bases, terms, shapes)
    out = [[base] for base in bases]
    states = [_State(base, ()) for base in bases]
    for _ in range(MOST_TERMS):
        rows, chosen, start = [], [], []
        for search, state in enumerate(states):
            sizes = scales[search]
            shares = [t.coefficient / sizes[n] for t, n in zip(state.model.terms, state.numbers, strict=True)]
            for term in _promising(problem, search, state, terms, shapes, sizes):
                rows.append(search)
                chosen.append((*state.numbers, term))
                start.append([*problem.unit(np.array(state.model.theta)), *shares, 0.05])
        if not rows:
            break
        models = _fit_jointly(problem, np.array(rows), np.array(chosen), np.array(start), terms, shapes, scales)
        for search in sorted(set(rows)):
            fitted = [(m, numbers) for m, numbers, row in zip(models, chosen, rows, strict=True) if row == search]
            fitted.sort(key=lambda pair: pair[0].cost)
            states[search] = _State(*fitted[0])
            out[search] += [model for model, _ in fitted]
    return out


def refit(problem: Problem, theta: Sequence[float], models: Sequence[Sequence[CorrectionTerm]]) -> list[TermModel]:
    """Fit models with given terms, all of one number, to what the first search may see; costs are in sample."""
    terms = tuple(dict.fromkeys(term for model in models for term in model))
    shapes = np.stack([term.growth(problem.points) for term in terms])
    scales = _scales(problem, [TermModel(tuple(theta), (), 0.0)], terms, shapes)
    chosen = np.array([[terms.index(term) for term in model] for model in models])
    sizes = scales[0, chosen]
    shares = np.array([[term.coefficient for term in model] for model in models])
    shares = np.divide(shares, sizes, out=np.zeros_like(sizes), where=sizes > 0)
    start = np.concatenate(
        [np.tile(problem.unit(np.array(theta)), (len(models), 1)), np.maximum(shares, 0)],
        axis=1,
    )
    rows = np.zeros(len(models), dtype=np.int64)
    return _fit_jointly(problem, rows, chosen, start, terms, shapes, scales, left_out=False)


@dataclass(frozen=True)
class _State:
    model: TermModel
    numbers: tuple[int, ...]


def _scales(problem: Problem, bases: Sequence[TermModel], terms: Sequence[CorrectionTerm], shapes: Array) -> Array:
    """Return shape (search, term): what makes each term as large as the base model on average, or 0."""
    out = np.zeros((len(bases), len(terms)))
    for search, model in enumerate(bases):
        parts = problem.base.parts(np.array(model.theta), problem.points)
        for number, term in enumerate(terms):
            with np.errstate(all="ignore"):
                share = parts.carriers[term.carrier] * shapes[number] / parts.total
            share = share[problem.used[search]]
            # At least two points must see a term, or it only memorises one of them.
            if np.isfinite(share).all() and (share >= 0).all() and np.count_nonzero(share) >= 2:
                out[search, number] = 1.0 / share.mean()
    return out


def _promising(
    problem: Problem, search: int, state: _State, terms: Sequence[CorrectionTerm], shapes: Array, scales: Array
) -> list[int]:
    """Rank terms by what they gain where the residuals are linear, with the parameters free to move."""
    used, base = problem.used[search], problem.base
    theta = np.array(state.model.theta)
    points = problem.points[used]
    value = state.model.evaluate(base, points)
    residual = problem.logs[used] - np.log(value)
    parts = base.parts(theta, points)
    columns = np.stack(
        [scales[n] * parts.carriers[term.carrier] * shapes[n][used] / value for n, term in enumerate(terms)]
    )
    unit = problem.unit(theta)
    step = np.where(unit < 0.5, 1e-5, -1e-5)
    moved = base.evaluate(problem.theta(unit + np.diag(step)), points)
    slopes = [(values - base.evaluate(theta, points)) / value / h for values, h in zip(moved, step, strict=True)]
    slopes += [columns[n] for n in state.numbers]
    projected, rest = columns, residual
    if slopes:
        basis = np.linalg.qr(np.stack(slopes).T + 0.0)[0]
        rest, projected = orthogonal_part(residual, basis), orthogonal_part(columns.T, basis).T
    gains = np.maximum(_gains(projected, rest), 0.5 * _gains(columns, residual))
    gains[scales <= 0] = 0
    gains[list(state.numbers)] = 0
    order = np.argsort(-gains, kind="stable")[:BEAM]
    return [int(n) for n in order if gains[n] > 0]


def _gains(columns: Array, residual: Array) -> Array:
    """Return what each column takes off the sum of squares with a coefficient of 0 and more."""
    along = columns @ residual
    size = np.einsum("tp,tp->t", columns, columns)
    return np.where(along > 0, along**2 / np.maximum(size, 1e-12), 0.0)


def _fit_jointly(
    problem: Problem, rows: NDArray[np.int64], chosen: NDArray[np.int64], start: Array,
    terms: Sequence[CorrectionTerm], shapes: Array, scales: Array, *, left_out: bool = True,
) -> list[TermModel]:  # fmt: skip
    """Fit candidates; their costs are in sample, or those of points left out."""
    size = len(problem.base.parameters)
    few = replace(problem, used=problem.used[rows])
    sizes = np.take_along_axis(scales[rows], chosen, axis=1)
    upper = np.concatenate([np.ones((len(rows), size)), np.full(chosen.shape, np.inf)], axis=1)
    carriers = np.array([term.carrier for term in terms])
    function = _residuals(few, carriers[chosen], chosen, shapes, sizes)
    fits = least_squares(function, start, upper)
    costs = left_out_cost(function, fits.at, upper) if left_out else fits.cost
    theta = problem.theta(fits.at[:, :size])
    coefficients = fits.at[:, size:] * sizes
    out = []
    for i in range(len(rows)):
        fitted_terms = tuple(
            replace(terms[n], coefficient=float(c)) for n, c in zip(chosen[i].tolist(), coefficients[i], strict=True)
        )
        out.append(TermModel(tuple(theta[i].tolist()), fitted_terms, float(costs[i])))
    return out


def _plain(problem: Problem) -> Residuals:
    """Return the residuals' function of the base model alone."""
    none = np.zeros((len(problem.used), 0))
    return _residuals(problem, none.astype(np.int64), none.astype(np.int64), none, none)


def _residuals(
    problem: Problem, carriers: NDArray[np.int64], chosen: NDArray[np.int64], shapes: Array, sizes: Array
) -> Residuals:
    """Return the residuals' function: logarithm of prediction over measurement at the points used."""
    size = len(problem.base.parameters)

    def residuals(at: Array, numbers: NDArray[np.int64]) -> Array:
        theta = problem.theta(at[:, :size])
        candidate_terms = chosen[numbers]
        if candidate_terms.shape[1]:
            parts = problem.base.parts(theta, problem.points)
            value = np.array(parts.total)
            index = np.arange(len(at))
            for k in range(candidate_terms.shape[1]):
                weight = at[:, size + k] * sizes[numbers, k]
                value += weight[:, None] * parts.carriers[carriers[numbers, k], index] * shapes[candidate_terms[:, k]]
        else:
            value = problem.base.evaluate(theta, problem.points)
        with np.errstate(all="ignore"):
            out = np.log(value) - problem.logs
        return np.where(problem.used[numbers], out, 0.0)

    return residuals
