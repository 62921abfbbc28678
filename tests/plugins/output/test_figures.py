"""Figures of merit: numbers that programs print, from output to models, report, predictions and comparisons."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from buran.campaign.load import load_campaign
from buran.campaign.mistakes import CampaignError
from buran.cli import main
from buran.errors import UsageError
from buran.files import not_synced, read_json
from buran.plugins.output import check
from buran.plugins.output.check import ask
from buran.plugins.output.lines import figure
from buran.plugins.versions.compare import compare_sides
from buran.plugins.versions.condition import broken_by, parse_conditions
from buran.plugins.versions.side import read_side
from buran.profiles.experiment.read import read_experiment
from buran.workflow.history import History
from buran.workflow.report import write_results
from buran.workflow.session import Session, open_session
from buran_studies.simulate.in_process import carry_out
from command_campaigns import write_campaign_of

PROGRAM = """#!/bin/sh
echo "step 1: rate = 1 cells/s"
test $1 = 4 || echo "step 2: rate = $((1200 / $1)) cells/s" >&2
echo "residual = 1.5D-3"
exit 0
"""
RATE = {"pattern": "step 2: rate = (\\S+) cells/s", "unit": "cells/s", "better": "higher"}
KEYS: dict[str, Any] = {
    "parameters": {"n": {"role": "size", "values": [1, 2, 3, 4, 5, 6]}},
    "evaluation_points": [{"n": 8}],
    "repetitions": 2,
    "target": {"n": 12},
}


@pytest.fixture
def measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Session]:
    def measured(script: str = PROGRAM, out: str = "out", **keys: Any) -> Session:
        monkeypatch.setenv("BURAN_LOCK_FOLDER", str(tmp_path))
        with not_synced():
            session = open_session(write_campaign_of(script, tmp_path, **{**KEYS, **keys}))
            carry_out(session)
            write_results(History.open(session), tmp_path / out)
        return session

    return measured


def test_a_figure_is_modelled_tested_predicted_and_exported(
    measured: Callable[..., Session], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    measured(figures={"rate": RATE, "residual": "residual = (\\S+)"})
    report = read_json(tmp_path / "out" / "report.json")
    rate, residual = report["figures"]
    value, low, high = rate["at_target"]
    assert (rate["unit"], rate["better"]) == ("cells/s", "higher") and low <= value <= high
    assert value == pytest.approx(100, rel=0.05)
    ((point, found, (_, below, above)),) = (each.values() for each in rate["tested"])
    assert (point, found) == ({"n": 8}, 150) and below <= found <= above
    assert residual["at_target"][0] == pytest.approx(1.5e-3) and residual["smape"] == 0
    assert "time" in report["models"] and report["models"]["rate"]["unit"] == "cells/s"
    text = (tmp_path / "out" / "report.txt").read_text()
    assert "Figures of merit" in text and "n=8, evaluation" in text and "higher is better" in text
    page = (tmp_path / "out" / "report.html").read_text()
    assert '<section id="figures">' in page and "n=12, target" in page

    exported = read_experiment(tmp_path / "out" / "extrap" / "figures.jsonl")
    assert set(exported.metrics) == {"rate", "residual"}
    first = exported.over_locations("rate")[0][exported.points[:, 0].tolist().index(2)]
    assert set(first.tolist()) == {600}

    assert main(["predict", str(tmp_path / "out" / "figures.json"), "--at", "n=12", "--json"]) == 0
    predictions = json.loads(capsys.readouterr().out)["predictions"]
    assert [each["figure"] for each in predictions] == ["rate", "residual"]
    assert [each["predicted"] for each in predictions] == pytest.approx([value, 1.5e-3])
    assert predictions[0]["lower"] == pytest.approx(low)


def test_a_figure_is_modelled_for_the_word_of_the_target(
    measured: Callable[..., Session], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    measured(
        '#!/bin/sh\necho "iterations = $(($1 * ${#2}))"\n',
        program={
            "source": "source",
            "build": "cp program.sh program && chmod +x program",
            "binary": "program",
            "run": "{binary} {n} {solver}",
        },
        parameters={"n": [1, 2, 4, 5, 8], "solver": ["gmres", "cg"]},
        evaluation_points=[{"n": 9, "solver": "cg"}],
        target={"n": 16, "solver": "gmres"},
        figures={"iterations": "iterations = (\\S+)"},
    )
    (figure,) = read_json(tmp_path / "out" / "report.json")["figures"]
    assert figure["at_target"][0] == pytest.approx(16 * 5)
    assert not figure["tested"]  # at another word
    assert read_experiment(tmp_path / "out" / "extrap" / "figures.jsonl").parameters == ("n",)
    figures = str(tmp_path / "out" / "figures.json")
    assert main(["predict", figures, "--at", "n=16,solver=gmres", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["predictions"][0]["predicted"] == pytest.approx(16 * 5)
    for other in ("solver=cg", "solver=gmrs", "solver=2"):
        assert main(["predict", figures, "--at", f"n=16,{other}"]) == 2
        assert other in capsys.readouterr().err


def test_a_run_without_a_figure_is_named_and_keeps_its_time(measured: Callable[..., Session], tmp_path: Path) -> None:
    history = History.open(measured(figures={"rate": RATE, "never": "no such (\\S+)"}))
    assert {run.point["n"] for run in history.runs} == {1, 2, 3, 4, 5, 6, 8}
    report = read_json(tmp_path / "out" / "report.json")
    (rate,) = report["figures"]
    lacking, runs = sum(run.point["n"] == 4 for run in history.runs), len(history.runs)
    assert rate["runs"] == [runs - lacking, runs]
    notes = [note for note in report["notes"] if "the figure" in note]
    assert any(f"{lacking} of {runs} runs" in note and "rate" in note and " at (n=4). " in note for note in notes)
    assert any("figure never" in note for note in notes)
    table = read_experiment(tmp_path / "out" / "experiment.jsonl")
    at = table.points[:, 0].tolist().index(4)
    root = list(table.tree.names).index("program")
    assert np.isnan(table.over_locations("rate")[root, at]).all()
    assert np.isfinite(table.over_locations("time")[root, at]).all()


def test_a_figure_that_is_added_later_is_read_from_kept_output(
    measured: Callable[..., Session], tmp_path: Path
) -> None:
    before = {run.folder for run in History.open(measured()).runs}
    gone = sorted(before)[0]
    (gone / "stdout.log").unlink()
    history = History.open(measured(figures={"residual": "residual = (\\S+)"}))
    assert {run.folder for run in history.runs} == before
    report = read_json(tmp_path / "out" / "report.json")
    assert report["figures"][0]["runs"] == [len(before) - 1, len(before)]
    assert any(f"1 of {len(before)} runs" in note for note in report["notes"])


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        (["v = 1", "x", "v = -2.5e3 s"], -2500.0),
        (["v = 1.5D+02"], 150.0),
        (["v = 1 v = 7"], 7.0),
        (["v = 1", "v = nan"], "line 2"),
        (["v = inf"], "no finite number"),
        (["v = fast"], "'fast' in line 1"),
        (["v = 1,234.5"], "without units and separators"),
        (["v = 12GB/s"], "without units and separators"),
        (["w = 1"], "none of the 1 lines"),
        ([], "none of the 0 lines"),
        (["v = 3", "v = 12", "[99 bytes are left out here]", "v = 45", "end"], 3.0),
    ],
)
def test_the_last_number_counts_or_the_reason_is_named(lines: Sequence[str], found: float | str) -> None:
    value = figure("v = (\\S+)", lines)
    assert value == found if isinstance(found, float) else isinstance(value, str) and found in value


def test_a_figure_that_backtracks_is_stopped_and_others_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check, "_LIMIT_S", 1.0)
    (tmp_path / "out").write_text("a" * 40 + "!\nv = 1\n")
    answers = ask(["^((?:a+)+)$", "v = (\\S+)"], [(tmp_path / "out",)] * 3)
    assert [answer[1] for answer in answers] == [1.0] * 3
    assert all("1 s" in answer[0] for answer in answers)


@pytest.mark.parametrize(
    ("figures", "where", "keys"),
    [
        ({"v": "v ="}, "figures.v", {}),
        ({"v": "(v) = (.)"}, "figures.v", {}),
        ({"v": "(v"}, "figures.v", {}),
        ({"v": "(.*)"}, "figures.v.pattern", {}),
        ({"v": "([0-9]*)"}, "figures.v.pattern", {}),
        ({"v": {"pattern": "v (.)", "better": "faster"}}, "figures.v.better", {}),
        ({"v": {"unit": "s"}}, "figures.v", {}),
        ({"v": 3}, "figures.v", {}),
        ({"zones/s": "v (.)"}, "zones/s", {}),
        ({"time": "v (.)"}, "command.clock", {}),
        ({"visits": "v (.)"}, "figures.visits", {}),
        ({"energy": "v (.)"}, "figures.energy", {}),
        ({"tasks": "v (.)"}, "figures.tasks", {"command": {"profile": "x", "further_metrics": ["tasks"]}}),
        ({"v": "v (.)"}, "backend: simulated", {"backend": "simulated", "simulated": "program.yaml"}),
    ],
)
def test_figures_that_tell_nothing_are_refused(
    tmp_path: Path, figures: dict[str, Any], where: str, keys: dict[str, Any]
) -> None:
    with pytest.raises(CampaignError) as caught:
        load_campaign(write_campaign_of(PROGRAM, tmp_path, figures=figures, **keys))
    assert where in str(caught.value)


def test_the_key_makes_another_question_of_the_same_runs(tmp_path: Path) -> None:
    digests = set[str]()
    for figures in ({}, {"v": "v (.)"}, {"v": {"pattern": "v (.)"}}, {"v": {"pattern": "v (.)", "better": "lower"}}):
        digests.add(load_campaign(write_campaign_of(PROGRAM, tmp_path, figures=figures)).digest())
    assert len(digests) == 3


def test_a_comparison_says_which_figures_are_worse(measured: Callable[..., Session], tmp_path: Path) -> None:
    steps = {"steps": {"pattern": "step ([0-9])", "better": "lower"}}
    measured(figures={"rate": RATE, "odd": "rate = 1( )?", **steps}, out="before", name="before")
    measured(PROGRAM.replace("1200", "600"), figures={"rate": RATE, **steps}, out="after", name="after")
    before, after = read_side(tmp_path / "before"), read_side(tmp_path / "after")
    (worse,) = broken_by(compare_sides(before, after), parse_conditions(["worse"]))
    assert worse.metric == "rate"
    assert not broken_by(compare_sides(after, before), parse_conditions(["worse"]))
    better = compare_sides(after, before)
    (rate,) = (row for row in better.differences if row.metric == "rate")
    assert (rate.verdict, better.meaning(rate)) == ("grown", "better")
    shutil.rmtree(tmp_path / "out", ignore_errors=True)
    measured(out="plain", name="plain")
    with pytest.raises(UsageError, match="cannot be checked"):
        broken_by(compare_sides(before, read_side(tmp_path / "plain")), parse_conditions(["worse"]))


RANKS = r"""
#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv) {
  int rank;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  printf("rank %d: checksum %s\n", rank, rank == 1 && argv[1][0] == '8' ? "differs" : "agrees");
  printf("rank %d: residual = 0.25\n", rank);
  MPI_Finalize();
  return 0;
}
"""


@pytest.mark.mpi
def test_output_of_every_rank_is_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BURAN_LOCK_FOLDER", str(tmp_path))
    keys = {
        "program": {
            "source": "source",
            "build": "mv program.sh a.c && {mpicc} -o a a.c",
            "binary": "a",
            "run": "{binary} {n}",
        },
        "environments": {"here": {}},
        "resources": {"ranks": 3, "time_limit": 60},
        "sanity": {"found": ["rank 2: checksum agrees"], "not_found": ["differs"]},
        "figures": {"residual": "residual = (\\S+)"},
    }
    with not_synced():
        session = open_session(write_campaign_of(RANKS, tmp_path, **keys))
        carry_out(session)
    history = History.open(session)
    failed = [run for outcome in history.outcomes(history.plans) for run in outcome.runs if run.reason]
    assert failed and all("rank 1: checksum differs" in str(run.reason) for run in failed)
    assert {run.point["n"] for run in history.runs} == {1, 2, 4, 5}
    models = history.models(len(history.plans) - 2)
    assert models["residual"].models[0].function.constant == 0.25  # type: ignore[union-attr]
