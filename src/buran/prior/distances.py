"""Models of reuse distances: from points that fit into a cache to the misses of any cache at any point.

The distances of a call path come in modes: those within a row, a plane, a whole array. Each grows with the parameters
at a pace of its own (G. Marin and J. Mellor-Crummey, "Cross-architecture performance predictions for scientific
applications using parameterized models", SIGMETRICS 2004). Here modes are what lies between two boundaries that grow,
too, and that hardly an access lies near, at no point. Of each mode the number of accesses and the mean distance are
functions of the parameters; how distances lie around their mean is the same at all points.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

import numpy as np
from numpy.typing import NDArray

from buran.model.fit import fit_models
from buran.model.model import Model, prediction_interval
from buran.model.search import SearchOptions
from buran.model.space import HypothesisSpace
from buran.model.terms import Array, predict
from buran.prior.tuning import DISTANCES
from buran.profile.reuse import LEAST_DISTANCE, LINE, NEVER

Ids = NDArray[np.int64]

_STEPS = 4  # bins to a doubling
_EDGES = NEVER  # of bins with a distance: 1 line, then four to each doubling
_SIZES = ("1/3", "1/2", "2/3", "1", "2", "3")
_DISTANCES = HypothesisSpace(tuple((Fraction(power), 0) for power in _SIZES))
"""Distances are sizes of data: rows, planes, whole arrays. What else there is in the full space only takes up noise."""
_COUNTS = HypothesisSpace((*_DISTANCES.pairs, (Fraction(0), 1), (Fraction(1), 1), (Fraction(3, 2), 0)))
"""Loops over them, and sorting; the product of matrices with n numbers makes n^(3/2) steps."""
_MIDDLES: Array = LEAST_DISTANCE[1:NEVER] * 2 ** (1 / (2 * _STEPS))
_OFFSETS: Array = np.arange(-_EDGES, _EDGES + 1) / (2 * _STEPS)
"""Logarithms to the base of 2 of distances over their mean, at which the share of accesses beyond is known."""


@dataclass(frozen=True, eq=False)
class DistanceModels:
    """How the reuse distances of call paths grow.

    Attributes
    ----------
    parameters
        Names, in the order of the points' columns.
    call_paths
        Full names.
    row
        Shape (mode,): the call path of each mode, in ascending order.
    accesses
        For each mode, how many there are.
    distance
        For each mode, their mean distance in lines; None for lines that were never touched before.
    beyond
        Shape (mode, offset): share of the accesses that are as far or farther.
    """

    parameters: tuple[str, ...]
    call_paths: tuple[str, ...]
    row: Ids
    accesses: tuple[Model | None, ...]
    distance: tuple[Model | None, ...]
    beyond: Array

    def misses(self, points: Array, cache_bytes: float) -> Array:
        """Return misses of a fully associative cache, shape (call path, point), at `points` (point, parameter)."""
        out = np.zeros((len(self.call_paths), len(points)))
        np.add.at(out, self.row, self.misses_of_modes(points, cache_bytes))
        return out

    def misses_of_modes(self, points: Array, cache_bytes: float) -> Array:
        """Return the misses of each mode, shape (mode, point)."""
        return _positive(self.accesses, points) * self._beyond(self.mean_distance(points), cache_bytes)

    def misses_interval(self, points: Array, cache_bytes: float, level: float = 0.9) -> tuple[Array, Array]:
        """Return the ends of intervals of `misses`, each of shape (call path, point).

        The ends of a mode's misses are those with as many accesses, as far away, as their intervals allow; distances
        of modes from their ends add up in quadrature.
        """
        middle = self.misses_of_modes(points, cache_bytes)
        share = [
            self._beyond(end / LINE / self.spread[:, None], cache_bytes) for end in self.far_interval(points, level)
        ]
        low, high = (
            np.nan_to_num(np.maximum(number, 0.0) * part, posinf=np.inf)
            for number, part in zip(prediction_interval(self.accesses, points, level, "mean"), share, strict=True)
        )
        out = self.misses(points, cache_bytes)
        below, above = np.zeros_like(out), np.zeros_like(out)
        np.add.at(below, self.row, np.maximum(middle - low, 0.0) ** 2)
        np.add.at(above, self.row, np.maximum(high - middle, 0.0) ** 2)
        return np.maximum(out - np.sqrt(below), 0.0), out + np.sqrt(above)

    def _beyond(self, distance: Array, cache_bytes: float) -> Array:
        """Return the share of each mode's accesses that miss, at mean distances of shape (mode, point)."""
        with np.errstate(divide="ignore"):
            offset = np.log2(cache_bytes / LINE) - np.log2(distance)
        rows = [np.interp(x, _OFFSETS, y) for x, y in zip(offset, self.beyond, strict=True)]
        return np.array(rows, dtype=np.float64).reshape(distance.shape)

    def working_sets(self, points: Array, cache_bytes: float) -> Array:
        """Return the largest working set of each call path, shape (call path, point); NaN where all is nearer.

        That is of its modes which a cache of that size lets miss at some of the points, without first touches.
        """
        misses = self.misses_of_modes(points, cache_bytes)
        share = misses.max(axis=1) > DISTANCES.leaving * _positive(self.accesses, points).max(axis=1)
        far = np.where(np.isfinite(self.mean_distance(points)) & share[:, None], self.far_bytes(points), -np.inf)
        out = np.full((len(self.call_paths), len(points)), -np.inf)
        np.maximum.at(out, self.row, far)
        return np.where(np.isfinite(out), out, np.nan)

    def leaving(self, line: Array, column: int, cache_bytes: float, level: float = 0.9) -> Array:
        """Return where each mode leaves a cache.

        Parameters
        ----------
        line
            Shape (point, parameter): points along one parameter, in ascending order.
        column
            That parameter.

        Returns
        -------
        NDArray
            Shape (3, mode): the parameter's value, and the ends of its interval. NaN where the mode is beyond the cache
            already at the first point, or within it at the last one. Ends beyond these points are theirs.
        """
        low, high = self.far_interval(line, level)
        x = np.log(line[:, column])
        out = np.array([[_crossing(x, row, cache_bytes) for row in far] for far in (self.far_bytes(line), high, low)])
        for end, beyond in ((1, line[0, column]), (2, line[-1, column])):
            out[end] = np.where(np.isnan(out[end]), beyond, out[end])
        return out

    def mean_distance(self, points: Array) -> Array:
        """Return the mean distance of each mode in lines, shape (mode, point); infinite for first touches."""
        distance = _positive(self.distance, points)
        return np.where(np.isnan(distance), np.inf, np.maximum(distance, np.finfo(float).tiny))

    def far_bytes(self, points: Array) -> Array:
        """Return the working set of each mode, shape (mode, point): a cache of so many bytes lets few of it miss.

        Few is `DistanceTuning.leaving` of its accesses.
        """
        return LINE * self.mean_distance(points) * self.spread[:, None]

    @property
    def spread(self) -> Array:
        """Shape (mode,): the working set over the mean distance."""
        rows = (np.interp(-DISTANCES.leaving, -beyond, _OFFSETS) for beyond in self.beyond)
        return np.exp2(np.fromiter(rows, dtype=np.float64))

    def far_interval(self, points: Array, level: float = 0.9) -> tuple[Array, Array]:
        """Return the ends of intervals of `far_bytes`, each of shape (mode, point)."""
        ends = prediction_interval(self.distance, points, level, "mean")
        scale = LINE * self.spread[:, None]
        low, high = (np.where(np.isnan(end), np.inf, np.maximum(end, 0.0)) for end in ends)
        return scale * low, scale * high


