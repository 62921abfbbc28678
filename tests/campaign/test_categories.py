"""Choices in words: from the campaign file to commands, store, models, report and exports."""

from __future__ import annotations

import copy
import json
import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from buran.campaign.load import load_campaign
from buran.campaign.mistakes import CampaignError
from buran.campaign.point import Point
from buran.cli import main
from buran.files import not_synced, read_json
from buran.profiles.experiment.read import read_experiment
from buran.wording import Category, named, shown_value
from buran.workflow.history import History
from buran.workflow.report import write_results
from buran.workflow.session import open_session
from buran_studies.simulate.in_process import carry_out
from command_campaigns import write_campaign_of

PROGRAM = """#!/bin/sh
echo "iterations = $(($1 * ${#2}))"
case $2 in cg | gmres) exit 0 ;; *) exit 3 ;; esac
"""
KEYS: dict[str, Any] = {
    "program": {
        "source": "source",
        "build": "cp program.sh program && chmod +x program",
        "binary": "program",
        "run": "{binary} {n} {solver}",
    },
    "parameters": {"n": [1, 2, 4, 5, 8], "solver": ["gmres", "cg"]},
    "evaluation_points": [{"n": 9, "solver": "cg"}],
    "target": {"n": 16, "solver": "gmres"},
}
ROLES = {"n": {"role": "size"}, "solver": {"role": "choice"}}
SCRIPT = re.compile("<script.*?</script>", re.DOTALL)
NUMBERS = re.compile("|".join(rf"(?<![0-9.])1\{f'{float(Category(word)):.4f}'[1:-1]}" for word in ("cg", "gmres")))
"""Of words, which no reader should see."""


def write(folder: Path, **keys: Any) -> Path:
    return write_campaign_of(PROGRAM, folder, **{**KEYS, **keys})


@given(st.from_regex(r"[A-Za-z_][A-Za-z0-9_.+-]{0,20}", fullmatch=True))
def test_a_word_is_a_number_and_itself(text: str) -> None:
    word = Category(text)
    assert word == Category(text) == Point.of({"solver": text})["solver"] == Point.of({"solver": float(word)})["solver"]
    assert float(np.array([word], dtype=np.float64)[0]) == word and 1 < word < 2
    assert str(word) == repr(word) == f"{word:g}" == shown_value(float(word)) == text
    assert copy.deepcopy(word) is word and repr(pickle.loads(pickle.dumps(word))) == text
    point = Point.of({"n": 4, "solver": text})
    assert point.key == f"n=4,solver={text}" and named({"solver": float(word)}) == f"solver={text}"
    assert repr(Point.of(json.loads(json.dumps(point.plain)))) == repr(point)


