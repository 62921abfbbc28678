"""More of what goes wrong at a desk: each ends in words that say what to do, with the exit code of its kind."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from buran.cli import main
from buran.errors import Exit
from buran.modeling.pmnf.model_set import SCHEMA

CAMPAIGN: dict[str, Any] = {
    "name": "small",
    "program": {"source": "code", "build": "make MPICC={mpicc}", "binary": "program", "run": "{binary} {n}"},
    "parameters": {"p": [1, 2, 4], "n": [20, 40, 80]},
    "target": {"p": 64, "n": 1000},
}
DATA = "PARAMETER p\nPOINTS ( 1 ) ( 2 ) ( 4 ) ( 8 ) ( 16 )\nREGION main\nMETRIC time\n"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a campaign file, measurements, a folder of results and an empty folder."""
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "program.c").touch()
    (tmp_path / "data.txt").write_text(DATA + "".join(f"DATA {p}\n" for p in (1, 2, 4, 8, 16)))
    for folder in ("empty", "results/kept"):
        (tmp_path / folder).mkdir(parents=True)
    for name in ("report.json", "report.html"):
        (tmp_path / "results" / "kept" / name).write_text("{}")
    (tmp_path / "campaign.yaml").write_text(yaml.safe_dump(CAMPAIGN))
    (tmp_path / "models.json").write_text(f'{{"schema": "{SCHEMA}", ')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "60")
    return tmp_path


def said(words: Sequence[str], code: Exit, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(words) == code
    printed = capsys.readouterr().err
    assert "Traceback" not in printed
    return " ".join(printed.split())


@pytest.mark.parametrize(
    ("changes", "hint"),
    [
        ({"parameters": {"p": "1..8", "n": [20, 40]}}, '`parameters: {"p": [1, 2, 4], "n":'),
        (
            {"parameters": {"p": [1, 2], "n": {"range": {"start": 1, "stop": 9, "step": 2}}}},
            '`role: "size"`',
        ),
        ({"points": "all"}, '`points: [{"p": 1, "n": 8}'),
        ({"evaluation_points": {"p": 8, "n": 80}}, '`evaluation_points: [{"p": 16'),
        ({"points": [{"p": 1, "n": 2}, {"p": 2, "n": 4}]}, "`p: {role: ranks}`"),
        ({"budget": {"percent": 3}}, "'percent_of_full_matrix'?"),
        ({"refinement": "off"}, '`refinement: {"enabled": false}`'),
        (
            {"environments": {"local": {"variables": ["OMP_NUM_THREADS=2"]}}},
            '`variables: {"OMP_PROC_BIND": "close"}`',
        ),
        ({"program": CAMPAIGN["program"] | {"flags": ["-O2", "-g"]}}, "must be text"),
        ({"program": CAMPAIGN["program"] | {"run": "mpirun -n {p} {binary} {n}"}}, "begin with {binary}"),
        ({"target": "p=64"}, '`target: {"p": 64, "n": 512}`'),
        ({"target": {"p": 64}}, "as in `target: {n: 1024, ...}`"),
        ({"target": {"p": 2.5, "n": 1000}}, "whole numbers"),
        ({"target": {"p": "many", "n": 1000}}, "'many' is"),
        ({"name": "x" * 65}, "at most 64 letters"),
        ({"strategy": "line"}, '`strategy: {"name": "lines"}`'),
        ({"resources": {"time_limit": "00:10:00"}}, "10min"),
    ],
)
def test_a_campaign_file_says_what_to_write(
    changes: dict[str, Any], hint: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "campaign.yaml").write_text(yaml.safe_dump(CAMPAIGN | changes))
    printed = said(["check"], Exit.USAGE, capsys)
    assert hint in printed and "'p' is no parameter" not in printed


def test_a_launcher_of_ones_own_may_begin_the_command(here: Path) -> None:
    run = CAMPAIGN["program"] | {"run": "mpirun -n {p} {binary} {n}"}
    (here / "campaign.yaml").write_text(
        yaml.safe_dump(CAMPAIGN | {"program": run, "environments": {"local": {"launcher": "none"}}})
    )
    assert main(["check", "-q"]) == Exit.DONE


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("model data.txt --at p:1024", "'p:1024'"),
        ("model data.txt --level 2", "write --level 0.9"),
        ("init data.txt", "name a folder"),
        ("predict nothere --at p=2", "buran model or"),
        ("correct nothere data.txt", "one of allgather"),
        ("filter", "measured nothing"),
        ("reprot", "`buran report`?"),
        ("convert data.txt data.txt --force", "name another OUT"),
        ("run --jobs 4", "follow a `--`"),
        ("filter --check absent.filter", "a Score-P filter"),
        ("filter --from data.txt --share 2", "--share lies"),
        ("filter --from data.txt --overhead -1", "--overhead is"),
        ("filter campaign.yaml --target p=3,n=5 --constants", "--target, --constants"),
        ("report results/kept/report.html", "folder: results/kept"),
        ("status results/kept/report.json", "name the campaign file"),
        ("status .", "file: campaign.yaml"),
        ("model models.json --metric time", "with: buran model"),
    ],
)
def test_a_command_says_what_to_do(words: str, hint: str, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert hint in said(words.split(), Exit.USAGE, capsys)


@pytest.mark.parametrize(
    ("output", "hint"),
    [
        ("empty", "not a folder"),
        ("data.txt/x.json", "data.txt: File exists"),
        ("/proc/nowhere/x.json", "/proc/nowhere: No"),
        ("x" * 300, "shorter name"),
    ],
)
@pytest.mark.parametrize("words", ["model data.txt", "correct amdahl data.txt"])
def test_an_output_that_cannot_be_written(
    words: str, output: str, hint: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(here.rglob("*"))
    assert hint in said([*words.split(), "-o", output], Exit.ENVIRONMENT, capsys)
    assert sorted(here.rglob("*")) == before


def test_a_campaign_is_verified_by_its_results(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "results" / "small").mkdir()
    assert main(["verify", "results/small"]) == Exit.DONE
    assert "0 problems" in capsys.readouterr().out


@pytest.mark.parametrize("words", ["check", "report", "status"])
def test_a_folder_that_is_gone(words: str, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.chdir(here / "empty")
    (here / "empty").rmdir()
    assert "cd to one" in said(words.split(), Exit.USAGE, capsys)


def test_closed_streams_take_what_is_printed(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout", None)
    monkeypatch.setattr("sys.stderr", None)
    assert main(["check"]) == Exit.DONE
    assert main(["check", "absent.yaml"]) == Exit.USAGE
