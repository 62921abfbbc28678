"""The fewest cheap points that tell how each parameter acts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from buran.planning.base import covered, missing_points
from buran.planning.space import Space


def missing(points: np.ndarray, cost: np.ndarray, there: Sequence[int] = (), failed: int | None = None) -> list[int]:
    order = [index for index in np.argsort(cost, kind="stable").tolist() if index not in (*there, failed)]
    return missing_points(points, sorted(there), order)


def test_a_full_matrix_gets_lines_through_the_cheapest_point_and_one_beside_them() -> None:
    points = np.array([[p, s] for p in (2, 4, 8, 16, 32) for s in (10, 20, 30, 40, 50)], dtype=float)
    chosen = {tuple(point) for point in points[missing(points, points.prod(axis=1))].tolist()}
    assert chosen == {(2, 10), (2, 20), (4, 10), (2, 30), (8, 10), (4, 20)}


def test_a_band_along_a_diagonal_gets_points_of_two_cheap_diagonals() -> None:
    points = np.array(
        [[2**i, 2**j] for i in range(4, 12) for j in range(13, 18) if 21 <= i + j <= 25], dtype=float
    )  # fmt: skip
    work = points.prod(axis=1)
    chosen = missing(points, work)
    assert work[chosen].max() <= 2 * work.min()
    assert all(len(np.unique(points[chosen, k])) >= 3 for k in range(2))


def test_a_second_value_of_each_parameter_comes_first() -> None:
    points = np.array([[p, s] for p in (2, 4, 8) for s in (10, 20, 30)], dtype=float)
    cost = points[:, 0] ** 2 + 0.01 * points[:, 1]  # all sizes on few ranks are cheaper than any on more
    order = [tuple(point) for point in points[missing(points, cost)].tolist()]
    assert order[:3] == [(2, 10), (2, 20), (4, 10)] and order[3] == (2, 30)
    space = Space(("p", "s"), points, points[:, 0], points.max(axis=0) * 2)
    assert not covered(space, [0, 1, 3])
    assert covered(space, missing(points, cost)) and covered(space, range(len(points)))


def test_what_ran_counts_and_what_failed_is_left() -> None:
    points = np.array([[p, s] for p in (2, 4, 8) for s in (1, 2, 3)], dtype=float)
    cost = points.prod(axis=1)
    first = missing(points, cost)
    assert missing(points, cost, there=first) == []
    assert first[0] not in missing(points, cost, failed=first[0])


@settings(max_examples=60)
@given(st.data())
def test_every_parameter_gets_three_values_where_there_are_three(data: st.DataObject) -> None:
    every = np.array([[p, s, m] for p in (1, 2, 4, 8) for s in (5, 6, 7) for m in (1, 10)], dtype=float)
    some = data.draw(st.lists(st.integers(0, len(every) - 1), min_size=1, unique=True))
    points = every[sorted(some)]
    cost = np.array(data.draw(st.lists(st.floats(0.1, 100), min_size=len(points), max_size=len(points))))
    chosen = missing(points, cost)
    for k in range(3):
        assert len(np.unique(points[chosen, k])) >= min(3, len(np.unique(points[:, k])))
    assert len(set(chosen)) == len(chosen) and len(chosen) <= 3 * 3 + 7
