"""Intervals beyond the points: as wide as models of the smaller values missed the largest ones."""

import numpy as np
import pytest

from buran.model import ModelSet, fit_models
from buran.model.discrepancy import Discrepancy
from buran.model.repetitions import scatter_of
from buran_studies.functions import grid
from buran_studies.noise import inject


def fitted(function, points, noise=1.0, seed=1):
    repetitions = inject(function(points)[None], noise, repetitions=5, seed=seed)
    return fit_models(points, repetitions.mean(axis=2), scatter=scatter_of(repetitions))


def test_it_grows_with_the_distance_from_the_points_and_is_zero_between_them():
    doubt = Discrepancy((64.0, 50.0), (32.0, 40.0), (0.1, 0.0))
    at = np.array([[8.0, 20], [64, 50], [128, 50], [256, 50], [64, 500]])
    assert np.allclose(doubt.at(at), [0, 0, 0.1, 0.2, 0])
    assert Discrepancy.from_json(doubt.to_json()) == doubt


def test_values_of_zero_have_no_steps():
    assert Discrepancy((0.0,), (0.0,), (1.0,)).at(np.array([[5.0]])).tolist() == [0.0]


@pytest.mark.parametrize("values", [(4.0, 8, 16, 25, 26), (1.0, 100, 101, 102)])
def test_two_close_values_at_the_end_are_no_step(values):
    points = np.array(values)[:, None]
    model = fitted(lambda at: 7 + 3 * at[:, 0], points, noise=2.0).models[0]
    doubt = model.alternatives[0].discrepancy
    usual = np.log(values[-1] / values[0]) / (len(values) - 1)
    assert np.log(doubt.largest[0] / doubt.before[0]) == pytest.approx(usual / 4)
    assert doubt.at(np.array([[2 * values[-1]]]))[0] < 0.15


def test_a_truth_of_another_kind_has_a_wide_interval_beyond():
    points = grid(2)
    approaching = lambda at: at[:, 1] * (1 - np.exp(-at[:, 0] / 30))  # noqa: E731
    fit = fitted(approaching, points)
    target = np.array([[128.0, 60.0]])
    lower, upper = fit.predict_interval(target)
    assert upper[0, 0] - lower[0, 0] > 0.1 * fit.predict(target)[0, 0]
    assert fit.models[0].alternatives[0].discrepancy.miss[0] > 0.01


def test_what_a_hypothesis_says_is_not_doubted():
    points = grid(2)
    truth = lambda at: 5 + 3 * at[:, 0] * at[:, 1]  # noqa: E731
    assert max(fitted(truth, points).models[0].alternatives[0].discrepancy.miss) < 0.005
    assert fit_models(points, truth(points)[None]).models[0].alternatives[0].discrepancy is None


def test_models_files_keep_it():
    points = grid(2)
    fit = fitted(lambda at: 100 * at[:, 1] * at[:, 0] / (at[:, 0] + 30), points)
    models = ModelSet(("p", "n"), "time", "s", ("f",), fit.models, "sum", "mean", tuple(map(tuple, points.tolist())))
    again = ModelSet.from_json(models.to_json())
    target = np.array([[512.0, 60.0]])
    assert np.allclose(again.predict_interval(target), models.predict_interval(target))
