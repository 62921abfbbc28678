from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from buran.campaign.mistakes import CampaignError
from buran.cli import check, main

DEMO = Path(__file__).resolve().parents[2] / "config" / "all-keys.yaml"


def run(*arguments: str) -> int:
    parser = argparse.ArgumentParser()
    check.add_arguments(parser)
    return check.run(parser.parse_args(arguments))


def test_summary(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(str(DEMO)) == 0
    rows = dict(line.split(":", 1) for line in capsys.readouterr().out.splitlines())
    assert rows["campaign"].split()[0] == "stencil"
    assert re.findall(r"\d+", rows["points"]) == ["20", "1"]
    assert rows["ranks"].strip() == "1 to 8"
    assert "core hours" in rows["expected"]


def test_a_strategy_that_nothing_ends_is_said_to(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "c.yaml"
    text = (
        (DEMO.parent / "examples" / "sweep.yaml")
        .read_text()
        .replace("../../examples", str(DEMO.parents[1] / "examples"))
    )
    for budget, said in (("", "none: all runs"), ("budget: {core_hours: 1}\n", "1 core hours")):
        kept = [line for line in text.splitlines() if not line.startswith(("strategy:", "budget:"))]
        path.write_text("\n".join(kept) + f"\nstrategy: {{name: design}}\n{budget}")
        assert run(str(path)) == 0
        rows = dict(line.split(":", 1) for line in capsys.readouterr().out.splitlines())
        assert re.findall(r"\d+", rows["runs"]) == ["10"]
        assert rows["budget"].strip().startswith(said)


def test_summary_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(str(DEMO), "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["valid"] is True
    assert found["points"] == 20 and found["ranks"] == [1, 8]
    assert found["parameters"]["p"] == [1, 2, 4, 8]


def test_mistakes(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text("name: 3\n")
    with pytest.raises(CampaignError) as caught:
        run(str(path))
    assert f"{path}:1, key name" in str(caught.value)


def test_mistakes_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "c.yaml"
    path.write_text("name: a\nnmae: b\n")
    assert run(str(path), "--json") == 2
    found = json.loads(capsys.readouterr().out)
    assert found["valid"] is False
    unknown = next(mistake for mistake in found["mistakes"] if mistake["key"] == "nmae")
    assert unknown["line"] == 2 and "'name'" in unknown["hint"]


def test_output_that_goes_into_the_sources_is_warned_of(tmp_path: Path) -> None:
    assert main(["init", "--example", "stencil", str(tmp_path / "c")]) == 0
    command = [sys.executable, "-m", "buran.cli", "check", str(tmp_path / "c" / "campaign.yaml")]
    for folder, warns in ((tmp_path / "c" / "stencil", True), (tmp_path, False)):
        with (folder / "check.log").open("w") as log:
            done = subprocess.run(command, stdout=log, stderr=subprocess.PIPE, text=True)
        assert done.returncode == 0
        assert ("program.source" in done.stderr) is warns
