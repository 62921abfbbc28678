"""A campaign that cannot go on after an iteration: its report is that of the newest iteration with models."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from buran.campaign.plan import Plan
from buran.cli import main
from buran.errors import StorageError
from buran.files import not_synced
from buran.workflow import plan, steps
from buran.workflow.history import History
from buran_studies.simulate.in_process import carry_out
from simulated_campaigns import opened


def test_a_later_step_that_fails_leaves_the_report_of_the_iteration_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    session = opened(
        tmp_path,
        parameters={"p": {"role": "ranks", "values": [2, 4]}, "n": {"role": "size", "values": [10, 14, 20]}},
        metrics=["time", "visits"],
        target={"p": 16, "n": 80},
        refinement={"enabled": False},
    )
    file = str(tmp_path / "campaign.yaml")

    def full(history: History) -> Plan:
        if history.plans:
            raise StorageError("the disk is full")
        return plan.make_plan(history)

    def report() -> Any:
        assert main(["report", file, "--json"]) == 0
        said = capsys.readouterr()
        return json.loads(said.out), said.err

    with not_synced():
        assert main(["report", file]) == 2  # nothing is modelled yet
        with monkeypatch.context() as patch, pytest.raises(StorageError):
            patch.setattr(steps, "make_plan", full)
            carry_out(session)
        capsys.readouterr()
        so_far, said = report()
        assert "after iteration 0" in said and "buran run" in said and "after iteration 0" in so_far["reason"]
        assert so_far["models"]["time"] and so_far["at_target"]
        assert report()[0] == so_far
        assert not session.layout.results(session.id).exists()
        carry_out(session)
