"""Laws of growth that explain the reuse distances of a call path at all points at once.

A cell is a number of accesses at a distance, both of which follow laws, such as 7 n^3 accesses that are 0.5 n^3 lines
apart. Numbers are the best ones without negative values: those whose misses, of caches of any size at any point, are
nearest to what was sampled, relatively. So modes may overlap, and a wide one is many cells with one law. That parts of
a histogram are modelled by growth is from C. Ding and Y. Zhong, "Predicting whole-program locality through reuse
distance analysis", PLDI 2003; there they are fixed shares of the accesses.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import product

import numpy as np
from numpy.typing import NDArray

from buran.modeling.functions.terms import Array
from buran.modeling.numerics.least_squares import nonnegative, unit_columns
from buran.modeling.numerics.tuning import COMBINATIONS, FEW, FLOOR, NOISE
from buran.plugins.memory.reuse import LEAST_DISTANCE, NEVER
from buran.plugins.memory.tuning import RESOLVED

# Share of a second product of powers at the largest point: in a distance, and in accesses, without boundaries. Tuned:
# of 0.1 to 0.3 what places the cliffs of the stencil and the blocked product; an eighth is missing in HPCCG.
LESSER = (0.1, 0.25)
# Lines, from which on an access may miss a cache. Tuned: judgement.
FAR = 64.0
# Price of a power of growth, in root mean squares of the misfit: ties go to slow growth. Tuned: of 0 to 1 what
# predicts stencil and miniFE best.
SLOW = 0.3
# Of the accesses, which a cell must be able to explain at each point. Tuned: judgement.
SEEN = 2e-4
# Cells that compete for a call path. Tuned: a second of CPU time.
CANDIDATES = 3000
# Parts of the points that are left out in turn. Tuned: judgement.
FOLDS = 8

Ids = NDArray[np.int64]
Powers = tuple[Fraction, ...]

STEPS = 4  # bins to a doubling
_EDGES: Array = np.arange(NEVER, dtype=np.float64)  # of bins with a distance, from below
_SIZES = tuple(map(Fraction, ("1/3", "1/2", "2/3", "1", "2", "3")))
"""Distances are sizes of data: rows, planes, whole arrays; of a part of them where parameters divide them."""
_ROUNDS = tuple(map(Fraction, ("1/2", "1", "3/2", "2", "3", "4")))
"""Numbers of accesses are loops over them; the product of matrices with n numbers makes n^(3/2) steps."""


@dataclass(frozen=True)
class Law:
    """How a distance grows: as a product of powers, and maybe a share of a second one, as with a halo.

    Attributes
    ----------
    first, second
        Powers of each parameter.
    part
        Part of the distance at the reference, which grows with the second product.
    """

    first: Powers
    second: Powers
    part: float = 0.0

    def growth(self, ratio: Array) -> Array:
        """Return shape (point,): the distance over that at the reference; `ratio` are the parameters over theirs."""
        one, two = (
            np.prod(ratio ** np.array(powers, dtype=np.float64), axis=1) for powers in (self.first, self.second)
        )
        return np.asarray((1 - self.part) * one + self.part * two)


@dataclass(frozen=True)
class Count:
    """How a number of accesses grows: as a product of powers, and maybe the logarithm of a parameter.

    Or less than the product, as ``n^3 - n^2``: at boundaries there are fewer.

    Attributes
    ----------
    powers
        Powers of each parameter.
    log
        That parameter; -1 without.
    less
        Of the product at the reference, which is subtracted with a power less of the only parameter that grows.
    """

    powers: Powers
    log: int = -1
    less: float = 0.0

    @property
    def boundary(self) -> Powers:
        """Powers of what is subtracted."""
        return tuple(power - 1 if power > 0 else power for power in self.powers) if self.less else self.powers

    def growth(self, points: Array, reference: Array) -> Array:
        """Return shape (point,): the number over that at the reference."""
        ratio = points / reference
        whole, boundary = (
            np.prod(ratio ** np.array(powers, dtype=np.float64), axis=1) for powers in (self.powers, self.boundary)
        )
        out = (whole - self.less * boundary) / (1 - self.less)
        return np.asarray(out * self._logs(points) / self._logs(reference[None]))

    def _logs(self, points: Array) -> Array:
        return np.log2(1 + points[:, self.log]) if self.log >= 0 else np.ones(len(points))


def beyond_edge(positions: Array, spread: Array, edge: Array | Ids | float) -> Array:
    """Return the share of cells that is farther than the edge of a bin, all in bins."""
    return np.asarray(np.clip((positions + spread - edge) / spread, 0.0, 1.0))


@dataclass(frozen=True, eq=False)
class Cells:
    """Parts of the accesses of a call path.

    Attributes
    ----------
    law, position, spread, count
        Shape (cell,): number of the law; shortest distance at the reference in bins, infinite for first touches; over
        how many bins distances are spread; number of the law of how many they are.
    weight
        Shape (1 + part, cell): how many at the reference, from all points, and without each part of them.
    """

    law: Ids
    position: Array
    spread: Array
    count: Ids
    weight: Array

    def used(self) -> Cells:
        """Return the cells that have accesses."""
        at = np.flatnonzero((self.weight > 0).any(axis=0))
        return Cells(self.law[at], self.position[at], self.spread[at], self.count[at], self.weight[:, at])


def _signed(powers: Powers, parameters: int) -> Powers:
    """Return the powers of each parameter; of several, some divide, and of more than two, powers are whole numbers."""
    if parameters < 2:
        return powers
    out = (*powers, *(-power for power in _SIZES if power <= 1))
    return out if parameters == 2 else tuple(power for power in out if power.denominator == 1)


def laws_of(points: Array) -> tuple[Law, ...]:
    """Return the laws that compete, simple ones first."""
    varying = np.ptp(points, axis=0) > 0
    signed = _signed(_SIZES, int(varying.sum()))
    powers = [(Fraction(0), *signed) if vary else (Fraction(0),) for vary in varying]
    plain = sorted(product(*powers), key=lambda each: (sum(map(bool, each)), sum(map(abs, each))))
    out = [Law(each, each) for each in plain]
    for first in plain:
        grown = [column for column, power in enumerate(first) if power]
        if len(grown) == 1 and first[grown[0]] >= 1:
            power = first[grown[0]]
            for less in sorted({Fraction(0), power - 1}):
                second = tuple(less if column == grown[0] else one for column, one in enumerate(first))
                out += [Law(first, second, part) for part in LESSER]
    return tuple(out)


def counts_of(points: Array) -> tuple[Count, ...]:
    """Return the laws by which numbers of accesses may grow, simple ones first."""
    varying = np.ptp(points, axis=0) > 0
    signed = _signed(_ROUNDS, int(varying.sum()))
    powers = [(Fraction(0), *signed) if vary else (Fraction(0),) for vary in varying]
    plain = sorted(product(*powers), key=lambda each: (sum(map(bool, each)), sum(map(abs, each))))
    one = Fraction(1)
    above = points.min(axis=0) > 1  # a logarithm of 1 says that nothing is accessed
    logs = [
        Count(each, column) for each in plain for column, power in enumerate(each) if power == one and above[column]
    ]
    lesser = []
    for each in plain:
        grown = [column for column, power in enumerate(each) if power]
        if len(grown) == 1 and each[grown[0]] > one:
            # never below 0, nor far from it at the smallest point
            most = points[:, grown[0]].min() / points[:, grown[0]].max() / 2
            lesser += [Count(each, less=less) for less in LESSER if less <= most]
    return (*map(Count, plain), *lesser, *logs)


@dataclass(frozen=True, eq=False)
class Laws:
    """All cells that may explain the distances at some points.

    Attributes
    ----------
    points
        Shape (point, parameter).
    resolution
        Shape (point,): distances below, in lines, were not distinguished there.
    """

    points: Array
    resolution: Array

    @cached_property
    def reference(self) -> Array:
        """The largest point, shape (parameter,)."""
        return np.asarray(self.points[np.argmax(self.points.prod(axis=1))])

    @property
    def parts(self) -> int:
        """How many parts of the points are left out in turn: a point is in that of its number modulo them."""
        return min(FOLDS, len(self.points))

    @cached_property
    def laws(self) -> tuple[Law, ...]:
        """Laws that cells may follow."""
        return laws_of(self.points)

    @cached_property
    def counts(self) -> tuple[Count, ...]:
        """Models that counts of cells may have."""
        return counts_of(self.points)

    def positions(self, law: Ids, position: Array, points: Array) -> Array:
        """Return the distances of cells in bins, shape (cell, point)."""
        used, at = np.unique(law, return_inverse=True)
        ratio = points / self.reference
        growth = np.array([self.laws[number].growth(ratio) for number in used.tolist()]).reshape(-1, len(points))
        with np.errstate(divide="ignore"):
            return np.asarray(np.maximum(position[:, None] + STEPS * np.log2(growth)[at], 0.0))

    def numbers(self, count: Ids, points: Array) -> Array:
        """Return how many accesses cells have over those at the reference, shape (cell, point)."""
        used, at = np.unique(count, return_inverse=True)
        growth = [self.counts[number].growth(points, self.reference) for number in used.tolist()]
        return np.asarray(np.array(growth).reshape(-1, len(points))[at])

    @cached_property
    def _candidates(self) -> tuple[Ids, Array, Array, Array]:
        """Laws, positions at the reference, spreads, and positions at all points, shape (candidate, point).

        Besides those that fill a bin there are narrow ones, for distances that are all the same; of more than two
        parameters and for sums of powers there are none, which bounds memory.
        """
        law, half = np.divmod(np.arange(len(self.laws) * 2 * NEVER), 2 * NEVER)
        few = bool(np.count_nonzero(np.ptp(self.points, axis=0)) <= 2)
        plain = np.flatnonzero([few and each.first == each.second for each in self.laws])
        which, eighth = np.divmod(np.arange(len(plain) * 8 * NEVER), 8 * NEVER)
        law = np.concatenate([law, plain[which]])
        position = np.concatenate([half / 2, eighth / 8])
        spread = np.repeat([1.0, 1 / 8], [len(half), len(eighth)])
        return law, position, spread, self.positions(law, position, self.points)

    @cached_property
    def _spans(self) -> tuple[Ids, Ids]:
        """Bins around the position of each candidate in which its accesses may have been seen, (candidate, point)."""
        _, _, spread, positions = self._candidates
        unresolved = np.searchsorted(LEAST_DISTANCE[:NEVER], self.resolution, side="right")
        neighbours = np.where(spread < 1, 0.0, 1.0)[:, None]
        low = np.floor(positions - neighbours).astype(np.int64)
        high = np.ceil(positions + spread[:, None] + neighbours).astype(np.int64)
        low, high = np.where(low < unresolved, 0, low), np.where(low < unresolved, np.maximum(high, unresolved), high)
        return np.clip(low, 0, NEVER), np.clip(high, 0, NEVER)

    def steadied(self, near: Array) -> tuple[Array, float]:
        """Return accesses, shape (point, bin), scaled to numbers that follow laws, and by how much these are missed.

        Data may decide how often a loop runs. If near and far accesses have that in common, shares of them follow laws
        nevertheless. Nothing is changed where all numbers do, or where those of far accesses would do so less, or where
        lines were left out of the sample: then the numbers of near accesses are those of few lines.

        Returns
        -------
        near, misfit
            The latter is relative, the root mean square over the degrees of freedom; 0 where nothing is changed.
        """
        number, far = near.sum(axis=1), near[:, LEAST_DISTANCE[:NEVER] >= FAR].sum(axis=1)
        used = np.flatnonzero(far > 0)
        if not len(used) or self.resolution.any():
            return near, 0.0
        followed, misfit = self._followed(number[used], used)
        common = misfit > NOISE
        if not common or self._followed(far[used] * followed, used)[1] >= self._followed(far[used], used)[1]:
            return near, 0.0
        out = near.copy()
        out[used] *= followed[:, None]
        return out, misfit

    def _followed(self, number: Array, used: Ids) -> tuple[Array, float]:
        """Return the best law of a number of accesses over the number itself, and by how much they differ."""
        design = (self.numbers(self._needed(number, used), self.points[used]) / number).T
        weights = nonnegative(design, np.ones(len(used)))
        followed = np.asarray(design @ weights)
        degrees = max(len(used) - np.count_nonzero(weights), 1)
        return followed, float(np.sqrt(((followed - 1) ** 2).sum() / degrees))

    def limit(self, number: Array) -> Ids:
        """Return the laws that are not steeper than what the accesses of a call path need, of which `number` are made.

        Those of which no part can be steeper: whether memory is fresh or used again may differ from run to run, as an
        allocator decides, and few points of a part fit many a law.
        """
        used = np.flatnonzero(number > 0)
        return self._needed(number[used], used)

    def cells_of(self, near: Array, limit: Ids) -> Cells:
        """Return the cells of accesses to lines that were touched before.

        Parameters
        ----------
        near
            These accesses, shape (point, bin).
        limit
            Laws that numbers of them may follow.
        """
        number = near.sum(axis=1)
        used = np.flatnonzero(number > 0)
        if not len(used):
            return self._none
        near, number, points = near[used], number[used], self.points[used]
        law, position, spread, count = self._shortlist(near, used, limit)
        beyond = near[:, ::-1].cumsum(axis=1)[:, ::-1]
        top = int(np.flatnonzero(beyond.any(axis=0)).max()) + 2
        is_known = LEAST_DISTANCE[:NEVER] >= self.resolution[used, None]
        at, edge = np.nonzero(is_known & (top > _EDGES))
        largest = np.maximum((beyond * is_known).max(axis=1), 1.0)
        scale = 1 / (beyond + FLOOR * largest[:, None])[at, edge]
        share = np.where(
            edge > 0, beyond_edge(self.positions(law, position, points)[:, at], spread[:, None], edge), 1.0
        )
        design, values = (self.numbers(count, points)[:, at] * share * scale).T, beyond[at, edge] * scale
        # One more row makes slow growth win where nothing else decides, as it does below the resolution.
        degree = np.array([float(sum(map(abs, each.first))) for each in self.laws])[law]
        price = SLOW * degree * self.numbers(count, points)[:, -1] / near[-1].sum()
        design, values = np.vstack([design, price]), np.append(values, 0.0)
        return Cells(law, position, spread, count, self._weights(design, values, np.append(used[at], -1))).used()

    def first_touches(self, number: Array, limit: Ids) -> Cells:
        """Return cells at an infinite distance: at each point as many as `number` says, by laws within a limit."""
        used = np.flatnonzero(number > 0)
        if not len(used):
            return self._none
        count = self._no_steeper(limit, number[used], used)
        scale = 1 / (number[used] + FLOOR * number.max())
        design = (self.numbers(count, self.points[used]) * scale).T
        weight = self._weights(design, number[used] * scale, used)
        return Cells(np.zeros_like(count), np.full(len(count), np.inf), np.ones(len(count)), count, weight).used()

    @property
    def _none(self) -> Cells:
        none = np.zeros(0, dtype=np.int64)
        return Cells(none, np.zeros(0), np.zeros(0), none, np.zeros((1 + self.parts, 0)))

    def _weights(self, design: Array, values: Array, point: Ids) -> Array:
        """Return the best weights of all rows, and of those without each part of the points, shape (1 + part, column).

        Without a part, columns compete that take part in the whole, or nearly do so.
        """
        if not design.size:
            return np.zeros((1 + self.parts, design.shape[1]))
        whole = nonnegative(design, values)
        slope = unit_columns(design)[0].T @ (values - design @ whole)
        order = np.lexsort([-slope, whole <= 0])[: np.count_nonzero(whole) + COMBINATIONS]
        out = np.tile(whole, (1 + self.parts, 1))
        for part in np.unique(point[point >= 0] % self.parts).tolist():
            rows = (point < 0) | (point % self.parts != part)
            if rows.any():
                out[1 + part] = 0.0
                out[1 + part][order] = nonnegative(design[np.ix_(rows, order)], values[rows])
        return out

    def _shortlist(self, near: Array, used: Ids, limit: Ids) -> tuple[Ids, Array, Array, Ids]:
        """Return law, position, spread, count of the most important cells that accesses follow at all points."""
        law, position, spread, positions = self._candidates
        nearer = np.concatenate([np.zeros((len(near), 1)), near.cumsum(axis=1)], axis=1)
        low, high = (span[:, used] for span in self._spans)
        mass = nearer[np.arange(len(used)), high] - nearer[np.arange(len(used)), low]
        is_known = LEAST_DISTANCE[np.minimum(positions[:, used].astype(np.int64), NEVER - 1)] >= self.resolution[used]
        grows = (law == 0) | (is_known.sum(axis=1) >= min(FEW, len(used)))
        seen = np.flatnonzero(grows & ((mass / near.sum(axis=1)).min(axis=1) >= SEEN))
        allowed = self._no_steeper(limit, near.sum(axis=1), used)
        growth = self.numbers(allowed, self.points[used])
        growth /= growth[:, np.argmax(self.points[used].prod(axis=1)), None]
        # As many as the law allows at each point, (count, candidate).
        most = np.array([(mass[seen] / each).min(axis=1) for each in growth]) / near.sum(axis=1).max()
        keep = np.flatnonzero(most >= SEEN)
        if len(keep) > CANDIDATES:
            # The best of each distance in turn.
            at = position[seen[keep % len(seen)]]
            order = np.lexsort([-most.ravel()[keep], at])
            rank = np.arange(len(keep)) - np.searchsorted(at[order], at[order])
            keep = np.sort(keep[order[np.argsort(rank, kind="stable")[:CANDIDATES]]])
        count, candidate = np.divmod(keep, max(len(seen), 1))
        return law[seen[candidate]], position[seen[candidate]], spread[seen[candidate]], allowed[count]

    def _needed(self, number: Array, used: Ids) -> Ids:
        """Return the laws that are not steeper than what a number of accesses needs; usual ones if none explain it."""
        allowed = self._flattest(np.arange(len(self.counts)), number, used)
        return np.flatnonzero((self._steepness <= float(max(_SIZES))).all(axis=1)) if allowed is None else allowed

    def _no_steeper(self, limit: Ids, number: Array, used: Ids) -> Ids:
        """Return the laws, within a limit, that are not steeper than what a number of accesses needs."""
        allowed = self._flattest(limit, number, used)
        return limit if allowed is None else allowed

    @cached_property
    def _steepness(self) -> Array:
        """Shape (count, parameter)."""
        powers = np.array([each.powers for each in self.counts], dtype=np.float64)
        powers += 0.25 * np.array([[each.log == i for i in range(powers.shape[1])] for each in self.counts])
        return np.asarray(powers + 0.125 * (powers > 0) * np.array([[each.less > 0] for each in self.counts]))

    def _flattest(self, allowed: Ids, number: Array, used: Ids) -> Ids | None:
        """Return the laws that are as flat, along each parameter, as explains a number; None where none explain it.

        Few accesses, of which a part was looked at, scatter as such numbers do: no law has to follow that.
        """
        rate = np.maximum(self.resolution[used] / RESOLVED, 1.0)
        near = float(np.sqrt(NOISE**2 + np.mean(rate / number)))
        design = (self.numbers(np.arange(len(self.counts)), self.points[used]) / number).T

        def misfit(columns: Ids) -> float:
            rest = 1 - design[:, columns] @ nonnegative(design[:, columns], np.ones(len(used)))
            return float(np.sqrt(np.mean(rest**2)))

        if misfit(allowed) > near:
            return None
        for column in self._steepness.T:
            for most in np.unique(column):
                fewer = allowed[column[allowed] <= most]
                if len(fewer) and misfit(fewer) <= near:
                    allowed = fewer
                    break
        return allowed
