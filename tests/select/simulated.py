"""Small programs with known run times."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from buran.evaluate.functions import grid
from buran.evaluate.selection_play import space_of
from buran.select.observations import Observations
from buran.select.space import Array, Space

TARGET = np.array([128.0, 60.0])


def space(**changes: object) -> Space:
    return replace(space_of(grid(2), TARGET), **changes)  # type: ignore[arg-type]


def measured(
    places: list[int],
    truth: Callable[[Array], Array],
    repetitions: int = 2,
    noise: float = 0.02,
    own: Space | None = None,
) -> Observations:
    """Measure some places of the space, the same noise each time."""
    points = (own or space()).points[places]
    random = np.random.default_rng(5)
    factors = 1 + noise * random.uniform(-1, 1, (len(places), repetitions))
    return Observations(points, (truth(points)[:, None] * factors)[None])


def plain(points: Array) -> Array:
    return np.asarray(3.0 + 0.5 * points[:, 0] * np.log2(points[:, 0]) + 0.02 * points[:, 1] ** 2)


def constant(points: Array) -> Array:
    return np.full(len(points), 7.0)
