"""Extrapolation of the default preset: the model at the edge of the measured range, times a growth beyond it.

Growth comes from functions that cannot oscillate: products of smooth functions that go on as straight lines on a
logarithmic scale, alone or averaged with sums of monomials with positive coefficients, whichever predicts the largest
measured values from smaller ones better. A guard bounds the growth by the slopes at the edge; what rises there does
not fall beyond.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from buran.modeling.numerics.least_squares import nonnegative
from buran.modeling.numerics.tuning import COMBINATIONS
from buran.modeling.tensor.axes import Array, Axis, cut_off, narrowed
from buran.modeling.tensor.smooth import Basis, Coordinates, CPPart, PartOptions, fit_part, make_basis

# Exponents of monomials. Tuned: no record of its own; choices were made under seeds other than the reported one
# (evidence/tensor.md).
POWERS = (0.0, 1.0)
# By what a slope may differ from that of the upper range, and logarithms by which lines may correct monomials. Tuned:
# no record of its own; choices were made under seeds other than the reported one (evidence/tensor.md).
SLACK = 0.5
# Doublings of the range that are held back to choose. Tuned: no record of its own; choices were made under seeds
# other than the reported one (evidence/tensor.md).
OCTAVES = (1, 2)

_QUANTILES = 21  # that are kept of errors
_LOGARITHM = -1.0  # stands for the factor log2(2 + x / low)


@dataclass(frozen=True, eq=False)
class Monomials:
    """``sum_i c_i prod_j x_j^e_ij`` with c >= 0; a negative exponent stands for a logarithm.

    Attributes
    ----------
    columns
        Columns of the parameters.
    exponents
        Shape (term, parameter).
    low
        Shape (parameter,): smallest measured value.
    """

    columns: tuple[int, ...]
    exponents: Array
    coefficients: Array
    low: Array

    def predict_log(self, points: Array) -> Array:
        """Return shape (point,)."""
        return np.log(
            np.maximum(_monomials(points[:, list(self.columns)] / self.low, self.exponents) @ self.coefficients, 1e-300)
        )


@dataclass(frozen=True, eq=False)
class StraightLines:
    """Main effects and a CP part of small rank, whose functions go on as straight lines."""

    bases: tuple[Basis, ...]
    part: CPPart
    centre: float
    spread: float

    def predict_log(self, points: Array) -> Array:
        """Return shape (point,)."""
        return self.centre + self.spread * self.part.predict(Coordinates.of(points, self.bases))


GrowthModel = Monomials | StraightLines
_LINES = 3  # from different starts
_FEWEST = 20  # observations that tell an error


@dataclass(frozen=True, eq=False)
class Extrapolation:
    """What happens beyond the measured range.

    Attributes
    ----------
    free
        Columns of the parameters that may leave the range.
    models
        Their growths are averaged, as logarithms; monomials count as much as all lines together.
    slopes
        Shape (parameter,): of ``log t`` at the upper edge over ``log x``.
    reason
        What was chosen, and by what.
    errors
        Shape (doubling, quantile): of absolute errors of ``log t`` at the largest measured values, predicted from
        values that are smaller by one doubling, two and so on. No rows where too few were measured to try.
    """

    free: tuple[int, ...]
    models: tuple[GrowthModel, ...]
    slopes: Array
    reason: str
    errors: Array

    def error(self, level: float, points: Array, axes: Sequence[Axis]) -> Array:
        """Return what the absolute error of ``log t`` stays below in a share of cases, shape (point,).

        It grows with the distance from the measured range, as it did where the largest values were held back; from
        the last distance that was tried on, in proportion to the distance. 0 inside, NaN outside where nothing was
        tried.
        """
        far = doublings(points, axes, self.free)
        if not len(self.errors):
            return np.where(far > 0, np.nan, 0.0)
        shares = np.linspace(0, 1, self.errors.shape[1])
        at = np.array([np.interp(level, shares, row) for row in self.errors])
        tried = np.array([0.0, *(octave - 0.5 for octave in OCTAVES[: len(at)])])  # held back: half to all of it
        known = np.array([0.0, *np.maximum.accumulate(at)])
        return np.asarray(np.interp(far, tried, known) * np.maximum(far / tried[-1], 1.0))

    def add(self, points: Array, axes: Sequence[Axis]) -> tuple[Array, Array]:
        """Return the points moved to the edge, and the logarithm of the growth from there, shape (point,)."""
        edge = points.copy()
        for j in self.free:
            edge[:, j] = np.clip(points[:, j], axes[j].low, axes[j].high)
        out = np.zeros(len(points))
        moved = np.flatnonzero((edge != points).any(axis=1))
        if len(moved):
            there, at_edge = points[moved], edge[moved]
            grown = self._rise(there, at_edge)
            lower, upper = np.zeros(len(moved)), np.zeros(len(moved))
            for j in self.free:
                far = _distance(there[:, j], at_edge[:, j], axes[j])
                slope = self.slopes[j]
                # What rises up to the edge does not fall beyond it.
                least = max(slope - SLACK, 0.0) if slope > 0 else slope - SLACK
                bounds = far * least, far * (slope + SLACK)
                lower += np.minimum(*bounds)
                upper += np.maximum(*bounds)
            out[moved] = np.clip(grown, lower, upper)
        return edge, out

    def _rise(self, there: Array, at_edge: Array) -> Array:
        rises: dict[bool, list[Array]] = {True: [], False: []}
        for model in self.models:
            rises[isinstance(model, Monomials)].append(model.predict_log(there) - model.predict_log(at_edge))
        means = [np.mean(kind_rises, axis=0) for kind_rises in rises.values() if kind_rises]
        if len(means) == 1:
            return np.asarray(means[0])
        # Products of lines run away where several parameters are far out: they may correct monomials by so much.
        return np.asarray(means[0] + np.clip(means[1] - means[0], -SLACK, SLACK) / 2)


def _distance(there: Array, at_edge: Array, axis: Axis) -> Array:
    """Return how far a value is out: in natural logarithms, or in measured ranges where values are not positive."""
    if axis.low > 0:
        return np.log(np.maximum(there, 1e-300) / at_edge)
    return (there - at_edge) / ((axis.high - axis.low) or 1.0)


def doublings(points: Array, axes: Sequence[Axis], free: Sequence[int]) -> Array:
    """Return how far out points are, in doublings or quarters of a range that has zeros.

    Of several parameters in quadrature, as their misses add up.
    """
    out = np.zeros(len(points))
    for j in free:
        edge = np.clip(points[:, j], axes[j].low, axes[j].high)
        unit = np.log(2) if axes[j].low > 0 else 0.25
        out = np.hypot(out, _distance(points[:, j], edge, axes[j]) / unit)
    return out


def fit_growth(
    points: Array, logs: Array, axes: tuple[Axis, ...], free: tuple[int, ...], random: np.random.Generator
) -> Extrapolation:
    """Choose and fit the growth.

    Parameters
    ----------
    points
        Shape (point, parameter), encoded.
    logs
        Shape (point,): logarithms of times.
    free
        Columns of the parameters that are extrapolated.
    """
    errors: dict[bool, list[Array]] = {True: [], False: []}  # with monomials, and of lines alone
    for octaves in OCTAVES:
        inside, outside = cut_off(points, axes, free, octaves)
        if len(outside) < _FEWEST:
            inside, outside = cut_off(points, axes, free, octaves, together=False)
        if len(outside) < _FEWEST or len(inside) < 50:
            continue
        own = points[inside], logs[inside], narrowed(points[inside], axes, free)
        base, grown = _lines(*own, 12, 6, 1e-2, random), _growth(*own, free, random)
        for with_monomials, models in ((True, grown.models), (False, grown.models[1:])):
            edge, rise = replace(grown, models=models).add(points[outside], own[2])
            errors[with_monomials].append(np.abs(base.predict_log(edge) + rise - logs[outside]))
    means = {each: float(np.mean([gaps.mean() for gaps in own])) for each, own in errors.items() if own}
    with_monomials, reason = True, "too few observations are left to try lines alone"
    if len(free) > 1:
        reason = "several parameters may leave the range together"
    elif means:
        with_monomials = means[True] <= means[False]
        reason = f"mean error {min(means.values()):.3g} at the largest measured values, predicted from smaller ones"
    grown = _growth(points, logs, axes, free, random)
    return replace(
        grown,
        models=grown.models if with_monomials else grown.models[1:],
        reason=f"{'monomials and ' if with_monomials else ''}smooth lines: {reason}",
        errors=np.array([np.quantile(gaps, np.linspace(0, 1, _QUANTILES)) for gaps in errors[with_monomials]]),
    )


def _growth(
    points: Array, logs: Array, axes: tuple[Axis, ...], free: tuple[int, ...], random: np.random.Generator
) -> Extrapolation:
    lines = [_lines(points, logs, axes, 8, 1, 1e-1, random) for _ in range(_LINES)]
    models: tuple[GrowthModel, ...] = (_fit_monomials(points, logs, axes), *lines)
    return Extrapolation(free, models, _slopes(points, logs, axes, random), "", np.zeros((0, 1)))


def _lines(
    points: Array,
    logs: Array,
    axes: tuple[Axis, ...],
    nodes: int,
    rank: int,
    smooth: float,
    random: np.random.Generator,
) -> StraightLines:
    bases = tuple(make_basis(axis, nodes) for axis in axes)
    centre, spread = float(logs.mean()), float(logs.std()) or 1.0
    values = (logs - centre) / spread
    part = fit_part(Coordinates.of(points, bases), values, bases, PartOptions(nodes, rank, 1e-2, smooth, 15), random)
    return StraightLines(bases, part, centre, spread)


def _slopes(points: Array, logs: Array, axes: tuple[Axis, ...], random: np.random.Generator) -> Array:
    """Return the slopes of the main effects over the upper part of each parameter's range."""
    smooth = _lines(points, logs, axes, 8, 0, 1e-1, random)
    out = np.zeros(len(axes))
    for j, axis in enumerate(axes):
        if axis.is_categorical or axis.high <= axis.low:
            continue
        middle = axis.high / 4 if axis.low > 0 else axis.high - (axis.high - axis.low) / 4
        at = np.repeat(points[:1], 2, axis=0)
        at[:, j] = max(middle, axis.low), axis.high
        rise = smooth.predict_log(at)
        far = float(_distance(at[1:, j], at[:1, j], axis)[0])
        out[j] = (rise[1] - rise[0]) / far if far > 0 else 0.0
    return out


