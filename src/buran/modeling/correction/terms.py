"""What a correction is made of: positive terms, models with terms and their average, and a Gaussian process."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
import sympy
from pydantic import PlainValidator
from sympy.codegen.cfunctions import log2

from buran.modeling.correction.base import BaseModel
from buran.modeling.correction.formula import Array, exact
from buran.modeling.numerics.gaussian_process import average_process, squared_exponential

# Exponents of a term's growth. Tuned: no record of its own; choices were made on the seeds 7001 and 7003
# (evidence/correction.md).
POWERS = (-1.0, -0.5, 0.5, 1.0)

Shape = Literal["power", "log2", "hinge", "one"]


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
class Average:
    """Models with different terms; the logarithms of their corrections are averaged.

    Attributes
    ----------
    models
        The best one first.
    weights
        Weights of the models; they add up to 1.
    """

    models: tuple[TermModel, ...]
    weights: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.models or len(self.weights) != len(self.models) or not math.isclose(sum(self.weights), 1):
            raise ValueError("the weights of the terms do not add up to 1")

    @property
    def best(self) -> TermModel:
        """The model with the largest weight."""
        return self.models[0]

    def log_factor(self, base: BaseModel, theta: Array, points: Array, clamped: Array) -> Array:
        """Return the logarithm of the correction's factor at points (point, variable); see `TermModel.evaluate`.

        Where the models disagree the mean is shrunk: by its square over its square plus their variance.

        Parameters
        ----------
        base, theta
            The base model with its own fitted parameters.
        points, clamped
            Where its components are evaluated, and where the terms' growth is.
        """
        values = np.stack([model.evaluate(base, points, clamped) for model in self.models])
        shifts = np.log(values / base.evaluate(theta, points))
        weights = np.array(self.weights)
        mean = weights @ shifts
        spread = weights @ np.square(shifts - mean)
        size = np.square(mean) + spread
        share = np.divide(np.square(mean), size, out=np.where(np.isnan(size), np.nan, 0.0), where=size > 0)
        return np.asarray(mean * share)


def averaged(models: Sequence[TermModel]) -> Average:
    """Average models by what they leave over at points that were left out: by the inverses of the sums of squares.

    The average of different wrong models extrapolates better than any of them.

    Parameters
    ----------
    models
        With terms, and with costs of points left out.
    """
    ranked = sorted((model for model in models if math.isfinite(model.cost)), key=lambda model: model.cost)
    costs = np.array([model.cost for model in ranked])
    weights = 1 / np.maximum(costs / max(costs[0], 1e-300), 1)
    return Average(tuple(ranked), tuple((weights / weights.sum()).tolist()))


@dataclass(frozen=True)
class Threshold:
    """A value above which something sets in.

    Attributes
    ----------
    variable, component
        Along which, and the component it was attached to; others that grow alike may be the cause as well.
    at, lower, upper
        The best place, and an interval that holds it with 95 % if the rest of the model is right.
    """

    variable: str
    component: str
    at: float
    lower: float
    upper: float

    def __str__(self) -> str:
        where = f"{self.variable} = {self.at:.4g} (95 % interval {self.lower:.4g} to {self.upper:.4g})"
        return f"something sets in above {where}; it grows as the component {self.component!r}"


def _numbers(value: Any) -> Array:
    array = np.array(value, dtype=np.float64)
    if not np.isfinite(array).all():
        raise ValueError("a number is missing or not finite")
    return array


Numbers = Annotated[Array, PlainValidator(_numbers)]


@dataclass(frozen=True)
class Residual:
    """A fitted process; it falls back to 0 far from its points.

    Attributes
    ----------
    centre, spread
        Of the variables' logarithms, shape (variable,).
    points
        Scaled logarithms, shape (point, variable).
    lengths
        Shape (draw, variable).
    pull
        Shape (draw, point): weights of the points, the draws' shares included.
    """

    centre: Numbers
    spread: Numbers
    points: Numbers
    lengths: Numbers
    pull: Numbers

    def __post_init__(self) -> None:
        (points, size), draws = self.points.shape, len(self.pull)
        shapes = {"centre": (size,), "spread": (size,), "lengths": (draws, size), "pull": (draws, points)}
        if any(getattr(self, name).shape != shape for name, shape in shapes.items()):
            raise ValueError("the process has arrays of the wrong shape")

    def evaluate(self, points: Array) -> Array:
        """Return the mean at points (point, variable)."""
        at = (np.log(points) - self.centre) / self.spread
        out = np.zeros(len(at))
        for first in range(0, len(at), 2000):  # memory
            kernel = squared_exponential(at[first : first + 2000], self.points, self.lengths)
            out[first : first + 2000] = np.einsum("dqp,dp->q", kernel, self.pull)
        return out


def fit_residual(points: Array, values: Array) -> Residual:
    """Fit a process of mean 0, averaged over its hyperparameters.

    Parameters
    ----------
    points
        Shape (point, variable), positive.
    values
        Shape (point,), logarithms of ratios.
    """
    logs = np.log(points)
    centre, spread = logs.mean(axis=0), logs.std(axis=0)
    spread = np.where(spread > 0, spread, 1.0)
    at = (logs - centre) / spread
    return Residual(centre, spread, at, *average_process(at, values))
