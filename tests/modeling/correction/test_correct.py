"""Corrected models: accepted, refused, frozen, written and read."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import sympy
from truths import PLACES, base_model, contended, fitting

from buran.errors import FormatError, UsageError
from buran.modeling.correction import (
    BaseModel,
    Corrected,
    Parameter,
    Variable,
    correct,
    gate,
    load_base,
    load_corrected,
    write_corrected,
)
from buran.modeling.correction.correct import Contest
from buran.modeling.correction.corrected import render
from buran.modeling.correction.data import prepare
from buran.modeling.correction.fit import Problem
from buran.modeling.correction.mecp.trees import Evolved, PrefixProgram
from buran.modeling.correction.terms import Average, Growth


@pytest.fixture
def open_gate(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the best correction that is no worse, whatever it gains."""
    monkeypatch.setattr(gate, "GAIN", 0.0)
    monkeypatch.setattr(gate, "FORWARD_LEVEL", 0.0)


@pytest.fixture(scope="module")
def contention() -> Corrected:
    return correct(base_model(), PLACES, contended(PLACES), case="terms", seed=3)


def test_a_missing_effect_is_corrected(contention: Corrected) -> None:
    assert not contention.report.refused and contention.method == "terms"
    assert contention.report.errors["base"] > 2 * min(contention.report.errors.values())
    between = np.array([[12.0, 300.0], [48.0, 900.0]])
    assert np.allclose(contention.predict(between).value, contended(between, noise=0), rtol=0.05)
    (threshold,) = contention.report.thresholds
    assert threshold.variable == "p" and f"p = {threshold.at:.4g}" in str(threshold)


def test_terms_are_frozen_beyond_twice_the_measured_values(contention: Corrected) -> None:
    found = contention.predict({"p": [64.0, 128.0, 129.0, 4096.0, 8192.0], "n": [1600.0] * 5})
    assert found.in_domain.tolist() == [True, True, False, False, False]
    assert contention.terms is not None
    best = contention.terms.best
    parts = contention.base.parts(np.array(best.theta), np.array([[4096.0, 1600.0]]))
    held = np.array([[128.0, 1600.0]])
    added = sum(term.coefficient * parts.carriers[term.carrier] * term.growth(held) for term in best.terms)
    assert found.value[3] == pytest.approx((parts.total + added)[0])
    growing = best.evaluate(contention.base, np.array([[4096.0, 1600.0]]))
    assert found.value[3] < growing[0]


def test_averages_have_every_set_of_terms() -> None:
    values = contended(PLACES)
    problem = Problem(base_model(), PLACES, np.log(values), np.ones((1, len(PLACES)), dtype=bool))
    model = Contest(problem).candidates(0)["terms"]
    assert model.terms is not None and len(model.terms.models) > 5
    weights = np.array(model.terms.weights)
    assert weights.sum() == pytest.approx(1) and (np.diff(weights) <= 0).all()
    own = model.base.evaluate(np.array(model.theta), PLACES)
    shifts = np.log([each.evaluate(model.base, PLACES) / own for each in model.terms.models])
    mean = weights @ shifts
    found = np.log(model.predict(PLACES).factor)
    assert np.allclose(found, mean**3 / (mean**2 + weights @ (shifts - mean) ** 2))
    assert (np.abs(found) <= np.abs(mean)).all(), "where they disagree, less is corrected"
    assert f"{len(model.terms.models)} formulas" in render(model)
    assert np.isnan(model.predict(PLACES).lower).all(), "what was not cross-validated has no intervals"


def test_a_process_or_a_further_term_wins_only_by_a_margin() -> None:
    assert gate.best_of({"terms": 0.5, "process": 0.44}, ["terms"]) == "terms"
    assert gate.best_of({"terms": 0.5, "process": 0.42}, ["terms"]) == "process"
    assert gate.best_of({"1 term": 0.5, "2 terms": 0.495, "process": 0.45}, ["1 term", "2 terms"]) == "1 term"


