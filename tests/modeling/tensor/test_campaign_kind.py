"""The choice between normal form and tensor models in campaigns."""

import numpy as np
import pytest

from buran.modeling.tensor import load_model
from buran.workflow.program import choose_kind, cross_validated, fit_program, write_program


@pytest.mark.parametrize(
    ("wanted", "parameters", "points", "kind", "reason"),
    [
        ("auto", 2, 100, "pmnf", "no more than 2"),
        ("auto", 5, 100, "cpr", "more than 4"),
        ("auto", 5, 10, "pmnf", "20 measured points"),
        ("pmnf", 9, 100, "pmnf", "asks"),
        ("cpr", 1, 5, "cpr", "asks"),
    ],
)
def test_the_choice_says_why(wanted, parameters, points, kind, reason):
    found, why = choose_kind(wanted, parameters, points)
    assert found == kind and reason in why


def test_the_programs_model_leaves_the_measured_range(tmp_path):
    points = np.stack([each.ravel() for each in np.meshgrid([1.0, 2, 4, 8], [10.0, 20, 40, 80], [3.0])], axis=1)
    model = fit_program(points, 1e-3 * points[:, 1] / points[:, 0], ("p", "n", "m"))
    write_program(tmp_path / "runtime.npz", model, "many parameters")
    read, notes = load_model(tmp_path / "runtime.npz")
    assert notes["reason"] == "many parameters"
    found = read.predict([np.array([8.0]), np.array([160.0]), np.array([3.0])])[0]
    assert found == pytest.approx([0.02], rel=0.5)


def test_choices_need_a_tensor_model():
    kind, reason = choose_kind("auto", 3, 8, choices=1)
    assert kind == "cpr" and "1 of 3" in reason


@pytest.mark.parametrize(("tensor", "kind"), [(0.05, "cpr"), (0.09, "pmnf"), (0.2, "pmnf")])
def test_in_between_left_out_points_decide(tensor, kind):
    found, reason = choose_kind("auto", 3, 50, errors=lambda: (0.1, tensor))
    assert found == kind and "10.5 %" in reason


def test_errors_are_not_asked_for_where_numbers_decide():
    def never():
        raise AssertionError

    assert choose_kind("auto", 2, 100, errors=never)[0] == "pmnf"
    assert choose_kind("auto", 6, 100, errors=never)[0] == "cpr"


@pytest.mark.slow
def test_a_normal_form_is_better_at_what_it_can_say_and_worse_at_steps():
    points = np.stack([each.ravel() for each in np.meshgrid([2.0, 4, 8, 16], [10.0, 20, 40, 80], [1.0, 2, 3])], axis=1)
    normal, tensor = cross_validated(points, 1e-3 * points[:, 1] * np.log2(points[:, 0]), ("p", "n", "m"))
    assert normal < 0.02 and normal < tensor
    uneven = np.array([1.0, 7.0, 2.0])[points[:, 2].astype(int) - 1] * points[:, 1]
    normal, tensor = cross_validated(points, uneven, ("p", "n", "m"))
    assert tensor < 0.75 * normal


def test_a_choice_without_measurements_is_the_mean_of_the_others():
    points = np.stack([each.ravel() for each in np.meshgrid([1.0, 2, 4, 8], [1.0, 2, 3])], axis=1)
    cost = np.array([1.0, 6.0, 3.0])[points[:, 1].astype(int) - 1]
    model = fit_program(points, points[:, 0] * cost, ("n", "solver"), ("solver",))
    assert model.model_.axes[1].is_categorical and model.model_.free == (0,)
    found = model.predict(np.array([[4.0, 9.0]]))[0]
    assert found == pytest.approx(4 * np.cbrt(1 * 6 * 3), rel=0.1)
