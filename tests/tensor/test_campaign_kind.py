"""The choice between normal form and tensor models in campaigns."""

import numpy as np
import pytest

from buran.steps.program_model import choose_kind, fit_program, write_program
from buran.tensor import load_model


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
