"""What was never varied together is not known: intervals hold the sum and the product, and a note says what decides."""

import numpy as np
import pytest

from buran.model import ModelSet, fit_models
from buran.model.repetitions import scatter_of
from buran.model.together import other_structures, together, undecided
from buran_studies.functions import grid
from buran_studies.noise import inject

FULL = grid(3)
LINES = FULL[(FULL[0] != FULL).sum(axis=1) <= 1]


def test_points_link_the_parameters_that_differ_in_them():
    assert together(FULL) == ((0, 1, 2),)
    assert together(LINES) == ((0,), (1,), (2,))
    corner = LINES[0].copy()
    corner[:2] = FULL[-1, :2]
    assert together(np.vstack([LINES, corner])) == ((0, 1), (2,))
    assert together(np.array([[1.0, 5], [2, 5], [4, 5]])) == ((0,),)  # a single value of the second


def test_the_note_names_the_run_that_decides():
    note = undecided(LINES[:, :2], ("p", "n"))
    assert note is not None
    assert "p and n were never varied together" in note and "p = 64, n = 50 decides" in note
    assert undecided(FULL, ("p", "n", "m")) is None


def product(at):
    return 5 + 3 * at[:, 0] * at[:, 1]


def total(at):
    return 500 + 3 * at[:, 0] + 7 * at[:, 1]


@pytest.mark.parametrize("truth", [product, total])
@pytest.mark.parametrize("noise", [0.0, 1.0])
def test_intervals_of_lines_hold_the_sum_and_the_product(truth, noise):
    points = grid(2)
    points = points[(points != points[0]).sum(axis=1) <= 1]
    repetitions = inject(truth(points)[None], noise, repetitions=5, seed=4)
    fit = fit_models(points, repetitions.mean(axis=2), scatter=scatter_of(repetitions))
    target = np.array([[128.0, 60.0]])
    lower, upper = fit.predict_interval(target)
    structures = other_structures(fit.models[0].function, points[0], ((0,), (1,)), target)[:, 0]
    assert lower[0, 0] <= structures.min() and structures.max() <= upper[0, 0]
    assert lower[0, 0] <= truth(target)[0] * 1.02 and truth(target)[0] * 0.98 <= upper[0, 0]
    models = ModelSet(("p", "n"), "time", "s", ("f",), fit.models, "sum", "mean", tuple(map(tuple, points.tolist())))
    assert np.allclose(ModelSet.from_json(models.to_json()).predict_interval(target), (lower, upper))