def test_larger_errors_at_the_largest_points_count_only_if_chance_is_unlikely() -> None:
    base = np.array([0.1, 0.11, 0.09, 0.1])
    assert gate.reason_against(0.5, base, base + np.array([0.0, 0.3, -0.05, 0.0])) is None
    for worse in (base + np.array([0.1, 0.12, 0.09, 0.1]), np.array([0.1, np.inf, 0.1, 0.1])):
        assert "misleads" in str(gate.reason_against(0.5, base, worse))
    assert gate.reason_against(0.5, base[:1], 2 * base[:1]), "of one point any larger error counts"
    assert f"{100 * gate.GAIN:.0f} %" in str(gate.reason_against(0.95, base, base))


def test_intervals_widen_beyond_the_measured_points_and_hold(contention: Corrected) -> None:
    measured = contention.predict(PLACES)
    times = np.array([contended(PLACES, seed=seed) for seed in range(1, 50)])
    assert ((measured.lower <= times) & (times <= measured.upper)).mean() >= 0.85
    far = np.array([(64.0, 1600.0), (96.0, 1600.0), (512.0, 1600.0), (4096.0, 1600.0)])
    beyond = contention.predict(far)
    widths = np.log(beyond.upper / beyond.lower)
    assert (np.diff(widths) >= -1e-12).all() and widths[-1] > 2 * widths[0]


def test_a_base_that_fits_is_left_alone() -> None:
    found = correct(base_model(), PLACES, fitting(PLACES))
    assert found.report.refused and "fits" in found.report.reason and found.method == "base"
    assert np.allclose(found.predict(PLACES).factor, 1)
    assert np.isfinite(found.predict(2 * PLACES).upper).all()


def test_noise_is_not_corrected() -> None:
    refused = [correct(base_model(), PLACES, fitting(PLACES, 0.05, seed)).report.refused for seed in range(4)]
    assert sum(refused) >= 3


@pytest.mark.parametrize(("few", "folds"), [(40, len(PLACES)), (7, 7)])
def test_folds_leave_every_point_out_and_the_largest_together(
    few: int, folds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate, "FOLDS", few)
    masks = gate.masks(PLACES[:, 0], np.random.default_rng(0))
    assert len(masks) == folds + 1 and ((~masks[:-1]).sum(axis=0) == 1).all()
    assert PLACES[~masks[-1], 0].min() > PLACES[masks[-1], 0].max()


def test_a_base_model_without_growth_is_judged_by_its_variables() -> None:
    base = BaseModel("a", {"a": Parameter(1, 1e-3, 1e3, log=True)}, {"p": Variable(thresholds=True), "n": Variable()})
    found = correct(base, PLACES, contended(PLACES))
    assert not found.report.refused and set(found.report.forward) == set(found.report.errors)


def test_a_process_takes_part_where_no_term_helps() -> None:
    p, n = PLACES.T
    values = fitting(PLACES) * np.exp(0.5 * np.sin(2.5 * np.log(n)) + 0.3 * np.cos(np.log(p)))
    found = correct(base_model(variables={"p": Variable(), "n": Variable()}), PLACES, values)
    assert found.process is not None
    assert found.report.errors[found.report.reason.partition(":")[0]] < 0.7 * found.report.errors["base"]
    assert any("scale" in note for note in found.report.notes)


def test_a_formula_competes_with_formulas_alone(contention: Corrected) -> None:
    assert set(contention.report.errors) == {"base", "1 term", "2 terms", "3 terms"}


@pytest.mark.usefixtures("open_gate")
def test_declared_directions_are_kept() -> None:
    data = prepare(base_model(), PLACES, contended(PLACES) * (1 + 2 / PLACES[:, 0] ** 2))
    bound = {"p": Variable(scale=True, monotone="increasing"), "n": Variable()}
    kept = correct(base_model(variables=bound), data.points, data.values, case="terms")
    at = np.stack([np.geomspace(2, 64, 50), np.full(50, 400.0)], axis=1)
    assert not kept.report.refused and (np.diff(kept.predict(at).value) > 0).all()


