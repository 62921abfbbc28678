"""The model as the CPR paper writes it: interpolation by one CP tensor, extrapolation by a positive one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from buran.modeling.tensor.axes import Array, Axis, Whole
from buran.modeling.tensor.edge import cut_off, narrowed
from buran.modeling.tensor.published.als import complete
from buran.modeling.tensor.published.cells import Elements, TensorMode, fill_cells, make_mode
from buran.modeling.tensor.published.interpolate import predict_log_linear
from buran.modeling.tensor.published.positive import complete_positive
from buran.modeling.tensor.published.spline import Hinges, fit_hinges

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

_MOST_LOG = 690.0  # the exponential of more overflows


@dataclass(frozen=True)
class GridOptions:
    """What a user may set; see `CPRegressor`.

    Attributes
    ----------
    cells
        For each parameter; None where they are chosen.
    """

    cells: Sequence[int] | None
    rank: int | None
    ridge: float | None


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
        low = np.clip(np.searchsorted(mode.nodes, x, side="right") - 1, 0, mode.size - 2)
        share = (x - mode.nodes[low]) / (mode.nodes[low + 1] - mode.nodes[low])
        rows = factor[low] + share[:, None] * (factor[low + 1] - factor[low])
        beyond = (x <= mode.bounds[0]) | (x > mode.bounds[-1])
        on_node = (share == 0) | (share == 1)
        beyond &= ~on_node
        if beyond.any():
            log_u = np.clip(spline(mode.axis.position(x[beyond])), -_MOST_LOG, _MOST_LOG)
            rows[beyond] = np.exp(log_u)[:, None] * grown.scales[j]
        out *= rows
    return np.asarray(out.sum(axis=1))


def fit_published(
    points: Array,
    times: Array,
    axes: tuple[Axis, ...],
    free: tuple[int, ...],
    options: GridOptions,
    random: np.random.Generator,
) -> PublishedModel:
    """Fit as the paper does; cells, rank and ridge that are not given are chosen by a validation split of 20 %.

    Parameters
    ----------
    points
        Shape (point, parameter), encoded.
    """
    seed = int(random.integers(2**31))
    order = random.permutation(len(times))
    choice, residuals = _choose(points, times, axes, order, options, seed)
    modes = _modes(axes, choice.cells)
    elements = fill_cells(points, times, modes)
    factors = _complete(elements, modes, choice, seed)
    grown = None
    if free:
        counts = [(c,) * len(axes) for c in GROWTH_CELLS] if options.cells is None else [choice.cells]
        tried = list(product(counts, GROWTH_RANKS))
        grown = _choose_grown(points, times, axes, free, tried, choice.ridge, seed)
    quantiles = np.quantile(np.abs(residuals), np.linspace(0, 1, 101)) if len(residuals) else np.full(101, np.nan)
    return PublishedModel(tuple(modes), tuple(factors), grown, choice, quantiles)


def _modes(axes: Sequence[Axis], cells: Sequence[int]) -> list[TensorMode]:
    return [make_mode(axis, count) for axis, count in zip(axes, cells, strict=True)]


def _complete(elements: Elements, modes: Sequence[TensorMode], choice: Choice, seed: int) -> list[Array]:
    return complete(
        elements.index,
        np.log(elements.mean),
        [mode.size for mode in modes],
        choice.rank,
        choice.ridge,
        SWEEPS,
        np.random.default_rng(seed),
    )


def _choose(
    points: Array,
    times: Array,
    axes: tuple[Axis, ...],
    order: Whole,
    options: GridOptions,
    seed: int,
) -> tuple[Choice, Array]:
    cells, rank, ridge = options.cells, options.rank, options.ridge
    outside, inside = np.split(order, [len(order) // PARTS])
    many = [j for j, axis in enumerate(axes) if not axis.is_categorical and not len(axis.values)]
    grids = [tuple(cells)] if cells is not None else [(c,) * len(axes) for c in CELLS]
    if not many:
        grids = grids[:1]
    ranks = RANKS if rank is None else (rank,)
    tried: dict[Choice, tuple[float, Array]] = {}

    def error(choice: Choice) -> float:
        if choice not in tried:
            modes = _modes(axes, choice.cells)
            factors = _complete(fill_cells(points[inside], times[inside], modes), modes, choice, seed)
            found = np.log(np.maximum(predict_log_linear(points[outside], modes, factors), 1e-14))
            rest = found - np.log(times[outside])
            tried[choice] = float(np.abs(rest).mean()), rest
        return tried[choice][0]

    ridges = RIDGES if ridge is None else (ridge,)
    if not len(outside):
        return Choice(grids[0], ranks[0], ridges[-1]), np.zeros(0)
    best = min((Choice(grid, own, ridges[0]) for grid, own in product(grids, ranks)), key=error)
    if cells is None and len(many) > 1:
        for j in many:  # a parameter may need fewer nodes than the others
            half = tuple(c // 2 if i == j else c for i, c in enumerate(best.cells))
            best = min(best, replace(best, cells=half), key=error)
    best = min((replace(best, ridge=weight) for weight in ridges), key=error)
    return best, tried[best][1]


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

    def fit(rows: Whole, own: tuple[Axis, ...], cells: tuple[int, ...], rank: int) -> Grown:
        modes = _modes(own, cells)
        elements = fill_cells(points[rows], times[rows], modes)
        return _grow(points[rows], elements, modes, rank, ridge, np.random.default_rng(seed))

    best = configurations[0]
    inside, outside = cut_off(points, axes, free, 1)
    if len(configurations) > 1 and len(inside) > ENOUGH and len(outside):
        own = narrowed(points[inside], axes, free)
        errors = []
        for cells, rank in configurations:
            found = predict_grown(points[outside], fit(inside, own, cells, rank))
            errors.append(float(np.abs(np.log(np.maximum(found, 1e-14) / times[outside])).mean()))
        best = configurations[int(np.argmin(errors))]
    return fit(np.arange(len(times)), axes, *best)


def _grow(
    points: Array, elements: Elements, modes: Sequence[TensorMode], rank: int, ridge: float, random: np.random.Generator
) -> Grown:
    factors = complete_positive(elements.index, elements.mean, [mode.size for mode in modes], rank, ridge, random)
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
    return Grown(tuple(modes), tuple(factors), tuple(splines), tuple(scales))


def _middles(mode: TensorMode) -> Array:
    """Return the positions of the cells' mid-points, which the paper's elements stand for."""
    bounds = mode.axis.position(np.concatenate([mode.nodes[:1], mode.bounds, mode.nodes[-1:]]))
    return mode.axis.position(mode.nodes) if len(mode.axis.values) else (bounds[:-1] + bounds[1:]) / 2
