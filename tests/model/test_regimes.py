"""Two regimes as hypotheses of every fit."""

from types import SimpleNamespace

import numpy as np
import pytest

from buran.model import ModelSet, fit_models, format_function, growth_class
from buran.model.combine import add_models
from buran.model.regimes import _Joined, cuts
from buran.model.repetitions import scatter_of
from buran.model.terms import ModelFunction
from buran.prior.algebra import power
from buran_studies.functions import draw, draw_outside, grid, kind_inside
from buran_studies.noise import inject

X = 2.0 ** np.arange(1, 10)
POINTS = X[:, None]
GRID = np.array([[p, n] for p in X[:7] for n in (10.0, 20, 30, 40, 50)])
FAR = np.array([[1024.0]])


def fitted(points, values, percent=0.0):
    runs = inject(np.atleast_2d(values), percent, repetitions=5, seed=1)
    return fit_models(points, runs.mean(axis=-1), scatter=scatter_of(runs) if percent else None)


def ends(model):
    """Where the last regime begins, by parameter."""
    return {
        (factor.parameter, factor.basis.low)
        for term in model.function.terms
        for factor in term.factors
        if factor.basis.family == "regimes" and np.isfinite(factor.basis.low) and not factor.basis.ends
    }


@pytest.mark.parametrize("percent", [0, 2, 5])
def test_a_switch_is_found_and_the_last_regime_is_carried_on(percent):
    fit = fitted(POINTS, np.where(X < 32, 10 + X, 400 + 2 * X**2), percent)
    assert ends(fit.models[0]) == {(0, 32.0)}
    assert fit.predict(np.array([[4.0], [1024.0]]))[0] == pytest.approx([14, 400 + 2 * 1024**2], rel=0.1)
    assert fit.models[0].quality.smape < 3 + percent


def test_three_regimes():
    x = 2.0 ** np.arange(1, 13)
    fit = fitted(x[:, None], np.select([x < 16, x < 300], [5 * x, 1000 + 0 * x], x**2))
    assert ends(fit.models[0]) == {(0, 512.0)}
    assert fit.predict(np.array([[4.0], [100.0], [10_000.0]]))[0] == pytest.approx([20, 1000, 1e8], rel=1e-3)


def test_a_parameter_among_several():
    p, n = GRID.T
    fit = fitted(GRID, np.where(p < 16, n * p, 500 * n + p), 2)
    assert ends(fit.models[0]) == {(0, 16.0)}
    assert fit.predict(np.array([[1024.0, 60]]))[0] == pytest.approx(500 * 60 + 1024, rel=0.1)


def test_five_values_are_enough():
    x = np.array([4.0, 8, 16, 32, 64])
    fit = fitted(x[:, None], np.where(x < 20, x, x**2 / 20), 1)
    assert fit.predict(np.array([[128.0]]))[0] == pytest.approx(128**2 / 20, rel=0.1)


def test_four_values_of_a_parameter_with_a_knee():
    points = np.array([[p, n] for p in (4.0, 8, 16, 32) for n in (10.0, 20, 30, 40, 50)])
    p, n = points.T
    fit = fitted(points, n * np.where(p < 11, p, p**3 / 121), 1)
    assert ends(fit.models[0]) == {(0, 16.0)}
    assert fit.predict(np.array([[64.0, 60.0]]))[0] == pytest.approx(60 * 64**3 / 121, rel=0.25)


@pytest.mark.parametrize("work", [0, 1])
def test_steps_of_a_tree_are_no_regimes_of_which_the_last_one_is_carried_on(work):
    x = np.array([4.0, 8, 16, 32, 64])
    steps = np.ceil(np.log2(x) / 3 - 1e-9) * x**work  # the next one follows at 65
    fit = fitted(x[:, None], 100 + 300 * steps, 1)
    assert ends(fit.models[0]) == set()
    assert fit.predict(np.array([[128.0]]))[0] == pytest.approx(100 + 300 * 3 * 128**work, rel=0.25)


