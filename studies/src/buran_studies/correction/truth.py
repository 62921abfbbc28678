"""Synthetic truths for the correction of models: known times that a base model misses in known ways."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from buran.errors import FormatError
from buran.modeling.correction import BaseModel, Parameter, Variable
from buran.modeling.correction.fit import Problem, least_squares
from buran.modeling.correction.formula import Array

Split = Literal["half", "extrapolation", "blind"]
SPLITS: tuple[Split, ...] = ("half", "extrapolation", "blind")
THRESHOLDS = (24.0, 32.0, 48.0, 64.0)
NOISE = 0.05  # standard deviation of the logarithm
_STOP_TIMES = (0.05, 0.1, 0.2, 0.4)
_G, _H, _I, _J, _F = 3e-8, 1.05, 1.2e-5, 1.2e-7, 4965.0
_MISSING = 4e-5  # s for each doubling of the ranks: a collective operation that the base model lacks

Change = Callable[[Array, Array, Array, Array, float], tuple[Array, Array, Array]]


def _contention(copy: Array, latency: Array, transfer: Array, np_: Array, at: float) -> tuple[Array, Array, Array]:
    return copy, latency, transfer * (1 + 0.6 * np.maximum(0, np_ / at - 1) ** 0.8)


def _step(copy: Array, latency: Array, transfer: Array, np_: Array, at: float) -> tuple[Array, Array, Array]:
    return copy, latency * np.where(np_ > at, 1.5, 1.0), transfer * np.where(np_ > at, 2.5, 1.0)


def _saturation(copy: Array, latency: Array, transfer: Array, np_: Array, at: float) -> tuple[Array, Array, Array]:
    return copy, latency, transfer * (1 + 3 * np_**2 / (np_**2 + (2 * at) ** 2))


def _cache(copy: Array, latency: Array, transfer: Array, np_: Array, at: float) -> tuple[Array, Array, Array]:
    words = copy / (2 * _G)
    return copy * (1 + 1.5 / (1 + (6e4 / words) ** 2)), latency, transfer * (1 + 0.3 * np.log1p(np_ / at) ** 2)


def _exponential(copy: Array, latency: Array, transfer: Array, np_: Array, at: float) -> tuple[Array, Array, Array]:
    words = copy / (2 * _G)
    grown = np.exp(0.35 * np.maximum(0, np.log2(np_ / at)))
    return copy, latency * (1 + (words / 2e4) ** 0.3), transfer * grown


FAMILIES: Mapping[str, Change] = {
    "contention": _contention,
    "step": _step,
    "saturation": _saturation,
    "cache": _cache,
    "exponential": _exponential,
}
"""What happens to the time above a number of ranks. ``contention`` is like EVH1 as the paper describes it; its form is
not in the library of terms, and those of the others are not near it."""


@dataclass(frozen=True)
class Draw:
    """Measurements of one replicate.

    Attributes
    ----------
    points, values
        nx, np and T, shape (32, 3), and noisy times.
    train
        Which points a method may see.
    """

    points: Array
    values: Array
    train: NDArray[np.bool_]


def draw(family: str, split: Split, replicate: int, random: np.random.Generator) -> Draw:
    """Draw noise, stop times and the split; the threshold goes around with the replicates."""
    places = [(nx, ranks) for nx in (128, 256, 512, 1024) for ranks in (4, 8, 16, 32, 64, 128, 256)]
    places += [(2048, ranks) for ranks in (32, 64, 128, 256)]
    points = np.array([(nx, ranks, random.choice(_STOP_TIMES)) for nx, ranks in places], dtype=np.float64)
    values = truth(points, family, THRESHOLDS[replicate % len(THRESHOLDS)])
    values = values * np.exp(random.normal(0, NOISE, len(points)))
    nx, ranks = points[:, 0], points[:, 1]
    if split == "half":
        train = np.zeros(len(points), dtype=bool)
        train[random.permutation(len(points))[: len(points) // 2]] = True
    elif split == "extrapolation":
        train = (ranks >= 8) & (ranks <= 64) & (nx <= 1024)
    else:
        train = (ranks <= 32) & (nx <= 1024)
    return Draw(points, values, train)


def truth(points: Array, family: str, threshold: float) -> Array:
    """Return times in s at points (point, (nx, np, T))."""
    nx, ranks, stop = points.T
    words = 6 * nx**2 / ranks
    pairs = (ranks - 1) ** _H
    parts = FAMILIES[family](2 * _G * words, pairs * _I, pairs * _J * words / ranks, ranks, threshold)
    return np.asarray(_F * stop * (sum(parts) + _MISSING * np.log2(ranks)))


def known_form(base: BaseModel, own: Draw, threshold: float) -> Array:
    """Predict all points with the form of the contention truth, its place included, fitted to the training points.

    No correction can be expected to be better: it would have to know more than the truth's form.
    """
    points = own.points[own.train]
    problem = Problem(base, points, np.log(own.values[own.train]), np.ones((1, len(points)), dtype=bool))
    size = len(base.parameters)
    transfer, missing = base.carrier_names.index("bandwidth"), -1

    def value(at: Array, where: Array) -> Array:
        parts = base.parts(problem.theta(at[:, :size]), where)
        grown = np.maximum(0, where[:, 1] / threshold - 1) ** 0.8
        collective = _MISSING * np.log2(where[:, 1])
        added = at[:, size, None] * parts.carriers[transfer] * grown
        return np.asarray(parts.total + added + at[:, size + 1, None] * parts.carriers[missing] * collective)

    def residuals(at: Array, _: NDArray[np.int64]) -> Array:
        return np.asarray(np.log(value(at, points)) - problem.logs)

    first = problem.unit(base.start)
    starts = np.concatenate([first[None], np.random.default_rng(0).uniform(0.2, 0.8, (7, size))])
    upper = np.array([*np.ones(size), 10.0, 10.0])
    fits = least_squares(residuals, np.concatenate([starts, np.full((len(starts), 2), 0.1)], axis=1), upper)
    best = int(np.argmin(fits.cost))
    return np.asarray(value(fits.at[best : best + 1], own.points)[0])


def broadcast_base() -> BaseModel:
    """Return the theoretical model of a broadcast along a tree."""
    return BaseModel(
        "latency + transfer",
        parameters={"alpha": Parameter(5e-6, 1e-7, 1e-3, log=True), "beta": Parameter(1e-10, 1e-12, 1e-7, log=True)},
        variables={
            "m": Variable(thresholds=True, meaning="bytes"),
            "ppn": Variable(scale=True, meaning="ranks on a node"),
            "nodes": Variable(scale=True),
        },
        let={"p": "ppn * nodes"},
        components={"latency": "alpha * log2(p)", "transfer": "beta * m * log2(p)"},
        name="broadcast",
    )


def read_broadcast(folder: Path) -> tuple[Array, Array]:
    """Return points (message size, ranks on a node, nodes) and times of all measured broadcasts among several ranks.

    Raises
    ------
    FormatError
        If the files are not there or not what they should be.
    """
    rows = []
    for name in ("bcast_train.csv", "bcast_test.csv"):
        path = folder / "cpr" / name
        try:
            read = np.loadtxt(path, delimiter=",", skiprows=1, ndmin=2)
        except (OSError, ValueError) as error:
            raise FormatError("the measured broadcasts cannot be read", where=path, why=str(error)) from None
        if read.shape[1] != 6:
            raise FormatError("rows of six fields are wanted", where=path, why=f"they have {read.shape[1]}")
        rows.append(read[:, 1:5])
    table = np.concatenate(rows)
    table = table[table[:, 1] * table[:, 2] > 1]
    return table[:, :3], table[:, 3]
