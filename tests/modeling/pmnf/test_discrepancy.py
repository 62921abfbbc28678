"""The process on what models leave over: what it predicts, how sure it is, and what it costs."""

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, DotProduct, Matern

from buran.modeling.fit import fit_models
from buran.modeling.functions.powers import PowerLog
from buran.modeling.functions.terms import Factor, ModelFunction, Term, power
from buran.modeling.numerics.tuning import COMBINATIONS
from buran.modeling.pmnf import ModelSet
from buran.modeling.pmnf.repetitions import scatter_of
from buran.modeling.price.discrepancy import (
    SLOPE,
    Along,
    Discrepancy,
    Process,
    discrepancies,
    left_over_at,
    logarithms,
    scales_of,
)
from buran_studies.functions import grid
from buran_studies.noise import inject

SIZES = np.array([[8.0], [12], [16], [24], [32]])
CUBES = power(0, 3)


def fitted(function, points, noise=1.0, seed=1):
    repetitions = inject(function(points)[None], noise, repetitions=5, seed=seed)
    return fit_models(points, repetitions.mean(axis=2), scatter=scatter_of(repetitions))


def priced(price, points=SIZES, deviations=(0.3,)):
    """Return the process on times of cubic work with a price, and the shift and deviation at n = 42 and 420."""
    work = CUBES.evaluate(points)
    values = (price(points[:, 0]) * work)[None]
    (one,) = discrepancies(points, values, work[None], np.array([0.02]), np.array([8]), deviations)
    return one, *(each[0] for each in left_over_at([one], [CUBES], np.array([[42.0], [420.0]])))


def test_a_constant_price_is_carried_on_and_the_deviation_grows_without_bound():
    _, shift, deviation = priced(lambda n: np.full(len(n), 3.0))
    assert np.exp(shift) == pytest.approx([3.0, 3.0])
    assert 0 < deviation[0] < 0.1 < deviation[1]
    far = left_over_at([priced(lambda n: 1 + 0 * n)[0]], [CUBES], np.array([[42e9]]))[1][0, 0]
    assert far > 10 * deviation[0]


@pytest.mark.parametrize("price", [lambda n: (n / 32) ** 0.2, lambda n: 1 + 0.42 * np.clip((n - 16) / 8, 0, 1)])
def test_a_price_that_drifts_is_near_that_of_the_largest_size(price):
    _, shift, _ = priced(price)
    assert np.exp(shift[0]) == pytest.approx(price(np.array([42.0]))[0], rel=0.07)


def test_a_model_that_is_as_far_off_everywhere_predicts_the_same():
    work = CUBES.evaluate(SIZES)
    one, *_ = discrepancies(SIZES, work[None], work[None], np.zeros(1), np.zeros(1))
    shifts, _ = left_over_at([one, one], [CUBES, ModelFunction(0.0, (7.0,), CUBES.terms)], np.array([[50.0]]))
    assert shifts[0, 0] - shifts[1, 0] == pytest.approx(np.log(7.0))


def test_call_paths_share_processes():
    points = grid(2)
    work = np.ones((50, len(points)))
    random = np.random.default_rng(3)
    values = 1 + random.normal(0, 0.03, work.shape)
    found = discrepancies(points, values, work, np.full(50, 0.03), np.full(50, 40))
    assert len({id(one.process) for one in found}) <= 2


@pytest.mark.parametrize("values", [[np.nan] * 5, [0.0] * 5])
def test_without_a_value_there_is_none(values):
    assert discrepancies(SIZES, np.array([values]), np.ones((1, 5)), np.zeros(1), np.zeros(1)) == [None]


def test_a_single_value_says_the_price_there_and_little_far_away():
    values, at = np.array([[np.nan, np.nan, 2.0, np.nan, np.nan]]), np.array([SIZES[2], 2 * SIZES[2], 64 * SIZES[2]])
    (one,) = discrepancies(SIZES, values, np.ones((1, 5)), np.zeros(1), np.zeros(1))
    shift, deviation = left_over_at([one], [ModelFunction(1.0)], at)
    np.testing.assert_allclose(np.exp(shift), 2.0)
    assert (np.diff(deviation[0]) > 0).all() and deviation[0, 0] < 0.1


