"""The strategies of the paper on cost-effective modelling and their rivals."""

from __future__ import annotations

import warnings
from itertools import product

import numpy as np
import pytest

from buran import extensions
from buran.planning.advise import advise
from buran.planning.base import TWICE
from buran.planning.gpr import NOT_CONVERGED, expected_improvement, fitted_process, repetition_weight, variance_of
from buran.planning.observations import Observations
from buran.planning.protocol import PlanningState
from buran.planning.space import Space
from buran.planning.strategies import base_of, strategy_of
from buran.planning.unguided import grid_order
from buran_studies.functions import beyond, grid
from buran_studies.selection.play import space_of


def test_weights_of_repetitions_are_those_of_the_paper() -> None:
    runs = np.array([1.0, 3.0, 10.0])
    expected = [-np.tanh(5 / 4 - 2.5) + 2 ** (r / 2 - 0.5) for r in runs]
    assert repetition_weight(5.0, runs) == pytest.approx(expected)
    low, high = repetition_weight(1.0, runs), repetition_weight(20.0, runs)
    assert (high < low).all()
    assert high[1] / high[0] > low[1] / low[0]


def test_an_improvement_that_is_certain() -> None:
    assert expected_improvement(np.array([1.0]), np.array([0.0]), 0.5) == pytest.approx(0.5)


def test_the_grid_begins_with_the_corners() -> None:
    asked = space_of(grid(2), beyond(2))
    first = asked.points[grid_order(asked)[:4]]
    assert {tuple(point) for point in first} == {(4, 10), (4, 50), (64, 10), (64, 50)}


def test_the_process_is_that_of_the_paper() -> None:
    random = np.random.default_rng(1)
    inputs = np.repeat(random.uniform(size=(12, 2)), 2, axis=0)
    process, converged = fitted_process(
        inputs, np.sin(3 * inputs.sum(axis=1)) + 0.05 * random.standard_normal(24), 0.05
    )
    assert converged
    matern, white = process.kernel_.k1, process.kernel_.k2
    assert matern.nu == 1.5 and 1e-5 <= matern.length_scale <= 1e5 and white.noise_level < 0.1
    near, far = variance_of(process, np.array([inputs[0], [9.0, 9.0]]))
    assert 0 <= near < 0.1 < far <= 1 + 1e-9  # of a variance of 1: no amplitude


@pytest.mark.parametrize("parameters", [1, 2, 3])
def test_the_base_is_five_points_a_line_and_the_cheapest_beside_them(parameters: int) -> None:
    """Sections III-A and III-B: one more point for each parameter, the cheapest available ones, all of them twice."""
    values = (1.0, 2.0, 3.0, 4.0, 5.0, 6.0)
    points = np.array(sorted(product(values, repeat=parameters)))
    space = Space(tuple("abc"[:parameters]), points, points.prod(axis=1), np.full(parameters, 9.0))
    base = space.points[base_of("gpr").indices(space)]
    off_lines = base[(base > 1).sum(axis=1) > 1]
    assert len(base) == 4 * parameters + 1 + len(off_lines)
    assert len(off_lines) == (parameters if parameters > 1 else 0)
    costs = np.sort(points[(points > 1).sum(axis=1) > 1].prod(axis=1))
    assert np.sort(off_lines.prod(axis=1)).tolist() == costs[: len(off_lines)].tolist()
    assert base_of("gpr") == base_of("cpf", "published") == TWICE == strategy_of("gpr").strategy.base  # type: ignore[attr-defined]
    assert base_of("design") == base_of("gpr", "cheapest", 1) and not base_of("gpr", "lines").off_lines


def test_hyperparameters_at_a_bound_are_said_once() -> None:
    space = space_of(grid(2), beyond(2))
    places = TWICE.indices(space)
    constant = Observations(space.points[places], np.ones((3, len(places), 2)))
    for name in ("gpr", "bayes"):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            advice = strategy_of(name).suggest(PlanningState(constant, space, 1e6))
        assert advice.suggestions and advice.notes == (NOT_CONVERGED,)


def test_what_a_strategy_notes_is_said_by_suggest() -> None:
    space = space_of(grid(2), beyond(2))
    places = TWICE.indices(space)
    constant = Observations(space.points[places], np.ones((3, len(places), 2)))
    said = advise(PlanningState(constant, space), space.cores[places], strategy_of("gpr"))
    assert said.notes.count(NOT_CONVERGED) == 1


@pytest.mark.parametrize("name", ["gpr", "hybrid", "bayes", "ucb", "random", "grid"])
def test_they_come_with_the_product(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extensions, "_installed", lambda group, path: ())
    assert strategy_of(name).name == name


@pytest.mark.parametrize("name", ["gpr", "hybrid"])
@pytest.mark.parametrize("count", [1, 2])
def test_one_parameter_and_two_points(name: str, count: int) -> None:
    space = Space(("n",), np.array([[1.0], [2.0], [4.0], [8.0]]), np.ones(4), np.array([16.0]))
    measured = Observations(space.points[:count], np.ones((1, count, 2)))
    advice = strategy_of(name).suggest(PlanningState(measured, space, 1e6))
    assert advice.suggestions or advice.stop
