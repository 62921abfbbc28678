"""Model functions as text, LaTeX and Python."""

from fractions import Fraction as F

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from buran.errors import UsageError
from buran.modeling.functions.powers import PowerLog
from buran.modeling.functions.terms import Factor, ModelFunction, Term
from buran.modeling.pmnf import format_function, growth_class
from buran.modeling.pmnf.text import format_largest, python_names

FUNCTION = ModelFunction(
    2.5,
    (0.125, -1.0, 3e-9),
    (
        Term((Factor(0, PowerLog(F(3), 0)), Factor(1, PowerLog(F(0), 1)))),
        Term((Factor(0, PowerLog(F(4, 3), 2)),)),
        Term((Factor(1, PowerLog(F(-1), 0)),)),
    ),
)


def test_text():
    assert format_function(FUNCTION, ["n", "p"]) == ("2.5 + 0.125 n^3 * log2(p) - n^(4/3) * log2(n)^2 + 3e-09 p^(-1)")
    assert format_function(ModelFunction(0.0), ["n"]) == "0"
    assert format_function(ModelFunction(-3.0), ["n"]) == "-3"
    assert format_function(ModelFunction(0.0, (-2.0,), (Term((Factor(0, PowerLog(F(1), 0)),)),)), ["n"]) == "-2 n"


def test_of_many_terms_the_largest_at_a_point_are_shown():
    terms = tuple(Term((Factor(0, PowerLog(F(power))),)) for power in range(10, 0, -1))
    many = ModelFunction(3.0, (1.0, -1e9, *[1.0] * 8), terms)
    assert format_largest(many, ["n"], {"n": 2}).startswith("3 + n^10 - 1e+09 n^9 + n^8 + n^7 + 6 ")
    few = ModelFunction(3.0, (1.0,) * 8, terms[2:])
    assert format_largest(few, ["n"], {"n": 2}) == format_function(few, ["n"])


def test_growth_class():
    assert growth_class(FUNCTION, ["n", "p"]) == "n^3 * log2(p)"
    terms = Term((Factor(0, PowerLog(F(2))),)), Term((Factor(1, PowerLog(F(1))),))
    sum_of_two = ModelFunction(1.0, (1.0, 1.0), terms)
    assert growth_class(sum_of_two, ["n", "p"]) == "n^2 + p"
    assert growth_class(ModelFunction(4.0), ["n"]) == "1"
    assert growth_class(ModelFunction(0.0, (1.0,), (Term((Factor(0, PowerLog(F(-1), 0)),)),)), ["p"]) == "p^(-1)"


def test_python_names():
    assert python_names(["n", "class", "mesh-size", "2d", "log2"]) == [
        "n",
        "p_class",
        "mesh_size",
        "p_2d",
        "p_log2",
    ]
    with pytest.raises(UsageError) as caught:
        python_names(["a-b", "a_b"])
    assert caught.value.why == "a-b, a_b"


@given(
    st.lists(
        st.tuples(
            st.floats(-1e6, 1e6),
            st.integers(0, 1),
            st.fractions(-3, 3, max_denominator=12),
            st.integers(0, 2),
        ).filter(lambda part: part[2] or part[3]),
        max_size=3,
    ),
    st.floats(-1e6, 1e6),
)
def test_python_evaluates_to_the_function(parts, constant):
    terms = tuple(Term((Factor(p, PowerLog(i, j)),)) for _, p, i, j in parts)
    function = ModelFunction(constant, tuple(part[0] for part in parts), terms)
    text = format_function(function, ["n", "p"], "python")
    at = np.array([[2.0, 8.0], [5.0, 3.0]])
    n, p = at.T
    value = eval(text, {"log2": np.log2, "n": n, "p": p})
    assert value * np.ones(2) == pytest.approx(function.evaluate(at), rel=1e-12, abs=1e-9)