def _crossing(x: Array, sizes: Array, cache_bytes: float) -> float:
    """Return the value at which sizes pass that of a cache, between logarithms of values; NaN where they do not."""
    beyond = np.flatnonzero(sizes >= cache_bytes)
    if not len(beyond) or beyond[0] == 0 or not np.isfinite(sizes[beyond[0]]):
        return float("nan")
    i = int(beyond[0])
    with np.errstate(divide="ignore"):
        before, after = np.log(sizes[i - 1 : i + 1] / cache_bytes)
    part = before / (before - after) if np.isfinite(before) else 1.0
    return float(np.exp(x[i - 1] + part * (x[i] - x[i - 1])))


def _positive(models: Sequence[Model | None], points: Array) -> Array:
    return np.maximum(predict([None if model is None else model.function for model in models], points), 0.0)


def distance_models(
    points: Array, accesses: Array, parameters: Sequence[str], call_paths: Sequence[str]
) -> DistanceModels:
    """Find the modes of each call path, and how they grow.

    Parameters
    ----------
    points
        Shape (point, parameter), distinct rows, positive.
    accesses
        Shape (call path, point, bin), as `buran.profile.reuse` has the bins.
    """
    order = np.argsort(points.prod(axis=1), kind="stable")
    points, accesses = points[order], accesses[:, order]
    near = accesses[..., 1:NEVER]
    row, inside = _modes(np.log2(points), near)
    counts = inside.sum(axis=2)
    sums = inside @ _MIDDLES
    distance = np.divide(sums, counts, out=np.full(counts.shape, np.nan), where=counts > 0)
    inside = np.nan_to_num(inside)
    beyond = _shapes(inside, distance)
    first = np.flatnonzero(accesses[..., NEVER].any(axis=1))
    options = SearchOptions(nonnegative=True, part=True)
    numbers = np.concatenate([counts, accesses[first, :, NEVER]])
    number = fit_models(points, numbers, space=_COUNTS, options=options).models
    growth = fit_models(points, distance, space=_DISTANCES, options=options).models
    rows = np.concatenate([row, first])
    ascending = np.argsort(rows, kind="stable")
    distances = [*growth, *[None] * len(first)]
    beyond = np.concatenate([beyond, np.ones((len(first), len(_OFFSETS)))])
    return DistanceModels(
        tuple(parameters),
        tuple(call_paths),
        rows[ascending],
        tuple(number[i] for i in ascending),
        tuple(distances[i] for i in ascending),
        beyond[ascending],
    )


