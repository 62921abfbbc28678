"""Fitting: exact recovery, leave-one-out, invariances, missing values, degenerate input."""

from fractions import Fraction as F

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from buran.errors import UsageError
from buran.modeling.fit import fit_models
from buran.modeling.functions.powers import full_space
from buran.modeling.functions.terms import predict
from buran.modeling.pmnf import SearchOptions
from buran.modeling.pmnf.beam import leave_one_out
from buran.modeling.pmnf.repetitions import relative_weights

SIZES = np.array([[8.0], [16.0], [24.0], [32.0], [48.0]])
GRID = np.array([(p, n) for p in (1.0, 2.0, 4.0, 8.0, 16.0) for n in (8.0, 16.0, 24.0, 32.0, 48.0)])
P, N = GRID.T
LINES = GRID[(P == 1) | (N == 8)]


def structure(model):
    """Exponents of a model's terms: {((parameter, power, log), ...)}."""
    return {tuple((f.parameter, *f.basis.lead) for f in term.factors) for term in model.function.terms}


@pytest.mark.parametrize("constant", [0.0, 17.0])
def test_every_exponent_of_the_space_is_recovered(constant):
    x = SIZES[:, 0]
    pairs = full_space().pairs
    values = np.array([constant + 3.5 * x ** float(i) * np.log2(x) ** j for i, j in pairs])
    for (i, j), model in zip(pairs, fit_models(SIZES, values).models, strict=True):
        assert structure(model) == {((0, i, j),)}
        assert model.function.coefficients == pytest.approx((3.5,))
        assert model.function.constant == pytest.approx(constant, abs=1e-9)
        assert model.quality.error < 1e-10


def test_every_negative_power_of_the_space_is_recovered():
    x = SIZES[:, 0]
    pairs = [pair for pair in full_space().with_negatives if pair[0] < 0]
    values = np.array([2.0 + 3.5 * x ** float(i) * np.log2(x) ** j for i, j in pairs])
    for (i, j), model in zip(pairs, fit_models(SIZES, values).models, strict=True):
        assert structure(model) == {((0, i, j),)}


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda n: 3 * n**3 + 6 * n**2 + 2, {3: 3, 2: 6}),
        (lambda n: 10 * (3 * n**3 + 2), {3: 30}),
        (lambda n: n**3 + n**2 + n + 1, {3: 1, 2: 1, 1: 1}),
        (lambda n: 7 * (n - 2) ** 3, {3: 7, 2: -42, 1: 84}),
        (lambda n: (n - 1) ** 2, {2: 1, 1: -2}),
        (lambda n: 12 * n**3 - 31 * n**2 + 24 * n + 17, {3: 12, 2: -31, 1: 24}),
    ],
)
def test_counts_of_nested_loops_are_exact(function, expected):
    model = fit_models(SIZES, function(SIZES.T)).models[0]
    assert structure(model) == {((0, F(power), 0),) for power in expected}
    found = {
        int(term.factors[0].basis.lead[0]): c
        for c, term in zip(model.function.coefficients, model.function.terms, strict=True)
    }
    assert found == pytest.approx(expected)
    assert model.function.lead(0) == (F(max(expected)), 0)
    assert model.function.evaluate([100.0]) == pytest.approx(function(100.0))


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (N**3 / P, {((0, F(-1), 0), (1, F(3), 0))}),
        (N**3 / P + N**2, {((0, F(-1), 0), (1, F(3), 0)), ((1, F(2), 0),)}),
        (N**2 * (P - 1) / P, {((1, F(2), 0),), ((0, F(-1), 0), (1, F(2), 0))}),
        (7 * (P - 1) / P, {((0, F(-1), 0),)}),
        (N**3 + 5 * np.log2(P), {((1, F(3), 0),), ((0, F(0), 1),)}),
        (
            (3 * N**3 + 6 * N**2 + 2) * np.log2(P) + 5,
            {((0, F(0), 1), (1, F(3), 0)), ((0, F(0), 1), (1, F(2), 0)), ((0, F(0), 1),)},
        ),
        (N**2 * np.log2(N) / P + P, {((0, F(-1), 0), (1, F(2), 1)), ((0, F(1), 0),)}),
        (
            4 * N**3 + 2 * N**2 + 3 * N + 7 * P + 1,
            {((1, F(3), 0),), ((1, F(2), 0),), ((1, F(1), 0),), ((0, F(1), 0),)},
        ),
        (3 * N**3 + 6 * N**2 + 2 + 0 * P, {((1, F(3), 0),), ((1, F(2), 0),)}),
    ],
)
def test_counts_of_two_parameters_are_exact(values, expected):
    model = fit_models(GRID, values[None]).models[0]
    assert structure(model) == expected
    assert model.quality.error < 1e-10


