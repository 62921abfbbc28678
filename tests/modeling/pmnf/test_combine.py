"""Sums of models."""

from fractions import Fraction as F

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from buran.modeling.fit import fit_models
from buran.modeling.functions.powers import PowerLog
from buran.modeling.functions.terms import Factor, ModelFunction, Term
from buran.modeling.pmnf.model import add_functions, add_models, predict_models

POINTS = np.array([[p, n] for p in (2.0, 4, 8, 16, 32) for n in (10.0, 20, 30, 40, 50)])
powers = st.builds(PowerLog, st.sampled_from([F(0), F(1, 2), F(1), F(2)]), st.integers(1, 2))
factors = st.builds(Factor, st.just(0), powers)
terms = st.builds(lambda factor: Term((factor,)), factors)
numbers = st.floats(-1e6, 1e6)


@st.composite
def functions(draw):
    own = draw(st.lists(terms, unique=True, max_size=4))
    return ModelFunction(draw(numbers), tuple(draw(numbers) for _ in own), tuple(own))


def power(coefficient, exponent, constant=0.0, log=0):
    return ModelFunction(constant, (coefficient,), (Term((Factor(0, PowerLog(F(exponent), log)),)),))


@given(st.lists(functions(), min_size=1, max_size=6))
def test_the_sum_has_the_value_of_the_sum(parts):
    total = add_functions(parts)
    at = np.array([[2.0], [17.0], [4096.0]])
    each = np.array([part.evaluate(at) for part in parts])
    scale = sum(np.abs(part.constant) + sum(abs(c) for c in part.coefficients) for part in parts) * 4096**2 * 144
    assert total.evaluate(at) == pytest.approx(each.sum(axis=0), abs=1e-13 * scale + 1e-300)
    assert len(set(total.terms)) == len(total.terms)


def test_sums_of_fitted_models():
    random = np.random.default_rng(1)
    values = random.uniform(1, 9, (6, 1)) * POINTS[:, 0] ** random.integers(0, 3, (6, 1)) * POINTS[:, 1] + 3
    values *= random.uniform(0.95, 1.05, values.shape)
    models = fit_models(POINTS, values).models
    total = add_models([*models, None], POINTS, values.sum(axis=0))
    beyond = np.array([[64.0, 60], [4096, 1000]])
    assert total.function.evaluate(beyond) == pytest.approx(sum(m.function.evaluate(beyond) for m in models), rel=1e-12)
    assert total.quality.smape < 5
    reach = sum((m.predict_interval(beyond)[1] - m.predict(beyond)) ** 2 for m in models)
    assert (total.predict_interval(beyond)[1] - total.predict(beyond)) ** 2 == pytest.approx(reach, rel=1e-6)
    assert add_models([None], POINTS, values[0]) is None


def test_cancelled_terms_vanish():
    total = add_functions([power(2.0, 1, 5.0), power(-2.0, 1, 1.0)])
    assert total == ModelFunction(6.0)


def test_the_interval_of_a_sum_holds_the_sum_as_often_as_it_says():
    random = np.random.default_rng(8)
    true = np.stack([5 + 2 * POINTS[:, 0] * POINTS[:, 1], 400 + POINTS[:, 1] ** 2, np.full(25, 900.0)])
    beyond = np.array([[64.0, 60.0]])
    total, hits, widths = 5 + 2 * 64 * 60 + 400 + 3600 + 900, 0, []
    for _ in range(60):
        values = true * (1 + random.normal(0, 0.03, true.shape))
        model = add_models(fit_models(POINTS, values).models, POINTS, values.sum(axis=0))
        lower, upper = model.predict_interval(beyond, of="mean")
        assert lower[0] < predict_models([model], beyond)[0, 0] < upper[0]
        hits += int(lower[0] <= total <= upper[0])
        widths.append((upper[0] - lower[0]) / total)
    assert hits >= 48 and np.median(widths) < 0.2  # twice as far as the points reach, in both parameters


def test_a_sum_with_a_part_of_unknown_error_has_no_ends():
    steady = fit_models(POINTS, np.full((1, 25), 3.0)).models
    single = fit_models(POINTS[:1], np.ones((1, 1))).models
    lower, upper = add_models([*steady, *single], POINTS, np.full(25, 4.0)).predict_interval(POINTS[:1])
    assert 0 <= lower[0] <= 3
    assert upper[0] == np.inf
