"""Campaigns with the role steps: few steps stand for all where counts prove it, else they enter no model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from buran.campaign.plan import Purpose
from buran.campaign.records import Status
from buran.cli import main
from buran.files import not_synced
from buran.workflow.history import History
from buran_studies.simulate.in_process import carry_out
from simulated_campaigns import opened

FULL, TARGET = 600, 64


@pytest.fixture(autouse=True)
def quick() -> Iterator[None]:
    with not_synced():
        yield


def campaign(
    folder: Path,
    steps: str = "s",
    setup: str = "100 * n**3",
    unit_s: float = 1e-7,
    startup_s: float = 0.1,
    unsteady: float = 0,
    **changes: Any,
) -> History:
    """Carry out a campaign about a program that makes so many steps, given by a formula of s."""
    program: dict[str, Any] = {
        "schema": "buran-program/1",
        "startup_s": startup_s,
        "noise": {"percent": 1},
        "program": {
            "main": {
                "time_s": f"10000 * {unit_s}",
                "basic_blocks": 1000,
                "calls": {
                    "setup": {"time_s": f"10 * {unit_s} * n**3", "basic_blocks": setup},
                    "step": {
                        "time_s": f"{unit_s} * n**3 * {steps}", "visits": f"{steps}",
                        "basic_blocks": f"9 * n**3 * {steps}", "unsteady_percent": unsteady,
                    },
                },
            }
        },
    }  # fmt: skip
    wishes: dict[str, Any] = {
        "parameters": {"n": {"role": "size", "values": [16, 20, 24, 32, 40]}, "s": {"role": "steps", "value": FULL}},
        "evaluation_points": [{"n": TARGET}],
        "strategy": {"name": "design"},
        "budget": {"percent_of_full_matrix": 15},
        "resources": {"ranks": 1},
        "target": {"n": TARGET},
        "refinement": {"enabled": False},
        "warmup": False,
        "effort_repetitions": 1,
    }
    session = opened(folder, program, **{**wishes, **changes})
    carry_out(session)
    return History.open(session)


def error(history: History) -> float:
    (at,) = history.findings(last(history)).evaluation
    assert at.point == {"n": TARGET, "s": FULL}
    return float(abs(at.ratio - 1))


def last(history: History) -> int:
    return max(plan.iteration for plan in history.plans if not plan.done)


def measured(history: History) -> list[dict[str, Any]]:
    """Points of models, in the order of their plans."""
    return [
        dict(outcome.point)
        for outcome in history.outcomes(history.plans)
        if outcome.purpose is Purpose.MODEL and outcome.has(Status.MEASURED)
    ]


def reported(folder: Path, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["report", "--full", str(folder / "campaign.yaml")]) == 0
    return capsys.readouterr().out


def test_few_steps_stand_for_all_where_work_repeats(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    history = campaign(tmp_path, "s")
    points = measured(history)
    assert {point["s"] for point in points} == {30, 120, FULL}
    assert {point["n"] for point in points if point["s"] == FULL} == {16}  # the cheapest alone proves it
    assert max(point["n"] for point in points) == TARGET  # few steps reach the target's own size
    assert error(history) < 0.05
    assert all(prior.repeats == {"s": "proven"} for prior in history.findings(last(history)).priors)
    text = reported(tmp_path, capsys)
    assert "s repeats work" in text and "100 % of the time" in text
    assert "Grows with s" not in text and "s has 3 values" not in text


@pytest.mark.parametrize(
    "steps", ["min(s, 200)", "(s + 30 * floor(s / 500))", "s**1.2"], ids=["ends", "output", "adapts"]
)
def test_few_steps_enter_no_model_where_counts_refute_it(
    steps: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    history = campaign(tmp_path, steps)
    findings = history.findings(last(history))
    assert findings.not_repeated == {"s": ("simulated->main->step",)}
    first = [bundle.point for bundle in history.plans[0].bundles]
    later = [point for point in measured(history) if point not in map(dict, first)]
    assert later and {point["s"] for point in later} == {FULL}
    models = history.models(last(history))["time"]
    assert {point[models.parameters.index("s")] for point in models.points} == {FULL}
    assert error(history) < 0.3
    assert "simulated->main->step" in reported(tmp_path, capsys)


def test_what_is_little_of_a_full_run_refutes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # output at the end, say: 0.7 % of the work of all steps, 8 % of that of a twentieth
    history = campaign(tmp_path, setup="20 * n**3 * (1 + floor(s / 500))")
    assert history.findings(last(history)).not_repeated == {}
    assert max(point["n"] for point in measured(history)) == TARGET
    assert error(history) < 0.05
    assert "of 1 are not" in reported(tmp_path, capsys)


def test_counts_that_differ_between_runs_stand_for_no_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    history = campaign(tmp_path, unsteady=5, effort_repetitions=2)
    findings = history.findings(last(history))
    assert findings.not_repeated == {"s": ("simulated->main->step",)}
    assert "simulated->main->step" in findings.unsteady["basic_blocks"]


@pytest.mark.parametrize("unit_s", [0.0, 1e-16], ids=["none", "below the clock's resolution"])
def test_runs_that_the_clock_shows_no_time_of_test_no_prediction(
    unit_s: float, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    history = campaign(tmp_path, unit_s=unit_s, startup_s=0.0)
    tests = history.findings(last(history)).evaluation
    assert len(tests) == (unit_s > 0)
    assert all(0 <= test.predicted_s < 0.01 for test in tests)
    text = reported(tmp_path, capsys)
    assert ("not measured  took 0 s" in text) == (unit_s == 0)
    assert "n has one value" not in text  # counting runs have more, and tell times


def test_a_budget_below_one_run_pays_for_the_first_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    history = campaign(tmp_path, budget={"core_hours": 1e-7})
    assert len(history.runs) == 1
    assert history.plans[-1].done and history.plans[-1].budget_reached
    assert not any(prior.repeats for prior in history.findings(last(history)).priors)
    assert "repeats with s:" in reported(tmp_path, capsys)