def test_three_parameters():
    grid = np.array([(p, n, k) for p in (2.0, 4, 8, 16) for n in (10.0, 20, 30, 40) for k in (1.0, 2, 3, 5)])
    p, n, k = grid.T
    values = np.stack([n**2 * k * np.log2(p) + 3, n**2 * k + 100 * p, n**3 + 50 * k**2 + 7 * p, n * k / p])
    found = [structure(model) for model in fit_models(grid, values).models]
    assert found == [
        {((0, F(0), 1), (1, F(2), 0), (2, F(1), 0))},
        {((1, F(2), 0), (2, F(1), 0)), ((0, F(1), 0),)},
        {((1, F(3), 0),), ((2, F(2), 0),), ((0, F(1), 0),)},
        {((0, F(-1), 0), (1, F(1), 0), (2, F(1), 0))},
    ]


def test_growth_that_starts_at_a_value_is_recovered():
    """Of a wavefront: a single rank does not wait."""
    values = 4.8e-8 * (P**0.5 - 1) * N**3 + 2e-7 * P**0.5
    model = fit_models(GRID, values[None]).models[0]
    assert structure(model) == {((0, F(1, 2), 0), (1, F(3), 0)), ((1, F(3), 0),), ((0, F(1, 2), 0),)}
    assert model.function.evaluate(np.array([[256.0, 96.0]])) == pytest.approx(
        4.8e-8 * 15 * 96**3 + 2e-7 * 16, rel=1e-6
    )


def test_lines_alone_tell_a_product_from_a_sum():
    p, n = LINES.T
    values = np.stack([2 + n**2 * p, 2 + n**2 + 40 * p])
    found = [structure(model) for model in fit_models(LINES, values).models]
    assert found == [{((0, F(1), 0), (1, F(2), 0))}, {((1, F(2), 0),), ((0, F(1), 0),)}]


def test_points_without_any_line():
    rng = np.random.default_rng(5)
    points = np.unique(np.column_stack([rng.integers(2, 200, 20), rng.integers(10, 999, 20)]), axis=0).astype(float)
    p, n = points.T
    values = np.stack([3 * n**1.5 * p, 0.5 * n**2 * np.log2(p)])
    found = [structure(model) for model in fit_models(points, values).models]
    assert found == [{((0, F(1), 0), (1, F(3, 2), 0))}, {((0, F(0), 1), (1, F(2), 0))}]


def test_never_as_many_coefficients_as_points():
    for count in range(1, 6):
        model = fit_models(SIZES[:count], 3 * SIZES[:count].T ** 3 + 6 * SIZES[:count].T ** 2 + 2).models[0]
        assert len(model.function.terms) <= max(count - 2, 0)


def test_factors_do_not_interpolate_the_values_of_a_parameter():
    """Points that share a value would hide that the factors pass through all values."""
    grid = np.array([(p, n) for p in (1.0, 2.0, 4.0) for n in (8.0, 12.0, 16.0, 24.0)])
    p, n = grid.T
    values = np.stack([p * np.log2(p) + 5 * p + 3, 4 * n**3 + 2 * n**2 + 3 * n + 1])
    few, cubic = fit_models(grid, values).models
    assert len(few.function.terms) == 1
    assert few.quality.error > 1e-4
    assert len(cubic.function.terms) == 2
    assert cubic.function.lead(1) == (F(3), 0)


def test_a_staircase_is_not_followed_by_as_many_factors_as_it_has_steps():
    """Bytes sent in a process grid: the neighbours grow in steps, the message with the area."""
    values = N**2 * np.interp(P, [1, 2, 4, 8, 16], [0, 32, 48, 64, 64])
    (model,) = fit_models(GRID[P > 1], values[None, P > 1]).models
    assert len({factor for term in model.function.terms for factor in term.factors if factor.parameter == 0}) <= 2


def test_two_values_allow_a_straight_line_only():
    grid = np.array([(p, n) for p in (1.0, 4.0) for n in (8.0, 12.0, 16.0, 24.0)])
    p, n = grid.T
    (model,) = fit_models(grid, (n**2 * p**3)[None]).models
    assert model.function.lead(0) == (F(1), 0)
    assert model.function.evaluate(grid) == pytest.approx(n**2 * p**3)


@pytest.mark.parametrize(
    "points",
    [
        [(p, n) for p in (1.0, 2.0) for n in (8.0, 12.0, 16.0, 24.0, 32.0)],
        [(1.0, 8.0), (2.0, 8.0), (1.0, 12.0), (2.0, 12.0), (1.0, 16.0), (1.0, 24.0)],  # as a campaign has them
    ],
)
def test_work_that_is_divided_shows_with_two_numbers_of_ranks(points):
    at, random = np.array(points), np.random.default_rng(11)
    p, n = at.T
    divided = (2e-5 * n**3 / p) * random.normal(1, 0.01, (20, len(at)))
    partly = (2e-5 * n**3 * (0.3 + 0.7 / p)) * random.normal(1, 0.01, (20, len(at)))
    far = np.array([[2.0, 64.0]])
    for values, right in ((divided, 2e-5 * 64**3 / 2), (partly, 2e-5 * 64**3 * 0.65)):
        predicted = np.array([model.function.evaluate(far)[0] for model in fit_models(at, values).models])
        assert np.median(np.abs(predicted / right - 1)) < 0.2


