"""The default preset's CP part: logarithms of times as main effects and products of smooth functions.

``log t = centre + spread * (sum_j a_j(x_j) + sum_r prod_j u_jr(x_j))``; every a_j and u_jr is piecewise linear in
the logarithm of x_j or in x_j itself, or one value for each category. It is fitted to observations, not to means of
cells.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solveh_banded

from buran.modeling.tensor.axes import Array, Axis, Whole


@dataclass(frozen=True, eq=False)
class Basis:
    """Hat functions along a parameter.

    Attributes
    ----------
    axis
        The parameter.
    nodes
        Shape (node,): ascending positions; places for categories.
    """

    axis: Axis
    nodes: Array

    @property
    def size(self) -> int:
        """Number of nodes."""
        return len(self.nodes)

    def locate(self, x: Array) -> tuple[Whole, Array]:
        """Return the node on the left and the share of the one on the right; beyond the ends it leaves 0 to 1.

        Categories that were never measured are at node -1.
        """
        if self.axis.is_categorical or self.size == 1:
            return (x if self.axis.is_categorical else 0 * x).astype(np.int64), np.zeros(len(x))
        z = self.axis.position(x)
        low = np.clip(np.searchsorted(self.nodes, z, side="right") - 1, 0, self.size - 2)
        return low, (z - self.nodes[low]) / (self.nodes[low + 1] - self.nodes[low])


def make_basis(axis: Axis, nodes: int) -> Basis:
    """Return equidistant nodes, or all values where there are few."""
    if axis.is_categorical:
        return Basis(axis, np.arange(len(axis.categories), dtype=np.float64))
    if len(axis.values):
        return Basis(axis, axis.position(axis.values))
    bounds = axis.position(np.array([axis.low, axis.high]))
    return Basis(axis, np.linspace(bounds[0], bounds[1], nodes))


@dataclass(frozen=True, eq=False)
class Coordinates:
    """Points between the nodes of all parameters; both arrays have shape (parameter, point)."""

    low: Whole
    share: Array

    @classmethod
    def of(cls, points: Array, bases: Sequence[Basis]) -> Coordinates:
        """Place points, shape (point, parameter)."""
        both = [basis.locate(points[:, j]) for j, basis in enumerate(bases)]
        low, share = np.stack([b[0] for b in both]), np.stack([b[1] for b in both])
        # The rightmost value lies on the last node: said so, all weight is on one node.
        last = share == 1
        return cls(low + last, np.where(last, 0.0, share))

    def take(self, rows: Whole | slice) -> Coordinates:
        """Return some of the points."""
        return Coordinates(self.low[:, rows], self.share[:, rows])

    def rows(self, j: int, factor: Array) -> Array:
        """Return a factor's values, (node, ...), at each point, shape (point, ...); the mean for node -1."""
        low, share = self.low[j], self.share[j].astype(factor.dtype).reshape(-1, *(1,) * (factor.ndim - 1))
        if not share.any():  # all points lie on nodes
            return np.asarray(np.concatenate([factor, factor.mean(axis=0, keepdims=True)])[low])
        rise = np.concatenate([np.diff(factor, axis=0), np.zeros_like(factor[:1])])
        return np.asarray(factor[low] + rise[low] * share)


@dataclass(frozen=True)
class PartOptions:
    """How a CP part is fitted.

    Attributes
    ----------
    nodes
        Along each numerical parameter that has more than a few values.
    rank
        Products of functions.
    ridge, smooth
        Weights of the squares of values and of second differences, relative to the mean square of their regressors.
    sweeps
        Over all modes.
    """

    nodes: int = 12
    rank: int = 8
    ridge: float = 1e-2
    smooth: float = 1e-2
    sweeps: int = 24


@dataclass(eq=False)
class CPPart:
    """Main effects and factors; shapes (node,) and (node, rank) for each parameter."""

    main: list[Array]
    factors: list[Array] = field(default_factory=list)

    def predict(self, coordinates: Coordinates) -> Array:
        """Return shape (point,)."""
        out = self.additive(coordinates)
        if self.factors:
            rows = (coordinates.rows(j, factor) for j, factor in enumerate(self.factors))
            out += reduce(np.multiply, rows).sum(axis=1)
        return out

    def additive(self, coordinates: Coordinates) -> Array:
        """Return the sum of the main effects."""
        out = np.zeros(coordinates.low.shape[1])  # effects of a file are in single precision, their sum is not
        for j, main in enumerate(self.main):
            out += coordinates.rows(j, main)
        return out


def fit_part(
    coordinates: Coordinates,
    values: Array,
    bases: Sequence[Basis],
    options: PartOptions,
    random: np.random.Generator,
) -> CPPart:
    """Fit main effects and factors by alternating least squares, one mode at a time.

    Parameters
    ----------
    values
        Shape (point,): standardised logarithms of times.
    """
    modes = [_Mode(coordinates, j, basis) for j, basis in enumerate(bases)]
    factors = [
        (0.05 if j == 0 else 0.3) * random.standard_normal((basis.size, options.rank)) + (j > 0)
        for j, basis in enumerate(bases)
    ]
    part = CPPart([np.zeros(basis.size) for basis in bases], factors)
    for _ in range(options.sweeps):
        _sweep(coordinates, values, modes, part, options)
    return part


