"""Measurements of real programs, in the files that come with Extra-P and the GPR evaluation."""

import os
from fractions import Fraction as F
from pathlib import Path

import numpy as np
import pytest

from buran.experiment.modelling import model_experiment
from buran.experiment.read import read_experiment

SHARED = Path(__file__).parents[3] / "shared/data"
EXTRAP = Path(os.environ.get("BURAN_EXTRAP_DATA", SHARED / "extrap"))
RELEARN = SHARED / "relearn/relearn.txt"


def file_of(folder: Path, name: str) -> Path:
    if not (folder / name).exists():
        pytest.skip(f"{name} of Extra-P's test data is not here; set BURAN_EXTRAP_DATA")
    return folder / name


def test_two_parameters_with_noise():
    sets = model_experiment(read_experiment(file_of(EXTRAP, "text/two_parameter_1.txt")))
    function = sets["metr"].models[0].function
    assert function.lead(0) == (F(2), 0)
    assert function.lead(1) == (F(0), 1)
    assert function.coefficients == pytest.approx((0.2,), rel=0.01)


@pytest.mark.parametrize("name", ["one_parameter_1", "one_parameter_4", "two_parameter_3", "three_parameter_1"])
def test_every_text_file_is_modelled_closely(name):
    for own in model_experiment(read_experiment(file_of(EXTRAP, f"text/{name}.txt"))).values():
        assert all(model is not None and model.quality.smape < 3 for model in own.models)


def test_profiles_of_three_parameters():
    experiment = read_experiment(file_of(EXTRAP, "cube/multi_parameter"))
    sets = model_experiment(experiment, ["visits", "time"])
    assert all(model.function.is_constant for model in sets["visits"].models)
    assert all(np.isfinite(model.quality.smape) for model in sets["time"].models)


def test_relearn_predicts_its_largest_point():
    if not RELEARN.exists():
        pytest.skip("the RELeARN measurements are not here")
    experiment = read_experiment(RELEARN)
    own = model_experiment(experiment, aggregate="mean", repetition="mean")["time"]
    main = own.models[own.call_paths.index("main()")]
    assert main.function.evaluate([512.0, 9000.0]) == pytest.approx(2536.75, rel=0.1)
