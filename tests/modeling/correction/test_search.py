"""Fits, terms and programs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from truths import PLACES, base_model, contended, fitting

from buran.modeling.correction.fit import Problem, find_thresholds, fit_base, grow, least_squares, left_out_cost
from buran.modeling.correction.mecp.trees import BINARY, FUNCTIONS, PrefixProgram
from buran.modeling.correction.terms import fit_residual, library


def problem(values: np.ndarray) -> Problem:
    return Problem(base_model(), PLACES, np.log(values), np.ones((1, len(PLACES)), dtype=bool))


def test_least_squares_finds_minima_inside_and_on_the_box() -> None:
    targets = np.array([[0.3, 0.7], [-1.0, 0.5], [2.0, 2.0]])

    def residuals(at: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        return np.concatenate([at - targets[numbers], 0.1 * (at[:, :1] * at[:, 1:])], axis=1)

    found = least_squares(residuals, np.full((3, 2), 0.5))
    assert (found.at >= 0).all() and (found.at <= 1).all()
    assert found.at[1, 0] == 0 and np.allclose(found.at[2], 1)
    grid = np.stack(np.meshgrid(*[np.linspace(0, 1, 101)] * 2), axis=-1).reshape(-1, 2)
    for i in range(3):
        best = np.square(residuals(grid, np.full(len(grid), i))).sum(axis=1).min()
        assert found.cost[i] <= best + 1e-9


def test_left_out_costs_are_those_of_refits() -> None:
    random = np.random.default_rng(3)
    design, target = random.normal(size=(9, 2)), random.normal(size=9)

    def residuals(at: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        return (at - 5) @ design.T - target

    best = np.linalg.lstsq(design, target, rcond=None)[0]
    expected = 0.0
    for i in range(9):
        rest = np.arange(9) != i
        other = np.linalg.lstsq(design[rest], target[rest], rcond=None)[0]
        expected += (design[i] @ other - target[i]) ** 2
    assert left_out_cost(residuals, best[None] + 5, 10.0)[0] == pytest.approx(expected, rel=1e-4)


def test_the_base_model_is_fitted() -> None:
    found = fit_base(problem(fitting(PLACES)))[0]
    assert found.theta == pytest.approx((2e-5, 3e-8), rel=1e-4)


def test_a_base_model_without_parameters_has_nothing_to_fit() -> None:
    base = base_model(parameters={}, components={}, let={}, expression="1e-4 * p")
    found = fit_base(Problem(base, PLACES, np.log(2e-4 * PLACES[:, 0]), np.ones((2, len(PLACES)), dtype=bool)))
    assert [model.theta for model in found] == [(), ()]
    assert found[0].cost == pytest.approx(len(PLACES) * np.log(2) ** 2)


def test_a_threshold_is_found_and_placed() -> None:
    own = problem(contended(PLACES))
    models = grow(own, fit_base(own), library(own.base, PLACES))[0]
    term = models[1].terms[0]
    assert own.base.carrier_names[term.carrier] == "transfer"
    assert (term.growth.shape, term.growth.number) == ("hinge", 8.0)
    assert models[1].theta == pytest.approx((2e-5, 3e-8), rel=0.1) and term.coefficient == pytest.approx(0.8, rel=0.1)
    place = find_thresholds(own, models[1])[0]
    assert place.variable == "p" and place.lower <= 8 <= place.upper and place.upper < 16


def test_terms_are_never_negative() -> None:
    own = problem(fitting(PLACES, noise=0.2, seed=2) / (1 + PLACES[:, 0] / 40))
    for model in grow(own, fit_base(own), library(own.base, PLACES))[0]:
        assert all(term.coefficient >= 0 for term in model.terms)
        assert (model.evaluate(own.base, PLACES * 3) > 0).all()


def test_searches_do_not_see_each_others_points() -> None:
    values = contended(PLACES)
    half = np.arange(len(PLACES)) % 2 == 0
    both = Problem(base_model(), PLACES, np.log(values), np.stack([half, ~half]))
    wrong = np.where(half, values, 1e3)
    other = Problem(base_model(), PLACES, np.log(wrong), np.stack([half, ~half]))
    one, two = (grow(each, fit_base(each), library(each.base, PLACES))[0] for each in (both, other))
    assert one == two


def test_a_process_falls_back_to_nothing_far_away() -> None:
    values = np.sin(np.log(PLACES[:, 0]))
    process = fit_residual(PLACES, values)
    assert np.abs(process.evaluate(PLACES) - values).max() < 0.1
    assert np.abs(process.evaluate(PLACES * 1e9)).max() < 1e-6
    assert np.abs(fit_residual(PLACES, np.zeros(len(PLACES))).evaluate(PLACES)).max() == 0


@st.composite
def trees(draw: st.DrawFn, depth: int = 4) -> tuple[str | float, ...]:
    if depth == 0 or draw(st.booleans()):
        return (draw(st.sampled_from(["p", "n", "@base", 1.5, -2.0])),)
    name = draw(st.sampled_from(FUNCTIONS))
    parts = [draw(trees(depth - 1)) for _ in range(2 if name in BINARY else 1)]
    return (name, *(token for part in parts for token in part))


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(trees())
def test_programs_mean_what_they_write(tokens: tuple[str | float, ...]) -> None:
    program = PrefixProgram(tokens)
    values = {"p": np.array([2.0, 5.0]), "n": np.array([3.0, 0.5]), "@base": np.array([0.7, 9.0])}
    with np.errstate(all="ignore"):
        names = {"p": values["p"], "n": values["n"], "base": values["@base"], "log": np.log, "exp": np.exp}
        text = program.fold(
            lambda token: f"float64({token})" if isinstance(token, float) else token.lstrip("@"),
            lambda name, *parts: f" {name} ".join(parts).join("()") if len(parts) > 1 else f"{name}({parts[0]})",
        )
        expected = eval(text.replace("^", "**"), {"float64": np.float64, **names})
    assert np.allclose(program.evaluate(values), expected, rtol=1e-9, equal_nan=True)


@pytest.mark.parametrize("tokens", [["+", "p"], ["p", "n"], ["sin", "p"], []])
def test_what_is_no_program_is_refused(tokens: list[object]) -> None:
    with pytest.raises(ValueError, match="program"):
        PrefixProgram(tuple(tokens))
