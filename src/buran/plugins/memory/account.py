"""Memory as an account of priors: what misses of each cache and page faults cost, in addition to what blocks cost.

The misses of a call path follow from models of its reuse distances, so they are functions of the parameters before any
time is seen. What a miss costs lies between bounds that a calibration of the machine has measured. Processors foresee
streams, which are lines that come after their neighbours: such a line takes what bandwidth lets it take, or less
where other work hides it, or more where a page begins. Scattered ones take what lines in random order take that do
not wait for each other, so that several are on their way at a time; or up to the latency, if they do wait. Which share
of a call path's accesses are streams, the samples tell. Nothing else is known beforehand: the cost is as often below
the middle as above it, and on either side its logarithm is uniform.

A page that the system hands over takes time in the kernel, none of which is in blocks. Page faults are counted, so
their number is a function of the parameters, too, and what one of them costs is in the calibration.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar

import numpy as np

from buran.campaign.expressions import ExpressionError
from buran.modeling.functions.derived import DerivedValue
from buran.modeling.functions.powers import PowerLog
from buran.modeling.functions.terms import Array, Factor, ModelFunction, Term, added, multiplied
from buran.modeling.numerics.least_squares import Mask
from buran.modeling.numerics.tuning import LARGER, MATTERS
from buran.modeling.pmnf.text import format_function, python_names
from buran.modeling.priors.prior import Column, Cost, Prior
from buran.plugins.memory.distances import DistanceModels
from buran.plugins.memory.outgrown import Outgrown
from buran.plugins.memory.tuning import COST_PARTS

Cost3 = tuple[float, float, float]
_TINY = float(np.finfo(float).tiny)


@dataclass(frozen=True)
class MissCost:
    """What a miss costs beyond a hit.

    Attributes
    ----------
    seconds
        The least, the middle and the most.
    growth
        Expression of the parameters: by what the ranks of a node multiply it.
    """

    seconds: Cost3
    growth: str = "1"


@dataclass(frozen=True)
class CacheCost:
    """A level of caches, and what a miss of it costs beyond a hit.

    Attributes
    ----------
    level
        From 1.
    bytes
        What a rank has of it.
    scattered, streamed
        Of a miss.
    crowding
        Expression of the parameters: by what the ranks of a node divide the cache.
    """

    level: int
    bytes: float
    scattered: MissCost
    streamed: MissCost
    crowding: str = "1"

    def of(self, streams: float) -> MissCost:
        """Return what a miss costs where such a share belongs to streams; NaN where that is not known."""
        if np.isnan(streams):
            return self.scattered
        parts = (streams, self.streamed), (1 - streams, self.scattered)
        least, middle, most = np.sum([share * np.array(cost.seconds) for share, cost in parts], axis=0).tolist()
        shares = [f"{share * cost.seconds[1] / middle!r} * ({cost.growth})" for share, cost in parts if middle]
        constant = self.streamed.growth == self.scattered.growth == "1"
        return MissCost((least, middle, most), "1" if constant or not shares else " + ".join(shares))


@dataclass(frozen=True, eq=False)
class MemoryAccount:
    """What the call paths of the times ask of the caches.

    Attributes
    ----------
    distances
        One call path for each of the times.
    caches
        Nearest first.
    at
        Points in addition to the measured ones at which misses matter, shape (point, parameter): the target.
    """

    distances: DistanceModels
    caches: Sequence[CacheCost]
    at: Array
    name: ClassVar[str] = "misses"
    remark: ClassVar[str] = ""

    def explains(self, points: Array, values: Array) -> Mask:
        """Return shape (call path,): none; accesses are of code whose blocks are counted."""
        return np.zeros(len(values), dtype=np.bool_)

    def added_to(
        self, priors: Sequence[Prior | None], computing: Sequence[bool], points: Array, values: Array
    ) -> list[Prior | None]:
        """Return priors with a column for each cache whose misses matter; see `Account.added_to`."""
        everywhere = np.concatenate([points, self.at])

        def columns(row: int) -> Iterator[tuple[Column, Cost3]]:
            modes = np.flatnonzero(self.distances.row == row).tolist()
            for cache in self.caches if modes else ():
                miss = cache.of(float(self.distances.streams[row]))
                function = self._misses(cache, miss.growth, modes, everywhere)
                yield Column(f"misses of level {cache.level}", function, level=cache.level), miss.seconds

        return _with_columns(priors, computing, columns, points, values, everywhere)

    def _misses(self, cache: CacheCost, growth: str, modes: Sequence[int], everywhere: Array) -> ModelFunction:
        """Return the misses of some modes, each as expensive as its cost has grown, without terms that hardly count."""
        parts = []
        for mode in modes:
            share = self._share(mode, cache)
            if share is not None:
                parts.append(multiplied(self.distances.number(mode), share))
        whole = added(parts)
        least = MATTERS * np.maximum(whole.evaluate(everywhere), _TINY)
        terms = zip(whole.coefficients, whole.terms, strict=True)
        kept = [(c, term) for c, term in terms if (np.abs(c * term.evaluate(everywhere)) > least).any()]
        function = ModelFunction(whole.constant, tuple(c for c, _ in kept), tuple(term for _, term in kept))
        cost = _factor(growth, self.distances.parameters)
        return function if cost is None else multiplied(function, cost)

    def _share(self, mode: int, cache: CacheCost) -> ModelFunction | None:
        """Return the share of a mode's accesses that miss, over its working set; None where it cannot be written."""
        names, size = self.distances.parameters, self.distances.working_set(mode)
        if not np.isfinite(size.constant):
            return ModelFunction(1.0)  # first touches
        # A tenth misses where the working set passes the cache, and nine tenths where the near ones do.
        width = self.distances.width(mode)
        basis = Outgrown(cache.bytes * width ** (-1 / 8), cache.bytes * width ** (9 / 8))
        if size.is_constant and cache.crowding == "1":
            return ModelFunction(float(basis.evaluate(np.array(size.constant))))
        text = f"({format_function(size, names, 'python')}) * ({cache.crowding})"
        variable = derived_or_none(format_function(size, names), text, names)
        if variable is None:
            return None
        return ModelFunction(0.0, (1.0,), (Term((Factor(variable.main, basis, variable),)),))