@pytest.mark.parametrize("values", [[0.0, 0, 0, 0, 3], [5e-324] * 5, [1e300, 1, 1, 1, 1e-300]])
def test_values_below_the_resolution_of_a_clock_are_no_infinite_prices(values):
    one, *_ = discrepancies(SIZES, np.array([values]), CUBES.evaluate(SIZES)[None], np.zeros(1), np.zeros(1))
    shift, deviation = left_over_at([one], [CUBES], np.array([[42.0]]))
    assert np.isfinite(shift).all() and np.isfinite(deviation).all()


def test_parameters_that_never_vary_or_are_zero_have_finite_processes():
    points = np.array([[0.0, 3.0], [1, 3], [2, 3], [5, 3]])
    one, *_ = discrepancies(points, np.array([[1.0, 2, 3, 4]]), np.ones((1, 4)), np.zeros(1), np.zeros(1))
    _, deviation = left_over_at([one], [ModelFunction(1.0)], np.array([[5.0, 3.0], [5.0, 300.0]]))
    assert np.isfinite(deviation).all() and deviation[0, 1] > deviation[0, 0]


def test_many_points_are_thinned_to_a_bound():
    points = np.stack([np.linspace(1, 1000, 5000), np.tile([1.0, 2], 2500)], axis=1)
    one, *_ = discrepancies(points, (2 * points[:, :1] ** 0.1).T, np.ones((1, 5000)), np.zeros(1), np.zeros(1))
    assert len(one.process.points) == COMBINATIONS
    shift, _ = left_over_at([one], [ModelFunction(1.0)], np.array([[1000.0, 2.0]]))
    assert np.exp(shift[0, 0]) == pytest.approx(2 * 1000**0.1, rel=0.02)


def test_few_steps_at_a_point_tell_what_all_of_them_take_there_however_rough_the_price_is():
    # sizes that are powers of two cost six times as much, as in a transpose; s repeats work
    points = np.array([[512.0, 5], [512, 20], [512, 100], [720, 5], [1024, 5], [1440, 5], [4096, 5]])
    work = ModelFunction(0.0, (1.0,), (Term((Factor(0, PowerLog(2, 0)), Factor(1, PowerLog(1, 0)))),))
    price = np.where(np.isin(points[:, 0], [512, 1024, 4096]), 6.0, 1.0)
    along = np.array([[Along.TREND, Along.NOTHING]])
    values = (price * work.evaluate(points))[None]
    (one,) = discrepancies(points, values, work.evaluate(points)[None], np.zeros(1), np.zeros(1), (0.3,), along)
    shift, deviation = left_over_at([one], [work], np.array([[4096.0, 100], [2880.0, 100]]))
    assert np.exp(shift[0, 0]) == pytest.approx(6.0, rel=0.05) and deviation[0, 0] < 0.06
    assert deviation[0, 1] > 0.5  # of a size that was not run nobody knows
    assert len(one.process.points) == 5
    assert Process.from_json(one.process.to_json()).rough == one.process.rough > 0.5


def test_a_process_of_an_earlier_version_is_smooth():
    data = Process(SIZES, *scales_of(SIZES, Along.TREND), 0.3, 0.05).to_json()
    del data["rough"]
    assert Process.from_json(data).rough == 0


def test_repetitions_of_work_alone_have_one_price():
    points = np.array([[5.0], [20], [100]])
    (one,) = discrepancies(
        points, 2 * points.T, points.T, np.zeros(1), np.zeros(1), (0.3,), np.array([[Along.NOTHING]])
    )
    shift, deviation = left_over_at([one], [power(0, 1)], np.array([[1000.0]]))
    assert np.exp(shift[0, 0]) == pytest.approx(2.0) and np.isfinite(deviation[0, 0])


