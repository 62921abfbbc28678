"""Model discrepancy: a Gaussian process on the logarithm of what a model leaves over.

A measured value is a model, times the exponential of a smooth process, times noise. Where the model is counted work
times a constant cost, the process is the price of a unit of work, which drifts with caches and problem sizes. The
decomposition is that of M. C. Kennedy and A. O'Hagan, "Predicting the output from a complex computer code when fast
approximations are available", Biometrika 87 (2000): a cheap code plus a Gaussian discrepancy.

| quantity | function |
|---|---|
| covariance of the process: Matern 3/2 plus a linear trend, over logarithms of parameters | `Process.covariance` |
| what differs from point to point, however near (microscale variation), where steps repeat it | `Process.rough` |
| mean and variance at a target, the constant mean being unknown (ordinary kriging) | `Process.at` |
| hyperparameters by the evidence of all call paths together | `discrepancies` |
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import Any

import numpy as np

from buran.files import JsonObject
from buran.modeling.functions.terms import Array, ModelFunction, predict
from buran.modeling.numerics.gaussian_process import matern
from buran.modeling.numerics.least_squares import Ids
from buran.modeling.numerics.tuning import COMBINATIONS, DEVIATIONS, FLOOR, NOISE, REACH, WORTH

# Of a value: the evidence chooses; the first one repetitions do not show. Tuned: judgement.
NOISES = (0.01, 0.03, 0.1, 0.3, 1.0)
# Of the deviation, for each nat of a parameter: a trend. Tuned: ablation on drifting prices, seeds 1 to 3
# (docs/evidence/price.md).
SLOPE = 0.5
# Of the measured range of a parameter's logarithm: length scale. Tuned: ablation on drifting prices, seeds 1 to 3
# (docs/evidence/price.md).
LENGTH_SCALE = 0.7


class Along(IntEnum):
    """How a process depends on a parameter."""

    NOTHING = 0
    LEVEL = 1  # without a trend: far from the points it has their mean again
    TREND = 2


_TINY = float(np.finfo(np.float64).tiny)
_SAME = 1e-9  # nats


@dataclass(frozen=True, eq=False)
class Process:
    """A Gaussian process with fixed hyperparameters and the points it is conditioned on; call paths share it.

    Attributes
    ----------
    points
        Shape (point, parameter).
    lengths
        Length scales, shape (parameter,), in nats of the parameters; infinite along one that the process does not
        depend on.
    slopes
        Standard deviation of its trend for each nat of a parameter, as a share of `deviation`, shape (parameter,).
    deviation
        Standard deviation of the process, in nats of the values.
    noise
        Standard deviation of a value around it, likewise.
    rough
        Standard deviation of what points have in addition, each its own, likewise: powers of two, say. Points that
        differ only along parameters that the process does not depend on have the same.
    """

    points: Array
    lengths: Array
    slopes: Array
    deviation: float
    noise: float
    rough: float = 0.0

    @cached_property
    def _inputs(self) -> Array:
        return logarithms(self.points, self.points)

    @cached_property
    def _solved(self) -> tuple[Array, Array]:
        """Return C^-1 and C^-1 1, with C the covariance of the values."""
        covariance = self.covariance(self._inputs, self._inputs)
        covariance[np.diag_indices(len(covariance))] += self.noise**2
        inverse = np.asarray(np.linalg.pinv(covariance, hermitian=True), dtype=np.float64)
        return inverse, np.asarray(inverse.sum(axis=1))

    def covariance(self, one: Array, other: Array) -> Array:
        """Return k(x, x') = sd^2 (Matern(x, x') + slopes^2 x . x') + rough^2 [x = x'], of logarithms of points.

        Shape (one, other).
        """
        smooth = self.deviation**2 * (matern(one, other, self.lengths) + (self.slopes**2 * one) @ other.T)
        if self.rough == 0:
            return np.asarray(smooth)
        own = np.isfinite(self.lengths)
        same = np.isclose(one[:, None, own], other[None, :, own], rtol=0, atol=_SAME).all(axis=2)
        return np.asarray(smooth + self.rough**2 * same)

    def at(self, at: Array) -> tuple[Array, Array]:
        """Return weights W, shape (target, point), and the standard deviation at targets (target, parameter).

        The process at the targets is W y, with y its values at the points.
        """
        inverse, ones = self._solved
        targets = logarithms(at, self.points)
        across = self.covariance(targets, self._inputs)
        # simple kriging k C^-1, and what the constant mean, which is unknown, has in it: 1 - k C^-1 1
        simple, mean = across @ inverse, 1 - across @ ones
        # W = k C^-1 + (1 - k C^-1 1) (1 C^-1) / (1 C^-1 1): rows add up to 1
        weights = simple + np.outer(mean / ones.sum(), ones)
        own = self.deviation**2 * (1 + ((self.slopes * targets) ** 2).sum(axis=1)) + self.rough**2
        variance = own - (simple * across).sum(axis=1) + mean**2 / ones.sum()
        return np.asarray(weights), np.sqrt(np.maximum(variance, 0.0))

    def to_json(self) -> dict[str, Any]:
        """Return plain lists and numbers."""
        return {
            "points": self.points.tolist(),
            "lengths": [length if np.isfinite(length) else None for length in self.lengths.tolist()],
            "slopes": self.slopes.tolist(),
            "deviation": self.deviation,
            "noise": self.noise,
            "rough": self.rough,
        }

    @classmethod
    def from_json(cls, data: JsonObject) -> Process:
        """Read what `to_json` gives; KeyError, TypeError or ValueError where it is damaged."""
        points = np.array(data["points"], dtype=np.float64)
        lengths = np.array([np.inf if length is None else length for length in data["lengths"]], dtype=np.float64)
        usual = np.where(np.isfinite(lengths), SLOPE, 0.0)  # as all had it before files named it
        slopes = np.array(data.get("slopes", usual), dtype=np.float64)
        if points.ndim != 2 or not lengths.shape == slopes.shape == points.shape[1:]:
            raise ValueError("points, lengths and slopes of a discrepancy do not match")
        rough = float(data.get("rough", 0.0))
        return cls(points, lengths, slopes, float(data["deviation"]), float(data["noise"]), rough)


@dataclass(frozen=True, eq=False)
class Discrepancy:
    """What the models of one call path leave over, as the process that goes through it.

    Attributes
    ----------
    process
        See there.
    logs
        Shape (point,): logarithms of the values at the points of the process.
    """

    process: Process
    logs: Array

    @classmethod
    def of(cls, process: Process, left: Array, modelled: Array) -> Discrepancy:
        """Return that of a model which says `modelled` at the points and leaves over `left`, in nats."""
        return cls(process, left - ratios(np.zeros(len(left)), modelled))


def logarithms(points: Array, measured: Array) -> Array:
    """Return logarithms of points (point, parameter), 0 at the middle of those measured.

    A parameter that has been measured at 0 is counted from -1, so that its logarithm exists.
    """
    shift = (measured.min(axis=0) <= 0).astype(np.float64)
    middle = np.log(measured + shift).mean(axis=0)
    return np.asarray(np.log(np.maximum(points + shift, _TINY)) - middle)


def ratios(logs: Array, modelled: Array) -> Array:
    """Return ln(value / model), shape (..., point), of logarithms of values and of what a model says there.

    What a model says below a small share of its largest value counts as that share: a ratio to 0 says nothing.
    """
    largest = np.max(modelled, axis=-1, keepdims=True)
    floor = np.maximum(FLOOR * np.where(largest > 0, largest, 1.0), _TINY)
    return np.where(largest > 0, logs - np.log(np.maximum(modelled, floor)), 0.0)


def discrepancies(
    points: Array,
    values: Array,
    modelled: Array,
    noise: Array,
    degrees: Ids | Array,
    deviations: Sequence[float] = DEVIATIONS,
    along: Ids | None = None,
) -> list[Discrepancy | None]:
    """Condition a process on what models leave over, for each call path.

    Parameters
    ----------
    points
        Shape (point, parameter).
    values, modelled
        Measured, NaN where nothing was, and what the model says: shape (call path, point).
    noise, degrees
        Shape (call path,): relative standard deviation of a value as repetitions show it, and the degrees of freedom
        behind it; 0 where nothing was measured twice.
    deviations
        Standard deviations of the process that the evidence chooses from.
    along
        Shape (call path, parameter): see `Along`; a trend by default.

    Returns
    -------
    list
        None for call paths without a value above 0.
    """
    out: list[Discrepancy | None] = [None] * len(values)
    # log(t): what lies below the floor of a call path is nothing that a ratio could be taken of
    largest = np.nanmax(np.where(np.isfinite(values), values, 0.0), axis=1, keepdims=True, initial=0.0)
    usable = np.isfinite(values) & (largest > 0)
    floor = np.maximum(FLOOR * largest, _TINY)
    logs = np.log(np.where(usable, np.maximum(np.nan_to_num(values), floor), 1.0))
    if along is None:
        along = np.full((len(values), points.shape[1]), Along.TREND)
    # call paths with the same points and length scales share their covariance
    layouts, group = np.unique(np.hstack([usable, along]), axis=0, return_inverse=True)
    parts = []
    for number, layout in enumerate(layouts):
        rows = np.flatnonzero(group.reshape(-1) == number)
        mask, scales = layout[: len(points)].astype(bool), scales_of(points, layout[len(points) :])
        if mask.any():
            # r = log(t) - log(t_model)
            left = ratios(logs[rows][:, mask], modelled[rows][:, mask])
            parts.append(
                _Part.of(rows, points[mask], left, logs[rows][:, mask] - left, scales, noise[rows], degrees[rows])
            )
    if not parts:
        return out
    # log p(r | sigma, tau) of each pair of hyperparameters, and what all call paths say of them
    pairs = np.array([(deviation, tau) for deviation in deviations for tau in NOISES])
    evidence = [part.evidence(pairs) for part in parts]
    pooled = _pooled(np.concatenate(evidence), pairs)
    # the pair of largest evidence conditions the process
    for part, each in zip(parts, evidence, strict=True):
        processes = part.processes(pairs[np.argmax(each + pooled, axis=1)])
        for row, process, left, modelled_log in zip(part.rows, processes, part.left, part.modelled_logs, strict=True):
            out[row] = Discrepancy(process, left + modelled_log)
    return out


@dataclass(frozen=True, eq=False)
class _Part:
    """Call paths whose processes have the same points and length scales.

    Attributes
    ----------
    rows
        Indices of the call paths.
    points
        Shape (point, parameter).
    left, modelled_logs
        What models leave over, in nats, and logarithms of the models: shape (call path, point).
    scales
        Length scales and slopes.
    noise, degrees
        Shape (call path,): of runs at one point, and the degrees of freedom behind it.
    repeats
        Whether the process does not depend on some parameter.
    """

    rows: Ids
    points: Array
    left: Array
    modelled_logs: Array
    scales: tuple[Array, Array]
    noise: Array
    degrees: Array
    repeats: bool

    @classmethod
    def of(
        cls,
        rows: Ids,
        points: Array,
        left: Array,
        modelled_logs: Array,
        scales: tuple[Array, Array],
        noise: Array,
        degrees: Ids | Array,
    ) -> _Part:
        """Average what is left over at points that the process has in common, and over neighbours if there are many."""
        own, repeats = points[:, np.isfinite(scales[0])], not np.isfinite(scales[0]).all()
        kept, degrees = np.arange(len(points)), np.asarray(degrees, dtype=np.float64)
        if repeats:
            rest = own if own.shape[1] else np.zeros((len(points), 1))
            _, kept, group = np.unique(rest, axis=0, return_index=True, return_inverse=True)
            group = group.reshape(-1)
            means = _means(left, group, len(kept))
            # s^2 = (d s^2 + sum_x (r_x - r)^2) / (d + d'): other numbers of steps repeat a point, too
            further = float(len(points) - len(kept))
            squares = degrees * np.where(degrees > 0, noise, 0.0) ** 2 + ((left - means[:, group]) ** 2).sum(axis=1)
            degrees = degrees + further
            noise, left = np.sqrt(squares / np.maximum(degrees, 1)), means
        thinned, left = _thinned(points[kept], left, scales[0])
        kept = kept[thinned]
        return cls(rows, points[kept], left, modelled_logs[:, kept], scales, noise, degrees, repeats)

    def evidence(self, pairs: Array) -> Array:
        """Return the logarithm of the evidence for pairs of deviation and noise (pair, 2), shape (call path, pair).

        Where steps repeat a point, the second is of points, of which repetitions tell nothing.
        """
        degrees = np.zeros(len(self.rows)) if self.repeats else self.degrees
        return _evidence(self.points, self.left, self.noise, degrees, self.scales, pairs)

    def processes(self, chosen: Array) -> list[Process]:
        """Return a process for each call path, given its deviation and noise (call path, 2); equal ones are shared."""
        noise = chosen[:, 1]
        if self.repeats:
            # what repetitions do not show is the point's own: rough^2 = tau^2 - s^2
            variance = (self.degrees * self.noise**2 + WORTH * NOISE**2) / (self.degrees + WORTH)
            nearest = np.abs(np.log(variance)[:, None] / 2 - np.log(NOISES)).argmin(axis=1)
            noise = np.array(NOISES)[nearest]
        rough = np.sqrt(np.maximum(chosen[:, 1] ** 2 - noise**2, 0.0))
        keys = list(zip(chosen[:, 0].tolist(), noise.tolist(), rough.tolist(), strict=True))
        made = {key: Process(self.points, *self.scales, *key) for key in dict.fromkeys(keys)}
        return [made[key] for key in keys]


def scales_of(points: Array, along: Ids | Along) -> tuple[Array, Array]:
    """Return length scales in nats and slopes of the trend, each of shape (parameter,).

    A length is a share of the measured range, of a usual one at least.
    """
    lengths = LENGTH_SCALE * np.maximum(np.ptp(logarithms(points, points), axis=0), np.log(REACH))
    of_trend = np.where(along == Along.TREND, SLOPE, np.zeros(len(lengths)))
    return np.asarray(np.where(along == Along.NOTHING, np.inf, lengths)), np.asarray(of_trend)


def _evidence(
    points: Array, left: Array, noise: Array, degrees: Ids | Array, scales: tuple[Array, Array], pairs: Array
) -> Array:
    """Return the logarithm of the evidence for pairs of deviation and noise (pair, 2), shape (call path, pair).

    The constant mean of the process is integrated out: only contrasts of values count.
    """
    inputs = logarithms(points, points)
    shape = Process(points, *scales, 1.0, 0.0).covariance(inputs, inputs)
    contrasts = np.linalg.qr(np.ones((len(points), 1)), mode="complete")[0][:, 1:]
    # K of unit deviation in its eigenbasis: one decomposition serves all call paths and pairs
    size, turn = np.linalg.eigh(contrasts.T @ shape @ contrasts)
    squares = (left @ contrasts @ turn) ** 2
    variance = np.maximum(size, 0.0) * pairs[:, :1] ** 2 + pairs[:, 1:] ** 2
    out = -0.5 * (np.log(variance).sum(axis=1) + squares @ (1 / variance).T)
    # d s^2 / tau^2 of the repetitions follows a chi-squared distribution
    known = np.asarray(degrees, dtype=np.float64)[:, None]
    seen = np.where(known > 0, np.square(noise)[:, None], 0.0) + NOISES[0] ** 2
    return np.asarray(out - 0.5 * known * (np.log(pairs[:, 1] ** 2) + seen / pairs[:, 1] ** 2))


def _pooled(evidence: Array, pairs: Array) -> Array:
    """Return the logarithm of what all call paths together say of each pair, shape (pair,), the usual one included."""
    usual = np.exp(-np.abs(np.log(pairs[:, 1] / NOISE)))
    usual /= usual.sum()
    share = np.exp(evidence - evidence.max(axis=1, keepdims=True)) * usual
    share /= share.sum(axis=1, keepdims=True)
    return np.asarray(np.log((share.sum(axis=0) + WORTH * usual) / (len(share) + WORTH)))


def _thinned(points: Array, left: Array, lengths: Array) -> tuple[Ids, Array]:
    """Return at most so many points, spread evenly, and the ratios, averaged over those nearest to each.

    The process costs the cube of its points; neighbours nearer than a length scale say the same.
    """
    if len(points) <= COMBINATIONS:
        return np.arange(len(points)), left
    # farthest-point sampling: each next point is the one farthest from those kept
    inputs = logarithms(points, points) / lengths
    kept = [int(np.argmax(inputs.sum(axis=1)))]
    gap = np.linalg.norm(inputs - inputs[kept[0]], axis=1)
    owner = np.zeros(len(points), dtype=np.int64)
    while len(kept) < COMBINATIONS and gap.max() > 0:
        kept.append(int(np.argmax(gap)))
        distance = np.linalg.norm(inputs - inputs[kept[-1]], axis=1)
        owner[distance < gap] = len(kept) - 1
        gap = np.minimum(gap, distance)
    return np.array(kept), _means(left, owner, len(kept))


def _means(left: Array, group: Ids, count: int) -> Array:
    """Return the mean ratios of groups of points, shape (call path, group)."""
    sums = np.zeros((len(left), count))
    np.add.at(sums.T, group, left.T)
    return np.asarray(sums / np.bincount(group, minlength=count))


def left_over_at(
    found: Sequence[Discrepancy | None], functions: Sequence[ModelFunction | None], at: Array
) -> tuple[Array, Array]:
    """Return what processes add to functions at targets, in nats, and its standard deviation.

    Parameters
    ----------
    found, functions
        One for each call path or hypothesis.
    at
        Shape (target, parameter).

    Returns
    -------
    shift, deviation
        Shape (function, target); 0 without a process.
    """
    shift, deviation = np.zeros((len(found), len(at))), np.zeros((len(found), len(at)))
    groups: dict[int, list[int]] = {}
    for row, one in enumerate(found):
        if one is not None:
            groups.setdefault(id(one.process), []).append(row)
    for rows in groups.values():
        some = [one for row in rows if (one := found[row]) is not None]
        process = some[0].process
        weights, sd = process.at(at)
        modelled = predict([functions[row] for row in rows], process.points)
        shift[rows] = ratios(np.stack([one.logs for one in some]), modelled) @ weights.T
        deviation[rows] = sd
    return shift, deviation