@dataclass(frozen=True, eq=False)
class PageAccount:
    """What the call paths of the times ask of the system's pages.

    Attributes
    ----------
    faults
        How many, one for each call path; None where counts do not tell.
    cost
        Of one.
    parameters
        Their names.
    at
        As in `MemoryAccount`.
    """

    faults: Sequence[ModelFunction | None]
    cost: MissCost
    parameters: tuple[str, ...]
    at: Array
    name: ClassVar[str] = "page faults"
    remark: ClassVar[str] = "its page faults are an account of their own"

    def explains(self, points: Array, values: Array) -> Mask:
        """Return shape (call path,): whether page faults may take half of the times, and more, at most points."""
        out = np.zeros(len(values), dtype=np.bool_)
        for row, faults in enumerate(self.faults):
            present = np.isfinite(values[row])
            if faults is not None and present.any():
                rest = values[row][present] - self.cost.seconds[-1] / LARGER * faults.evaluate(points[present])
                out[row] = np.median(rest) < 0
        return out

    def added_to(
        self, priors: Sequence[Prior | None], computing: Sequence[bool], points: Array, values: Array
    ) -> list[Prior | None]:
        """Return priors with a column for page faults where these matter; see `Account.added_to`."""
        growth = _factor(self.cost.growth, self.parameters)

        def columns(row: int) -> Iterator[tuple[Column, Cost3]]:
            faults = self.faults[row]
            if faults is not None:
                yield Column(self.name, faults if growth is None else multiplied(faults, growth)), self.cost.seconds

        return _with_columns(priors, computing, columns, points, values, np.concatenate([points, self.at]))


