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
_SPACE = HypothesisSpace(
    tuple((Fraction(power), 0) for power in "1/3 1/2 2/3 1 3/2 2 3".split()) + ((Fraction(0), 1), (Fraction(1), 1))
)
"""Lines of arrays are counted, in loops over them: what else there is in the full space only takes up noise."""
_MIDDLES: Array = LEAST_DISTANCE[1:NEVER] * 2 ** (0.5 / _STEPS)
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
        accesses = _positive(self.accesses, points)
        offset = np.log2(cache_bytes / LINE) - np.log2(self.mean_distance(points))
        return accesses * np.array([np.interp(x, _OFFSETS, y) for x, y in zip(offset, self.beyond, strict=True)])

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
        return np.exp2(np.array([*rows]))

    def far_interval(self, points: Array, level: float = 0.9) -> tuple[Array, Array]:
        """Return the ends of intervals of `far_bytes`, each of shape (mode, point)."""
        low, high = prediction_interval(self.distance, points, level, "mean")
        scale = LINE * self.spread[:, None]
        return scale * np.maximum(low, 0.0), scale * high


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
    row, lower, upper = _modes(np.log2(points), near)
    inside = _inside(near[row], lower, upper)
    counts = inside.sum(axis=2)
    sums = inside @ _MIDDLES
    distance = np.divide(sums, counts, out=np.full(counts.shape, np.nan), where=counts > 0)
    beyond = _shapes(inside, distance)
    first = np.flatnonzero(accesses[..., NEVER].any(axis=1))
    options = SearchOptions(nonnegative=True, part=True)
    numbers = np.concatenate([counts, accesses[first, :, NEVER]])
    number = fit_models(points, numbers, space=_SPACE, options=options).models
    growth = fit_models(points, distance, space=_SPACE, options=options).models
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


def _modes(places: Array, near: Array) -> tuple[Ids, Ids, Ids]:
    """Cut the distances of each call path where boundaries cross few of them, again and again.

    Parameters
    ----------
    places
        Shape (point, parameter): logarithms.
    near
        Shape (call path, point, bin).

    Returns
    -------
    row, lower, upper
        Of each mode the call path, shape (mode,), and the edges of bins between which it is, shape (mode, point).
    """
    total = near.sum(axis=2, keepdims=True)
    share = np.divide(near, total, out=np.zeros_like(near), where=total > 0)
    until = np.concatenate([np.zeros((*near.shape[:2], 1)), share.cumsum(axis=2)], axis=2)  # call path, point, edge
    paths = _boundaries(places)
    row = np.flatnonzero(total.sum(axis=(1, 2)) > 0)
    lower = np.zeros((len(row), len(places)), dtype=np.int64)
    upper = np.full_like(lower, near.shape[2])
    done: list[tuple[Ids, Ids, Ids]] = []
    while len(row):
        cut, found = _cuts(until[row], lower, upper, paths)
        done.append((row[~found], lower[~found], upper[~found]))
        row = np.tile(row[found], 2)
        lower, upper = (
            np.concatenate([lower[found], cut[found]]),
            np.concatenate([cut[found], upper[found]]),
        )
    parts = [np.concatenate(part) for part in zip(*done, strict=True)] if done else [row, lower, upper]
    order = np.lexsort((parts[1].sum(axis=1), parts[0]))
    return parts[0][order], parts[1][order], parts[2][order]


def _boundaries(places: Array) -> Ids:
    """Return edges of bins that grow as powers of the parameters, shape (boundary, point)."""
    varying = np.ptp(places, axis=0) > 0
    powers = [DISTANCES.powers if vary else (0.0,) for vary in varying]
    growth = np.array([*product(*powers)]) @ (places - places[-1]).T * _STEPS
    ends = np.arange(1, _EDGES - 1)[None, :, None]
    return np.unique(np.clip(np.rint(ends + growth[:, None]), 0, _EDGES - 1).astype(np.int64).reshape(-1, len(places)), axis=0)


def _cuts(until: Array, lower: Ids, upper: Ids, paths: Ids) -> tuple[Ids, NDArray[np.bool_]]:
    """Return for each part the boundary that crosses least of it, shape (part, point), and whether that is little."""
    at = np.arange(len(lower[0])) if len(lower) else np.arange(0)
    last = until.shape[2] - 1
    reach = DISTANCES.reach
    cut, found = np.zeros_like(lower), np.zeros(len(lower), dtype=bool)
    for i, (held, low, high) in enumerate(zip(until, lower, upper, strict=True)):
        begin, end = held[at, low], held[at, high]
        place = np.clip(paths, low, high)
        below, above = (held[at, place] - begin).sum(axis=1), (end - held[at, place]).sum(axis=1)
        crossed = held[at, np.clip(place + reach, low, high)] - held[at, np.clip(place - reach, low, high)]
        least = np.minimum(below, above)
        share = np.divide(crossed.sum(axis=1), least, out=np.full(len(paths), np.inf), where=least > 0)
        share[least < DISTANCES.least * len(at)] = np.inf
        best = int(np.argmin(share))
        cut[i], found[i] = place[best], share[best] < DISTANCES.crossed
    return cut, found


def _inside(near: Array, lower: Ids, upper: Ids) -> Array:
    """Return the accesses of each mode, shape (mode, point, bin)."""
    bins = np.arange(near.shape[2])
    return near * ((bins >= lower[..., None]) & (bins < upper[..., None]))


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
