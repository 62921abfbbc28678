"""Complexities as text."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from buran.errors import UsageError
from buran.modeling.functions.powers import PowerLog
from buran.modeling.functions.terms import Factor, ModelFunction, Term
from buran.modeling.pmnf.text import format_function
from buran_studies.generator.complexity import parse_complexity

NAMES = ("p", "n")


def test_what_can_be_said() -> None:
    found = parse_complexity("3 + 2 * n^(1/3) * log2(p)^2 + n^3", NAMES)
    assert found.constant == 3
    assert dict(zip(found.terms, found.coefficients, strict=True)) == {
        Term((Factor(0, PowerLog(Fraction(0), 2)), Factor(1, PowerLog(Fraction(1, 3), 0)))): 2.0,
        Term((Factor(1, PowerLog(Fraction(3), 0)),)): 1.0,
    }
    assert parse_complexity("n*p*n", NAMES) == parse_complexity("n^2 * p", NAMES)
    assert parse_complexity("1.5", NAMES) == ModelFunction(1.5)


FACTOR = st.builds(
    Factor,
    st.just(0),
    st.builds(PowerLog, st.sampled_from([Fraction(1, 4), Fraction(1), Fraction(8, 3)]), st.integers(0, 2)),
)


@given(FACTOR, st.sampled_from([0.0, 1.0, 2.5, 17.0]), st.integers(1, 9))
def test_models_are_read_back(factor: Factor, constant: float, coefficient: int) -> None:
    function = ModelFunction(constant, (float(coefficient),), (Term((factor,)),))
    text = format_function(function, NAMES).replace(f"{coefficient} p", f"{coefficient} * p")
    assert parse_complexity(text.replace("* *", "*"), NAMES) == function


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("q^2", "'q' is no parameter"),
        ("n^", "a power is a number"),
        ("n^0", "powers lie above 0"),
        ("n^99", "powers lie above 0"),
        ("log(n)", "'log' is no parameter"),
        ("log2(n", r"'\)' is missing at the end"),
        ("log2(n)^(1/2)", "whole numbers"),
        ("n +", "it ends"),
        ("n n", "does not fit"),
        ("n - p", "does not fit"),
        ("", "it ends"),
        ("__import__('os')", "is no parameter"),
    ],
)
def test_unknown_complexities_are_refused_with_the_place(text: str, why: str) -> None:
    with pytest.raises(
        UsageError,
        match=f"{text!r} is no complexity".replace("(", r"\(")
        .replace(")", r"\)")
        .replace("+", r"\+")
        .replace("^", r"\^"),
    ) as error:
        parse_complexity(text, NAMES, "spec.yaml, kernels.0.computation")
    assert error.value.where == "spec.yaml, kernels.0.computation"
    import re

    assert re.search(why, error.value.why or "")
