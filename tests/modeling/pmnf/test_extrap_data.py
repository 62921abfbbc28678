"""Measurements of real programs, in the files that come with Extra-P and the GPR evaluation."""

from fractions import Fraction as F

import numpy as np
import pytest

from buran.modeling.experiments import model_experiment
from buran.profiles.experiment.read import read_experiment
from data_of_others import file_of


def test_two_parameters_with_noise():
    sets = model_experiment(read_experiment(file_of("extrap", "text/two_parameter_1.txt")))
    function = sets["metr"].models[0].function
    assert function.lead(0) == (F(2), 0)
    assert function.lead(1) == (F(0), 1)
    assert function.coefficients == pytest.approx((0.2,), rel=0.01)


@pytest.mark.parametrize("name", ["one_parameter_1", "one_parameter_4", "two_parameter_3", "three_parameter_1"])
def test_every_text_file_is_modelled_closely(name):
    for own in model_experiment(read_experiment(file_of("extrap", f"text/{name}.txt"))).values():
        assert all(model is not None and model.quality.smape < 3 for model in own.models)


def test_profiles_of_three_parameters():
    experiment = read_experiment(file_of("extrap", "cube/multi_parameter"))
    sets = model_experiment(experiment, ["visits", "time"])
    assert all(model.function.is_constant for model in sets["visits"].models)
    assert all(np.isfinite(model.quality.smape) for model in sets["time"].models)


def test_relearn_predicts_its_largest_point():
    experiment = read_experiment(file_of("relearn", "relearn.txt"))
    own = model_experiment(experiment, aggregate="mean", repetition="mean")["time"]
    main = own.models[own.call_paths.index("main()")]
    assert main.function.evaluate([512.0, 9000.0]) == pytest.approx(2536.75, rel=0.1)
