from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from buran.campaign.mistakes import CampaignError
from buran.cli import check

DEMO = Path(__file__).resolve().parents[2] / "config" / "campaign.yaml"


def run(*arguments: str) -> int:
    parser = argparse.ArgumentParser()
    check.add_arguments(parser)
    return check.run(parser.parse_args(arguments))


def test_summary(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(str(DEMO)) == 0
    rows = dict(line.split(":", 1) for line in capsys.readouterr().out.splitlines())
    assert rows["campaign"].split()[0] == "stencil"
    assert "20 for modelling, 1 for evaluation" in rows["points"]
    assert rows["ranks"].strip() == "1 to 8"
    assert "core hours" in rows["expected"]


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


def test_environment(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cluster = DEMO.parent / "examples" / "cluster.yaml"
    assert run(str(cluster), "--environment", "cluster-pmix", "--json") == 0
    assert json.loads(capsys.readouterr().out)["environment"] == "cluster-pmix"
    with pytest.raises(CampaignError, match="no environment 'moon'"):
        run(str(cluster), "--environment", "moon")
