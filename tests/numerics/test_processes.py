"""Gaussian processes: against scikit-learn's with the same hyperparameters."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern

from buran.numerics.gaussian_process import Process, average_process, squared_exponential
from buran.numerics.sequence import spread_evenly

RANDOM = np.random.default_rng(0)
INPUTS, VALUES = RANDOM.uniform(size=(20, 2)), RANDOM.normal(size=20)
PLACES = RANDOM.uniform(size=(30, 2))
NOISE = np.full(20, 0.01)


def test_a_posterior_is_that_of_scikit_learn() -> None:
    own = Process.of(INPUTS, VALUES, NOISE, np.array([0.5, 2.0]), 1.5, 0.0)
    kernel = ConstantKernel(1.5) * Matern([0.5, 2.0], nu=1.5)
    other = GaussianProcessRegressor(kernel, alpha=NOISE, optimizer=None).fit(INPUTS, VALUES)
    mean, deviation = own.predict(PLACES)
    expected, covariance = other.predict(PLACES, return_cov=True)
    np.testing.assert_allclose(mean, expected, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(own.covariance(PLACES), covariance, rtol=1e-7, atol=1e-10)
    np.testing.assert_allclose(deviation, np.sqrt(np.diag(covariance)), rtol=1e-7)


def test_equal_inputs_without_noise_have_one_value() -> None:
    twice = np.concatenate([INPUTS, INPUTS])
    own = Process.of(twice, np.concatenate([VALUES, VALUES]), np.zeros(40), 1.0, 1.0, 0.0)
    assert own.predict(INPUTS)[0] == pytest.approx(VALUES, abs=1e-3)


def test_an_average_has_the_mean_of_its_draws() -> None:
    lengths, pull = average_process(INPUTS, VALUES)
    assert len(lengths) == len(pull) and pull.shape[1] == 20
    mean = np.einsum("dqp,dp->q", squared_exponential(PLACES, INPUTS, lengths), pull)
    assert np.isfinite(mean).all()
    single = squared_exponential(PLACES, INPUTS, lengths[:1])[0]
    np.testing.assert_allclose(single, RBF(lengths[0])(PLACES, INPUTS), rtol=1e-10)


def test_numbers_are_spread_evenly() -> None:
    unit = spread_evenly(1000, 3)
    assert unit.shape == (1000, 3) and (unit >= 0).all() and (unit < 1).all()
    assert all(abs(np.histogram(column, 10, (0, 1))[0] - 100).max() <= 5 for column in unit.T)
