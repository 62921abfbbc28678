"""Times on another machine: what was counted stays, what a block and a miss cost changes.

A call path takes there what its blocks take, and what the misses of that machine's caches cost:

    ratio of speed x (constant + cost of blocks x blocks) + cost of a miss there x misses there, of each cache

Misses there follow from the models of reuse distances, for caches of any size (G. Marin and J. Mellor-Crummey,
SIGMETRICS 2004). How far a program waits for its misses is its own: where a miss costs so much between a line that was
foreseen and one that is waited for here, it does so there. How much faster blocks are depends on the kind of code; the
kinds that both machines were timed with are a sample of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist

import numpy as np

from buran.modeling.functions.terms import Array
from buran.modeling.numerics.intervals import of_mixture
from buran.modeling.price.discrepancy import left_over_at
from buran.modeling.priors.prior import Column
from buran.modeling.priors.resilient import Resilient
from buran.plugins.memory.account import Cost3, MemoryAccount, bounds_of
from buran.plugins.memory.tuning import COST_PARTS

ONE_DEVIATION = NormalDist().cdf(1) - NormalDist().cdf(-1)
"""Level of an interval of one standard deviation to either side."""
_SURE = 1e6  # degrees of freedom of what is certain


@dataclass(frozen=True)
class Speed:
    """How long the same code takes there, over what it takes here.

    Attributes
    ----------
    kinds
        Ratios by kind of code.
    noise
        Standard deviation of a ratio's logarithm, as both machines were measured.
    memory
        The ratio of what waits for memory.
    """

    kinds: Mapping[str, float]
    noise: float
    memory: float

    @property
    def middle(self) -> float:
        """The mean over kinds of the logarithm, as a ratio."""
        return float(np.exp(np.mean(np.log(list(self.kinds.values())))))

    def at(self, probabilities: Array) -> Array:
        """Return quantiles for one more kind of code, shape (probability,): of the t distribution."""
        from scipy.special import stdtrit

        count = len(self.kinds)
        scatter = np.log(list(self.kinds.values())).std(ddof=1)
        scale = np.hypot(scatter * np.sqrt(1 + 1 / count), self.noise)
        return np.asarray(self.middle * np.exp(stdtrit(count - 1.0, probabilities) * scale))


@dataclass(frozen=True, eq=False)
class Elsewhere:
    """Seconds on another machine.

    Attributes
    ----------
    middle, deviation
        Shape (1 + scenario, 1 + ratio, call path, point): what is expected, and what costs of misses may be that no
        time tells; at the middle ratio of speed, and at some that it may have.
    error
        Standard deviation because numbers of misses are predicted, shape (call path, point).
    degrees
        Of freedom, shape (call path,).
    misses
        The expected part that misses have, shape (level, call path, point).
    """

    middle: Array
    deviation: Array
    error: Array
    degrees: Array
    misses: Array

    @property
    def predicted(self) -> Array:
        """Shape (call path, point)."""
        return np.asarray(self.middle[0, 0])

    def interval(self, level: float) -> tuple[Array, Array]:
        """Return the bounds of intervals of `predicted`, each of the same shape."""
        flat = (-1, *self.predicted.shape)
        middle, scale = self.middle[1:, 1:].reshape(flat), np.hypot(self.deviation[1:, 1:], self.error).reshape(flat)
        bounds = _mixture(middle, scale, np.tile(self.degrees, (len(middle), 1)), self._weights, level)
        return np.clip(bounds[0], 0.0, self.predicted), np.maximum(bounds[1], self.predicted)

    def program(self, level: float) -> tuple[Array, Array, Array]:
        """Return seconds of the program and the bounds of their interval, each of shape (point,).

        Ratios of speed and costs that no time tells are the same for all call paths; the rest is independent.
        """
        low, high = self._of_sums(self.middle[1:, 1:], np.hypot(self.deviation[1:, 1:], self.error), level)
        whole = self.predicted.sum(axis=0)
        return whole, np.clip(low, 0.0, whole), np.maximum(high, whole)

    def reach(self, level: float) -> dict[str, Array]:
        """Return what makes the program's interval wide, and half of the width by that alone, shape (point,)."""
        middle, deviation = self.middle, self.deviation
        alone = {
            "the models, as here": (middle[:1, :1], deviation[:1, :1]),
            "how fast cores are": (middle[:1, 1:], 0 * deviation[:1, 1:]),
            "what misses cost": (middle[1:, :1], 0 * deviation[1:, :1]),
            "how many misses there are": (middle[:1, :1], np.broadcast_to(self.error, middle[:1, :1].shape)),
        }
        bounds = {name: self._of_sums(*each, level) for name, each in alone.items()}
        return {name: np.asarray(high - low) / 2 for name, (low, high) in bounds.items()}

    def _of_sums(self, middle: Array, deviation: Array, level: float) -> tuple[Array, Array]:
        variance = (deviation**2).sum(axis=2)
        parts = deviation**4 / self.degrees[:, None]
        with np.errstate(divide="ignore", invalid="ignore"):  # Welch and Satterthwaite
            degrees = np.where(variance > 0, variance**2 / parts.sum(axis=2), _SURE).min(axis=-1)
        count = middle.shape[1]
        weights = np.full(len(middle) * count, 1 / (len(middle) * count))
        flat = (len(middle) * count, 1, -1)
        sums, scale = (each.reshape(flat) for each in (middle.sum(axis=2), np.sqrt(variance)))
        low, high = _mixture(sums, scale, degrees.reshape(flat[:2]), weights, level)
        return low[0], high[0]

    @cached_property
    def _weights(self) -> Array:
        count = self.middle[1:, 1:, 0, 0].size
        return np.full(count, 1 / count)


