"""Values that go with those of a parameter, one with each: from the file to commands, points and models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from campaign_files import WriteCampaign
from test_load import mistakes_of, whole

from buran.campaign.expressions import written_out
from buran.campaign.load import load_campaign
from buran.campaign.mistakes import spelled
from buran.cli import main
from buran.files import not_synced, read_json
from buran.workflow.history import History
from buran.workflow.report import write_results
from buran.workflow.session import open_session
from buran_studies.simulate.in_process import carry_out
from command_campaigns import write_campaign_of

RUN = {"program__run": "{binary} {n} {steps} {mesh}"}
LISTS: dict[str, Any] = {"steps": {"n": [80, 40, 20, 10]}, "mesh": {"n": ["a", "b", "c", "d"]}}


def test_each_value_of_a_parameter_has_its_own(
    write_campaign: WriteCampaign, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_campaign(
        program__run="{binary} {n} {steps} {mesh} {dt}",
        values={**LISTS, "work": "n * steps", "px": {"p": [1, 1, 2, 2]}, "dt": {"n": [0.5, 0, -1, 1]}},
        constraints=["work == 800", "mesh != 'd'", "px < 3"],
        resources={"nodes": "px"},
    )
    campaign = load_campaign(path)
    assert campaign.parameters == ("p", "n") and len(campaign.points) == 4 * 3
    commands = {tuple(campaign.run_command(point, "b", "f")) for point in campaign.points}
    assert commands == {
        ("b", "10", "80", "a", "0.5"),
        ("b", "20", "40", "b", "0"),
        ("b", "40", "20", "c", "-1"),
    }
    assert {campaign.ranks(point): campaign.nodes(point) for point in campaign.points} == {1: 1, 2: 1, 4: 2, 8: 2}
    assert main(["check", str(path)]) == 0
    shown = capsys.readouterr().out
    assert "80, 40, 20, 10, with n" in shown and "a, b, c, d, with n" in shown and "1, 1, 2, 2, with p" in shown
    # Beyond its list a value is not known, so that no model may use it.
    assert campaign.derived == {}
    assert written_out({"steps": LISTS["steps"], "twice": "2 * steps", "half": "n / 2"}) == {"half": "n / 2"}


def test_a_plan_depends_on_what_a_list_says(write_campaign: WriteCampaign) -> None:
    digests = {
        load_campaign(write_campaign(program__run="{binary} {n} {m}", values={"m": {"n": entries}})).digest()
        for entries in ([1, 2, 3, 4], [1, 2, 3, 5], ["a", "b", "c", "d"], ["a", "b", "c", "e"])
    }
    assert len(digests) == 4


@pytest.mark.parametrize(
    ("changes", "key", "words"),
    [
        ({"values": {**LISTS, "steps": {"n": [80, 40]}}}, "values.steps.n", "has 2 values, 'n' has 4"),
        ({"values": {**LISTS, "steps": {"m": [1, 2, 3, 4]}}}, "values.steps.m", "no parameter"),
        ({"values": {**LISTS, "steps": {"mesh": [1, 2, 3, 4]}}}, "values.steps.mesh", "no parameter"),
        ({"values": {**LISTS, "p": {"n": [1, 2, 3, 4]}}}, "values.p", "it is a parameter"),
        ({"values": {**LISTS, "mesh": {"n": ["a", "b", "c", "two words"]}}}, "values.mesh.n[3]", "a word"),
        ({"values": {**LISTS, "mesh": {"n": ["a", "b", "c", True]}}}, "values.mesh.n[3]", "number"),
        ({"values": {**LISTS, "mesh": {"n": "a"}}}, "values.mesh.n", "must be a list"),
        ({"evaluation_points": [{"p": 1, "n": 90}]}, "values.mesh", "listed for n = 10, 20, 40, 80"),
        ({"target": {"p": 8, "n": 90, "steps": 9}}, "target.steps", "no parameter"),
        ({"constraints": ["mesh < 2"]}, "constraints[0]", "is a word"),
        ({"values": {**LISTS, "steps": {"n": [80, 40, 20, float("inf")]}}}, "values.steps.n[3]", "finite"),
        (
            {"parameters__n": {"role": "size"}, "points": [{"p": 1, "n": 8}, {"p": 2, "n": 16}]},
            "values.mesh.n",
            "one by one",
        ),
        (
            {"parameters__n": {"role": "steps", "value": 600}, "strategy": {"name": "design"}},
            "values.mesh.n",
            "Buran chooses",
        ),
    ],
)
def test_lists_that_do_not_fit(write_campaign: WriteCampaign, changes: dict[str, Any], key: str, words: str) -> None:
    mistakes = mistakes_of(write_campaign(**{**RUN, "values": LISTS, **changes}))
    found = {spelled(mistake.path): whole(mistake) for mistake in mistakes}
    assert words in found[key]
    assert all(mistake.line for mistake in mistakes)


@pytest.mark.parametrize("lists", [{"p": [1, 2, 3, 4], "n": [1, 2, 3, 4]}, {}])
def test_a_list_goes_with_one_parameter(write_campaign: WriteCampaign, lists: dict[str, Any]) -> None:
    mistakes = mistakes_of(write_campaign(values={"m": lists}))
    assert [spelled(mistake.path) for mistake in mistakes] == ["values.m"]


def test_zips_of_others_are_spelled_here(write_campaign: WriteCampaign) -> None:
    (mistake,) = mistakes_of(write_campaign(zip=[["p", "n"]]))
    assert spelled(mistake.path) == "zip" and "values: {" in whole(mistake)


def test_programs_get_the_lists_and_models_have_the_parameter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BURAN_LOCK_FOLDER", str(tmp_path))
    path = write_campaign_of(
        '#!/bin/sh\necho "cells = $(($1 * $2)) on $3"\n',
        tmp_path,
        program={
            "source": "source",
            "build": "cp program.sh program && chmod +x program",
            "binary": "program",
            "run": "{binary} {n} {steps} {mesh}",
        },
        values={"steps": {"n": [100, 50, 25, 20, 12]}, "mesh": {"n": ["a", "b", "c", "d", "e"]}},
        command={"clock": "cells = (\\S+)"},
        target={"n": 16},
    )
    with not_synced():
        session = open_session(path)
        carry_out(session)
        history = History.open(session)
        write_results(history, tmp_path / "out")
    said = {run.point["n"]: (run.folder / "stdout.log").read_text().strip() for run in history.runs}
    pairs = zip((1, 2, 4, 5, 8), (100, 50, 25, 20, 12), "abcde", strict=True)
    assert said == {n: f"cells = {n * steps} on {mesh}" for n, steps, mesh in pairs}
    report = read_json(tmp_path / "out" / "report.json")
    assert report["parameters"] == ["n"] and report["target"] == {"n": 16}
