"""Whatever is measured: a defined model or a clear refusal, never a crash."""

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from buran.errors import UsageError
from buran.modeling.fit import fit_models

SLOW = settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
P = np.array([[2.0], [4], [8], [16], [32]])
GRID = np.array([[p, n] for p in (2.0, 4, 8) for n in (1.0, 3, 9)])
magnitudes = st.floats(-1e12, 1e12, allow_nan=False)
measured = st.one_of(magnitudes, st.just(np.nan), st.just(0.0))


def check(points, values):
    """Fit; every call path with a value has a finite model that follows constants and keeps intervals in order."""
    fit = fit_models(points, values)
    predicted = fit.predict(points)
    lower, upper = fit.predict_interval(points)
    for k, (model, row) in enumerate(zip(fit.models, values, strict=True)):
        if np.isnan(row).all():
            assert model is None
            continue
        assert np.isfinite(predicted[k]).all()
        assert (lower[k] <= predicted[k]).all()
        assert (predicted[k] <= upper[k]).all()
        assert model.signed or (predicted[k] >= 0).all()
        assert len(model.function.terms) + 1 <= max(np.isfinite(row).sum() - 1, 1)
        known = row[np.isfinite(row)]
        if (known == known[0]).all():
            assert model.function.is_constant
            assert predicted[k] == pytest.approx(known[0])
    return fit


@SLOW
@given(arrays(np.float64, (3, 5), elements=measured))
@example(np.array([[0, 2.379e11, 5.378e11, 2.379e11, 2.379e11]]))
def test_zeros_negatives_and_missing_values_of_one_parameter(values):
    check(P, values)


@SLOW
@given(arrays(np.float64, (3, 9), elements=measured))
@example(np.where(np.arange(27).reshape(3, 9) == 2, 0.0, -2.672e-149))
@example(np.array([[1.3528447e-193, 0, 0, np.nan, np.nan, np.nan, np.nan, 0, np.nan]] * 3))
def test_zeros_negatives_and_missing_values_of_two_parameters(values):
    check(GRID, values)


@SLOW
@given(st.integers(1, 4), st.data())
def test_fewer_points_than_coefficients(count, data):
    check(P[:count], data.draw(arrays(np.float64, (2, count), elements=measured)))


@SLOW
@given(magnitudes, st.sampled_from([P, GRID, P[:1], P[:2]]))
def test_all_values_equal(value, points):
    check(points, np.full((1, len(points)), value))


@SLOW
@given(
    arrays(np.float64, (5, 1), elements=st.floats(1e-6, 0.99), unique=True),
    arrays(np.float64, (2, 5), elements=magnitudes),
)
def test_parameter_values_below_one_take_no_logarithms(points, values):
    for model in check(points, values).models:
        assert all(factor.basis.lead[1] == 0 for term in model.function.terms for factor in term.factors)


@SLOW
@given(arrays(np.float64, (4,), elements=st.floats(-300, 300)), st.floats(-140, 100))
def test_a_million_fold_spread(exponents, shift):
    values = 10.0 ** (shift + np.concatenate([np.clip(exponents, -3, 3), [6]]))
    check(P, values[None])


@given(st.sampled_from([np.inf, -np.inf, 1e200]), st.integers(0, 4))
def test_infinite_values_are_refused(bad, place):
    values = np.ones((2, 5))
    values[1, place] = bad
    with pytest.raises(UsageError, match="finite") as caught:
        fit_models(P, values)
    assert "number 1" in str(caught.value)


@given(st.sampled_from([np.nan, np.inf, -1.0]), st.integers(0, 4))
def test_parameter_values_that_cannot_be(bad, place):
    points = P.copy()
    points[place] = bad
    with pytest.raises(UsageError):
        fit_models(points, np.ones((1, 5)))


def test_duplicate_points_are_refused_with_advice():
    with pytest.raises(UsageError, match="twice") as caught:
        fit_models(P[[0, 0, 1]], np.ones((1, 3)))
    assert "repetitions" in str(caught.value)


def test_one_call_path_does_not_spoil_the_others():
    values = np.array([3.0 * P[:, 0], 3.0 * P[:, 0], np.full(5, np.nan)])
    values[1, 2] = np.nan
    alone = fit_models(P, values[:1]).models[0]
    models = fit_models(P, values).models
    assert models[0] == alone
    assert models[1].function.evaluate(P) == pytest.approx(3 * P[:, 0])
    assert models[2] is None


def test_scarce_and_noisy_values_do_not_become_cubic_growth():
    """Half of the values' scatter at 3 x 3 points must not turn into growth that nobody can believe."""
    random = np.random.default_rng(6)
    points = np.array([[p, n] for p in (2.0, 4, 8) for n in (16.0, 32, 64)])
    values = points[:, 1] * np.median(np.exp(random.normal(0, 0.5, (150, 9, 3))), axis=2)
    predicted = fit_models(points, values).predict(np.array([[64.0, 128.0]]))[:, 0]
    assert np.mean(predicted > 10 * 128) <= 0.02
