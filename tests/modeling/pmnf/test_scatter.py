"""What repetitions tell about the noise, and what is made of it."""

import numpy as np
import pytest

from buran.modeling.fit import fit_models
from buran.modeling.pmnf import SearchOptions
from buran.modeling.pmnf.repetitions import Scatter, scatter_of

SIZES = np.array([[4.0], [8], [16], [32], [64]])
GRID = np.array([[p, n] for p in (4.0, 8, 16, 32, 64) for n in (10.0, 20, 30, 40, 50)])


@pytest.mark.parametrize(("repetition", "tolerance"), [("mean", 0.05), ("median", 0.2)])
def test_scatter_is_that_of_the_reduced_values(repetition, tolerance):
    reduce = {"mean": np.mean, "median": np.median}[repetition]
    own = 100 * (1 + np.random.default_rng(1).normal(0, 0.02, (400, 5, 5)))
    found = scatter_of(own, repetition)
    wanted = reduce(own, axis=2).std() / 100
    assert np.sqrt((found.share**2).mean()) == pytest.approx(wanted, rel=tolerance)
    assert (found.degrees == 16).all()


def test_outliers_are_no_noise_of_medians_and_minima_say_nothing():
    own = 100 * (1 + np.random.default_rng(1).normal(0, 0.02, (50, 5, 5)))
    own[:, :2, 0] *= 10
    assert (scatter_of(own, "median").share < 0.03).all()
    assert (scatter_of(own, "mean").share > 0.3).all()
    assert not scatter_of(own, "min").degrees.any()


def test_a_slow_first_repetition_is_no_scatter():
    true = 3 + 2 * SIZES.T
    found = scatter_of(true[..., None] * np.array([5.0, 1, 1.1]))
    assert found.share == pytest.approx(0, abs=1e-12)


def test_without_repetitions_nothing_is_known():
    found = scatter_of(np.ones((2, 5, 1)))
    assert found.degrees.tolist() == [0, 0]
    gaps = np.array([[[1.0, 2.0], [3.0, np.nan], [np.nan, np.nan]]])
    assert scatter_of(gaps).degrees.tolist() == [0]  # one point tells nothing apart


def test_intervals_are_wider_where_no_hypothesis_is_right():
    """Residuals that repetitions do not explain are systematic: more points do not average them out."""
    waves = (GRID[:, 0] * GRID[:, 1]) * (1 + 0.2 * np.sin(2 * np.log2(GRID[:, 0])))
    widths = []
    for share in (0.2, 0.002):
        scatter = Scatter(np.array([share]), np.array([100]))
        fit = fit_models(GRID, waves[None], scatter=scatter, options=SearchOptions(max_terms=1))
        lower, upper = fit.predict_interval(np.array([[128.0, 60.0]]), of="mean")
        widths.append((upper - lower)[0, 0])
    assert widths[1] > widths[0]


def test_equal_repetitions_of_exact_values_stay_exact():
    values = np.repeat((7 + 3 * SIZES.T * np.log2(SIZES.T))[..., None], 3, axis=2)
    fit = fit_models(SIZES, values.mean(axis=2), scatter=scatter_of(values))
    assert fit.predict(np.array([[128.0]]))[0, 0] == pytest.approx(7 + 3 * 128 * 7)


def test_unknown_scatter():
    assert Scatter.unknown(3).degrees.tolist() == [0, 0, 0]
