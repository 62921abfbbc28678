"""Corrections of named kernels in a campaign."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from truths import PLACES, contended

from buran.campaign.load import load_campaign
from buran.cli import main
from buran.errors import ConfigError
from buran.modeling.correction import load_corrected
from buran.reporting.content import CorrectedKernel
from buran.reporting.text import render
from buran.workflow.correct import check_base_models, correct_kernels
from made_up import report

MODEL = """
expression: 10 * (latency + transfer)
components: {latency: alpha * p, transfer: beta * n**2}
parameters:
  alpha: {value: 1.0e-5, lower: 1.0e-7, upper: 1.0e-3, log: true}
  beta: {value: 1.0e-8, lower: 1.0e-10, upper: 1.0e-6, log: true}
variables: {p: {scale: true}, n: {}}
"""
CAMPAIGN = """
name: test
program: {source: code, build: "make CC={mpicc}", binary: run, run: "{binary} {n}"}
parameters:
  p: {values: [2, 4, 8, 16, 32, 64], role: ranks}
  n: {values: [100, 400, 1600], role: size}
"""


@pytest.fixture
def campaign(tmp_path: Path) -> Path:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "Makefile").write_text("all:")
    (tmp_path / "own.yaml").write_text(MODEL)
    path = tmp_path / "campaign.yaml"
    path.write_text(CAMPAIGN + "correct: {exchange: own.yaml, main: own.yaml}\n")
    return path


def test_base_models_are_part_of_the_question(campaign: Path) -> None:
    with_models = load_campaign(campaign).digest()
    (campaign.parent / "own.yaml").write_text(MODEL.replace("10 *", "11 *"))
    changed = load_campaign(campaign).digest()
    campaign.write_text(CAMPAIGN)
    assert len({with_models, changed, load_campaign(campaign).digest()}) == 3


@pytest.mark.parametrize(
    ("entry", "what"),
    [
        ("none.yaml", "cannot be used"),
        ("amdal", "cannot be used"),
        ("hockney", "no parameter of the campaign"),
    ],
)
def test_wrong_base_models_are_mistakes(
    campaign: Path, entry: str, what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    campaign.write_text(CAMPAIGN + f"correct: {{exchange: {entry}}}\n")
    with pytest.raises(ConfigError, match=what) as caught:
        check_base_models(load_campaign(campaign))
    assert "correct.exchange" in str(caught.value.where)
    assert main(["check", str(campaign), "--json"]) == 2
    assert what in json.loads(capsys.readouterr().out)["mistakes"][0]["what"]


def test_kernels_are_corrected_or_say_why_not(campaign: Path, tmp_path: Path) -> None:
    lines = [
        json.dumps({"params": {"p": p, "n": n}, "callpath": path, "metric": "time", "value": share * t})
        for (p, n), t in zip(PLACES.tolist(), contended(PLACES).tolist(), strict=True)
        for path, share in (("main", 0.0), ("main->exchange", 1.0))
    ]
    (tmp_path / "experiment.jsonl").write_text("\n".join(lines))
    exchange, main_entry = correct_kernels(load_campaign(campaign), tmp_path)
    assert not exchange.refused and exchange.reason.startswith("corrected by")
    assert exchange.formula[0].startswith("time = ") and (exchange.corrected_s or 0) > 0
    assert not load_corrected(tmp_path / "corrected" / "exchange.json").report.refused
    assert main_entry.reason.startswith("not corrected")
    json.dumps([asdict(exchange), asdict(main_entry)], allow_nan=False)


def test_campaigns_without_base_models_correct_nothing(campaign: Path, tmp_path: Path) -> None:
    campaign.write_text(CAMPAIGN)
    assert correct_kernels(load_campaign(campaign), tmp_path) == ()


def test_a_campaign_without_measurements_says_so(campaign: Path, tmp_path: Path) -> None:
    (tmp_path / "experiment.jsonl").write_text("")
    assert all(
        correction.reason.startswith("not corrected")
        for correction in correct_kernels(load_campaign(campaign), tmp_path)
    )


def test_the_report_has_base_beside_corrected() -> None:
    entry = CorrectedKernel(
        "exchange", "own.yaml", "corrected by 1 term", ["time = p"], ["something sets in"], "; beyond", base_s=1.5
    )
    said = report(None, parameters=("p",), target={"p": 8.0}, corrections=(entry,))
    text = render(said)
    assert all(each in text for each in ("own.yaml", entry.reason, *entry.formula, *entry.notes, "p=8", "1.5 s"))
    assert "exchange" not in render(replace(said, corrections=()))