def test_a_broken_direction_is_objected_to(contention: Corrected) -> None:
    falling = replace(contention, base=base_model(variables={"p": Variable(monotone="decreasing"), "n": Variable()}))
    assert gate.objection(falling, PLACES) is None, "the base model itself rises: the correction is not to blame"
    assert contention.terms is not None
    term = contention.terms.best.terms[0]
    down = replace(contention.terms.best, terms=(replace(term, growth=Growth("power", 0, -1.0), coefficient=9.0),))
    rising = base_model(variables={"p": Variable(monotone="increasing"), "n": Variable()})
    found = replace(contention, base=rising, terms=Average((down,), (1.0,)))
    assert "increasing in p" in str(gate.objection(found, PLACES))


def test_a_factor_that_is_no_correction_is_objected_to(contention: Corrected) -> None:
    assert contention.terms is not None
    term = contention.terms.best.terms[0]
    wild = replace(contention.terms.best, terms=(replace(term, coefficient=500.0),))
    assert "factor" in str(gate.objection(replace(contention, terms=Average((wild,), (1.0,))), PLACES))
    assert gate.objection(contention, PLACES) is None


@pytest.mark.parametrize(
    ("points", "values", "what"),
    [
        (PLACES, np.zeros(len(PLACES)), "times are positive"),
        (PLACES, np.full(len(PLACES), np.inf), "times are positive"),
        (PLACES[:1], [1.0], "fewer points"),
        (PLACES[::3], np.ones(6), "variable n"),
        (PLACES, [1.0], "do not match"),
        ({"p": [1.0, 2.0]}, [1.0, 2.0], "'n'"),
        ({"p": [0.0, 2.0], "n": [1.0, 2.0]}, [1.0, 2.0], "positive numbers"),
        (PLACES[:, :1], np.ones(len(PLACES)), "variables"),
    ],
)
def test_measurements_are_checked(points: object, values: object, what: str) -> None:
    with pytest.raises(UsageError, match=what):
        correct(base_model(), points, values)  # type: ignore[arg-type]


def test_a_base_that_is_zero_at_a_point_is_named() -> None:
    base = base_model(let={"steps": "p - 2"})
    with pytest.raises(UsageError, match="no positive time") as caught:
        correct(base, PLACES, contended(PLACES))
    assert "p = 2" in str(caught.value.where)


def test_repetitions_become_their_median() -> None:
    points = np.repeat(PLACES, 3, axis=0)
    values = np.repeat(fitting(PLACES), 3)
    values[::3] *= 50
    data = prepare(base_model(), points, values)
    assert np.allclose(np.sort(data.values), np.sort(fitting(PLACES)))


def test_few_points_are_refused_politely() -> None:
    found = correct(base_model(), PLACES[[0, 1, 4, 8]], contended(PLACES)[[0, 1, 4, 8]] * [1, 2, 1, 2])
    assert found.report.refused and "too few" in found.report.reason


@pytest.mark.parametrize(
    ("choice", "what"),
    [
        ({"preset": "magic"}, "'magic'"),
        ({"case": 7}, "case 7"),
        ({"case": 3}, "case 3"),
        ({"preset": "published", "case": "terms"}, "case terms"),
        ({"preset": "published", "case": 1, "trials": 0}, "one trial"),
    ],
)
def test_choices_that_do_not_exist_are_named(choice: dict[str, Any], what: str) -> None:
    with pytest.raises(UsageError, match=what):
        correct(base_model(), PLACES, contended(PLACES), **choice)


def test_invalid_predictions_are_missing_ones() -> None:
    found = correct(base_model(), PLACES, fitting(PLACES))
    evolved = Evolved(1, PrefixProgram(("-", "@base", 1.0)), found.theta, 1.0)
    wrong = replace(found, evolved=evolved).predict(PLACES)
    missing = found.predict(PLACES).value <= 1
    assert missing.any() and np.isnan(wrong.value[missing]).all() and (wrong.value[~missing] > 0).all()


