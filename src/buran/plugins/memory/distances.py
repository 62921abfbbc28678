"""Models of reuse distances: from points that fit into a cache to the misses of any cache at any point.

The distances of a call path come in modes: those within a row, a plane, a whole array. Each grows with the parameters
at a pace of its own (G. Marin and J. Mellor-Crummey, "Cross-architecture performance predictions for scientific
applications using parameterized models", SIGMETRICS 2004). What grows by one power law is a mode here; the
module `laws` finds which laws there are, and how many accesses follow each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from buran.modeling.functions.powers import PowerLog
from buran.modeling.functions.terms import Array, Factor, ModelFunction, Term
from buran.modeling.numerics.intervals import of_mean
from buran.modeling.numerics.tuning import NEARLY
from buran.plugins.memory.laws import STEPS, Laws, beyond_edge
from buran.plugins.memory.reuse import LINE, NEVER
from buran.plugins.memory.tuning import RESOLVED

# Times what the jackknife reaches: which laws take part is chosen once, from all points. Tuned: of 1, 1.5 and 2 what
# holds nine tenths of the study's programs.
WIDER = 1.5

Ids = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class DistanceModels:
    """How the reuse distances of call paths grow.

    Attributes
    ----------
    parameters
        Names, in the order of the points' columns.
    call_paths
        Full names.
    dictionary
        Of laws.
    owner, law, position, spread, count, weight
        Of all cells: the call path, and the rest as `buran.plugins.memory.laws.Cells` has it.
    mode
        Shape (cell,): which mode it belongs to, -1 where only a part of the points has it; a mode is what grows
        by one power law.
    row
        Shape (mode,): the call path of each mode.
    irregular
        Shape (call path,): how far its number of accesses is from any law, relative standard deviation; 0 where it
        follows one.
    streams
        Shape (call path,): share of its far accesses that come after a neighbour; NaN where that is not known.
    """

    parameters: tuple[str, ...]
    call_paths: tuple[str, ...]
    dictionary: Laws
    owner: Ids
    law: Ids
    position: Array
    spread: Array
    count: Ids
    weight: Array
    mode: Ids
    row: Ids
    irregular: Array
    streams: Array

    def misses(self, points: Array, cache_bytes: float) -> Array:
        """Return misses of a fully associative cache, shape (call path, point), at `points` (point, parameter)."""
        return np.asarray(self._misses(points, cache_bytes)[0])

    def misses_of_modes(self, points: Array, cache_bytes: float) -> Array:
        """Return the misses of each mode, shape (mode, point)."""
        out = np.zeros((len(self.row), len(points)))
        inside = self.mode >= 0
        np.add.at(out, self.mode[inside], (self.weight[0, :, None] * self._beyond(points, cache_bytes))[inside])
        return out

    def misses_interval(self, points: Array, cache_bytes: float, level: float = 0.9) -> tuple[Array, Array]:
        """Return the bounds of intervals of `misses`, each of shape (call path, point).

        How far they are off is what leaving out a part of the points changes (the jackknife), and by how much the
        number of accesses misses its law at the points.
        """
        misses = self._misses(points, cache_bytes)
        reach, scatter = _jackknife(misses[1:], level), self._scatter(points, level)
        below, above = (np.hypot(reach, misses[0] * np.abs(np.expm1(sign * scatter))) for sign in (-1, 1))
        return np.maximum(misses[0] - below, 0.0), misses[0] + above

    def _scatter(self, points: Array, level: float) -> Array:
        """Return how far logarithms of irregular numbers of accesses reach, shape (call path, point).

        As those of predictions by linear regression, of logarithms over logarithms of the parameters.
        """
        varying = np.ptp(self.dictionary.points, axis=0) > 0
        columns, at = (
            np.column_stack([np.ones(len(some)), np.log(some[:, varying])]) for some in (self.dictionary.points, points)
        )
        leverage = np.einsum("pk,kl,pl->p", at, np.linalg.pinv(columns.T @ columns), at)
        freedom = max(len(columns) - columns.shape[1], 1)
        return np.asarray(stats.t.ppf((1 + level) / 2, freedom) * self.irregular[:, None] * np.sqrt(1 + leverage))

    def working_sets(self, points: Array, cache_bytes: float) -> Array:
        """Return the largest working set of each call path, shape (call path, point); NaN where all is nearer.

        That is of its modes which a cache of that size lets miss at some of the points, without first touches.
        """
        misses, all_of = self.misses_of_modes(points, cache_bytes), self.misses_of_modes(points, 0.0)
        leaves = misses.max(axis=1) > (1 - NEARLY) * all_of.max(axis=1)
        leaves &= np.isfinite(self.far_bytes(points[:1]).ravel())
        out = np.full((len(self.call_paths), len(points)), -np.inf)
        np.maximum.at(out, self.row[leaves], self.far_bytes(points)[leaves])
        return np.where(np.isfinite(out), out, np.nan)

    def leaving(self, line: Array, column: int, cache_bytes: float | Array) -> Array:
        """Return where each mode leaves a cache.

        Parameters
        ----------
        line
            Shape (point, parameter): points along one parameter, in ascending order.
        column
            That parameter.
        cache_bytes
            Size of the cache, or of the part of it that a rank has at each point, shape (point,).

        Returns
        -------
        NDArray
            Shape (3, mode): the parameter's value, and the bounds of its interval. NaN where the mode is beyond the
            cache already at the first point, or within it at the last one. Ends beyond these points are theirs.
        """
        low, high = self.far_interval(line)
        x = np.log(line[:, column])
        bounds = (self.far_bytes(line), high, low)
        out = np.array([[_crossing(x, row) for row in far / cache_bytes] for far in bounds])
        for end, beyond in ((1, line[0, column]), (2, line[-1, column])):
            out[end] = np.where(np.isnan(out[end]), beyond, out[end])
        return out

    def far_bytes(self, points: Array) -> Array:
        """Return the working set of each mode, shape (mode, point): a cache of so many bytes lets few of it miss.

        Few is `DistanceTuning.leaving` of its accesses.
        """
        return np.array([self.working_set(mode).evaluate(points) for mode in range(len(self.row))]).reshape(
            len(self.row), len(points)
        )

    def working_set(self, mode: int) -> ModelFunction:
        """Return `far_bytes` of a mode as a formula: its mean distance, times what the far ones have of it."""
        return self._working_sets[mode]

    @cached_property
    def _working_sets(self) -> tuple[ModelFunction, ...]:
        order = np.argsort(self.mode, kind="stable")
        cells = np.split(order, np.searchsorted(self.mode[order], np.arange(len(self.row))))
        return tuple(map(self._far, cells[1:]))

    def _far(self, cells: Ids) -> ModelFunction:
        reference = self.dictionary.reference
        if np.isinf(self.position[cells]).any():
            return ModelFunction(np.inf)  # first touches
        middle = self.position[cells] - 1 + self.spread[cells] / 2  # the first bin has no distance
        lines = np.exp2(middle / STEPS)
        weight = self.weight[0, cells] / self.weight[0, cells].sum()
        order = np.argsort(lines)
        far = np.interp(NEARLY, weight[order].cumsum() - weight[order] / 2, lines[order])
        scale = LINE * far / (weight @ lines)
        coefficients: dict[tuple[Fraction, ...], float] = {}
        for number, part in zip(self.law[cells].tolist(), (scale * weight * lines).tolist(), strict=True):
            law = self.dictionary.laws[number]
            for powers, share in ((law.first, 1 - law.part), (law.second, law.part)):
                at = float(np.prod(reference ** np.array(powers, dtype=np.float64)))
                coefficients[powers] = coefficients.get(powers, 0.0) + part * share / at
        constant = sum(value for powers, value in coefficients.items() if not any(powers))
        terms = {
            Term(tuple(Factor(i, PowerLog(power)) for i, power in enumerate(powers) if power)): value
            for powers, value in coefficients.items()
            if any(powers) and value
        }
        ordered = sorted(terms, key=lambda term: term.growth_order, reverse=True)
        return ModelFunction(constant, tuple(terms[term] for term in ordered), tuple(ordered))

    def number(self, mode: int) -> ModelFunction:
        """Return how many accesses a mode has, as a formula."""
        reference = self.dictionary.reference
        cells = np.flatnonzero(self.mode == mode)
        terms: dict[Term | None, float] = {}
        for number, weight in zip(self.count[cells].tolist(), self.weight[0, cells].tolist(), strict=True):
            count = self.dictionary.counts[number]
            parts = [(count.powers, 1.0)] if not count.less else [(count.powers, 1.0), (count.boundary, -count.less)]
            for each, share in parts:
                powers = [(i, power, int(i == count.log)) for i, power in enumerate(each)]
                factors = tuple(Factor(i, PowerLog(power, log)) for i, power, log in powers if power or log)
                term = Term(factors) if factors else None
                at = 1.0 if term is None else float(term.evaluate(reference))
                terms[term] = terms.get(term, 0.0) + share / (1 - count.less) * weight / at
        constant = terms.pop(None, 0.0)
        growing = sorted((term for term in terms if term is not None), key=lambda term: term.growth_order, reverse=True)
        return ModelFunction(constant, tuple(terms[term] for term in growing), tuple(growing))

    def width(self, mode: int) -> float:
        """Return by what factor the distances of a mode differ: nine tenths of them lie beyond one, a tenth beyond."""
        cells = np.flatnonzero(self.mode == mode)
        middle = self.position + self.spread / 2
        order = cells[np.argsort(middle[cells])]
        weight = self.weight[0, order].cumsum() / self.weight[0, order].sum()
        near, far = np.interp([1 - NEARLY, NEARLY], weight, middle[order])
        return float(2 ** (max(far - near, 1.0) / STEPS))

    def far_interval(self, points: Array, level: float = 0.9) -> tuple[Array, Array]:
        """Return the bounds of intervals of `far_bytes`, each of shape (mode, point).

        Without a part of the points, the working set is as far as the same share of the call path's accesses.
        """
        far = self.far_bytes(points)
        edges = np.arange(NEVER, dtype=np.float64)
        beyond = np.array([self._misses(points, LINE * 2 ** ((edge - 1) / STEPS)) for edge in edges])
        beyond /= np.maximum(beyond[0], np.finfo(float).tiny)
        with np.errstate(divide="ignore"):
            position = 1 + STEPS * np.log2(far / LINE)
        without = np.zeros((self.weight.shape[0] - 1, *far.shape))
        for mode, row in enumerate(self.row.tolist()):
            for i in range(len(points)):
                share = np.interp(position[mode, i], edges, beyond[:, 0, row, i])
                for part in range(len(without)):
                    without[part, mode, i] = np.interp(-share, -beyond[:, 1 + part, row, i], edges)
        reach = np.exp2(_jackknife(without, level) / STEPS)
        return far / reach, far * reach

    def _beyond(self, points: Array, cache_bytes: float) -> Array:
        """Return what each cell has of accesses that miss, over all of it at the reference, shape (cell, point)."""
        edge = 1 + STEPS * np.log2(cache_bytes / LINE) if cache_bytes > 0 else -1.0
        positions = self.dictionary.positions(self.law, self.position, points)
        return beyond_edge(positions, self.spread[:, None], edge) * self.dictionary.numbers(self.count, points)

    def _misses(self, points: Array, cache_bytes: float) -> Array:
        """Return misses, shape (1 + part, call path, point)."""
        out = np.zeros((len(self.weight), len(self.call_paths), len(points)))
        beyond = self._beyond(points, cache_bytes)
        for part, weight in zip(out, self.weight, strict=True):
            np.add.at(part, self.owner, weight[:, None] * beyond)
        return out


def _jackknife(values: Array, level: float) -> Array:
    """Return how far an interval reaches, from values without one part of the points each, shape (part, ...)."""
    if len(values) < 2:
        return np.full(values.shape[1:], np.inf)
    reach = (len(values) - 1) * of_mean(np.moveaxis(values, 0, -1), level)[1]
    return np.asarray(WIDER * reach)


def _crossing(x: Array, filled: Array) -> float:
    """Return the value at which sizes over that of a cache pass 1, between logarithms of values; NaN where not."""
    beyond = np.flatnonzero(filled >= 1)
    if not len(beyond) or beyond[0] == 0 or not np.isfinite(filled[beyond[0]]):
        return float("nan")
    i = int(beyond[0])
    with np.errstate(divide="ignore"):
        before, after = np.log(filled[i - 1 : i + 1])
    part = before / (before - after) if np.isfinite(before) else 1.0
    return float(np.exp(x[i - 1] + part * (x[i] - x[i - 1])))


def distance_models(
    points: Array,
    accesses: Array,
    parameters: Sequence[str],
    call_paths: Sequence[str],
    rates: Array | None = None,
    streams: Array | None = None,
) -> DistanceModels:
    """Find the modes of each call path, and how they grow.

    Parameters
    ----------
    points
        Shape (point, parameter), distinct rows, positive.
    accesses
        Shape (call path, point, bin), as `buran.plugins.memory.reuse` has the bins.
    rates
        Shape (point,): one line in so many was looked at in the end; 1 by default.
    streams
        As `DistanceModels` has it; by default it is not known.
    """
    # small points first: laws are followed from one point to the next
    order = np.argsort(points.prod(axis=1), kind="stable")
    points, accesses = points[order], accesses[:, order]
    rate = np.ones(len(points)) if rates is None else rates[order]
    dictionary = Laws(points, np.where(rate > 1, RESOLVED * rate, 0.0))
    cells, irregular = [], np.zeros(len(accesses))
    for row in np.flatnonzero(accesses.any(axis=(1, 2))).tolist():
        near, irregular[row] = dictionary.steadied(accesses[row, :, :NEVER])
        first = accesses[row, :, NEVER]
        limit = dictionary.limit(near.sum(axis=1) + first)
        cells += [(row, dictionary.cells_of(near, limit)), (row, dictionary.first_touches(first, limit))]
    # all cells of all call paths, one after the other, with the row that each belongs to
    owner = np.repeat([row for row, _ in cells], [len(each.law) for _, each in cells]).astype(np.int64)
    kinds = {"law": np.int64, "position": np.float64, "spread": np.float64, "count": np.int64}
    law, position, spread, count = (
        np.concatenate([np.zeros(0, kind), *(getattr(each, name) for _, each in cells)]) for name, kind in kinds.items()
    )
    weight = np.concatenate([np.zeros((1 + dictionary.parts, 0)), *(each.weight for _, each in cells)], axis=1)
    # cells of one call path whose distances grow alike and lie close together are a mode
    inside = weight[0] > 0
    mode = np.full(len(owner), -1)
    mode[inside], row_of = _modes(dictionary, owner[inside], law[inside], position[inside])
    of_streams = np.full(len(accesses), np.nan) if streams is None else streams
    return DistanceModels(
        tuple(parameters),
        tuple(call_paths),
        dictionary,
        owner,
        law,
        position,
        spread,
        count,
        weight,
        mode,
        row_of,
        irregular,
        of_streams,
    )


def _modes(dictionary: Laws, owner: Ids, law: Ids, position: Array) -> tuple[Ids, Ids]:
    """Put cells of one call path whose distances grow alike and lie close together into one mode.

    Returns
    -------
    mode, row
        Of each cell its mode, shape (cell,), and of each mode the call path.
    """
    firsts = [each.first for each in dictionary.laws]
    number = {powers: i for i, powers in enumerate(dict.fromkeys(firsts))}
    alike = np.array([number[powers] for powers in firsts])[law]
    mode = np.zeros(len(owner), dtype=np.int64)
    order = np.lexsort([position, alike, owner])
    o, a, p = owner[order], alike[order], position[order]
    with np.errstate(invalid="ignore"):
        gap = np.nan_to_num(np.diff(p))
    begins = (o[1:] != o[:-1]) | (a[1:] != a[:-1]) | (gap > STEPS)
    mode[order] = np.concatenate([[0], begins.cumsum()])[: len(order)]
    row = np.zeros(int(mode.max(initial=-1)) + 1, dtype=np.int64)
    row[mode] = owner
    return mode, row
