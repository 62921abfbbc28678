"""-q prints errors and results alone, -v what is left out else."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
import yaml

from buran.cli import VERBS, command_parser, main
from buran.cli.status import print_failures
from buran.reporting.summary import CampaignSummary, Failure

QUIET = (
    "demo", "doctor", "check", "plan", "run", "status", "verify", "model", "convert", "filter", "report", "correct",
    "suggest", "predict", "simulate",
)  # fmt: skip
CAMPAIGN: dict[str, Any] = {
    "name": "small",
    "program": {"source": "code", "build": "make MPICC={mpicc}", "binary": "program", "run": "{binary} {n}"},
    "parameters": {"p": [1, 2], "n": [20, 40]},
    "evaluation_points": [{"p": 2, "n": 80}],
}


@pytest.fixture
def campaign(tmp_path: Path) -> str:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "program.c").touch()
    (tmp_path / "campaign.yaml").write_text(yaml.safe_dump(CAMPAIGN))
    return str(tmp_path / "campaign.yaml")


def said(capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    assert main(words) == 0
    return capsys.readouterr().out.splitlines()


def test_verbs_with_results_can_be_quiet() -> None:
    verbs = next(action.choices for action in command_parser()._actions if action.dest == "verb")
    quiet = {verb for verb, parser in cast("dict[str, Any]", verbs).items() if "-q" in parser._option_string_actions}
    assert quiet & {*VERBS, "simulate"} == set(QUIET)


def test_a_check_is_silent_or_names_every_point(campaign: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys, "check", campaign, "-q") == []
    plain, more = said(capsys, "check", campaign), said(capsys, "check", campaign, "-v")
    assert len(more) == len(plain) + 3 + 5
    assert more[-1].split() == ["n=80,", "p=2", "evaluation", "2", "2", "1"]
    assert main(["check", campaign + ".absent", "-q"]) == 2 and capsys.readouterr().err


@pytest.mark.mpi
def test_plan_and_status_end_in_their_result(campaign: str, capsys: pytest.CaptureFixture[str]) -> None:
    plain, quiet, more = (said(capsys, "plan", campaign, *option) for option in ([], ["-q"], ["-v"]))
    assert quiet == plain[-len(quiet) :] and quiet[-1].startswith("full matrix")
    assert sum("2 effort, 3 time, 4 vanilla" in line for line in more) == 4 and len(more) == len(plain)
    assert len(said(capsys, "status", campaign, "-q")) == 1


def test_failures_of_one_cause_are_named_together_or_each(capsys: pytest.CaptureFixture[str]) -> None:
    failures = tuple(Failure(f"time run at p={p}", "exit code 1", f"logs/{p}.log") for p in range(12))
    state = CampaignSummary("c", True, "", failures=failures)
    print_failures(state)
    together = capsys.readouterr().out
    print_failures(state, every=True)
    assert together.count("log:") == 1 and capsys.readouterr().out.count("log:") == 12


def test_notes_on_measurements_are_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = tmp_path / "data.txt"
    points = [(1, 10), (2, 10), (4, 10), (1, 20), (1, 40)]  # on lines: no point decides between sum and product
    data.write_text("PARAMETER p\nPARAMETER n\nPOINTS " + " ".join(f"( {p} {n} )" for p, n in points) + "\n")
    with data.open("a") as file:
        file.writelines(["REGION main\nMETRIC time\n", *(f"DATA {p * n}\n" for p, n in points)])
    assert main(["model", str(data)]) == 0
    loud = capsys.readouterr()
    assert main(["model", str(data), "-q"]) == 0
    assert "note: " in loud.err and capsys.readouterr() == (loud.out, "")