def between(main: CPPart, part: CPPart, share: float) -> CPPart:
    """Return ``(1 - share) * main + share * part``, of main effects alone and of a part on the same nodes."""
    mains = [(1 - share) * one + share * other for one, other in zip(main.main, part.main, strict=True)]
    factors = [share * factor if j == 0 else factor for j, factor in enumerate(part.factors)]
    # single precision: far below the error of any model, and half the file
    return CPPart([one.astype(np.float32) for one in mains], [factor.astype(np.float32) for factor in factors])


def _sweep(coordinates: Coordinates, values: Array, modes: Sequence[_Mode], part: CPPart, options: PartOptions) -> None:
    """Improve all modes once, in place."""
    # Products are in single precision, for speed: their rounding is far below the ridge.
    # prod_{i > j} u_i for each mode j, then prod_{i < j} u_i on the way
    after: list[NDArray[Any]] = [np.ones((len(values), options.rank), np.float32)]
    for j in range(len(modes) - 1, 0, -1):
        after.append(after[-1] * coordinates.rows(j, part.factors[j].astype(np.float32)))
    rest, before, constant = values - part.additive(coordinates), after[0].copy(), np.ones((len(values), 1), np.float32)
    for j, mode in enumerate(modes):
        rest += coordinates.rows(j, part.main[j])
        regressors = np.concatenate([constant, before * after.pop()], axis=1)
        solution = mode.solve(regressors, rest, options)
        part.main[j], part.factors[j] = solution[:, 0].copy(), solution[:, 1:].copy()
        before *= coordinates.rows(j, part.factors[j].astype(np.float32))
        rest -= coordinates.rows(j, part.main[j])
    # each column of all factors gets one root mean square
    sizes = np.maximum(np.stack([np.sqrt(np.mean(factor**2, axis=0)) for factor in part.factors]), 1e-12)
    mean = np.exp(np.log(sizes).mean(axis=0))
    part.factors = [factor * (mean / size) for factor, size in zip(part.factors, sizes, strict=True)]


class _Mode:
    """Least squares along one mode: a system of blocks, tridiagonal but for the smoothness."""

    def __init__(self, coordinates: Coordinates, j: int, basis: Basis) -> None:
        self.size = basis.size
        low = coordinates.low[j]
        self.order = np.argsort(low, kind="stable")
        self.start = np.searchsorted(low[self.order], np.arange(self.size + 1))
        self.share = coordinates.share[j][self.order][:, None]
        # of second differences; zero for categories, and for fewer than three nodes
        second = (not basis.axis.is_categorical) * np.diff(np.eye(self.size), 2, axis=0)
        self.penalty = [np.diagonal(second.T @ second, k)[:, None] for k in range(3)]

    def solve(self, regressors: Array, target: Array, options: PartOptions) -> Array:
        """Return shape (node, regressor)."""
        count, width = regressors.shape
        # regressors z = (1, products of the other factors' rows), in the order of this mode's nodes; z z^T in double
        # precision: rounded to single, it is not positive where a node has few observations
        rows = np.take(regressors, self.order, axis=0, mode="clip").astype(np.float64)
        right_hand = target[self.order]
        diagonal = np.zeros((self.size, width, width))
        below = np.zeros((self.size, width, width))  # block (i + 1, i)
        right = np.zeros((self.size, width))
        upper = rows * self.share
        lower = rows - upper
        # normal equations: of z z^T weighted by both hats of a point, blocks (i, i) and (i + 1, i)
        for i in range(self.size):
            part = slice(self.start[i], self.start[i + 1])
            a, b = lower[part], upper[part]
            diagonal[i] += a.T @ a
            right[i] += right_hand[part] @ a
            if b.any():  # not all on this node
                below[i] += b.T @ a
                diagonal[i + 1] += b.T @ b
                right[i + 1] += right_hand[part] @ b
        # ridge and smoothness, in units of the regressors' mean squares
        scale = np.maximum(np.einsum("nr,nr->r", rows, rows) / count, 1e-12)
        ridge = np.full(width, options.ridge)
        ridge[0] = np.sqrt(np.finfo(np.float64).eps)  # for nodes without observations
        on_diagonal = np.arange(width)
        diagonal /= count
        below /= count
        right /= count
        diagonal[:, on_diagonal, on_diagonal] += ridge / self.size * scale
        weight = options.smooth / self.size * ((self.size - 1) / 8) ** 3 * scale
        diagonal[:, on_diagonal, on_diagonal] += self.penalty[0] * weight
        below[:-1, on_diagonal, on_diagonal] += self.penalty[1] * weight
        return _solve_blocks(diagonal, below, self.penalty[2] * weight, right)


def _solve_blocks(diagonal: Array, below: Array, beyond: Array, right: Array) -> Array:
    """Solve a symmetric positive system of blocks (i, i), (i + 1, i) and diagonal blocks (i + 2, i)."""
    size, width = right.shape
    if not below.any() and not beyond.any():
        return np.asarray(np.linalg.solve(diagonal, right[..., None])[..., 0])
    # lower band of the block matrix, as LAPACK stores it: [i - j, j]
    band = np.zeros((2 * width + 1, size, width))
    row, column = np.tril_indices(width)
    band[row - column, :, column] = diagonal[:, row, column].T
    row, column = (index.ravel() for index in np.indices((width, width)))
    band[width + row - column, :, column] = below[:, row, column].T
    band[2 * width, : len(beyond)] = beyond
    solution = solveh_banded(band.reshape(2 * width + 1, size * width), right.ravel(), lower=True, check_finite=False)
    return np.asarray(solution.reshape(size, width))
