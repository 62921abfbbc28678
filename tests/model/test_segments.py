"""Segmented behaviour."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from buran.model import fit_models
from buran.model.segments import find_segments
from buran_studies.noise import inject

X = 2.0 ** np.arange(1, 10)
POINTS = X[:, None]
GRID = np.array([[p, n] for p in X[:7] for n in (10.0, 20, 30, 40, 50)])


def segments(points, values, percent=0.0):
    values = inject(np.atleast_2d(values), percent, repetitions=5, seed=1).mean(axis=-1)
    return find_segments(points, values, fit_models(points, values).models)


@pytest.mark.parametrize("percent", [0, 2, 5])
def test_a_switch_is_found_where_it_is(percent):
    found = segments(POINTS, np.where(X < 32, 10 + X, 400 + 2 * X**2), percent)[0]
    assert found.breaks == ((16, 32),)
    assert found.parameter == 0
    assert found.error < 0.2 * found.error_before
    assert found.evaluate(np.array([[4.0], [1024.0]])) == pytest.approx([14, 400 + 2 * 1024**2], rel=0.1)
    assert 16 < found.next_values[0] < 32 or any(16 < value < 32 for value in found.next_values)


def test_three_regimes():
    x = 2.0 ** np.arange(1, 13)
    values = np.select([x < 16, x < 300], [5 * x, 1000 + 0 * x], x**2)
    found = segments(x[:, None], values)[0]
    assert found.breaks == ((8, 16), (256, 512))
    assert [model.function.is_constant for model in found.models] == [False, True, False]


def test_a_parameter_among_several():
    p, n = GRID.T
    found = segments(GRID, np.where(p < 16, n * p, 500 * n + p), 2)[0]
    assert found.parameter == 0
    assert found.breaks == ((8, 16),)


def test_one_model_is_preferred_where_it_suffices():
    random = np.random.default_rng(4)
    exponents = random.choice([0.5, 1, 1.5, 2, 3], size=60)
    values = random.uniform(1, 50, (60, 1)) + X ** exponents[:, None]
    for percent in (0, 2, 10):
        assert sum(found is not None for found in segments(POINTS, values, percent)) <= 1


def test_points_are_asked_for_where_segments_are_short():
    found = segments(POINTS[:7], np.where(X[:7] < 16, 10 + X[:7], 400 + 2 * X[:7] ** 2))[0]
    assert any(8 < value < 16 for value in found.next_values)
    below = {*X[:3], *(value for value in found.next_values if value < 8)}
    above = {*X[3:7], *(value for value in found.next_values if value > 16)}
    assert len(below) >= 5
    assert len(above) >= 5


def test_too_few_values_tell_nothing():
    assert segments(POINTS[:5], np.where(X[:5] < 8, 1.0, 50 * X[:5])) == (None,)


@settings(max_examples=20, suppress_health_check=[HealthCheck.too_slow])
@given(arrays(np.float64, (2, 7), elements=st.one_of(st.floats(-1e9, 1e9), st.just(np.nan), st.just(0.0))))
def test_nothing_measured_makes_it_fail(values):
    for found, row in zip(
        find_segments(POINTS[:7], values, fit_models(POINTS[:7], values).models), values, strict=True
    ):
        if found is not None:
            assert len(found.models) == len(found.breaks) + 1
            assert np.isfinite(found.evaluate(POINTS)).all()
            assert np.isfinite(row).sum() > 3


def test_switches_along_two_parameters():
    """A library that switches with p, and a cache that ends with n, in one part of the plane only."""
    axis = 2.0 ** np.arange(1, 9)
    points = np.array([[p, n] for p in axis for n in axis])
    p, n = points.T
    values = np.where(p < 24, 5 + p, np.where(n < 24, 400 + 3 * n, 9000 + n**2))[None]
    found = find_segments(points, values, fit_models(points, values).models)[0]
    assert found is not None
    along = {found.parameter} | {own.parameter for own in found.inner if own is not None}
    assert along == {0, 1}
    assert found.evaluate(points) == pytest.approx(values[0], rel=1e-6)