@pytest.mark.usefixtures("open_gate")
@pytest.mark.parametrize("case", ["terms", None])
def test_files_predict_the_same(case: Literal["terms"] | None, tmp_path: Path) -> None:
    n = PLACES[:, 1]
    values = contended(PLACES) * np.exp(0.3 * np.sin(2.5 * np.log(n)))
    model = correct(base_model(), PLACES, values, case=case)
    at = np.concatenate([PLACES, [[500.0, 20.0]]])
    expected = model.predict(at).value
    write_corrected(tmp_path / "model.json", model)
    assert np.array_equal(load_corrected(tmp_path / "model.json").predict(at).value, expected)
    assert (model.process is not None) == (case is None)
    assert ("Gaussian process" in render(model)) == (case is None)


def test_formulas_are_readable(contention: Corrected) -> None:
    text, latex = render(contention), render(contention, "latex")
    assert "Max(0, " in text and "n**2" in text and "base = " in text
    assert r"\max" in latex and "n^{2}" in latex


@pytest.mark.usefixtures("open_gate")
def test_every_carrier_can_be_written() -> None:
    base = BaseModel(
        "max(a * p, b * n)",
        {"a": Parameter(1e-3, 1e-6, 1, log=True), "b": Parameter(1e-4, 1e-6, 1, log=True)},
        {"p": Variable(scale=True), "n": Variable()},
        {"first": "a * p", "second": "b * n"},
    )
    base = BaseModel("max(first, second)", base.parameters, base.variables, base.components)
    p, n = PLACES.T
    values = np.maximum(2e-3 * p, 3e-4 * n) * (1 + 0.1 * np.log2(p)) + 1e-3 * np.sqrt(n)
    model = correct(base, PLACES, values, case="terms")
    assert model.terms is not None
    written = sympy.lambdify(["p", "n"], model.terms.best.expression(base), "numpy")
    assert np.allclose(written(p, n), model.predict(PLACES).value, rtol=1e-9)
    assert "Max(" in render(model)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"schema": "other/1"}, "no corrected model"),
        ({"theta": [1.0]}, "damaged"),
        ({"theta": [1.0, None]}, "damaged"),
        ({"low": []}, "damaged"),
        ({"base": {"expression": "q", "variables": {"p": {}}}}, "damaged"),
        ({"terms": {"models": [{"theta": [1, 1], "cost": 0}], "weights": [1]}}, "damaged"),
        ({"terms": {"models": [{"theta": [1, 1], "terms": [], "cost": 0}], "weights": [0.5]}}, "damaged"),
        ({"evolved": {"case": 1, "program": {"tokens": ["+"]}, "theta": [1, 1], "error": 0}}, "damaged"),
        ({"evolved": {"case": 1, "program": {"tokens": ["q"]}, "theta": [1, 1], "error": 0}}, "damaged"),
        ({"process": {"centre": [0], "spread": [1], "points": [[0]], "lengths": [[1]], "pull": [[1]]}}, "damaged"),
    ],
)
def test_damaged_files_are_refused(contention: Corrected, tmp_path: Path, change: dict[str, object], what: str) -> None:
    path = tmp_path / "model.json"
    path.write_text(json.dumps({**contention.to_json(), **change}))
    with pytest.raises(FormatError, match=what):
        load_corrected(path)


def test_the_reconstruction_is_corrected() -> None:
    base = load_base("evh1_2d_reconstructed")
    points = np.array([(nx, p, 0.1) for nx in (128.0, 512.0, 2048.0) for p in (4.0, 8.0, 16.0, 32.0, 64.0, 128.0)])
    points[::2, 2] = 0.2
    values = base.evaluate(base.start, points) * (1 + 0.5 * np.maximum(0, points[:, 1] / 32 - 1))
    found = correct(base, points, values)
    assert not found.report.refused and found.report.thresholds[0].variable == "np"