def _with_columns(
    priors: Sequence[Prior | None],
    computing: Sequence[bool],
    columns: Callable[[int], Iterable[tuple[Column, Cost3]]],
    points: Array,
    values: Array,
    everywhere: Array,
) -> list[Prior | None]:
    """Return priors of computation with those columns, and what a unit of them costs, that matter anywhere."""
    out = list(priors)
    for row, prior in enumerate(priors):
        if prior is None or not computing[row] or not np.isfinite(values[row]).any():
            continue
        whole = _expected(prior, points, values[row], everywhere)
        added_columns = []
        for column, seconds in columns(row):
            expected = expected_cost(seconds)
            share = np.maximum(column.function.evaluate(everywhere), 0.0) * seconds[-1] / np.maximum(whole, _TINY)
            if expected is not None and share.max(initial=0.0) > MATTERS:
                added_columns.append(replace(column, cost=expected[0], parts=expected[1]))
        out[row] = replace(prior, columns=(*prior.columns, *added_columns))
    return out


def _factor(text: str, names: tuple[str, ...]) -> ModelFunction | None:
    """Return the value of an expression as a function; None where it is 1."""
    if text == "1":
        return None
    variable = derived_or_none("ranks of a node", text, names)
    if variable is None:
        return None
    return ModelFunction(0.0, (1.0,), (Term((Factor(variable.main, PowerLog(Fraction(1)), variable),)),))


def _expected(prior: Prior, points: Array, values: Array, everywhere: Array) -> Array:
    """Return what effort alone lets expect at `everywhere`, by the median cost of a unit."""
    effort = np.array([column.effort for column in prior.columns])  # 0 for what is known of memory
    counted = prior.design(points) @ effort
    present = np.isfinite(values) & (counted > 0)
    cost = float(np.median(values[present] / counted[present])) if present.any() else 0.0
    return np.asarray(prior.design(everywhere) @ effort * cost)


def expected_cost(seconds: Cost3) -> tuple[Cost, tuple[Cost, ...]] | None:
    """Return what to expect of a cost between two bounds that is as often below the middle as above it.

    On either side its logarithm is uniform.

    Parameters
    ----------
    seconds
        The least, the middle and the most.

    Returns
    -------
    tuple
        Median and root mean square distance from it; and the same for `MemoryTuning.parts` parts of equal probability.
        None where there is no cost.
    """
    bounds = bounds_of(seconds)
    if bounds is None:
        return None
    nodes, weights = np.polynomial.legendre.leggauss(COST_PARTS)
    first = np.arange(COST_PARTS)[:, None] / COST_PARTS
    at = [first + (1 + nodes) / 2 / COST_PARTS, first + 0.5 / COST_PARTS, np.array(0.5)]
    costs, medians, median = (np.exp(np.interp(some, [0.0, 0.5, 1.0], np.log(bounds))) for some in at)
    within, between = (np.sqrt((costs - middle) ** 2 @ weights / 2) for middle in (medians, median))
    parts = tuple(zip(medians[:, 0].tolist(), within.tolist(), strict=True))
    return (float(median), float(np.sqrt((between**2).mean()))), parts


def bounds_of(seconds: Cost3) -> Cost3 | None:
    """Return least, middle and most of a cost, none of which is 0; None where there is no cost."""
    least, middle, most = seconds
    if not most > 0:
        return None
    middle = min(max(middle, MATTERS * most), most)
    return min(max(least, MATTERS * middle), middle), middle, most


def is_written(parameters: tuple[str, ...]) -> bool:
    """Whether expressions can name the parameters."""
    return tuple(python_names(parameters)) == parameters


def derived_or_none(name: str, text: str, parameters: Sequence[str]) -> DerivedValue | None:
    """Return `DerivedValue.of`; None where the text is no expression of parameters."""
    try:
        variable = DerivedValue.of(name, text, parameters)
    except ExpressionError:
        return None
    return variable if variable.parameters else None
