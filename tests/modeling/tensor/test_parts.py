"""Pieces: grid, least squares, positive factors, splines, trees."""

import numpy as np

from buran.modeling.tensor.axes import columns_of, encode, fit_axes
from buran.modeling.tensor.blend import features, grow, tree_arrays
from buran.modeling.tensor.smooth import Coordinates, PartOptions, fit_part, make_basis


def axes_of(X, scale):
    columns = columns_of(X)
    axes = fit_axes(columns, scale, [f"x{j}" for j in range(len(columns))])
    return axes, encode(columns, axes)


def test_smooth_parts_fit_a_sum_and_a_product():
    random = np.random.default_rng(0)
    X = random.uniform(0, 1, (2000, 3))
    values = np.sin(3 * X[:, 0]) + X[:, 1] * X[:, 2]
    axes, points = axes_of(X, ["linear"] * 3)
    bases = [make_basis(axis, 10) for axis in axes]
    coordinates = Coordinates.of(points, bases)
    part = fit_part(coordinates, values, bases, PartOptions(10, 2, 1e-4, 1e-4, 20), random)
    assert np.abs(part.predict(coordinates) - values).mean() < 0.01
    lone = fit_part(coordinates, values, bases, PartOptions(10, 0, 1e-4, 1e-4, 20), random)
    assert np.abs(lone.predict(coordinates) - values).mean() > 0.02


def test_trees_find_a_ratio_of_parameters():
    random = np.random.default_rng(0)
    X = np.exp(random.uniform(0, 5, (3000, 3)))
    target = (X[:, 0] > X[:, 1]).astype(float)
    axes, points = axes_of(X, ["log"] * 3)
    values = features(points, axes, [np.zeros((0, 1))] * 3)
    grown = grow(values[:2000], target[:2000], 60, 0)
    found = tree_arrays(grown).predict(values[2000:])
    assert np.abs(found - target[2000:]).mean() < 0.1
    assert np.allclose(found, grown.predict(values[2000:]), atol=1e-5)
