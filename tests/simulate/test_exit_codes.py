"""Campaigns that cannot give what they are asked for: what ``buran run`` ends with, and what it says."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from buran.campaign.records import Status
from buran.cli.progress import first_failure
from buran.cli.run import _finish as finish
from buran.errors import ToolError
from buran.files import not_synced
from buran.measurement.store import ledger
from buran.workflow.history import History
from buran.workflow.report import write_results
from buran.workflow.session import open_session
from buran_studies.simulate.in_process import carry_out
from simulated_campaigns import PROGRAM, opened, written

pytestmark = pytest.mark.slow

TARGET = {"p": 4096, "n": 200}
QUICK: dict[str, Any] = {"repetitions": 1, "warmup": False, "resources": {"points_per_job": 50}}
KEPT: dict[str, Any] = {**QUICK, "target": TARGET, "refinement": {"enabled": False}}


def program(**changes: Any) -> dict[str, Any]:
    return {**copy.deepcopy(PROGRAM), **changes}


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
    "nothing that ever succeeds": (
        3,
        "no instrumented run succeeded: nothing can be modelled",
        program(failure_probability="1"),
        KEPT,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_campaign_ends_with_what_it_has_and_says_why(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, reason, described, changes = CASES[name]
    session = opened(tmp_path, described, **changes)
    with not_synced():
        carry_out(session)
        write_results(History.open(session), session.layout.results(session.id))
    try:
        ended, refused = finish(session, 0, tmp_path / "engine.log", 0.0), ""
    except ToolError as error:
        ended, refused = error.exit_code, str(error)
    said = "".join(capsys.readouterr()) + refused
    assert ended == code and reason in said
    failed = [entry for entry in ledger.read(session.layout.store) if entry.status == Status.FAILED]
    told = first_failure(session.layout, failed) if failed else ""
    assert told is not None and ("program.run" in told) == ("exit code 1" in said)
    report = tmp_path / "results" / "sim" / "latest" / "report.txt"
    assert report.is_file()


def test_a_campaign_that_changes_while_it_runs_is_told_so(tmp_path: Path) -> None:
    path = written(tmp_path, **QUICK)
    session = open_session(path)
    path.write_text(path.read_text().replace("repetitions: 1", "repetitions: 2"))
    with pytest.raises(ToolError) as caught:
        finish(session, 0, tmp_path / "engine.log", 0.0)
    assert "program.source" in str(caught.value.hint)