def _fit_monomials(points: Array, logs: Array, axes: Sequence[Axis]) -> Monomials:
    numeric = tuple(j for j, a in enumerate(axes) if not a.is_categorical and a.low > 0 and a.high > a.low)
    low = np.array([axes[j].low for j in numeric])
    choices = next((each for each in ((*POWERS, _LOGARITHM), POWERS) if len(each) ** len(numeric) <= COMBINATIONS), ())
    if choices:
        exponents = np.array(list(product(choices, repeat=len(numeric)))).reshape(-1, len(numeric))
    else:  # too many parameters for all products: each alone, and products of two
        eye = np.eye(len(numeric))
        exponents = np.unique(np.concatenate([np.zeros((1, len(numeric))), *(eye + row for row in eye), eye]), axis=0)
    ratio = _monomials(points[:, list(numeric)] / low, exponents) / np.exp(logs - logs.mean())[:, None]
    coefficients = nonnegative(ratio, np.ones(len(logs)))
    monomials = Monomials(numeric, exponents, coefficients, low)
    shift = float(np.median(logs - monomials.predict_log(points)))
    kept = coefficients > 0
    return Monomials(numeric, exponents[kept], coefficients[kept] * np.exp(shift), low)


def _monomials(ratios: Array, exponents: Array) -> Array:
    """Return shape (point, term)."""
    out = np.ones((len(ratios), len(exponents)))
    for j in range(ratios.shape[1]):
        x = ratios[:, j]
        for value in np.unique(exponents[:, j]):
            factor = np.log2(1 + x) if value == _LOGARITHM else x**value
            out[:, exponents[:, j] == value] *= factor[:, None]
    return out
