from __future__ import annotations

from pathlib import Path

import pytest
from imported_trees import measured_tree

from buran.campaign.plan import Mode
from buran.files import not_synced, read_json
from buran.workflow.history import History
from buran.workflow.report import write_results
from buran_studies.simulate.in_process import carry_out
from simulated_campaigns import opened


@pytest.mark.slow
def test_imported_runs_tell_how_cores_are_used(tmp_path: Path) -> None:
    with not_synced():
        tree = measured_tree(tmp_path / "earlier", tmp_path / "tree")
        session = opened(
            tmp_path / "importing",
            measurements=[{"path": str(tree), "pool": True}],
            refinement={"enabled": False},
            metrics=["time", "visits"],
            warmup=False,
        )
        carry_out(session)
        history = History.open(session)
        write_results(history, tmp_path / "out")
    rows = read_json(tmp_path / "out" / "report.json")["efficiency"]["measured"]
    points = {run.point for run in history.runs if run.mode is Mode.IMPORTED}
    assert len(rows) >= len(points) > 1
