"""scikit-learn's conventions."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from buran.errors import UsageError
from buran.modeling.pmnf import HypothesisSpace, PMNFRegressor, full_space
from buran_studies.noise import inject

X = np.array([[p, n] for p in (2.0, 4, 8, 16, 32) for n in (10.0, 20, 30, 40)])
TRUE = np.stack([1 + 3 * X[:, 0] * X[:, 1], 7 + X[:, 1] ** 2, np.full(len(X), 4.0)], axis=1)
AT = np.array([[64.0, 50.0], [128, 60]])


@pytest.mark.parametrize("repetitions", [0, 1, 3])
def test_shapes(repetitions):
    y = TRUE if repetitions == 0 else np.repeat(TRUE[..., None], repetitions, axis=2)
    model = PMNFRegressor().fit(X, y)
    assert model.predict(AT) == pytest.approx(np.array([[9601, 2507, 4], [23041, 3607, 4]]))
    lower, upper = model.predict_interval(AT, level=0.9)
    assert lower.shape == upper.shape == (2, 3)
    assert len(model.models_) == 3
    assert model.n_features_in_ == 2


def test_one_column_is_flat():
    model = PMNFRegressor().fit(X, TRUE[:, 0])
    assert model.predict(AT) == pytest.approx([9601, 23041])
    assert model.predict_interval(AT)[0].shape == (2,)
    assert model.score(X, TRUE[:, 0]) == pytest.approx(1)


def test_missing_values_are_left_out_by_call_path():
    y = np.repeat(TRUE[..., None], 2, axis=2)
    y[4, 0] = np.nan
    y[7, 1, 1] = np.nan
    y[:, 2] = np.nan
    model = PMNFRegressor().fit(X, y)
    assert model.predict(AT)[:, :2] == pytest.approx(np.array([[9601, 2507], [23041, 3607]]))
    assert model.models_[2] is None
    assert np.isnan(model.predict(AT)[:, 2]).all()
    assert np.isnan(model.predict_interval(AT)[1][:, 2]).all()


def test_repeated_points_are_repetitions():
    order = np.random.default_rng(1).permutation(2 * len(X))
    twice, values = np.concatenate([X, X])[order], np.concatenate([TRUE * 0.5, TRUE * 1.5])[order]
    assert PMNFRegressor().fit(twice, values).predict(AT) == pytest.approx(PMNFRegressor().fit(X, TRUE).predict(AT))


@pytest.mark.parametrize(("aggregate", "factor"), [("mean", 3), ("median", 2), ("min", 1), ("max", 6)])
def test_repetitions_are_reduced(aggregate, factor):
    y = TRUE[..., None] * np.array([1.0, 2, 6])
    assert PMNFRegressor(aggregate=aggregate).fit(X, y).predict(AT)[0, 0] == pytest.approx(factor * 9601)


def test_weights_from_repetitions_trust_steady_points():
    y = inject(TRUE[:, 0], 1, repetitions=5, seed=2)
    y[5] *= np.array([1, 4.0, 1, 9, 2])  # one point was disturbed
    plain, weighed = (PMNFRegressor(weights=kind).fit(X, y[:, None]) for kind in ("relative", "repetitions"))
    errors = [abs(each.predict(AT)[1, 0] / 23041 - 1) for each in (plain, weighed)]
    assert errors[1] < 0.06
    assert errors[1] < errors[0]


def test_nonnegative_coefficients():
    random = np.random.default_rng(3)
    y = np.abs(np.cumsum(random.normal(size=(len(X), 40)), axis=0)) + 0.1
    for model in PMNFRegressor(nonnegative=True).fit(X, y).models_:
        assert min(model.function.coefficients, default=0) >= 0
        assert model.function.constant >= 0
        for alternative in model.alternatives:
            assert min((alternative.function.constant, *alternative.function.coefficients)) >= 0
    assert any(min(m.function.coefficients, default=0) < 0 for m in PMNFRegressor().fit(X, y).models_)


def test_parameters_and_clones():
    own = HypothesisSpace(full_space().pairs[:5])
    model = PMNFRegressor(own, max_terms=1)
    assert clone(model).get_params()["space"] is own or clone(model).get_params()["space"] == own
    fitted = model.fit(X, TRUE)
    assert all(len(model.function.terms) <= 1 for model in fitted.models_)
    assert model.set_params(space="extrap").space == "extrap"


def test_refusals():
    with pytest.raises(NotFittedError):
        PMNFRegressor().predict(AT)
    with pytest.raises(UsageError, match="do not match"):
        PMNFRegressor().fit(X, TRUE[:-1])
    with pytest.raises(UsageError, match="shape"):
        PMNFRegressor().fit(X[:, 0], TRUE)
    with pytest.raises(UsageError, match="another number of parameters"):
        PMNFRegressor().fit(X, TRUE).predict(AT[:, :1])
    for wrong in ({"space": "no"}, {"aggregate": "mode"}, {"weights": "no"}, {"max_terms": -1}):
        with pytest.raises(UsageError):
            PMNFRegressor(**wrong).fit(X, TRUE)
    with pytest.raises(UsageError, match="finite"):
        PMNFRegressor().fit(X, np.where(TRUE == 4, np.inf, TRUE))


@pytest.mark.parametrize("criterion", ["error", "smape", "rss", "ar2", "bic"])
def test_every_criterion_finds_exact_functions(criterion):
    model = PMNFRegressor(criterion=criterion).fit(X, TRUE)
    assert model.predict(AT) == pytest.approx(np.array([[9601, 2507, 4], [23041, 3607, 4]]))


def test_criteria_differ_where_noise_lets_them():
    noisy = inject(TRUE, 20, repetitions=1, seed=4)[..., 0]
    found = [PMNFRegressor(criterion=each).fit(X, noisy).predict(AT) for each in ("error", "ar2", "bic", "rss")]
    assert len({tuple(each.ravel().round(6)) for each in found}) > 2


def test_no_more_terms_of_a_parameter_than_allowed():
    y = 5 + X[:, 1] ** 2 + 40 * X[:, 1]
    for most in (1, 2):
        model = PMNFRegressor(terms_per_parameter=most).fit(X, y[:, None]).models_[0]
        own = {factor for term in model.function.terms for factor in term.factors if factor.parameter == 1}
        assert len(own) == most
    assert model.function.evaluate(AT) == pytest.approx(5 + AT[:, 1] ** 2 + 40 * AT[:, 1])


@pytest.mark.parametrize("bad", [{"criterion": "aic"}, {"terms_per_parameter": 0}, {"max_terms": -1}])
def test_options_that_cannot_be(bad):
    with pytest.raises(UsageError):
        PMNFRegressor(**bad).fit(X, TRUE)
