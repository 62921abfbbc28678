"""CPRegressor: accuracy, conventions of scikit-learn, and bad input."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from buran.errors import UsageError
from buran.modeling.tensor import CPRegressor

pytestmark = pytest.mark.slow

PRESETS = ("default", "published")
CONVENTIONS = (pytest.param("default", marks=pytest.mark.thorough), "published")  # they share what keeps them


def sample(count=600, seed=0, noise=0.0):
    """Two sizes, a number of ranks and a solver with its own cost."""
    random = np.random.default_rng(seed)
    X = np.empty((count, 4))
    X[:, 0] = np.rint(np.exp(random.uniform(np.log(16), np.log(1024), count)))
    X[:, 1] = np.rint(np.exp(random.uniform(np.log(16), np.log(1024), count)))
    X[:, 2] = 2.0 ** random.integers(0, 6, count)
    X[:, 3] = random.integers(0, 3, count)
    y = 1e-6 * X[:, 0] * X[:, 1] / X[:, 2] * (1 + X[:, 3]) + 1e-5 * X[:, 0] + 1e-4 * np.log2(2 * X[:, 2])
    return X, y * np.exp(noise * random.standard_normal(count))


SCALE = ["log", "log", "log", "categorical"]


def mlogq(found, true):
    return float(np.abs(np.log(found / true)).mean())


@pytest.mark.parametrize(("preset", "bound"), [("default", 0.1), ("published", 0.2)])
def test_interpolates(preset, bound):
    X, y = sample(1500)
    test, true = sample(300, seed=1)
    test[:, :2] = np.clip(test[:, :2], X[:, :2].min(0), X[:, :2].max(0))
    true = 1e-6 * test[:, 0] * test[:, 1] / test[:, 2] * (1 + test[:, 3]) + 1e-5 * test[:, 0]
    true += 1e-4 * np.log2(2 * test[:, 2])
    options = {"rank": 4, "cells": 8, "ridge": 1e-3, "trees": 40} if preset == "default" else {}
    model = CPRegressor(preset, scale=SCALE, **options).fit(X, y)
    assert mlogq(model.predict(test), true) < bound


@pytest.mark.parametrize("preset", PRESETS)
def test_equal_seeds_give_equal_models(preset):
    X, y = sample(200)
    first, again = (
        CPRegressor(preset, scale=SCALE, rank=2, cells=4, ridge=1e-3).fit(X, y).predict(X) for _ in range(2)
    )
    assert (first == again).all()


def test_parameters_survive_a_clone():
    model = CPRegressor("published", scale=SCALE, rank=3, cells=8, extrapolate=[0])
    assert clone(model).get_params() == model.get_params()


@pytest.mark.parametrize("preset", CONVENTIONS)
def test_texts_are_categories(preset):
    X, y = sample(200)
    named = X.astype(object)
    named[:, 3] = np.array(["jacobi", "sor", "cg"], dtype=object)[X[:, 3].astype(int)]
    model = CPRegressor(preset, rank=2, cells=4, ridge=1e-3).fit(named, y)
    assert model.model_.axes[3].categories == ("cg", "jacobi", "sor")
    assert mlogq(model.predict(named), y) < 0.5


@pytest.mark.parametrize("preset", CONVENTIONS)
@pytest.mark.parametrize("bad", [0.0, -1.0, np.nan, np.inf])
def test_times_that_are_none_are_refused(preset, bad):
    X, y = sample(50)
    y[7] = bad
    with pytest.raises(UsageError, match="time"):
        CPRegressor(preset, scale=SCALE).fit(X, y)


@pytest.mark.parametrize("preset", CONVENTIONS)
def test_missing_parameters_are_refused(preset):
    X, y = sample(50)
    X[3, 1] = np.nan
    with pytest.raises(UsageError, match="x1"):
        CPRegressor(preset, scale=SCALE).fit(X, y)


@pytest.mark.parametrize("preset", CONVENTIONS)
def test_a_parameter_with_one_value_changes_nothing(preset):
    X, y = sample(200)
    constant = np.column_stack([X, np.full(len(X), 7.0)])
    model = CPRegressor(preset, scale=[*SCALE, "log"], rank=2, cells=4, ridge=1e-3).fit(constant, y)
    assert np.isfinite(model.predict(constant)).all()
    assert mlogq(model.predict(constant), y) < 0.5


@pytest.mark.parametrize("preset", CONVENTIONS)
def test_unseen_categories(preset):
    X, y = sample(200)
    model = CPRegressor(preset, scale=SCALE, rank=2, cells=4, ridge=1e-3).fit(X, y)
    there = X[:1].copy()
    there[0, 3] = 9
    with pytest.raises(UsageError, match="never measured") as caught:
        model.predict(there)
    assert "9" in str(caught.value)
    found = model.set_params(unseen="mean").predict(there)
    each = []
    for category in range(3):
        there[0, 3] = category
        each.append(model.predict(there)[0])
    assert 0.3 * min(each) < found[0] < 3 * max(each)


@pytest.mark.parametrize("preset", CONVENTIONS)
def test_points_outside_without_extrapolation(preset):
    X, y = sample(200)
    model = CPRegressor(preset, scale=SCALE, rank=2, cells=4, ridge=1e-3).fit(X, y)
    there = np.array([[1e5, 100, 4, 1], [200, 100, 4, 1]])
    with pytest.raises(UsageError, match=r"x0.*outside") as caught:
        model.predict(there)
    assert "extrapolate" in str(caught.value)
    found = model.set_params(outside="nan").predict(there)
    assert np.isnan(found[0]) and np.isfinite(found[1])
    edge = there.copy()
    edge[0, 0] = X[:, 0].max()
    assert model.set_params(outside="clamp").predict(there) == pytest.approx(model.predict(edge))


@pytest.mark.parametrize("preset", CONVENTIONS)
def test_more_cells_than_observations(preset):
    X, y = sample(40)
    model = CPRegressor(preset, scale=SCALE, rank=2, cells=64, ridge=1e-3).fit(X, y)
    found = model.predict(X)
    assert np.isfinite(found).all() and (found > 0).all()


@pytest.mark.parametrize("preset", CONVENTIONS)
def test_duplicate_points_with_different_times_are_averaged(preset):
    X, y = sample(300)
    model = CPRegressor(preset, scale=SCALE, rank=2, cells=4, ridge=1e-3)
    twice = model.fit(np.concatenate([X, X]), np.concatenate([0.9 * y, 1.1 * y])).predict(X)
    assert mlogq(twice, y) < 0.5
    assert abs(np.log(twice / y).mean()) < 0.1


@pytest.mark.parametrize("preset", CONVENTIONS)
def test_whole_numbers_with_three_values(preset):
    random = np.random.default_rng(0)
    X = random.integers(1, 4, (80, 2)).astype(float)
    y = X[:, 0] * X[:, 1] ** 2
    model = CPRegressor(preset, rank=2).fit(X, y)
    assert mlogq(model.predict(X), y) < 0.1
    assert [len(axis.values) for axis in model.model_.axes] == [3, 3]


@pytest.mark.thorough
def test_twenty_parameters():
    random = np.random.default_rng(0)
    X = np.exp(random.uniform(0, 3, (400, 20)))
    y = X[:, 0] * np.sqrt(X[:, 1]) + X[:, 2]
    model = CPRegressor(rank=2, cells=4, trees=20, ridge=1e-2).fit(X, y)
    assert mlogq(model.predict(X), y) < 0.4
    with pytest.raises(UsageError, match="20 parameters"):
        CPRegressor("published", rank=1, cells=4, ridge=1e-3).fit(X, y).predict(np.sqrt(X * 2))


def test_equal_times():
    X, _ = sample(60)
    for preset in PRESETS:
        model = CPRegressor(preset, scale=SCALE, rank=1, cells=4).fit(X, np.full(60, 3.0))
        assert model.predict(X) == pytest.approx(np.full(60, 3.0), rel=0.2)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"preset": "best"}, "preset"),
        ({"scale": ["log", "log"]}, "scale"),
        ({"scale": ["log", "log", "log", "logarithmic"]}, "scale"),
        ({"extrapolate": ["p"]}, "called"),
        ({"extrapolate": [9]}, "called 9"),
        ({"extrapolate": [3], "scale": SCALE}, "categories"),
        ({"names": ["a"]}, "name"),
        ({"cells": [4, 4], "preset": "published"}, "cells"),
        ({"cells": [4] * 4}, "published"),
        ({"members": 1}, "members"),
    ],
)
def test_options_that_are_none(given, words):
    X, y = sample(30)
    with pytest.raises(UsageError, match=words):
        CPRegressor(**given).fit(X, y)


def test_a_logarithmic_scale_needs_positive_values():
    X, y = sample(30)
    X[0, 0] = 0
    with pytest.raises(UsageError, match="logarithmic"):
        CPRegressor(scale=SCALE).fit(X, y)


def test_not_fitted():
    with pytest.raises(NotFittedError):
        CPRegressor().predict([[1.0]])


def test_beyond_the_range_intervals_grow_with_the_distance_and_hold():
    random = np.random.default_rng(5)
    X = np.exp(random.uniform(np.log(8), np.log(2048), (700, 2)))
    y = 1e-6 * X[:, 0] ** 1.5 * X[:, 1] * np.exp(0.05 * random.normal(size=700)) * (1 + 40 / X[:, 0])
    inside = X[:, 0] < 512
    model = CPRegressor(extrapolate=[0], rank=2, cells=6, trees=0).fit(X[inside], y[inside])
    lower, upper = model.predict_interval(X[~inside], 0.9)
    assert np.mean((lower <= y[~inside]) & (y[~inside] <= upper)) > 0.8
    far = np.array([[256.0, 100.0], [1024.0, 100.0], [2048.0, 100.0], [8192.0, 100.0]])
    lower, upper = model.predict_interval(far, 0.9)
    widths = np.log(upper / lower)
    assert (np.diff(widths) >= 0).all() and widths[-1] > 1.5 * widths[0]
    few = CPRegressor(extrapolate=[0], rank=2, cells=6, trees=0).fit(X[inside][:40], y[inside][:40])
    assert np.isnan(few.predict_interval(far, 0.9)[0][1:]).all()  # nothing could be held back


def test_intervals_hold_new_measurements():
    X, y = sample(1200, noise=0.1)
    test, true = sample(500, seed=5, noise=0.1)
    model = CPRegressor(scale=SCALE, outside="clamp", rank=4, cells=8).fit(X, y)
    lower, upper = model.predict_interval(test, 0.9)
    assert 0.8 < ((lower <= true) & (true <= upper)).mean() < 0.99
    assert (lower < model.predict(test)).all()
    with pytest.raises(UsageError, match="level"):
        model.predict_interval(test, 1.5)


# The paper's cells at the edge are half as wide as the others: their means lie inside, and slopes become too flat.
@pytest.mark.parametrize(("preset", "bound"), [("default", 0.1), ("published", 0.4)])
def test_extrapolates_a_product_of_powers(preset, bound):
    random = np.random.default_rng(0)
    X = np.exp(random.uniform(np.log(16), np.log(512), (800, 2)))
    options = {"rank": 2, "cells": 6, "ridge": 1e-3, "trees": 0} if preset == "default" else {}
    model = CPRegressor(preset, names=["m", "n"], extrapolate=["m"], outside="clamp", **options)
    model.fit(X, 1e-6 * X[:, 0] * X[:, 1])
    there = np.column_stack([np.full(50, 2048.0), np.exp(random.uniform(np.log(20), np.log(500), 50))])
    assert mlogq(model.predict(there), 1e-6 * there[:, 0] * there[:, 1]) < bound


def test_growth_cannot_blow_up():
    X, y = sample(300)
    model = CPRegressor(scale=SCALE, extrapolate=[0, 1, 2], rank=2, cells=5, trees=0).fit(X, y)
    far = np.array([[1e6, 1e6, 1e4, 1.0]])
    edge = X.max(axis=0)[None]
    growth = np.log(model.predict(far) / model.predict(np.array([[*edge[0, :3], 1.0]])))[0]
    distance = np.log(far[0, :3] / edge[0, :3])
    slopes = model.model_.growth.slopes[:3]
    assert (distance * (slopes - 0.5)).sum() - 1e-9 <= growth <= (distance * (slopes + 0.5)).sum() + 1e-9
    beyond = np.array([[*(2 * edge[0, :3]), 1.0]])  # no observation has all three at their largest
    lower, upper = model.predict_interval(beyond)
    assert 1.2 < upper[0] / lower[0] < np.inf


def test_growth_is_monotone():
    random = np.random.default_rng(0)
    X = np.column_stack([np.exp(random.uniform(2, 6, 400)), 2.0 ** random.integers(0, 6, 400)])
    y = (1e-6 * X[:, 0] ** 1.5 + 1e-4 * np.log2(2 * X[:, 1])) * np.exp(0.1 * random.standard_normal(400))
    model = CPRegressor(extrapolate=[0, 1], rank=2, cells=6).fit(X, y)
    far = np.geomspace(X[:, 0].max(), 1e5, 40)
    for ranks in (1.0, 32.0, 1024.0):
        found = model.predict(np.column_stack([far, np.full(40, ranks)]))
        assert (np.diff(np.log(found)) >= -1e-9).all()
    found = model.predict(np.column_stack([np.full(8, 100.0), 2.0 ** np.arange(5, 13)]))
    assert (np.log(found) >= np.log(found[0]) - 1e-9).all()


@pytest.mark.parametrize("preset", CONVENTIONS)
def test_no_dense_tensor_is_built(preset):
    import tracemalloc

    random = np.random.default_rng(0)
    X = np.exp(random.uniform(0, 5, (300, 8)))  # a grid of 12^8 cells
    own = {} if preset == "published" else {"members": 2, "trees": 0}
    model = CPRegressor(preset, rank=2, cells=12, ridge=1e-3, **own)
    tracemalloc.start()
    model.fit(X, X[:, 0] * X[:, 1])
    model.predict(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 50e6
