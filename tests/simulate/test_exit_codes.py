"""Campaigns that cannot give what they are asked for, through ``buran run``: what they end with, and what they say."""

from __future__ import annotations

import copy
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from buran.cli.run import _finish as finish
from buran.loop.session import open_session
from simulated_campaigns import PROGRAM, written

TARGET = {"p": 4096, "n": 200}
QUICK: dict[str, Any] = {"repetitions": 1, "warmup": False, "resources": {"points_per_job": 50}}
KEPT: dict[str, Any] = {**QUICK, "target": TARGET, "refinement": {"enabled": False}}


def program(**changes: Any) -> dict[str, Any]:
    return {**copy.deepcopy(PROGRAM), **changes}


def unsteady() -> dict[str, Any]:
    out = program()
    out["program"]["main"]["calls"]["setup"]["unsteady_percent"] = 5
    return out


CASES: dict[str, tuple[int, str, dict[str, Any], dict[str, Any]]] = {
    "a target beyond all reason": (
        4,
        "the target n = 1e+07 lies a factor of 2e+05 beyond all points: too far to trust",
        program(),
        {**QUICK, "target": {"p": 4096, "n": 1e7}, "refinement": {"enabled": False}},
    ),
    "a budget for the first runs alone": (
        4,
        "nothing more fits into the budget",
        program(),
        {
            **QUICK,
            "target": TARGET,
            "refinement": {"pilot": True},
            "budget": {"core_hours": 0.001},
            "strategy": {"name": "design"},
        },
    ),
    "an accuracy that noise forbids": (
        4,
        "the prediction at the target is not within 0.1 %: it is within",
        program(noise={"percent": 20}),
        {**KEPT, "strategy": {"name": "design", "max_iterations": 2, "accuracy_percent": 0.1}},
    ),
    "effort that depends on the run": (
        4,
        "effort depends on the run: basic_blocks of simulated->main->setup",
        unsteady(),
        {**KEPT, "effort_repetitions": 2},
    ),
    "a point that always fails": (
        1,
        "exit code 1",
        program(failure_probability="1 if p == 4 and n == 30 else 0"),
        {**KEPT, "strategy": {"name": "cpf", "max_iterations": 4}, "budget": {"core_hours": 0.1}},
    ),
    "nothing that ever succeeds": (
        3,
        "no instrumented run succeeded: nothing can be modelled",
        program(failure_probability="1"),
        KEPT,
    ),
}
QUICKEST = ("nothing that ever succeeds",)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [each if each in QUICKEST else pytest.param(each, marks=pytest.mark.thorough) for each in CASES]
)
def test_a_campaign_ends_with_what_it_has_and_says_why(tmp_path: Path, name: str) -> None:
    code, reason, described, changes = CASES[name]
    file = written(tmp_path, described, **changes)
    environment = {**os.environ, "NO_COLOR": "1", "BURAN_LOCK_FOLDER": str(tmp_path / "lock")}
    done = subprocess.run(
        [sys.executable, "-m", "buran.cli", "run", str(file)], env=environment, capture_output=True, text=True
    )
    said = done.stdout + done.stderr
    assert done.returncode == code, said
    assert reason in said
    assert "Traceback" not in said
    assert ("if the program ends so when all is well" in said) == ("exit code 1" in said)
    report = tmp_path / "results" / "sim" / "latest" / "report.txt"
    assert report.is_file()


def test_a_campaign_that_changes_while_it_runs_is_told_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, **QUICK)
    session = open_session(path)
    path.write_text(path.read_text().replace("repetitions: 1", "repetitions: 2"))
    assert finish(session, 0, tmp_path / "engine.log", 0.0) == 3
    said = capsys.readouterr().err
    assert "not what it was when it began" in said and "program.source" in said and "buran run" in said
