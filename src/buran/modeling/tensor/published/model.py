"""The model as the CPR paper writes it: interpolation by one CP tensor, extrapolation by a positive one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from buran.modeling.tensor.axes import Array, Axis, cut_off, narrowed
from buran.modeling.tensor.published.cells import TensorMode, fill_cells, make_mode, predict_log_linear
from buran.modeling.tensor.published.completion import complete, complete_positive

# Equal parts of the observations, of which one is left out. Tuned: no record of its own; choices were made under
# seeds other than the reported one (evidence/tensor.md).
PARTS = 5
# Sweeps of alternating least squares. Published: 100, as in the authors' program.
SWEEPS = 100
# Nodes that are tried. Tuned: within those of Section 6.0.4 of the CPR paper (ranks 1 to 64, 4 to 256 cells, lambda
# 1e-6 to 1e-3); these no record of its own; choices were made under seeds other than the reported one
# (evidence/tensor.md).
CELLS = (8, 16, 32, 64)
# Ranks that are tried. Tuned: within those of Section 6.0.4 of the CPR paper (ranks 1 to 64, 4 to 256 cells, lambda
# 1e-6 to 1e-3); these no record of its own; choices were made under seeds other than the reported one
# (evidence/tensor.md).
RANKS = (4, 8, 16, 32)
# Lambdas that are tried. Tuned: within those of Section 6.0.4 of the CPR paper (ranks 1 to 64, 4 to 256 cells, lambda
# 1e-6 to 1e-3); these no record of its own; choices were made under seeds other than the reported one
# (evidence/tensor.md).
RIDGES = (1e-5, 1e-4, 1e-3)
# Nodes of the positive tensor. Tuned: within those of Section 6.0.4 of the CPR paper (ranks 1 to 64, 4 to 256 cells,
# lambda 1e-6 to 1e-3); these no record of its own; choices were made under seeds other than the reported one
# (evidence/tensor.md).
GROWTH_CELLS = (8, 16)
# Ranks of the positive tensor. Tuned: within those of Section 6.0.4 of the CPR paper (ranks 1 to 64, 4 to 256 cells,
# lambda 1e-6 to 1e-3); these no record of its own; choices were made under seeds other than the reported one
# (evidence/tensor.md).
GROWTH_RANKS = (1, 2, 4)
# Observations of a node that enters the spline, or from which on growth is chosen. Tuned: no record of its own;
# choices were made under seeds other than the reported one (evidence/tensor.md).
ENOUGH = 8

# Of a knot, in degrees of freedom. Tuned: Friedman, Multivariate Adaptive Regression Splines, 1991.
PENALTY = 3.0
# Distinct values at either end without a knot. Tuned: Friedman, Multivariate Adaptive Regression Splines, 1991: the
# end span at a level of 0.05.
END_SPAN = 7
# Of the squared error: what a pair of hinges saves at least. Tuned: no record of its own; choices were made under
# seeds other than the reported one (evidence/tensor.md).
LEAST_GAIN = 1e-3

_MOST_LOG = 690.0  # the exponential of more overflows


@dataclass(frozen=True)
class Choice:
    """What is chosen on observations that are left out.

    Attributes
    ----------
    cells
        Nodes along parameters with many values; one number, or one for each parameter.
    rank, ridge
        Of the CP tensor; `ridge` is the paper's lambda.
    """

    cells: tuple[int, ...]
    rank: int
    ridge: float


@dataclass(frozen=True, eq=False)
class Hinges:
    """A continuous piecewise linear function ``c + sum_i b_i max(0, s_i (x - k_i))``."""

    constant: float
    slopes: Array
    knots: Array
    signs: Array

    def __call__(self, x: Array) -> Array:
        """Return shape (point,)."""
        return self.constant + np.maximum(0.0, self.signs * (x[:, None] - self.knots)) @ self.slopes


@dataclass(frozen=True, eq=False)
class Grown:
    """The positive tensor and what continues its extrapolated modes.

    Attributes
    ----------
    splines
        For each parameter, ``log u`` over the logarithm of the node (or the node); None for categories.
    scales
        For each parameter, shape (rank,): singular value times right singular vector.
    """

    modes: tuple[TensorMode, ...]
    factors: tuple[Array, ...]
    splines: tuple[Hinges | None, ...]
    scales: tuple[Array, ...]


@dataclass(frozen=True, eq=False)
class PublishedModel:
    """Factors on a grid.

    Attributes
    ----------
    factors
        Shape (node, rank) for each parameter: of the logarithms of times.
    grown
        For points outside the grid; None without extrapolation.
    """

    modes: tuple[TensorMode, ...]
    factors: tuple[Array, ...]
    grown: Grown | None
    choice: Choice
    residuals: Array

    def predict_log(self, points: Array) -> tuple[Array, Array]:
        """Return logarithms of times, and zeros: there is no ensemble."""
        times = predict_log_linear(points, self.modes, self.factors)
        if self.grown is not None:
            outside = np.zeros(len(points), dtype=bool)
            for j, mode in enumerate(self.modes):
                if not mode.axis.is_categorical:
                    outside |= (points[:, j] > mode.nodes[-1]) | (points[:, j] < mode.nodes[0])
            if outside.any():
                times[outside] = predict_grown(points[outside], self.grown)
        return np.log(np.maximum(times, 1e-300)), np.zeros(len(points))


def predict_grown(points: Array, grown: Grown) -> Array:
    """Predict by the positive tensor (Section 5.3 of the CPR paper)."""
    out = np.ones((len(points), grown.factors[0].shape[1]))
    for j, (mode, factor) in enumerate(zip(grown.modes, grown.factors, strict=True)):
        x = points[:, j]
        spline = grown.splines[j]
        if spline is None or mode.size < 2:
            out *= factor[mode.nearest(x)]
            continue
        low, share, on_node, at_edge = mode.between(x)
        rows = factor[low] + share[:, None] * (factor[low + 1] - factor[low])
        beyond = at_edge & ~on_node
        log_u = np.clip(spline(mode.axis.position(x[beyond])), -_MOST_LOG, _MOST_LOG)
        rows[beyond] = np.exp(log_u)[:, None] * grown.scales[j]
        out *= rows
    return np.asarray(out.sum(axis=1))


def fit_published(
    points: Array,
    times: Array,
    axes: tuple[Axis, ...],
    free: tuple[int, ...],
    random: np.random.Generator,
    cells: tuple[int, ...] | None = None,
    rank: int | None = None,
    ridge: float | None = None,
) -> PublishedModel:
    """Fit as the paper does; cells, rank and ridge that are not given are chosen by a validation split of 20 %.

    Parameters
    ----------
    points
        Shape (point, parameter), encoded.
    """
    seed = int(random.integers(2**31))
    outside, inside = np.split(random.permutation(len(times)), [len(times) // PARTS])
    many = [j for j, axis in enumerate(axes) if not axis.is_categorical and not len(axis.values)]
    grids = [cells] if cells is not None else [(c,) * len(axes) for c in CELLS[: len(CELLS) if many else 1]]
    ranks = RANKS if rank is None else (rank,)
    ridges = RIDGES if ridge is None else (ridge,)
    tried: dict[Choice, Array] = {}

    def error(choice: Choice) -> float:
        if choice not in tried:
            modes, factors = _complete(points[inside], times[inside], axes, choice, seed)
            found = np.log(np.maximum(predict_log_linear(points[outside], modes, factors), 1e-14))
            tried[choice] = found - np.log(times[outside])
        return float(np.abs(tried[choice]).mean())

    best, quantiles = Choice(grids[0], ranks[0], ridges[-1]), np.full(101, np.nan)
    if len(outside):
        best = min((Choice(grid, own, ridges[0]) for grid, own in product(grids, ranks)), key=error)
        for j in many if cells is None and len(many) > 1 else ():  # one may need fewer nodes than the others
            half = tuple(c // 2 if i == j else c for i, c in enumerate(best.cells))
            best = min(best, replace(best, cells=half), key=error)
        best = min((replace(best, ridge=weight) for weight in ridges), key=error)
        quantiles = np.quantile(np.abs(tried[best]), np.linspace(0, 1, 101))
    modes, factors = _complete(points, times, axes, best, seed)
    grown = None
    if free:
        counts = [(c,) * len(axes) for c in GROWTH_CELLS] if cells is None else [cells]
        grown = _choose_grown(points, times, axes, free, list(product(counts, GROWTH_RANKS)), best.ridge, seed)
    return PublishedModel(modes, tuple(factors), grown, best, quantiles)


def _modes(axes: Sequence[Axis], cells: Sequence[int]) -> tuple[TensorMode, ...]:
    return tuple(make_mode(axis, count) for axis, count in zip(axes, cells, strict=True))


def _complete(
    points: Array, times: Array, axes: Sequence[Axis], choice: Choice, seed: int
) -> tuple[tuple[TensorMode, ...], list[Array]]:
    modes = _modes(axes, choice.cells)
    index, mean = fill_cells(points, times, modes)
    sizes, random = [mode.size for mode in modes], np.random.default_rng(seed)
    return modes, complete(index, np.log(mean), sizes, choice.rank, choice.ridge, SWEEPS, random)


def _choose_grown(
    points: Array,
    times: Array,
    axes: tuple[Axis, ...],
    free: tuple[int, ...],
    configurations: list[tuple[tuple[int, ...], int]],
    ridge: float,
    seed: int,
) -> Grown:
    """Fit the positive tensor whose grid and rank best predict the largest measured values from smaller ones."""
    best = configurations[0]
    inside, outside = cut_off(points, axes, free, 1)
    if len(inside) > ENOUGH and len(outside):
        own = narrowed(points[inside], axes, free)
        errors = []
        for cells, rank in configurations:
            grown = _grow(points[inside], times[inside], _modes(own, cells), rank, ridge, seed)
            found = predict_grown(points[outside], grown)
            errors.append(float(np.abs(np.log(np.maximum(found, 1e-14) / times[outside])).mean()))
        best = configurations[int(np.argmin(errors))]
    return _grow(points, times, _modes(axes, best[0]), best[1], ridge, seed)


def _grow(points: Array, times: Array, modes: tuple[TensorMode, ...], rank: int, ridge: float, seed: int) -> Grown:
    index, mean = fill_cells(points, times, modes)
    sizes, random = [mode.size for mode in modes], np.random.default_rng(seed)
    factors = complete_positive(index, mean, sizes, rank, ridge, random)
    splines: list[Hinges | None] = []
    scales: list[Array] = []
    for j, (mode, factor) in enumerate(zip(modes, factors, strict=True)):
        if mode.axis.is_categorical or mode.size < 2:
            splines.append(None)
            scales.append(np.ones(rank))
            continue
        count = np.bincount(mode.nearest(points[:, j]), minlength=mode.size)
        present = count >= min(ENOUGH, int(count.max()))
        left, singular, right = np.linalg.svd(factor[present], full_matrices=False)
        splines.append(fit_hinges(_middles(mode)[present], np.log(np.maximum(np.abs(left[:, 0]), 1e-300))))
        scales.append(singular[0] * np.abs(right[0]))
    return Grown(modes, tuple(factors), tuple(splines), tuple(scales))


def _middles(mode: TensorMode) -> Array:
    """Return the positions of the cells' mid-points, which the paper's elements stand for."""
    bounds = mode.axis.position(np.concatenate([mode.nodes[:1], mode.bounds, mode.nodes[-1:]]))
    return mode.axis.position(mode.nodes) if len(mode.axis.values) else (bounds[:-1] + bounds[1:]) / 2


def fit_hinges(x: Array, y: Array) -> Hinges:
    """Fit by adding pairs of hinges while the error falls, then dropping terms by generalised cross-validation.

    Parameters
    ----------
    x, y
        Shape (point,).
    """
    terms: list[tuple[float, float]] = []
    error = _rss(x, y, terms)[0]
    distinct = np.unique(x)
    # Near the ends, noise would decide on the slope that goes on beyond them (Friedman's end span).
    knots = np.concatenate([distinct[:1], distinct[END_SPAN : len(distinct) - END_SPAN]])
    while len(terms) + 3 < len(x) and error > 1e-12 * max(float(y @ y), 1e-300):
        tried = [(_rss(x, y, [*terms, (float(k), 1.0), (float(k), -1.0)])[0], float(k)) for k in knots]
        best, knot = min(tried)
        if error - best < LEAST_GAIN * error:
            break
        terms += [(knot, 1.0), (knot, -1.0)]
        error = best
    chosen, score = terms, _gcv(x, y, terms)
    while terms:
        tries = [terms[:i] + terms[i + 1 :] for i in range(len(terms))]
        scores = [_gcv(x, y, knots) for knots in tries]
        i = int(np.argmin(scores))
        terms = tries[i]
        if scores[i] <= score:
            chosen, score = terms, scores[i]
    found = _rss(x, y, chosen)[1]
    own = np.array(chosen, dtype=np.float64).reshape(-1, 2)
    return Hinges(float(found[0]), found[1:], own[:, 0], own[:, 1])


def _design(x: Array, terms: list[tuple[float, float]]) -> Array:
    return np.stack([np.ones(len(x)), *(np.maximum(0.0, sign * (x - knot)) for knot, sign in terms)], axis=1)


def _rss(x: Array, y: Array, terms: list[tuple[float, float]]) -> tuple[float, Array]:
    design = _design(x, terms)
    found = np.linalg.lstsq(design, y, rcond=None)[0]
    rest = y - design @ found
    return float(rest @ rest), np.asarray(found, dtype=np.float64)


def _gcv(x: Array, y: Array, terms: list[tuple[float, float]]) -> float:
    cost = len(terms) + 1 + PENALTY * len(terms) / 2
    free = 1 - cost / len(x)
    return np.inf if free <= 0 else _rss(x, y, terms)[0] / len(x) / free**2