def _modes(places: Array, near: Array) -> tuple[Ids, Array]:
    """Cut the distances of each call path where boundaries cross few of them, again and again.

    Parameters
    ----------
    places
        Shape (point, parameter): logarithms.
    near
        Shape (call path, point, bin).

    Returns
    -------
    row, inside
        Of each mode the call path, shape (mode,), and its accesses, shape (mode, point, bin); NaN at points where it
        cannot be told from its neighbour.
    """
    total = near.sum(axis=2, keepdims=True)
    share = np.divide(near, total, out=np.zeros_like(near), where=total > 0)
    until = np.concatenate([np.zeros((*near.shape[:2], 1)), share.cumsum(axis=2)], axis=2)  # call path, point, edge
    paths = _boundaries(places)
    open_parts = [
        _Part(row, np.zeros(len(places), dtype=np.int64), np.full(len(places), near.shape[2]), total[row, :, 0] > 0)
        for row in np.flatnonzero(total.sum(axis=(1, 2)) > 0).tolist()
    ]
    parts: list[_Part] = []
    while open_parts:
        part = open_parts.pop()
        halves = _halves(part, until[part.row], paths)
        open_parts += halves
        parts += [] if halves else [part]
    parts.sort(key=lambda part: (part.row, part.lower[-1]))
    bins = np.arange(near.shape[2])
    inside = np.zeros((len(parts), *near.shape[1:]))
    for part, accesses in zip(parts, inside, strict=True):
        accesses[:] = near[part.row] * ((bins >= part.lower[:, None]) & (bins < part.upper[:, None]))
        accesses[~part.clear] = np.nan
    return np.array([part.row for part in parts], dtype=np.int64), inside


@dataclass(frozen=True, eq=False)
class _Part:
    """Some distances of a call path: between which edges of bins, and whether they are apart from others, by point."""

    row: int
    lower: Ids
    upper: Ids
    clear: NDArray[np.bool_]


def _boundaries(places: Array) -> Ids:
    """Return edges of bins that grow as powers of the parameters, shape (boundary, point)."""
    varying = np.ptp(places, axis=0) > 0
    powers = [DISTANCES.powers if vary else (0.0,) for vary in varying]
    growth = np.array([*product(*powers)]) @ (places - places[-1]).T * _STEPS
    ends = np.arange(1, _EDGES - 1)[None, :, None]
    return np.unique(
        np.clip(np.rint(ends + growth[:, None]), 0, _EDGES - 1).astype(np.int64).reshape(-1, len(places)), axis=0
    )


def _halves(part: _Part, until: Array, paths: Ids) -> list[_Part]:
    """Cut a part where least of it is crossed; none if that is much, or clear at few points.

    Parameters
    ----------
    until
        Shape (point, edge): share of the call path's accesses that are nearer.
    paths
        Boundaries to try, shape (boundary, point).
    """
    at = np.arange(len(until))
    place = np.clip(paths, part.lower, part.upper)
    before, after = place - DISTANCES.reach, place + DISTANCES.reach
    crossed = until[at, np.minimum(after, part.upper)] - until[at, np.maximum(before, part.lower)]
    middle = until[at, place]
    least = np.minimum(middle - until[at, part.lower], until[at, part.upper] - middle)
    large = part.clear & (least >= DISTANCES.least)
    share = np.minimum(np.divide(crossed, least, out=np.ones(paths.shape), where=large), 1.0)
    clear = share < DISTANCES.crossed
    score = np.where(clear.sum(axis=1) >= max(DISTANCES.fewest, part.clear.sum() / 2), share.mean(axis=1), np.inf)
    best = int(np.argmin(score))
    if not np.isfinite(score[best]):
        return []
    cut, apart = place[best], clear[best]
    return [_Part(part.row, part.lower, cut, apart), _Part(part.row, cut, part.upper, apart)]


def _shapes(inside: Array, distance: Array) -> Array:
    """Return shape (mode, offset): the share of accesses as far from the mean or farther, of all points together."""
    edges = np.log2(LEAST_DISTANCE[1 : NEVER + 1].clip(max=2.0 ** (_EDGES / _STEPS)))
    out = np.zeros((len(inside), len(_OFFSETS)))
    for accesses, means, shape in zip(inside, distance, out, strict=True):
        for counts, mean in zip(accesses, means, strict=True):
            if counts.any():
                beyond = np.append(counts[::-1].cumsum()[::-1], 0.0)
                shape += np.interp(_OFFSETS, edges - np.log2(mean), beyond)
        shape /= max(shape[0], np.finfo(float).tiny)
    return out
