"""A process that is averaged over its hyperparameters, beside scikit-learn's kernels."""

from __future__ import annotations

import numpy as np
from sklearn.gaussian_process.kernels import RBF

from buran.modeling.numerics.gaussian_process import average_process, spread_evenly, squared_exponential

RANDOM = np.random.default_rng(0)
INPUTS, VALUES = RANDOM.uniform(size=(20, 2)), RANDOM.normal(size=20)
PLACES = RANDOM.uniform(size=(30, 2))


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