def test_one_point_gives_its_value_and_no_measure_of_error():
    model = fit_models(SIZES[:1], np.array([[5.0]])).models[0]
    assert model.function.constant == 5
    assert model.function.is_constant
    assert np.isnan(model.quality.loo_smape)
    assert np.isnan(model.quality.error)
    assert not np.isfinite(model.predict_interval(SIZES, of="mean")[1]).any()


def test_three_points_show_growth():
    points = np.array([[1.0], [2.0], [4.0]])
    models = fit_models(points, np.array([[1.0, 2.1, 3.95], [1.0, 1.02, 0.99]])).models
    assert not models[0].function.is_constant
    assert models[1].function.is_constant


def test_zeros_are_the_constant_zero():
    model = fit_models(SIZES, np.zeros((1, 5))).models[0]
    assert model.function.is_constant
    assert model.function.constant == 0
    assert np.copysign(1, model.function.constant) == 1
    assert model.quality.smape == 0


def test_a_value_of_zero_among_others_does_not_take_over():
    points = np.array([[1.0], [2.0], [4.0], [8.0], [16.0]])
    noisy = np.array([0.0, 1.04, 1.95, 3.1, 3.9])
    model = fit_models(points, noisy[None]).models[0]
    assert structure(model) == {((0, F(0), 1),)}
    weights = relative_weights(noisy[None])
    assert weights[0, 0] == pytest.approx(1 / (0.001 * 3.9))


def test_equal_values_are_a_constant():
    models = fit_models(GRID, np.full((2, 25), 0.1) * [[1], [3]]).models
    assert all(model.function.is_constant for model in models)
    assert [model.function.constant for model in models] == pytest.approx([0.1, 0.3])


def test_noise_around_a_constant_stays_a_constant():
    rng = np.random.default_rng(11)
    values = 5 * (1 + 0.05 * rng.uniform(-1, 1, (200, 25)))
    constant = [model.function.is_constant for model in fit_models(GRID, values).models]
    assert np.mean(constant) > 0.9


def test_missing_values_are_left_out_for_their_call_path_only():
    values = np.stack([N**2 * P + 3, N**2 * P + 3, np.full(25, np.nan), N + P])
    values[1, [3, 7, 20]] = np.nan
    models = fit_models(GRID, values).models
    assert models[2] is None
    assert structure(models[0]) == structure(models[1]) == {((0, F(1), 0), (1, F(2), 0))}
    assert [models[0].quality.points, models[1].quality.points] == [25, 22]
    assert models[3] == fit_models(GRID, values[3:]).models[0]


def test_predict_matches_evaluate_and_is_nan_without_model():
    values = np.stack([N**2 * P + 3, np.full(25, np.nan), N + P, np.full(25, 2.0)])
    fit = fit_models(GRID, values)
    at = np.array([[32.0, 96.0], [64.0, 8.0]])
    predicted = fit.predict(at)
    assert np.isnan(predicted[1]).all()
    for row in (0, 2, 3):
        assert predicted[row] == pytest.approx(fit.models[row].function.evaluate(at))
    assert predict([None], at).shape == (1, 2)


@given(
    hnp.arrays(float, (3, 25), elements=st.floats(0.5, 1.5)),
    st.floats(1e-6, 1e6),
    st.randoms(use_true_random=False),
)
@settings(max_examples=15)
def test_scaling_values_and_permuting_points(noise, factor, random):
    values = noise * np.stack([N**2 + 10 * P, 50 + 0 * N, N * np.log2(N) * P])
    order = list(range(25))
    random.shuffle(order)
    one, other = fit_models(GRID, values), fit_models(GRID[order], factor * values[:, order])
    for a, b in zip(one.models, other.models, strict=True):
        assert structure(a) == structure(b)
        assert factor * a.function.constant == pytest.approx(b.function.constant, rel=1e-6, abs=1e-6 * factor)
        assert [factor * c for c in a.function.coefficients] == pytest.approx(b.function.coefficients, rel=1e-6)
        assert a.quality.smape == pytest.approx(b.quality.smape, rel=1e-6)


