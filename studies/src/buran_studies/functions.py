"""Synthetic ground truths of evaluations: functions inside and outside the hypothesis space, and noisy runs of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product as combinations

import numpy as np
from numpy.typing import NDArray

from buran.modeling.functions.powers import PowerLog
from buran.modeling.functions.terms import Factor, ModelFunction, Term
from buran.modeling.priors.prior import ONE, Column, Prior
from buran_studies.parts import Block, Knee, Part, Powers, Saturation, TreeSteps

Array = NDArray[np.float64]

AXES = ((4, 8, 16, 32, 64), (10, 20, 30, 40, 50), (1000, 2000, 3000, 4000, 5000), (10, 12, 14, 16, 18))
"""Values of up to four parameters, those of the evaluation code of the paper on cost-effective modelling."""
BEYOND = (128, 60, 6000, 20)
"""Where models are judged: one step beyond all values."""
SHAPES = ("sum", "product", "mixture")
SPECIAL = ("falling", "idle", "constant")
OUTSIDE = (
    "two terms", "odd power", "saturation", "knee", "approach", "larger of two", "tree steps", "blocks",
)  # fmt: skip
"""Kinds of truths that are in no hypothesis space; see `draw_outside`."""
# The 42 pairs which Extra-P 4 offers, as "power:log exponents".
_EXTRAP = (
    "0:12 1/4:012 1/3:012 1/2:012 2/3:012 3/4:012 4/5:0 1:012 5/4:01 4/3:01 3/2:012 5/3:0 7/4:0 2:012 "
    "9/4:0 7/3:0 5/2:012 8/3:0 11/4:0 3:01"
)
EXTRAP_PAIRS = frozenset(
    (Fraction(power), int(log)) for power, logs in (group.split(":") for group in _EXTRAP.split()) for log in logs
)
POWERS = tuple(sorted({power for power, _ in EXTRAP_PAIRS} | {Fraction(0)}))
_FALLING = tuple(-Fraction(power) for power in ("1/3", "1/2", "2/3", "1", "4/3", "3/2", "2"))
_LOGS = (0, 1, 2)
_ODD_POWERS = (0.1, 0.4, 0.6, 0.9, 1.1, 1.4, 1.6, 1.85, 2.1, 2.6)
_VISIBLE = 0.01  # share of the value that each term of a sum makes up at both corners
_NO_CONSTANT = 0.25  # share of the draws without a constant


def grid(parameters: int) -> Array:
    """Return all combinations of values, shape (point, parameter), the last parameter running fastest."""
    return np.array(list(combinations(*AXES[:parameters])), dtype=np.float64)


def beyond(parameters: int) -> Array:
    """Return the point that models are judged at, shape (parameter,)."""
    return np.array(BEYOND[:parameters], dtype=np.float64)


def terms_prior(function: ModelFunction, source: str) -> Prior:
    """Take the terms of a function without their coefficients, but with their signs; times alone tell these."""
    columns = (
        Column("effort", ModelFunction(0.0, (math.copysign(1.0, coefficient),), (term,)))
        for coefficient, term in zip(function.coefficients, function.terms, strict=True)
    )
    return Prior((Column("constant", ONE), *columns), source)


@dataclass(frozen=True)
class Composite:
    """A truth outside every hypothesis space: a constant and a sum of products of parts.

    Attributes
    ----------
    coefficients
        One for each term.
    terms
        The parts that each is the product of.
    """

    constant: float
    coefficients: tuple[float, ...]
    terms: tuple[tuple[Part, ...], ...]

    def evaluate(self, points: Array) -> Array:
        """Evaluate at points (..., parameter)."""
        return np.asarray(self.constant + self.summands(points).sum(axis=0))

    def summands(self, points: Array) -> Array:
        """Return what is added to the constant, along a new first axis."""
        products = [np.prod([part.evaluate(points) for part in term], axis=0) for term in self.terms]
        return np.stack([c * product for c, product in zip(self.coefficients, products, strict=True)])

    def lead(self, parameter: int) -> tuple[float, int]:
        """Return the largest power of a parameter; logarithms are ignored."""
        return max(
            (sum(part.power for part in term if part.parameter == parameter) for term in self.terms), default=0.0
        ), 0


@dataclass(frozen=True)
class Larger:
    """The larger of two truths, such as computing and communicating at the same time."""

    first: Composite
    second: Composite

    def evaluate(self, points: Array) -> Array:
        """Evaluate at points (..., parameter)."""
        return np.maximum(self.first.evaluate(points), self.second.evaluate(points))

    def lead(self, parameter: int) -> tuple[float, int]:
        """Return the largest power of a parameter; logarithms are ignored."""
        return max(self.first.lead(parameter), self.second.lead(parameter))


def kind_inside(parameters: int, number: int) -> str:
    """Return the kind of the `number`-th truth inside the space: sums, products and mixtures in equal parts.

    Every fourth is of one of the kinds that modellers take for something else: a constant, one that does not depend
    on a parameter, one that falls. A single parameter has terms instead of sums, products and mixtures.
    """
    turn, place = divmod(number, 4)
    if place == 3:
        return SPECIAL[turn % len(SPECIAL)] if parameters > 1 else ("falling", "constant")[turn % 2]
    return SHAPES[place] if parameters > 1 else "term"


def kind_outside(number: int) -> str:
    """Return the kind of the `number`-th truth outside the space, all in equal parts."""
    return OUTSIDE[number % len(OUTSIDE)]


def draw(parameters: int, random: np.random.Generator, kind: str) -> ModelFunction:
    """Draw a truth inside the space.

    Powers of Extra-P's default set and 0, logarithms 0 to 2, coefficients uniform in (0, 1000), the constant 0 in a
    quarter of the draws. Sums and mixtures are drawn again until each term makes up 1 % at both corners of the grid.

    Parameters
    ----------
    kind
        ``sum``: a term of each parameter. ``product``: one term of all. ``mixture``: a term of some parameters, and
        one of each other; with two parameters one of both and one of one of them. ``term``: of a single parameter.
        ``idle``: one of these that does not depend on one of the parameters. ``falling``: with a negative power of
        one of them. ``constant``: of no parameter.
    """
    if kind == "constant":
        return ModelFunction(float(np.round(random.uniform(1, 1000), 3)))
    shape = kind if kind in SHAPES else SHAPES[random.integers(len(SHAPES))]
    chosen = int(random.integers(parameters))
    used = [k for k in range(parameters) if kind != "idle" or k != chosen]

    def part(parameter: int) -> Powers:
        if kind == "falling" and parameter == chosen:
            return Powers(parameter, ((_FALLING[random.integers(len(_FALLING))], 0),))
        return _inside(parameter, random)

    drawn = _visible(used, shape, random, part, parameters)
    factors = [
        [
            Factor(each.parameter, PowerLog(Fraction(power), log))
            for each in term
            if isinstance(each, Powers)
            for power, log in each.exponents
        ]
        for term in drawn.terms
    ]
    terms = tuple(Term(tuple(factor)) for factor in factors)
    return ModelFunction(drawn.constant, drawn.coefficients, terms)


def draw_outside(parameters: int, random: np.random.Generator, kind: str) -> Composite | Larger:
    """Draw a truth that is in no hypothesis space: a sum, product or mixture as inside, with other parts.

    One parameter has a part of the kind, each other one with a chance of one half.

    Parameters
    ----------
    kind
        One of `OUTSIDE`. ``two terms`` of the parameter; ``odd power``, such as 0.6; ``saturation``
        ``x / (x + K)``; ``knee``: another power from a value inside the grid on; ``approach`` ``1 - exp(-x / N)``;
        ``larger of two`` truths that are equal at a point inside the grid; ``tree steps`` ``ceil(log_k(x))``;
        ``blocks`` ``ceil(n / x)``, `n` another parameter or fixed.
    """
    if kind == "larger of two":
        everything = range(parameters)
        first, second = (
            _visible(everything, SHAPES[random.integers(3)], random, lambda k: _inside(k, random), parameters)
            for _ in range(2)
        )
        at = np.array([[random.uniform(axis[1], axis[-2]) for axis in AXES[:parameters]]])
        scale = float(first.evaluate(at)[0] / second.evaluate(at)[0])
        scaled = tuple(scale * coefficient for coefficient in second.coefficients)
        return Larger(first, Composite(scale * second.constant, scaled, second.terms))
    outside = random.random(parameters) < 0.5
    outside[random.integers(parameters)] = True

    def part(parameter: int) -> Part:
        return _OTHER[kind](parameter, parameters, random) if outside[parameter] else _inside(parameter, random)

    return _visible(range(parameters), SHAPES[random.integers(3)], random, part, parameters)


def _visible(
    used: Sequence[int],
    shape: str,
    random: np.random.Generator,
    part: Callable[[int], Part],
    parameters: int,
) -> Composite:
    """Draw until each term of a sum or mixture is visible at both corners."""
    corners = grid(parameters)[[0, -1]]
    while True:
        terms = tuple(tuple(part(k) for k in term) for term in _parameters_of_terms(used, shape, random))
        unit = [np.prod([each.evaluate(corners)[0] for each in term if each.power < 0]) for term in terms]
        coefficients = np.round(random.uniform(0, 1000, len(terms)), 3) / unit
        constant = 0.0 if random.random() < _NO_CONSTANT else float(np.round(random.uniform(0, 1000), 3))
        drawn = Composite(constant, tuple(coefficients.tolist()), terms)
        if len(terms) == 1 or (drawn.summands(corners) >= _VISIBLE * drawn.evaluate(corners)).all():
            return drawn


def _parameters_of_terms(used: Sequence[int], shape: str, random: np.random.Generator) -> list[list[int]]:
    """Return the parameters of each term."""
    order = random.permutation(used).tolist()
    if shape == "product" or len(order) == 1:
        return [sorted(order)]
    if shape == "sum":
        return [[k] for k in sorted(order)]
    if len(order) == 2:
        return [sorted(order), order[:1]]
    together = int(random.integers(2, len(order)))
    return [sorted(order[:together]), *([k] for k in sorted(order[together:]))]


def _inside(parameter: int, random: np.random.Generator) -> Powers:
    while True:
        power, log = POWERS[random.integers(len(POWERS))], int(random.integers(len(_LOGS)))
        if power or log:
            return Powers(parameter, ((power, log),))


def _two_terms(parameter: int, parameters: int, random: np.random.Generator) -> Part:
    while True:
        first, second = (_inside(parameter, random).exponents[0] for _ in range(2))
        if first != second:
            return Powers(parameter, (first, second))


def _odd_power(parameter: int, parameters: int, random: np.random.Generator) -> Part:
    return Powers(parameter, ((float(random.choice(_ODD_POWERS)), int(random.integers(2))),))


def _saturation(parameter: int, parameters: int, random: np.random.Generator) -> Part:
    return Saturation(parameter, float(random.uniform(AXES[parameter][0], AXES[parameter][-1])))


def _approach(parameter: int, parameters: int, random: np.random.Generator) -> Part:
    return Saturation(parameter, float(random.uniform(AXES[parameter][0], AXES[parameter][-1])), exponential=True)


def _knee(parameter: int, parameters: int, random: np.random.Generator) -> Part:
    at = float(random.uniform(AXES[parameter][1], AXES[parameter][-2]))
    while True:
        below, above = (float(POWERS[random.integers(len(POWERS))]) for _ in range(2))
        if abs(above - below) >= 0.5:
            return Knee(parameter, at, below, above)


def _tree_steps(parameter: int, parameters: int, random: np.random.Generator) -> Part:
    return TreeSteps(parameter, int(random.choice((2, 3, 4, 8))), float(random.choice((0.0, 0.5, 1.0))))


def _blocks(parameter: int, parameters: int, random: np.random.Generator) -> Part:
    if parameters > 1 and random.random() < 0.5:
        others = [k for k in range(parameters) if k != parameter]
        times = int(random.choice(others))
        return Block(parameter, max(1, round(random.uniform(1, 8) * AXES[parameter][-1] / AXES[times][0])), times)
    return Block(parameter, int(random.integers(AXES[parameter][-1], 8 * AXES[parameter][-1])))


_OTHER: dict[str, Callable[[int, int, np.random.Generator], Part]] = {
    "two terms": _two_terms,
    "odd power": _odd_power,
    "saturation": _saturation,
    "knee": _knee,
    "approach": _approach,
    "tree steps": _tree_steps,
    "blocks": _blocks,
}
