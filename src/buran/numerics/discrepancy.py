"""What no model says: how far predictions beyond the measured points miss.

Models leave the largest values of each parameter out and see by how much they miss them. What such misses mean one step
beyond all points is known from many truths of many kinds, and kept in `discrepancy.json`, which
studies/benchmarks/discrepancy_prior.py makes.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path

import numpy as np

from buran.numerics.arrays import Array

FILE = Path(__file__).with_suffix(".json")


@dataclass(frozen=True)
class DiscrepancyPrior:
    """How far predictions miss a step beyond all points, given how far models missed left-out largest values.

    Attributes
    ----------
    explained
        Times the squared noise: misses up to there say nothing.
    farther
        Times the miss at left-out values: the miss a step further.
    alone
        By what share of itself that grows where all points vary one parameter alone, and none several together.
    hidden
        Times the noise of a value, over the points for each value: what may stay hidden in it.
    """

    explained: float
    farther: float
    alone: float
    hidden: float


@cache
def discrepancy_prior() -> DiscrepancyPrior:
    """Read the file."""
    data = json.loads(FILE.read_text(encoding="utf-8"))
    return DiscrepancyPrior(**{field.name: data[field.name] for field in fields(DiscrepancyPrior)})


@dataclass(frozen=True, eq=False)
class LeftOut:
    """By how much models missed the largest values of each parameter, which were left out.

    Attributes
    ----------
    squares
        Shape (model, parameter): mean squares of the misses, as shares of the values; NaN where none was left out.
    noise
        Shape (model,): relative standard deviation of a value.
    points_a_value
        Points for each value of a parameter.
    alone
        Share of the points that vary one parameter alone; 0 with one parameter.
    """

    squares: Array
    noise: Array
    points_a_value: float = np.inf
    alone: float = 0.0

    def misses(self, prior: DiscrepancyPrior | None = None) -> Array:
        """Return the relative standard deviation that a step beyond the points adds, shape (model, parameter)."""
        prior = prior or discrepancy_prior()
        noise = np.where(np.isfinite(self.noise), self.noise, 0.0)
        squares = np.nan_to_num(self.squares)
        total = squares.sum(axis=1)
        explained = prior.explained * noise**2
        left = np.maximum(1 - explained / np.where(total > 0, total, 1.0), 0.0)
        farther = prior.farther * (1 + prior.alone * self.alone)
        hidden = prior.hidden * noise / max(self.points_a_value, 1.0)
        seen = farther**2 * squares * left[:, None] + hidden[:, None] ** 2
        return np.asarray(np.sqrt(np.where(np.isfinite(self.squares), seen, 0.0)))