@given(hnp.arrays(float, (2, 11), elements=st.floats(0, 1e9)))
@settings(max_examples=25)
def test_any_values_give_a_finite_model_and_the_same_twice(values):
    points = np.array([(p, n) for p in (1.0, 2.0, 4.0, 8.0) for n in (10.0, 20.0, 30.0)])[:11]
    fit = fit_models(points, values)
    assert np.isfinite(fit.predict(points)).all()
    assert repr(fit) == repr(fit_models(points, values))  # NaN is not equal to itself


def test_closed_form_leave_one_out_equals_refits():
    rng = np.random.default_rng(2)
    design = np.column_stack([np.ones(9), rng.random((9, 2))])
    y, w = rng.random(9), 0.5 + rng.random(9)
    q, _ = np.linalg.qr(design * w[:, None])
    residual = y * w - q @ (q.T @ (y * w))
    errors = []
    for left_out in range(9):
        rest = np.arange(9) != left_out
        c = np.linalg.lstsq(design[rest] * w[rest, None], y[rest] * w[rest], rcond=None)[0]
        errors.append(abs(y[left_out] - design[left_out] @ c) * w[left_out])
    assert leave_one_out(1 - (q**2).sum(axis=1), residual) == pytest.approx(np.mean(errors))


def test_reported_leave_one_out_equals_refits():
    rng = np.random.default_rng(4)
    values = (3 * N**2 * np.log2(1 + P) + 50) * (1 + 0.05 * rng.uniform(-1, 1, 25))
    weights = relative_weights(values[None])[0]
    model = fit_models(GRID, values[None]).models[0]
    design = np.column_stack([np.ones(25), *(term.evaluate(GRID) for term in model.function.terms)])
    if model.function.constant == 0:
        design = design[:, 1:]
    predicted = np.empty(25)
    for left_out in range(25):
        rest = np.arange(25) != left_out
        scaled = design[rest] * weights[rest, None]
        c = np.linalg.lstsq(scaled, values[rest] * weights[rest], rcond=None)[0]
        predicted[left_out] = design[left_out] @ c
    assert model.quality.error == pytest.approx(np.mean(np.abs(predicted - values) * weights))
    smape = 200 * np.mean(np.abs(predicted - values) / (np.abs(predicted) + np.abs(values)))
    assert model.quality.loo_smape == pytest.approx(smape)


def test_standard_error_is_that_of_least_squares():
    rng = np.random.default_rng(6)
    values = (5 + 2 * SIZES.T) * (1 + 0.02 * rng.uniform(-1, 1, (1, 5)))
    one_term = SearchOptions(max_terms=1)
    weights = relative_weights(values)
    model = fit_models(SIZES, values, options=one_term).models[0]
    best = model.alternatives[0]
    term = model.function.terms[0].evaluate(SIZES)
    design = np.column_stack([np.ones(5), term]) * weights.T
    coefficients, rss, *_ = np.linalg.lstsq(design, values[0] * weights[0], rcond=None)
    covariance = np.linalg.inv(design.T @ design) * rss / 3
    assert best.function.coefficients[0] == pytest.approx(coefficients[1])
    # of three degrees of freedom, the chosen exponent takes one
    np.testing.assert_allclose(best.covariance, covariance * 3 / 2, rtol=1e-6)


def test_a_falling_call_path_is_not_predicted_negative():
    rng = np.random.default_rng(8)
    points = np.array([[2.0], [4.0], [8.0], [16.0], [32.0]])
    values = (1 + 100 / points.T) * (1 + 0.03 * rng.uniform(-1, 1, (100, 5)))
    predicted = fit_models(points, values).predict(np.array([[1024.0]]))
    assert (predicted > 0).mean() > 0.95


@pytest.mark.parametrize(
    ("points", "values", "what"),
    [
        (SIZES, np.ones((1, 4)), "do not match"),
        (SIZES[:, 0], np.ones((1, 5)), "do not match"),
        (np.array([[1.0], [1.0]]), np.ones((1, 2)), "twice"),
        (SIZES, np.full((1, 5), np.inf), "finite"),
        (-SIZES, np.ones((1, 5)), "not negative"),
    ],
)
def test_impossible_input_is_refused(points, values, what):
    with pytest.raises(UsageError, match=what):
        fit_models(points, values)


@pytest.mark.parametrize("factor", [1e-140, 1e-90, 1e140])
def test_extreme_magnitudes(factor):
    (model,) = fit_models(SIZES, factor * 3 * SIZES.T**2).models
    assert structure(model) == {((0, F(2), 0),)}
    assert model.function.coefficients == pytest.approx((3 * factor,))


def test_no_call_paths_and_a_million_fold_spread():
    assert fit_models(SIZES, np.zeros((0, 5))).models == ()
    wide = np.array([[1.0], [10.0], [100.0], [1000.0], [10000.0], [1e6]])
    model = fit_models(wide, 2 * wide.T**3).models[0]
    assert structure(model) == {((0, F(3), 0),)}