def _mixture(middle: Array, scale: Array, degrees: Array, weights: Array, level: float) -> tuple[Array, Array]:
    """Return bounds, shape (call path, point); arrays have the part of the mixture first."""
    middle, scale, degrees = (np.swapaxes(each, 0, 1) for each in (middle, scale, degrees))
    return of_mixture(middle, scale, degrees, np.tile(weights, (len(middle), 1)), level)


def carried(cost: float, home: Cost3, there: Cost3) -> float:
    """Return what a miss costs there that costs so much here: as far between the bounds, in seconds."""
    known, other = bounds_of(home), bounds_of(there)
    if known is None or other is None or not cost > 0:
        return 0.0
    ratio = np.log(other) - np.log(known)
    return float(cost * np.exp(np.interp(np.log(cost), np.log(known), ratio)))


class Drawing:
    """What is entered for each call path at some points, shape (point, parameter)."""

    def __init__(self, speed: Speed, there: MemoryAccount, points: Array, count: int) -> None:
        edges = np.linspace(0, 1, COST_PARTS**2 + 1)
        probabilities = (edges[1:] + edges[:-1]) / 2
        cores = speed.at(probabilities)
        self._cores = np.append(speed.middle, cores)
        between = np.append(0.5, probabilities)
        self._others = self._cores ** (1 - between) * speed.memory**between
        self._there, self._points = there, points
        self._position = {cache.level: position for position, cache in enumerate(there.caches)}
        lines = np.array([_misses(there, cache.bytes, points) for cache in there.caches])
        self._alone = np.array([cache.crowding == "1" for cache in there.caches], dtype=bool)
        self._exact, self._errors = np.moveaxis(
            lines.reshape(-1, 2, len(there.distances.call_paths), len(points)), 1, 0
        )
        shape = (1 + COST_PARTS, len(self._cores), count, len(points))
        self._middle, self._deviation = np.zeros(shape), np.zeros(shape)
        self._misses, self._miss_error = np.zeros((len(there.caches), *shape[2:])), np.zeros(shape[2:])
        self._degrees = np.full(count, _SURE)

    def keep(self, row: int, predicted: Array, deviation: Array) -> None:
        """Enter times that are as they are here, shape (point,) each."""
        self._middle[:, :, row], self._deviation[:, :, row] = predicted, deviation

    def scale(self, row: int, predicted: Array, deviation: Array) -> None:
        """Enter times here of what was not counted: cores make it faster, or memory, or something between."""
        ratio = self._others[:, None]
        self._middle[:, :, row], self._deviation[:, :, row] = ratio * predicted, ratio * deviation

    def compute(self, row: int, whole: Resilient, misses: Sequence[Column], home: Mapping[int, Cost3]) -> None:
        """Enter a call path of computation.

        Parameters
        ----------
        whole
            Its model here.
        misses
            Its misses of the caches there.
        home
            What a miss of each level costs here.
        """
        plain = [position for position, column in enumerate(whole.prior.columns) if not column.level]
        blocks = whole.prior.design(self._points)[:, plain]
        lines = np.array([np.maximum(column.function.evaluate(self._points), 0.0) for column in misses])
        lines = lines.reshape(len(misses), len(self._points))
        design = np.array([np.hstack([ratio * blocks, lines.T]) for ratio in self._cores.tolist()])
        streams = float(self._there.distances.streams[row])
        seconds = {cache.level: cache.of(streams).seconds for cache in self._there.caches}
        self._degrees[row] = min(costs.degrees for costs in whole.costs)
        left_over = left_over_at([whole.model.discrepancy], [whole.model.function], self._points)
        price, deviation = np.exp(left_over[0][0]), left_over[1][0]
        for scenario in range(len(self._middle)):
            costs = whole.costs[min(max(scenario - 1, 0), len(whole.costs) - 1)]
            coefficients = costs.coefficients if scenario else np.array(whole.coefficients)
            turn, new = self._costs(whole, coefficients, misses, (home, seconds), scenario)
            there = turn @ coefficients + new[0]
            covariance = turn @ costs.covariance @ turn.T + np.diag(new[1] ** 2)
            # work there at the price that it has here
            middle = price * (design @ there)
            variance = price**2 * np.einsum("rpi,ij,rpj->rp", design, covariance, design)
            share = np.hypot(costs.noise, deviation)
            self._middle[scenario, :, row] = np.maximum(middle, 0.0)
            self._deviation[scenario, :, row] = np.sqrt(np.maximum(variance, 0.0) + (share * middle) ** 2)
            if not scenario:
                caches = [self._position[column.level] for column in misses]
                cost = price * there[len(plain) :, None]  # of a miss, at this point
                self._misses[caches, row] = cost * lines
                written = lines - self._exact[caches, row]  # misses as a formula are a little off
                errors = np.hypot(self._errors[caches, row], np.where(self._alone[caches, None], written, 0.0))
                self._miss_error[row] = np.sqrt(((cost * errors) ** 2).sum(axis=0))

    def _costs(
        self,
        whole: Resilient,
        coefficients: Array,
        misses: Sequence[Column],
        seconds: tuple[Mapping[int, Cost3], Mapping[int, Cost3]],
        scenario: int,
    ) -> tuple[Array, Array]:
        """Return how costs there follow from coefficients here, and mean and deviation of those that do not.

        Shapes (cost there, column here) and (2, cost there). `seconds` are what a miss costs here, and there.
        """
        home, there = seconds
        columns = whole.prior.columns
        plain = [position for position, column in enumerate(columns) if not column.level]
        known = {column.level: position for position, column in enumerate(columns) if column.level}
        turn = np.eye(len(columns))[[*plain, *[0] * len(misses)]]
        new = np.zeros((2, len(turn)))
        for number, column in enumerate(misses, start=len(plain)):
            turn[number] = 0.0
            level = min(column.level, max(home, default=0))  # what is beyond the last cache is memory
            position = known.get(level)
            if position is None:
                assert column.cost is not None
                new[:, number] = column.parts[scenario - 1] if scenario else column.cost
            elif (cost := float(coefficients[position])) > 0:
                turn[number, position] = carried(cost, home[level], there[column.level]) / cost
        return turn, new

    @property
    def done(self) -> Elsewhere:
        """What was entered."""
        return Elsewhere(self._middle, self._deviation, self._miss_error, self._degrees, self._misses)


def _misses(there: MemoryAccount, size: float, points: Array) -> tuple[Array, Array]:
    """Return misses and their standard deviations, shape (call path, point); 0 where nothing tells these."""
    low, high = there.distances.misses_interval(points, size, ONE_DEVIATION)
    return there.distances.misses(points, size), np.where(np.isfinite(high), (high - low) / 2, 0.0)
