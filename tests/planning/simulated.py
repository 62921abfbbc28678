"""Small programs with known run times."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product

import numpy as np

from buran.planning.observations import Observations
from buran.planning.space import Array, Space, cheapest_first

AXES = ((4, 8, 16, 32, 64), (10, 20, 30, 40, 50), (1000, 2000, 3000, 4000, 5000), (10, 12, 14, 16, 18))
BEYOND = (128.0, 60.0, 6000.0, 20.0)


def full_space(parameters: int) -> Space:
    """All combinations of so many parameters; the first counts the processes."""
    points = np.array(list(product(*AXES[:parameters])), dtype=np.float64)
    order = cheapest_first(points, points[:, 0])
    return Space(tuple("abcd"[:parameters]), points[order], points[order, 0], np.array(BEYOND[:parameters]))


def space(**changes: object) -> Space:
    return replace(full_space(2), **changes)  # type: ignore[arg-type]


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
