"""Finished campaigns compared through the command line, and what a check of every change says."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from buran.cli import main
from buran.files import not_synced
from buran.workflow.history import History
from buran.workflow.report import link_latest, write_results
from buran_studies.simulate.in_process import carry_out
from simulated_campaigns import PROGRAM, opened

pytestmark = pytest.mark.slow

CONDITIONS = "grown:10%,class,effort"


def finished(folder: Path, program: dict[str, Any], **changes: Any) -> Path:
    with not_synced():
        session = opened(folder, program, **changes)
        carry_out(session)
        write_results(History.open(session), session.layout.results(session.id))
        link_latest(session)
    return session.campaign.path


def grown(name: str, **formulas: str) -> dict[str, Any]:
    """Return the program with one of the functions below main changed."""
    program = copy.deepcopy(PROGRAM)
    program["program"]["main"]["calls"][name].update(formulas)
    return program


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("versions")
    versions = {
        "old": PROGRAM,
        "log": grown("setup", time_s="1e-5 * n**2 * log2(n)", basic_blocks="1000 * n**2 * log2(n)"),
        "factor": grown("solve", time_s="2.6e-7 * n**3"),
    }
    return {
        **{name: finished(folder / name, program) for name, program in versions.items()},
        "again": finished(folder / "again", PROGRAM, seed=2),
    }


def compared(
    capsys: pytest.CaptureFixture[str], new: Path, old: Path, *options: str, expect: int = 0
) -> tuple[str, dict[str, Any]]:
    assert main(["report", str(new), "--compare", str(old), *options]) == expect
    read = capsys.readouterr()
    path = new.parent / "results" / "sim" / "latest" / "comparison.json"
    return read.out + read.err, json.loads(path.read_text()) if path.is_file() else {}


def verdicts(data: dict[str, Any], metric: str) -> dict[str, str]:
    return {
        difference["call_path"].rpartition("->")[2]: difference["verdict"]
        for difference in data["differences"]
        if difference["metric"] == metric and difference["matters"]
    }


def test_the_same_program_measured_again_is_not_called_different(files, capsys) -> None:
    _, data = compared(capsys, files["again"], files["old"], "--fail-on", CONDITIONS)
    assert set(verdicts(data, "basic_blocks").values()) == {"same"}
    assert set(verdicts(data, "time").values()) <= {"same", "no difference seen"}
    assert data["broken"] == []


def test_a_factor_is_a_change_of_time_and_not_of_effort(files, capsys) -> None:
    said, data = compared(capsys, files["factor"], files["old"], "--fail-on", CONDITIONS, expect=5)
    assert verdicts(data, "time")["solve"] == "grown"
    assert verdicts(data, "time")["setup"] == "no difference seen"
    assert set(verdicts(data, "basic_blocks").values()) == {"same"}
    assert {each["condition"] for each in data["broken"]} == {"grown:10%"}
    assert "grown:10%  simulated->main->solve  time" in said
    compared(capsys, files["factor"], files["old"], "--fail-on", "effort,class,grown:90%")
    compared(capsys, files["old"], files["factor"], "--fail-on", CONDITIONS)  # it has shrunk


def test_a_growth_class_that_rose_is_told_by_counts_and_times(files, capsys) -> None:
    _, data = compared(capsys, files["log"], files["old"], "--fail-on", CONDITIONS, expect=5)
    assert verdicts(data, "time")["setup"] == verdicts(data, "basic_blocks")["setup"] == "grown"
    assert {(each["condition"], each["metric"]) for each in data["broken"]} >= {
        ("class", "basic_blocks"), ("effort", "basic_blocks"),
    }  # fmt: skip
    (counted,) = (
        each
        for each in data["differences"]
        if each["metric"] == "basic_blocks" and each["call_path"].endswith("->setup")
    )
    growth = [counted[key] for key in ("growth_before", "growth_after", "faster_in")]
    assert growth == ["n^2", "n^2 * log2(n)", ["n"]]


def test_it_is_written_for_people_and_programs(files, capsys) -> None:
    compared(capsys, files["log"], files["old"], "--json")
    folder = files["log"].parent / "results" / "sim" / "latest"
    page = (folder / "comparison.html").read_text()
    assert page.count("<svg") > 5
    assert "src=" not in page
    assert "href=" not in page
    assert main(["report", str(files["log"]), "--compare", str(files["old"]), "--html"]) == 0
    assert capsys.readouterr().out.strip().endswith("comparison.html")


def test_results_that_were_kept_are_enough(files, capsys, tmp_path: Path) -> None:
    latest = files["old"].parent / "results" / "sim" / "latest"
    for name in ("report.json", "models.json"):
        kept = tmp_path / name
        kept.write_text((latest / name).read_text())
        said, data = compared(capsys, files["log"], kept, "--fail-on", "effort", expect=5)
        assert "by their models" in said
        assert verdicts(data, "basic_blocks") == {"setup": "grown", "solve": "same", "tiny": "same"}
    _, data = compared(capsys, files["log"], latest)
    assert all(difference["exact"] for difference in data["differences"] if difference["metric"] == "bytes_sent")


def test_what_cannot_be_compared_is_said_with_what_to_do(files, capsys, tmp_path: Path) -> None:
    def refused(old: Path, *options: str) -> str:
        return compared(capsys, files["old"], old, *options, expect=2)[0]

    latest = files["log"].parent / "results" / "sim" / "latest"
    assert "no such file" in refused(tmp_path / "missing")
    assert "there is no" in refused(tmp_path)
    assert "page.json" in refused(latest / "page.json")
    damaged = tmp_path / "report.json"
    damaged.write_text(json.dumps({"campaign": "x", "models": {"time": {}}, "target": {}, "runtime": None}))
    assert "damaged" in refused(damaged)
    assert "'grown'" in refused(files["log"], "--fail-on", "gorwn")
    assert "between 0 and 1" in refused(files["log"], "--level", "95")
    said = refused(files["old"])
    assert "with itself" in said
    assert "keep report.json" in said
    unfinished = opened(tmp_path / "unfinished", PROGRAM).campaign.path
    assert "buran run" in refused(unfinished)
    assert main(["report", str(unfinished), "--compare", str(latest)]) == 2
    assert "no report yet" in capsys.readouterr().err
    assert main(["report", str(files["old"]), "--fail-on", "grown"]) == 2
    assert "--compare OTHER" in capsys.readouterr().err


def test_a_program_with_nothing_in_common_is_refused(files, capsys, tmp_path: Path) -> None:
    data = json.loads((files["old"].parent / "results" / "sim" / "latest" / "report.json").read_text())
    for model in data["models"].values():
        for call_path in model["call_paths"]:
            call_path["call_path"] = call_path["call_path"].replace("simulated", "another")
    other = tmp_path / "report.json"
    other.write_text(json.dumps(data))
    said, _ = compared(capsys, files["old"], other, expect=2)
    assert "call path" in said
    assert "'another'" in said
