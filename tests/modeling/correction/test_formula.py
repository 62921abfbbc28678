"""Formulas over arrays agree with the scalar expressions they are checked by."""

from __future__ import annotations

import math

import numpy as np
import pytest
import sympy
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from buran.campaign.expressions import FUNCTIONS, ExpressionError, compile_expression
from buran.errors import UsageError
from buran.modeling.correction.formula import _CALLS, compiled, parse_formula

NAMES = ("x", "y")


def computed(text: str, values: dict[str, np.ndarray]) -> np.ndarray:
    symbols = {name: sympy.Symbol(name, positive=True) for name in values}
    (found,) = compiled(list(symbols.values()), [parse_formula(text, symbols, "test")])(*values.values())
    return np.asarray(found, dtype=float)


LEAVES = st.sampled_from([*NAMES, "1", "2", "0.5", "3"])


def _inner(children: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    pair = st.tuples(children, children)
    binary = st.tuples(pair, st.sampled_from(["+", "-", "*", "/", "//", "%"])).map(
        lambda t: f"({t[0][0]} {t[1]} {t[0][1]})"
    )
    call = st.tuples(st.sampled_from(["sqrt", "log2", "abs", "floor", "log", "cbrt", "ceil"]), children).map(
        lambda t: f"{t[0]}({t[1]})"
    )
    choice = st.tuples(pair, pair).map(lambda t: f"({t[0][0]} if {t[1][0]} < {t[1][1]} <= 9 else {t[0][1]})")
    largest = pair.map(lambda t: f"max({t[0]}, {t[1]})")
    return st.one_of(binary, call, choice, largest)


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(st.recursive(LEAVES, _inner, max_leaves=6), st.floats(0.5, 40), st.floats(0.5, 40))
def test_arrays_give_what_numbers_give(text: str, x: float, y: float) -> None:
    values = {"x": x, "y": y}
    try:
        expected = float(compile_expression(text, NAMES, "number")(values))
    except ExpressionError:
        return
    found = computed(text, {name: np.array([value, value]) for name, value in values.items()})
    assert np.allclose(np.broadcast_to(found, 2), expected, rtol=1e-9, atol=1e-12)


def test_every_allowed_function_has_its_array_form() -> None:
    assert set(_CALLS) == set(FUNCTIONS)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 if is_power_of_two(x) else 0", [1, 0, 1, 0]),
        ("1 if is_square(x) and not is_cube(x) else 0", [0, 0, 0, 1]),
        ("1 if is_cube(x) or divides(3, x) else 0", [0, 1, 1, 1]),
        ("-min(x, 4, 5)", [-2, -3, -4, -4]),
        ("exp(log(x)) ** 2", [4, 9, 64, 81]),
    ],
)
def test_conditions_and_functions(text: str, expected: list[float]) -> None:
    found = computed(text, {"x": np.array([2.0, 3.0, 8.0, 9.0])})
    assert np.allclose(found, expected)


@pytest.mark.parametrize(
    "text", ["__import__('os')", "x.real", "z + 1", "sin(x)", "x if", "[x]", "lambda: x", "x < 2", "'a'", ""]
)
def test_what_is_not_allowed_is_named(text: str) -> None:
    with pytest.raises(UsageError, match="not allowed") as caught:
        parse_formula(text, {"x": sympy.Symbol("x")}, "model, part")
    assert caught.value.where == "model, part" and caught.value.why


def test_values_that_do_not_exist_are_not_numbers() -> None:
    found = computed("log2(x - 3)", {"x": np.array([2.0, 3.0, 4.0])})
    assert math.isnan(found[0]) and found[1] == -math.inf and found[2] == 0
