"""Operations in reports: those that were counted, and those that are asked for in vain."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest

from buran.files import not_synced
from buran.modeling.pmnf.model_set import read_models
from buran.workflow.history import History
from buran.workflow.report import write_results
from buran_studies.simulate.in_process import carry_out
from simulated_campaigns import PROGRAM, opened


def test_requirements_that_no_run_has_are_said(tmp_path: Path) -> None:
    program = copy.deepcopy(PROGRAM)
    program["program"]["main"]["calls"]["solve"]["flops"] = "7 * n**3"
    session = opened(
        tmp_path,
        program,
        parameters={"p": {"role": "ranks", "values": [4, 8, 16]}, "n": {"role": "size", "values": [20, 40]}},
        strategy={"name": "full"},
        target={"p": 64, "n": 80},
        refinement={"enabled": False},
        metrics=["time", "visits", "basic_blocks", "flops", "loads", "bytes_stored"],
    )
    folder = session.layout.results(session.id)
    with not_synced():
        carry_out(session)
        write_results(History.open(session), folder)
    page, text = (folder / "report.html").read_text(), (folder / "report.txt").read_text()
    assert "loads, bytes_stored" in page + text
    last = History.open(session).plans[-1].iteration - 1
    models = {each.metric: each for each in read_models(session.layout.models(session.id, last))}
    assert not {"loads", "bytes_stored"} & set(models)
    row = models["flops"].call_paths.index("simulated->main->solve")
    solve = models["flops"].models[row]
    assert solve is not None and solve.function.evaluate([[64, 100]]) == pytest.approx(7e6)
    assert "Floating-point operations" in (folder / "report.txt").read_text()
