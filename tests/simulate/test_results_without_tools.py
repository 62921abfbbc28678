"""Results are read where what has measured them is missing, and found by their folder."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from buran.cli import main
from buran.errors import Exit, ToolError
from buran.files import not_synced
from buran.measurement.backends.base import SYSTEMS
from buran.workflow.history import History
from buran.workflow.report import link_latest, write_results
from buran.workflow.session import open_session
from buran_studies.simulate.in_process import carry_out
from simulated_campaigns import written

SMALL: dict[str, Any] = {
    "parameters": {"p": {"role": "ranks", "values": [4, 8, 16]}, "n": {"role": "size", "values": [20, 40]}},
    "strategy": {"name": "full"},
}
VIEWS = ("report", "filter", "status", "plan")


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished campaign; return its file."""
    file = written(tmp_path_factory.mktemp("campaign"), **SMALL)
    session = open_session(file)
    with not_synced():
        carry_out(session)
        write_results(History.open(session), session.layout.results(session.id))
        link_latest(session)
    return file


@pytest.fixture
def toolless(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the measurement system away."""

    def missing(*_: object) -> None:
        raise ToolError("Score-P was not found", where="PATH", why="there is no program scorep")

    monkeypatch.setattr(SYSTEMS.load("simulated"), "open", missing)


def said(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    code = main([str(word) for word in words])
    shown = capsys.readouterr()
    steady = "".join(line for line in shown.out.splitlines(keepends=True) if "load average" not in line)
    return code, steady, shown.err


@pytest.mark.parametrize("verb", VIEWS)
def test_views_need_no_measurement_system(
    verb: str, measured: Path, capsys: pytest.CaptureFixture[str], request: pytest.FixtureRequest
) -> None:
    before = said(capsys, verb, measured)
    request.getfixturevalue("toolless")
    code, out, err = said(capsys, verb, measured)
    assert before == (Exit.DONE, out, "") and code == Exit.DONE
    assert err.count("Score-P") == err.count("\n") == 1


def test_runs_and_campaigns_without_results_need_it(
    measured: Path, tmp_path: Path, toolless: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said(capsys, "run", measured)[0] == Exit.ENVIRONMENT
    assert said(capsys, "plan", written(tmp_path, **SMALL))[0] == Exit.ENVIRONMENT


def test_what_has_changed_since_is_said_all_the_same(
    measured: Path, tmp_path: Path, toolless: None, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(measured.parent, tmp_path / "copy", symlinks=True)
    file = tmp_path / "copy" / measured.name
    program = file.with_name("program.yaml")
    program.write_text(program.read_text().replace("startup_s: 0.1", "startup_s: 0.2"))
    code, out, err = said(capsys, "filter", file)
    assert code == Exit.DONE and "INCLUDE" in out and "the sources" in err
    assert "build command" not in err


@pytest.mark.parametrize("verb", VIEWS)
def test_a_folder_of_results_stands_for_its_campaign(
    verb: str, measured: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = measured.parent / "results" / "sim"
    expected = said(capsys, verb, measured)
    for folder in (results, results / "latest"):
        assert said(capsys, verb, folder) == expected


def test_results_without_their_campaign_file(
    measured: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = said(capsys, "report", measured, "--json")[1]
    alone = tmp_path / "alone"
    shutil.copytree(measured.parent / "results" / "sim", alone, symlinks=True)
    for folder in (alone, alone / "latest"):
        code, out, _ = said(capsys, "report", folder, "--json")
        assert code == Exit.DONE and json.loads(out) == json.loads(expected)
    for verb in ("filter", "status"):
        code, _, err = said(capsys, verb, alone)
        assert code == Exit.USAGE and "buran filter --from" in err
    (tmp_path / "empty").mkdir()
    for verb in VIEWS:
        code, _, err = said(capsys, verb, tmp_path / "empty")
        assert code == Exit.USAGE and "next:" in err and "Traceback" not in err