def test_a_jump_that_no_other_follows_is_a_switch():
    fit = fitted(POINTS, np.where(X < 20, 10 * X, 15 * X), 1)
    assert ends(fit.models[0]) == {(0, 32.0)}
    assert fit.predict(FAR)[0, 0] == pytest.approx(15 * 1024, rel=0.05)


@pytest.mark.filterwarnings("error")
def test_what_begins_with_nothing_is_no_step():
    x = 2.0 ** np.arange(6)
    (cut,) = [cut for cut in cuts(x[:, None]) if cut.at == 4]
    sides = [SimpleNamespace(function=function) for function in (power(0, 0, 1), ModelFunction(1.0))]
    assert not _Joined(x[:, None], x, None, None, 0, cut, *sides).is_step


@pytest.mark.parametrize("percent", [5, 10])
@pytest.mark.parametrize("parameters", [1, 2])
def test_noise_is_not_turned_into_regimes(parameters, percent):
    random = np.random.default_rng(17 + parameters)
    points = grid(parameters)
    values = np.stack([draw(parameters, random, kind_inside(parameters, k)).evaluate(points) for k in range(60)])
    assert sum(bool(ends(model)) for model in fitted(points, values, percent).models) <= 3


def test_intervals_hold_what_knees_become():
    random = np.random.default_rng(23)
    points, at = grid(1), np.array([[128.0]])
    truths = [draw_outside(1, random, "knee") for _ in range(40)]
    fit = fitted(points, np.stack([truth.evaluate(points) for truth in truths]), 2)
    true = np.array([truth.evaluate(at)[0] for truth in truths])
    lower, upper = (edge[:, 0] for edge in fit.predict_interval(at))
    assert np.mean((lower <= true) & (true <= upper)) >= 0.85
    assert np.mean(np.abs(fit.predict(at)[:, 0] / true - 1) <= 0.2) >= 0.7


def test_both_numbers_of_regimes_are_among_the_alternatives():
    x = np.array([4.0, 8, 16, 32, 64])
    model = fitted(x[:, None], np.where(x < 20, x**1.2, x**1.8 / 20**0.6), 8).models[0]
    assert {"(p" in format_function(one.function, ["p"]) for one in model.alternatives} == {True, False}
    assert sum(one.weight for one in model.alternatives) == pytest.approx(1)
    assert model.alternatives[0].function == model.function


def test_written_read_and_added():
    fit = fitted(POINTS, np.where(X < 32, 10 + X, 400 + 2 * X**2))
    model = fit.models[0]
    assert format_function(model.function, ["p"]) == "2 (p >= 32) * p^2 + 400 (p >= 32) + (p < 32) * p + 10 (p < 32)"
    assert growth_class(model.function, ["p"]) == "p^2"
    assert model.function.lead(0) == (2, 0)
    p = 64.0
    assert eval(format_function(model.function, ["p"], "python")) == pytest.approx(400 + 2 * p**2)
    models = ModelSet(("p",), "time", "s", ("main",), (model,), "sum", "mean", tuple(map(tuple, POINTS.tolist())))
    again = ModelSet.from_json(models.to_json())
    assert again.models[0].function == model.function
    assert np.array_equal(again.predict(FAR), models.predict(FAR))
    total = add_models([model, model], POINTS, 2 * model.function.evaluate(POINTS))
    assert total.function.evaluate(FAR) == pytest.approx(2 * model.function.evaluate(FAR))


def test_points_that_do_not_tell_the_other_parameters_make_no_regimes():
    lines = GRID[(GRID[:, 0] == 2) | (GRID[:, 1] == 10)]
    p, n = lines.T
    assert not ends(fitted(lines, np.where(p < 16, n * p, 500 * n + p)).models[0])


def test_what_few_ranks_show_beyond_a_value_is_not_carried_on_to_many():
    # Up to 32 ranks with all sizes; beyond, where growth may have ended, with the smallest size alone.
    points = np.array([[p, n] for p in X[:5] for n in (10.0, 20, 30, 40, 50)] + [[64.0, 10.0], [128.0, 10.0]])
    assert {cut.parameter for cut in cuts(points)} == {0}
    assert {cut.parameter for cut in cuts(points[:-2])} == {0, 1}
