"""Strong scaling."""

import numpy as np
import pytest

from buran.errors import UsageError
from buran.modeling.pmnf.scaling import falling_parameters, to_resources

GRID = np.array([[p, n] for p in (2.0, 4, 8, 16) for n in (100.0, 200, 300)])


def test_divided_work_is_strong_scaling():
    p, n = GRID.T
    assert falling_parameters(GRID, n**2 / p + 1) == (0,)
    assert falling_parameters(GRID, n**2 + np.log2(p)) == ()
    assert falling_parameters(GRID, 1000 / n / p) == (0, 1)


def test_noise_alone_is_not():
    random = np.random.default_rng(1)
    for _ in range(50):
        assert falling_parameters(GRID, 5 + random.uniform(-0.3, 0.3, len(GRID))) == ()


def test_missing_values_and_few_points():
    values = GRID[:, 1] / GRID[:, 0]
    values[[0, 5]] = np.nan
    assert falling_parameters(GRID, values) == (0,)
    assert falling_parameters(GRID[:2], values[:2]) == ()
    assert falling_parameters(GRID, np.full(len(GRID), np.nan)) == ()


def test_order_of_points_does_not_matter():
    order = np.random.default_rng(2).permutation(len(GRID))
    assert falling_parameters(GRID[order], (GRID[:, 1] / GRID[:, 0])[order]) == (0,)


def test_resources_are_times_times_processes():
    values = GRID[:, 1] / GRID[:, 0]
    assert to_resources(GRID, values[None], 0) == pytest.approx(GRID[None, :, 1])
    with pytest.raises(UsageError, match="positive"):
        to_resources(np.array([[0.0]]), np.ones((1, 1)), 0)
