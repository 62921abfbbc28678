"""Predictions of what is never negative are never negative, inside the points and up to eight times beyond."""

import numpy as np
import pytest

from buran.modeling.fit import fit_models
from buran.modeling.pmnf.repetitions import scatter_of
from buran_studies.functions import AXES, draw, grid


def knee(parameters, random):
    """A function that grows faster from one of its middle values on."""
    function, column = draw(parameters, random, "falling"), int(random.integers(parameters))
    start, power = AXES[column][int(random.integers(1, 4))], random.uniform(0.5, 2)
    return lambda points: function.evaluate(points) * np.maximum(points[:, column] / start, 1) ** power


def places(points, random):
    low, high = points.min(axis=0), 8 * points.max(axis=0)
    return np.exp(random.uniform(np.log(low), np.log(high), (1000, points.shape[1])))


@pytest.mark.parametrize(("parameters", "functions"), [(1, 60), (2, 25)])
def test_knees_are_never_predicted_negative(parameters, functions):
    random = np.random.default_rng(parameters)
    points = grid(parameters)
    true = np.stack([knee(parameters, random)(points) for _ in range(functions)])
    repetitions = true[..., None] * (1 + 0.05 * random.uniform(-1, 1, (*true.shape, 5)))
    fit = fit_models(points, repetitions.mean(axis=2), scatter=scatter_of(repetitions))
    assert (fit.predict(places(points, random)) >= 0).all()


def test_a_count_that_begins_with_zero_stays_exact():
    n = np.array([1.0, 2, 4, 8, 16])
    model = fit_models(n[:, None], (n * (n - 1) / 2)[None]).models[0]
    assert model.function.evaluate([100.0]) == pytest.approx(4950)


def test_values_below_zero_are_modelled_as_they_are():
    p = np.array([2.0, 4, 8, 16, 32])
    model = fit_models(p[:, None], (100 - 30 * p)[None]).models[0]
    assert model.function.evaluate([64.0]) == pytest.approx(100 - 30 * 64)
