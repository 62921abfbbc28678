"""Base models: what is accepted, what is refused, what they are made of."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from truths import PLACES, base_model

from buran.errors import BuranError, UsageError
from buran.modeling.correction import BaseModel, Parameter, bundled, load_base
from buran.modeling.correction.base import base_of_function
from buran.modeling.functions.powers import PowerLog
from buran.modeling.functions.terms import Factor, ModelFunction, Term


def test_carriers_add_up_to_the_whole() -> None:
    base = base_model()
    parts = base.parts(np.array([[1e-5, 1e-8], [2e-5, 3e-8]]), PLACES)
    assert base.carrier_names == ("latency", "transfer", "missing")
    assert np.allclose(parts.carriers[:2].sum(axis=0), parts.total)
    assert np.allclose(parts.carriers[2], 10), "the factor in front of the components"
    assert np.allclose(parts.total[1], 10 * (2e-5 * PLACES[:, 0] + 3e-8 * PLACES[:, 1] ** 2))


def test_parts_of_a_maximum_are_no_sum() -> None:
    base = load_base("roofline")
    assert base.outer_factor is None
    parts = base.parts(base.start, np.array([[1e9, 1e6], [1e6, 1e9]]))
    assert np.allclose(parts.total, [0.1, 0.1])
    assert np.allclose(parts.carriers[:2], [[0.1, 0], [0, 0.1]])


@pytest.mark.parametrize("name", bundled())
def test_bundled_models_are_positive_and_come_back(name: str) -> None:
    base = load_base(name)
    at = np.full((2, len(base.variables)), 2.0) * [[1.0], [64.0]]
    assert (base.evaluate(base.start, at) > 0).all()
    assert BaseModel.from_json(asdict(base)) == base


def test_the_reconstruction_has_the_published_bounds() -> None:
    base = load_base("evh1_2d_reconstructed")
    found = {name: (parameter.value, parameter.lower, parameter.upper) for name, parameter in base.parameters.items()}
    assert found == {
        "g": (2.45e-8, 2e-9, 2e-7),
        "h": (1.13216, 1.0, 1.5),
        "i": (1.69e-5, 1e-6, 1e-4),
        "j": (1.62e-7, 1e-8, 1e-6),
    }
    assert base.constants["f"].value == 4965
    nx, p, t = 512.0, 16.0, 0.1
    words = 6 * nx**2 / p
    expected = 4965 * t * (2 * 2.45e-8 * words + 15**1.13216 * (1.69e-5 + 1.62e-7 * words / p))
    assert base.evaluate(base.start, np.array([[nx, p, t]]))[0] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("value", "lower", "upper", "log"),
    [(2.0, 0.0, 1.0, False), (0.5, 1.0, 0.0, False), (0.5, 0.0, 1.0, True), (float("nan"), 0.0, 1.0, False)],
)
def test_parameters_are_checked(value: float, lower: float, upper: float, log: bool) -> None:
    with pytest.raises(ValueError, match=f"value {value:g}, lower {lower:g}, upper {upper:g}"):
        Parameter(value, lower, upper, log)


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"expression": "latency + __import__('os').getpid()"}, "not allowed"),
        ({"expression": "latency + gamma"}, "not allowed"),
        ({"expression": "latency"}, "beta"),
        ({"let": {"p": "1"}}, "'p'"),
        ({"let": {"log2": "1", "steps": "1"}}, "'log2'"),
        ({"let": {"if": "1", "steps": "1"}}, "'if'"),
        ({"variables": {}}, "no variables"),
    ],
)
def test_formulas_and_names_are_checked(changes: dict[str, object], what: str) -> None:
    with pytest.raises(UsageError, match=what):
        base_model(**changes)


def test_a_file_is_read_with_its_short_forms(tmp_path: Path) -> None:
    path = tmp_path / "own.yaml"
    path.write_text(
        "expression: k * (a + b * p)\nconstants: {k: 2}\n"
        "parameters:\n  a: {value: 1e-6, lower: 1e-9, upper: 1, log: true}\n  b: {value: 1, lower: 0, upper: 2}\n"
        "variables:\n  p: {range: [1, 64], scale: true, monotone: increasing}\n"
    )
    base = load_base(path)
    assert base.name == "own" and base.variables["p"].range == (1, 64) and base.variables["p"].monotone == "increasing"
    assert base.evaluate(base.start, np.array([[4.0]]))[0] == pytest.approx(2 * (1e-6 + 4))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("variables: {p: {}}", "missing key 'expression'"),
        ("expression: p", "missing key 'variables'"),
        ("expression: p\nvariables: {p: {rnge: [1, 2]}}", "unknown key 'variables.p.rnge'"),
        ("expression: p\nvariables: {p: {range: 3}}", "'variables.p.range'"),
        ("expression: p\nvariables: {p: {monotone: up}}", "'variables.p.monotone'"),
        (
            "expression: a * p\nvariables: {p: {}}\nparameters: {a: {value: x, lower: 0, upper: 1}}",
            "parameters.a.value",
        ),
        ("expression: a * p\nvariables: {p: {}}\nparameters: {a: 3}", "missing key 'parameters.a.lower'"),
        ("expression: a\nvariables: {p: {}}\nparameters: {a: {value: 2, lower: 0, upper: 1}}", "'parameters.a'"),
        ("expression: p\nvariables: {p: {range: [4, 2]}}", "'variables.p'"),
        ("expression: [1]\nvariables: {p: {}}", "'expression'"),
        ("expression: p\nexpression: p", "twice"),
        ("", "empty"),
    ],
)
def test_files_that_are_wrong_are_named(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "wrong.yaml"
    path.write_text(text)
    with pytest.raises(BuranError) as caught:
        load_base(path)
    assert "wrong.yaml" in str(caught.value.where) and why in str(caught.value)
    assert ("'range'" in str(caught.value.hint)) == ("rnge" in text)


def test_a_missing_file_names_the_bundled_ones() -> None:
    with pytest.raises(UsageError) as caught:
        load_base("amdal")
    assert "amdahl" in str(caught.value.hint)


def test_a_normal_form_is_a_base_model() -> None:
    from fractions import Fraction

    term = Term((Factor(0, PowerLog(Fraction(4, 3), 0)), Factor(1, PowerLog(Fraction(0), 1))))
    function = ModelFunction(2.0, (0.5, -1e-3), (term, Term((Factor(1, PowerLog(Fraction(1), 0)),))))
    base = base_of_function(function, ("n size", "p"), "kernel")
    at = np.array([[8.0, 4.0], [27.0, 16.0]])
    assert np.allclose(base.evaluate(base.start, at), function.evaluate(at))
    assert list(base.variables) == ["n_size", "p"] and base.parameters["c2"].upper == -1e-4
    with pytest.raises(UsageError, match="zero everywhere"):
        base_of_function(ModelFunction(0.0), ("p",))