def test_the_posterior_is_that_of_scikit_learn():
    points = grid(2)
    process = Process(points, *scales_of(points, Along.TREND), 0.3, 0.05)
    values, at = np.random.default_rng(5).normal(size=25), np.array([[128.0, 60.0], [4.0, 33.0]])
    trend = ConstantKernel(0.3**2 * SLOPE**2) * DotProduct(1e-6)
    kernel = ConstantKernel(0.3**2) * Matern(process.lengths, nu=1.5) + trend + ConstantKernel(1e5)
    other = GaussianProcessRegressor(kernel, alpha=0.05**2, optimizer=None).fit(logarithms(points, points), values)
    mean, deviation = other.predict(logarithms(at, points), return_std=True)
    weights, own = process.at(at)
    assert weights @ values == pytest.approx(mean, rel=1e-4)
    assert own == pytest.approx(deviation, rel=1e-3)


def test_weights_of_the_points_add_up_to_one():
    process = Process(SIZES, *scales_of(SIZES, Along.TREND), 0.3, 0.03)
    assert process.at(np.array([[5.0], [42.0], [4200.0]]))[0].sum(axis=1) == pytest.approx([1, 1, 1])


def test_a_truth_of_another_kind_has_a_wide_interval_beyond():
    points = grid(2)
    approaching = lambda at: at[:, 1] * (1 - np.exp(-at[:, 0] / 30))  # noqa: E731
    fit = fitted(approaching, points)
    target = np.array([[128.0, 60.0]])
    lower, upper = fit.predict_interval(target)
    assert upper[0, 0] - lower[0, 0] > 0.1 * fit.predict(target)[0, 0]


def test_a_process_may_not_depend_on_a_parameter():
    points = np.array([[n, s] for n in (8.0, 16, 32) for s in (31.0, 61.0)])
    work = power(1, 1).evaluate(points) * CUBES.evaluate(points)
    arguments = points, (3 * work)[None], work[None], np.array([0.02]), np.array([8]), (0.3,)
    near, far = np.array([[32.0, 61.0]]), np.array([[32.0, 600.0]])
    one, flat = discrepancies(*arguments)[0], discrepancies(*arguments, np.array([[Along.TREND, Along.NOTHING]]))[0]
    of_both = [[left_over_at([each], [CUBES], at)[1][0, 0] for at in (near, far)] for each in (one, flat)]
    assert of_both[0][1] > 1.5 * of_both[0][0]
    assert of_both[1][1] == pytest.approx(of_both[1][0])
    again = Process.from_json(flat.process.to_json())
    assert np.isinf(again.lengths).tolist() == [False, True]
    assert again.at(far)[1] == pytest.approx(flat.process.at(far)[1])


def test_exact_values_leave_nothing_over():
    points = grid(2)
    assert fit_models(points, (5 + 3 * points[:, 0] * points[:, 1])[None]).models[0].discrepancy is None


def test_models_files_keep_it():
    points = grid(2)
    fit = fitted(lambda at: 100 * at[:, 1] * at[:, 0] / (at[:, 0] + 30), points)
    models = ModelSet(("p", "n"), "time", "s", ("f",), fit.models, "sum", "mean", tuple(map(tuple, points.tolist())))
    again = ModelSet.from_json(models.to_json())
    target = np.array([[512.0, 60.0]])
    assert isinstance(again.models[0].discrepancy, Discrepancy)
    assert np.allclose(again.predict(target), models.predict(target))
    assert np.allclose(again.predict_interval(target), models.predict_interval(target))


def test_a_process_without_a_trend_has_its_deviation_far_beyond_the_points():
    """As the price of work that does not depend on the ranks: the node is full at some number of them."""
    points, far = grid(2), np.array([[1e9, 60.0]])
    of_both = [
        Process(points, *scales_of(points, np.array([along, Along.TREND])), 0.3, 0.03).at(far)[1][0]
        for along in (Along.TREND, Along.LEVEL)
    ]
    assert of_both[0] > 3 * of_both[1] and of_both[1] < 0.4


def test_an_interval_of_a_price_reaches_farther_above_than_below_and_never_zero():
    n = np.array([[150.0], [300.0], [600.0], [1200.0], [2400.0]])
    fit = fit_models(n, 1e-9 * n.T**2 * np.array([[1.0, 1.001, 0.999, 1.001, 0.999]]))
    far = np.array([[240_000.0]])
    (lower,), (upper,) = (end[:, 0] for end in fit.predict_interval(far))
    predicted = fit.predict(far)[0, 0]
    assert 0 < lower < predicted < upper and upper - predicted > predicted - lower
