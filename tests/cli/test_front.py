"""The command line's front: usage, help and what it says before anything was measured."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from buran.cli import VERBS, main
from buran.cli.terminal import duration, style, table


@pytest.fixture
def campaign(tmp_path: Path) -> Path:
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "Makefile").write_text("program:\n\ttrue\n")
    file = tmp_path / "campaign.yaml"
    config = {
        "name": "front",
        "program": {"source": "source", "build": "make {mpicc}", "binary": "program", "run": "{binary} {n}"},
        "parameters": {"p": {"role": "ranks", "values": [1, 2]}, "n": {"role": "size", "values": [1, 2]}},
    }
    file.write_text(yaml.safe_dump(config))
    return file


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_explains_itself(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([verb, "--help"]) == 0
    assert verb in capsys.readouterr().out


def test_help_explains_daily_verbs_and_names_all_on_a_screen(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    short = capsys.readouterr().out
    assert len(short.splitlines()) <= 40 and max(map(len, short.splitlines())) <= 80
    assert all(verb in short for verb in VERBS)
    assert main(["help"]) == 0 and capsys.readouterr().out == short
    assert main(["help", "all"]) == 0 and "exit codes" in capsys.readouterr().out
    assert main(["help", "verify"]) == 0 and "usage: buran verify" in capsys.readouterr().out
    assert main(["help", "verfy"]) == 2 and "`buran verify`" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("typed", "said"), [("rn", "`buran run`"), ("rum", "`buran run`"), ("reprot", "`buran report`"), ("xyz", "--help")]
)
def test_a_wrong_verb_is_a_usage_error_with_a_guess(typed: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([typed]) == 2
    error = capsys.readouterr().err
    assert repr(typed) in error and said in error and "choose from" not in error


@pytest.mark.mpi
def test_marks_alone_mark_something(campaign: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(campaign), "--mark-only"]) == 2 and "--remeasure" in capsys.readouterr().err
    assert main(["run", str(campaign), "--mark-only", "--remeasure", "p=1,n=1"]) == 2
    assert "not measured yet" in capsys.readouterr().err


def test_a_demo_overwrites_nothing(campaign: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = campaign.read_bytes()
    assert main(["demo", str(campaign.parent)]) == 2
    assert campaign.read_bytes() == before and "not overwritten" in capsys.readouterr().err


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("buran ")


@pytest.mark.parametrize("verb", ["report", "filter"])
@pytest.mark.mpi
def test_what_needs_a_finished_campaign_says_so(verb: str, campaign: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([verb, str(campaign)]) == 2
    error = capsys.readouterr().err
    assert "buran run" in error and "Traceback" not in error


@pytest.mark.mpi
def test_status_and_plan_before_the_first_run(campaign: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", str(campaign), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["runs"] == 0
    assert main(["plan", str(campaign), "--json"]) == 0
    (plan,) = json.loads(capsys.readouterr().out)["plans"]
    assert len(plan["bundles"]) == 4
    assert main(["plan", str(campaign)]) == 0
    assert "every point" in capsys.readouterr().out


@pytest.mark.mpi
def test_an_unknown_profile_is_a_usage_error(campaign: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(campaign), "--profile", "nowhere"]) == 2
    assert "known: default" in capsys.readouterr().err


def test_a_missing_campaign_file_is_a_usage_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(tmp_path / "nothing.yaml")]) == 2
    assert "no such file" in capsys.readouterr().err


def test_no_compiler_is_an_environment_error(
    campaign: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    assert main(["run", str(campaign)]) == 3
    assert "install" in capsys.readouterr().err


def test_tables_are_aligned_and_colour_is_for_terminals() -> None:
    assert table(("a", "long"), [("xyz", 1)], right=(1,)) == "a    long\n---  ----\nxyz     1"
    assert style("text", "red") == "text"


@pytest.mark.parametrize(("seconds", "text"), [(42.4, "42 s"), (420, "7 min"), (12600, "3.5 h")])
def test_durations_are_for_people(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize("words", [("-c", "import buran"), ("-m", "buran.cli", "--help")])
def test_the_first_answer_takes_no_time(words: tuple[str, ...]) -> None:
    """CPU time: wall time is that of whatever else runs here."""

    def spent_s() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, *words], capture_output=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    assert min(spent_s() for _ in range(3)) < 0.3


@pytest.mark.parametrize("verb", ["check", "plan", "simulate", "run", "status", "verify", "filter", "report"])
def test_the_campaign_file_here_is_meant(
    verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([verb]) == 2
    shown = capsys.readouterr().err
    assert "campaign.yaml" in shown and "no such file" in shown and "buran init" in shown


def test_what_follows_two_dashes_is_for_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    from buran.cli import run

    seen = []
    monkeypatch.setattr(run, "run", lambda arguments: seen.append(arguments) or 0)
    assert main(["run", "--", "--cores", "1"]) == 0
    assert main(["run", "other.yaml", "-n", "--", "--forceall"]) == 0
    assert [str(each.file) for each in seen] == ["campaign.yaml", "other.yaml"]
    assert [each.passed_on for each in seen] == [["--cores", "1"], ["--forceall"]]
