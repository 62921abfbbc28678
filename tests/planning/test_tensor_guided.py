"""The strategy that tensor models guide: choices, and where an ensemble disagrees."""

from __future__ import annotations

import numpy as np

from buran.planning.base import Base
from buran.planning.observations import Observations
from buran.planning.protocol import PlanningState
from buran.planning.space import Space
from buran.planning.tensor_guided import TensorGuided

SIZES, SOLVERS = (1.0, 2.0, 4.0, 8.0, 16.0), (1.0, 2.0, 3.0)
COST = {1.0: 1.0, 2.0: 6.0, 3.0: 3.0}
POINTS = np.array([[n, m, s] for n in SIZES for m in SIZES for s in SOLVERS])


def whole_space() -> Space:
    return Space(("n", "m", "solver"), POINTS, np.ones(len(POINTS)), np.array([32.0, 32.0, 3.0]), choices=("solver",))


def measured(places: list[int]) -> Observations:
    points = POINTS[places]
    times = points[:, 0] * points[:, 1] * np.array([COST[s] for s in points[:, 2]])
    return Observations(points, times[None, :, None])


def strategy() -> TensorGuided:
    return TensorGuided(Base(1, length=1, off_lines=False))


def test_a_choice_without_measurements_comes_first() -> None:
    known = [i for i, point in enumerate(POINTS) if point[2] != 2.0]
    advice = strategy().suggest(PlanningState(measured(known[:40]), whole_space(), most=3))
    assert {POINTS[suggestion.index][2] for suggestion in advice.suggestions} == {2.0}
    assert "choice without measurements" in advice.suggestions[0].reason


def test_points_far_from_measurements_come_before_those_between_them() -> None:
    corner = [i for i, (n, m, _) in enumerate(POINTS) if n <= 4 and m <= 4]
    advice = strategy().suggest(PlanningState(measured(corner), whole_space(), most=8))
    assert all("disagree" in suggestion.reason for suggestion in advice.suggestions)
    assert not set(corner) & {suggestion.index for suggestion in advice.suggestions}
    again = strategy().suggest(PlanningState(measured(corner), whole_space(), most=8))
    assert advice == again


def test_it_ends_when_every_point_is_measured() -> None:
    advice = strategy().suggest(PlanningState(measured(list(range(len(POINTS)))), whole_space()))
    assert advice.stop and not advice.suggestions and not advice.budget_reached
