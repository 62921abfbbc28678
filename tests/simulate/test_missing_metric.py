"""A metric that one run of a build lacks: the other runs of the build are not started."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from buran.campaign.plan import Mode
from buran.campaign.records import Status, read_run
from buran.cli import main
from buran.errors import Exit, MetricError
from buran.files import not_synced
from buran.measurement.store.store import run_folders
from buran.workflow.engine.controller import make_eligible
from buran.workflow.history import History
from buran.workflow.session import Session
from buran.workflow.views.summary import summarize
from buran_studies.simulate.backend import SimulatedBackend
from buran_studies.simulate.in_process import carry_out
from simulated_campaigns import opened

SMALL: dict[str, Any] = {
    "parameters": {"p": {"role": "ranks", "values": [4, 8, 16]}, "n": {"role": "size", "values": [20, 40]}},
    "strategy": {"name": "full"},
    "refinement": {"enabled": False},
}


def counted(session: Session) -> list[str | None]:
    """Return why each run that counts effort failed; None for the others."""
    runs = [read_run(folder) for folder in run_folders(session.layout.store)]
    return [run.reason for run in runs if run.mode is Mode.EFFORT]


def test_the_other_runs_of_the_build_are_not_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session, collect = opened(tmp_path, **SMALL), SimulatedBackend.collect
    calls = []

    def lacking(self: SimulatedBackend, mode: Mode, folder: Path, ranks: int) -> Any:
        if mode is Mode.EFFORT:
            calls.append(folder)
            raise MetricError("PAPI_TOT_INST", where=folder)
        return collect(self, mode, folder, ranks)

    monkeypatch.setattr(SimulatedBackend, "collect", lacking)
    with not_synced():
        carry_out(session)
    reasons = counted(session)
    assert len(calls) == 1 < len(reasons)
    spared = [reason for reason in reasons if str(reason).startswith("not started: ")]
    assert len(spared) == len(reasons) - 1 and all("PAPI_TOT_INST" in str(reason) for reason in spared)
    state = summarize(History.open(session))
    assert len(state.failures) == 1 and state.failed == len(reasons)
    runs = [read_run(folder) for folder in run_folders(session.layout.store)]
    assert {run.status for run in runs if run.mode is not Mode.EFFORT} == {Status.MEASURED}

    assert main(["verify", str(session.campaign.path)]) == Exit.DONE
    monkeypatch.setattr(SimulatedBackend, "collect", collect)
    make_eligible(session.layout, session.id, retry_failed=True)  # buran run --retry-failed
    with not_synced():
        carry_out(session)
    assert summarize(History.open(session)).failed == 0
    assert counted(session).count(None) >= len(reasons)
