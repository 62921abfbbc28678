"""Run times of four codes that the CPR paper published, and draws of training samples from them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from buran.errors import FormatError

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Source:
    """A code's columns, counted in the rows of its files: the headers lack a name.

    Attributes
    ----------
    columns
        Of the parameters.
    names, scale
        Of the parameters.
    target
        Column of the time in seconds.
    """

    columns: tuple[int, ...]
    names: tuple[str, ...]
    scale: tuple[str, ...]
    target: int


SOURCES = {
    "gemm": Source((1, 2, 3), ("m", "n", "k"), ("log",) * 3, 4),
    "bcast": Source((1, 2, 3), ("msgsize", "ppn", "nodes"), ("log",) * 3, 4),
    "exafmm": Source(
        (2, 3, 4, 6, 7, 8),
        ("ppn", "nthreads", "nbodies", "ncrit", "level", "order"),
        ("log", "log", "log", "linear", "linear", "linear"),
        15,
    ),
    "amg": Source(
        (1, 2, 3, 4, 5, 6, 10, 11),
        ("nx", "ny", "nz", "coarsen", "relax", "interp", "nthreads", "ppn"),
        ("log", "log", "log", "categorical", "categorical", "categorical", "log", "log"),
        14,
    ),
}


@dataclass(frozen=True, eq=False)
class Sample:
    """Points, shape (point, parameter), and their times in seconds."""

    X: Array
    y: Array

    def take(self, rows: NDArray[np.int64]) -> Sample:
        """Return some of the points."""
        return Sample(self.X[rows], self.y[rows])


@cache
def load(folder: Path, name: str, part: str) -> Sample:
    """Read a file of the published data.

    Raises
    ------
    FormatError
        The file is missing or has other columns.
    """
    path, source = folder / f"{name}_{part}.csv", SOURCES[name]
    try:
        table = np.loadtxt(path, delimiter=",", skiprows=1, usecols=(*source.columns, source.target), ndmin=2)
    except (OSError, ValueError, IndexError) as error:
        raise FormatError("cannot read measured data", where=path, why=str(error)) from error
    return Sample(np.ascontiguousarray(table[:, :-1]), table[:, -1].copy())


def draw(sample: Sample, size: int, seed: int, tests: int) -> Sample:
    """Return a random training sample.

    Parameters
    ----------
    seed
        10 gives the sample of the paper's scripts.
    tests
        Number of test rows, which those scripts shuffle first.
    """
    random = np.random.RandomState(seed)
    random.shuffle(np.arange(tests))
    order = np.arange(len(sample.y))
    random.shuffle(order)
    return sample.take(order[:size])