def test_words_go_from_the_file_to_commands_models_and_readers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BURAN_LOCK_FOLDER", str(tmp_path))
    path = write(tmp_path, command={"clock": "iterations = (\\S+)"}, repetitions=2)
    with not_synced():
        session = open_session(path)
        carry_out(session)
        history = History.open(session)
        write_results(history, tmp_path / "out")
    assert len({run.point for run in history.runs}) == 11
    records = [read_json(run.folder / "run.json") for run in history.runs]
    assert {record["point"]["solver"] for record in records} == {"cg", "gmres"}
    for run, record in zip(history.runs, records, strict=True):
        assert f"solver={record['point']['solver']}~" in str(run.folder)
    report = read_json(tmp_path / "out" / "report.json")
    text = (tmp_path / "out" / "report.txt").read_text()
    assert "5 s at n=1, 80 s" in text  # 5 letters
    assert "n=16, solver=gmres" in text and "solver=cg" in text
    assert "tensor model" in text and "ormal form" not in text  # words are in no formula
    leaks = {
        name: found
        for name in ("report.txt", "report.csv", "report.html")
        if (
            found := NUMBERS.findall(
                re.sub("<script.*?</script>", "", (tmp_path / "out" / name).read_text(), flags=re.S)
            )
        )
    }
    assert not leaks
    assert report["words"] == {word: float(Category(word)) for word in ("cg", "gmres")}
    assert report["target"]["solver"] == report["words"]["gmres"]
    page = read_json(tmp_path / "out" / "page.json")
    assert page["words"][str(page["target"][1])] == "gmres"
    trees = {each.name: read_experiment(each) for each in (tmp_path / "out" / "extrap" / "time").iterdir()}
    assert trees.keys() == {"solver=cg", "solver=gmres"}
    assert all(tree.parameters == ("n",) for tree in trees.values())
    assert main(["model", str(tmp_path / "out" / "models.json"), "--at", "n=16,solver=gmres"]) == 0
    assert "solver = gmres" in capsys.readouterr().out
    for other in ("solver=cg", "solver=gmrs", "solver=unheard"):
        assert main(["model", str(tmp_path / "out" / "models.json"), "--at", f"n=16,{other}"]) == 2
        assert other in capsys.readouterr().err
    assert main(["predict", str(tmp_path / "out" / "runtime.npz"), "--at", "n=4,solver=cg", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["predictions"][0]["solver"] == "cg"
    assert main(["predict", str(tmp_path / "out" / "runtime.npz"), "--at", "n=4,solver=gc"]) == 2
    assert "gc" in capsys.readouterr().err
    for words in (["status"], ["plan"], ["check"], ["plan", "--json"], ["status", "--json"]):
        main([*words, str(path)])
    said = "".join(capsys.readouterr())
    assert not NUMBERS.findall(said)
    assert "cg, gmres" in said
    with not_synced():
        assert main(["run", str(path), "--remeasure", "n=4,solver=cg", "--mark-only"]) == 0
        assert "n=4,solver=cg" in capsys.readouterr().out
        assert main(["run", str(path), "--remeasure", "n=4,solver=gc", "--mark-only"]) == 2


def test_a_words_number_and_the_runs_of_it_depend_on_nothing_else(tmp_path: Path) -> None:
    one = load_campaign(write(tmp_path))
    more = load_campaign(write(tmp_path, parameters={"n": [1, 2, 4, 5, 8], "solver": ["amg", "cg", "gmres"]}))
    assert set(map(repr, one.points)) < set(map(repr, more.points)) and set(one.points) < set(more.points)
    assert one.run_command(one.points[0], "b", "f") == ["b", "1", "cg"]
    assert Point.of({"solver": "cg"})["solver"] == 1.1654286883336678
    keys = {name: value for name, value in KEYS.items() if name != "target"}
    assert load_campaign(write_campaign_of(PROGRAM, tmp_path, **keys)).target["solver"] == Category("gmres")


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"target": {"n": 16, "solver": "gmrs"}}, ["target.solver", "'gmres'"]),
        ({"target": {"n": 16, "solver": "linear"}}, ["target.solver", "cg, gmres"]),
        ({"evaluation_points": [{"n": 9, "solver": "gc"}]}, ["evaluation_points[0].solver", "cg, gmres"]),
        ({"parameters": {"n": [1, 2], "solver": ["cg", "gmres", 3]}}, ["words and numbers"]),
        ({"parameters": {"n": [1, 2], "solver": ["cg", "gmres", True]}}, ["values[2]", "must be a number"]),
        ({"parameters": {"n": [1, 2], "solver": ["cg", "gmres", "cg"]}}, ["cg stands twice"]),
        ({"parameters": {"n": [1, 2], "solver": ["cg", "a b"]}}, ["values[1]", "letters"]),
        ({"parameters": {"n": [1, 2], "solver": ["cg", "$(reboot)"]}}, ["values[1]", "letters"]),
        ({"parameters": {"n": [1, 2], "solver": ["cg", "../x"]}}, ["values[1]", "letters"]),
        ({"parameters": {"n": [1, 2], "solver": ["cg", "1e3"]}}, ["values[1]"]),
        ({"parameters": {"n": [1, 2], "solver": ["cg", "NaN"]}}, ["values[1]", "number"]),
        ({"parameters": {"n": [1, 2], "solver": ["cg"]}}, ["one value, cg"]),
        ({"parameters": {"n": [1, 2], "solver": {"role": "size", "values": ["cg", "gmres"]}}}, ["role: choice"]),
        ({"parameters": {"n": [1, 2], "solver": {"role": "ranks", "values": ["cg", "gmres"]}}}, ["role: choice"]),
        ({"parameters": ROLES, "points": [{"n": 1, "solver": "cg"}, {"n": 2, "solver": 3}]}, ["words and numbers"]),
        ({"parameters": ROLES, "points": [{"n": 1, "solver": "cg"}, {"n": "x", "solver": "amg"}]}, ["'x' is not a"]),
        ({"constraints": ["solver == 'gz'"]}, ["constraints[0]", "value 'gz'"]),
        ({"constraints": ["solver > 'cg'"]}, ["constraints[0]", "== and !="]),
        ({"resources": {"ranks": 1, "expected_time": "n * solver"}}, ["expected_time", "is a word"]),
        ({"resources": {"ranks": 1, "expected_time": "max(-solver, 1)"}}, ["expected_time", "is a word"]),
    ],
)
def test_mistakes_with_words_are_named(tmp_path: Path, keys: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(CampaignError) as caught:
        load_campaign(write(tmp_path, **keys))
    for word in words:
        assert word in str(caught.value)


def test_words_stand_in_expressions_points_and_files(tmp_path: Path) -> None:
    program = {**KEYS["program"], "run": "{binary} {n} {solver} {=2 if solver == 'cg' else 3}"}
    listed = [{"n": n, "solver": solver} for n in (1, 2, 3) for solver in ("cg", "gmres")]
    campaign = load_campaign(
        write(
            tmp_path, program=program, parameters={"n": {"role": "size"}, "solver": {"role": "choice"}}, points=listed
        )
    )
    assert campaign.run_command(campaign.points[0], "b", "f") == ["b", "1", "cg", "2"]


def test_a_filter_is_for_the_words_that_were_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [
        {"params": {"n": n, "solver": Category("cg")}, "callpath": path, "metric": metric, "value": value * n}
        for n in (1, 2, 4, 8, 16)
        for path, value in (("main", 0.1), ("main->solve", 3))
        for metric in ("time", "visits")
    ]
    (tmp_path / "runs.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    ask = ["filter", "--from", str(tmp_path / "runs.jsonl"), "--target"]
    assert main([*ask, "n=64,solver=cg"]) == 0
    assert "solve" in capsys.readouterr().out
    assert main([*ask, "n=64,solver=gmres"]) == 2
    assert "solver=gmres" in capsys.readouterr().err


def test_yaml_words_that_look_like_truth_values_stay_words(tmp_path: Path) -> None:
    path = write(tmp_path, parameters={"n": [1, 2], "solver": ["NO", "YES"]}, target={"n": 3, "solver": "NO"})
    text = path.read_text().replace('"NO"', "no").replace('"YES"', "off").replace("cg", "off")
    path.with_suffix(".yaml").write_text(text)
    campaign = load_campaign(path.with_suffix(".yaml"))
    assert campaign.run_command(campaign.target, "b", "f") == ["b", "3", "no"]
