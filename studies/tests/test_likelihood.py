"""A Gaussian process of the largest likelihood, beside scikit-learn's."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern

from buran.numerics.gaussian_process import matern
from buran_studies.selection.strategies.likelihood import fit_process, thinned

INPUTS, NOISE = np.random.default_rng(0).uniform(size=(20, 2)), np.full(20, 0.01)


def test_the_likelihood_is_no_smaller_than_where_scikit_learn_ends() -> None:
    values = np.sin(5 * INPUTS[:, 0]) + INPUTS[:, 1]
    process = fit_process(INPUTS, values, NOISE)
    centred = values - values.mean()
    kernel = ConstantKernel(1.0, (1e-3, 1e3)) * Matern([1.0, 1.0], (0.05, 54), nu=1.5)
    other = GaussianProcessRegressor(kernel, alpha=NOISE).fit(INPUTS, centred)
    theta = np.log([process.variance, *np.broadcast_to(process.lengths, 2)])
    assert other.log_marginal_likelihood(theta) >= other.log_marginal_likelihood_value_ - 0.1


def test_a_process_returns_to_its_data_and_knows_where_it_knows_little() -> None:
    x = np.linspace(0, 1, 7)[:, None]
    y = np.sin(4 * x[:, 0])
    process = fit_process(x, y, np.full(7, 1e-8))
    mean, deviation = process.predict(x)
    assert mean == pytest.approx(y, abs=1e-3)
    assert deviation.max() < 1e-2 < process.predict(np.array([[2.0]]))[1][0]
    assert matern(x, x, np.ones(1)).diagonal() == pytest.approx(1)


def test_fitted_data_are_spread_over_all() -> None:
    assert thinned(10, 3).tolist() == [0, 4, 9] and thinned(2, 3).tolist() == [0, 1]
