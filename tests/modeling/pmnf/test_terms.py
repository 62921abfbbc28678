"""Terms and model functions: values, growth, JSON."""

from fractions import Fraction as F

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from buran.modeling.functions.powers import PowerLog
from buran.modeling.functions.terms import Factor, ModelFunction, Term

N3 = Term((Factor(0, PowerLog(F(3), 0)),))
N2 = Term((Factor(0, PowerLog(F(2), 0)),))
LOG_P = Term((Factor(1, PowerLog(F(0), 1)),))
N3_LOG_P = Term((Factor(0, PowerLog(F(3), 0)), Factor(1, PowerLog(F(0), 1))))

factors = st.builds(
    Factor,
    st.integers(0, 2),
    st.builds(PowerLog, st.fractions(-3, 3, max_denominator=12), st.integers(0, 2)),
)
terms = st.lists(factors, min_size=1, max_size=3, unique_by=lambda factor: factor.parameter).map(
    lambda chosen: Term(tuple(sorted(chosen)))
)
numbers = st.floats(-1e12, 1e12)
functions = st.builds(
    lambda constant, parts: ModelFunction(constant, tuple(c for c, _ in parts), tuple(term for _, term in parts)),
    numbers,
    st.lists(st.tuples(numbers, terms), max_size=4),
)


def test_value_of_a_sum_of_products():
    function = ModelFunction(2.0, (0.5, 3.0), (N3_LOG_P, N2))
    at = np.array([[4.0, 8.0], [10.0, 1.0]])
    assert function.evaluate(at).tolist() == [2 + 0.5 * 64 * 3 + 3 * 16, 2 + 0 + 300]
    assert function.evaluate([4.0, 8.0]).shape == ()
    assert function.evaluate(at.reshape(2, 1, 2)).shape == (2, 1)


def test_lead_is_the_fastest_growing_part():
    function = ModelFunction(1.0, (1.0, 1.0), (N2, N3_LOG_P))
    assert function.lead(0) == (F(3), 0)
    assert function.lead(1) == (F(0), 1)
    falling = Term((Factor(0, PowerLog(F(-1), 0)),))
    assert ModelFunction(0.0, (1.0,), (falling,)).lead(0) == (F(-1), 0)
    assert ModelFunction(5.0, (1.0,), (falling,)).lead(0) == (F(0), 0)
    assert ModelFunction(5.0).lead(0) == (F(0), 0)


def test_dominating_terms_are_those_that_no_other_outgrows():
    function = ModelFunction(1.0, (1.0, 1.0, 1.0), (N3, N2, LOG_P))
    assert function.dominating_terms() == (N3, LOG_P)
    assert ModelFunction(1.0, (1.0, 1.0), (N3_LOG_P, LOG_P)).dominating_terms() == (N3_LOG_P,)


def test_coefficients_and_terms_must_match():
    with pytest.raises(ValueError, match="1 coefficients for 0 terms"):
        ModelFunction(1.0, (2.0,))


@given(functions)
def test_json_keeps_everything(function: ModelFunction):
    assert ModelFunction.from_json(function.to_json()) == function


def test_json_keeps_fractions_exact():
    third = Term((Factor(0, PowerLog(F(4, 3), 0)),))
    data = ModelFunction(0.0, (1.0,), (third,)).to_json()
    assert data["terms"][0]["factors"][0]["exponent"] == "4/3"


@pytest.mark.parametrize("broken", [{}, {"constant": 1}, {"constant": 1, "terms": [{"coefficient": 1, "factors": []}]}])
def test_broken_json_is_refused(broken):
    with pytest.raises((KeyError, ValueError)):
        ModelFunction.from_json(broken)
