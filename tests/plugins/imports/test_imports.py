"""Campaigns whose models read measurements that exist already."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from buran.campaign.mistakes import CampaignError
from buran.campaign.plan import Mode
from buran.files import not_synced
from buran.modeling.pmnf.model_set import read_models
from buran.plugins.imports.table import measured_elsewhere
from buran.profiles.experiment.extrap_tree import write_extrap_tree
from buran.profiles.experiment.jsonl import write_jsonl
from buran.profiles.experiment.read import read_experiment
from buran.reporting.text import render
from buran.workflow.collect import profiles_of
from buran.workflow.history import History
from buran.workflow.report import gather
from buran.workflow.session import Session
from buran_studies.simulate.in_process import carry_out
from simulated_campaigns import opened

TARGET = {"p": 4096, "n": 200}


@pytest.fixture(autouse=True)
def quick() -> Iterator[None]:
    with not_synced():
        yield


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What an earlier campaign with another seed has timed, as Extra-P names it."""
    folder = tmp_path_factory.mktemp("earlier")
    with not_synced():
        session = opened(folder / "campaign", seed=99, refinement={"enabled": False})
        carry_out(session)
    runs = [run for run in History.open(session).runs if run.mode is Mode.TIME]
    write_extrap_tree(folder / "tree", profiles_of(runs, session.campaign.parameters), prefix="old")
    return folder / "tree"


def importing(folder: Path, path: Path, entry: dict[str, Any] | None = None, **changes: Any) -> Session:
    usual = {"target": TARGET, "refinement": {"enabled": False}, "metrics": ["time", "visits"], "warmup": False}
    return opened(folder, measurements=[{"path": str(path), **(entry or {})}], **{**usual, **changes})


def timed(session: Session) -> set[Any]:
    return {run.point for run in History.open(session).runs if run.mode is Mode.TIME}


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["full", "lines"])
def test_points_that_were_timed_elsewhere_are_not_timed_again(tmp_path: Path, tree: Path, strategy: str) -> None:
    metrics = ["time", "visits", "basic_blocks"]
    session = importing(tmp_path / "with", tree, metrics=metrics, strategy={"name": strategy})
    elsewhere = measured_elsewhere(session.campaign)
    assert elsewhere is not None
    there = {tuple(row) for row in elsewhere.points.tolist()}
    carry_out(session)
    own = {tuple(float(point[name]) for name in session.campaign.parameters) for point in timed(session)}
    assert own and len(own & there) <= 1
    history = History.open(session)
    models = {each.metric: each for each in read_models(session.layout.models(session.id, history.iteration - 2))}
    assert {"time", "basic_blocks"} <= models.keys()
    assert there - own < set(map(tuple, np.array(models["time"].points).tolist())), "models read them"
    assert "simulated->main->solve->tiny" in models["time"].call_paths
    assert f"Times at {len(there)} points are from {tree} (key measurements)" in render(gather(history))


def test_names_fixed_values_and_points(tmp_path: Path, tree: Path) -> None:
    session = importing(tmp_path, tree)
    usual = measured_elsewhere(session.campaign)
    assert usual is not None and usual.parameters == session.campaign.parameters
    table = tmp_path / "table.jsonl"
    write_jsonl(read_experiment(tree), table)
    names = {name: f"their{name}" for name in session.campaign.parameters}
    text = table.read_text()
    for name, theirs in names.items():
        text = text.replace(f'"{name}"', f'"{theirs}"')
    table.write_text(text)
    renamed = importing(tmp_path / "names", table, {"names": {theirs: name for name, theirs in names.items()}})
    again = measured_elsewhere(renamed.campaign)
    assert again is not None
    np.testing.assert_array_equal(again.points, usual.points)
    np.testing.assert_array_equal(again.over_locations("time"), usual.over_locations("time"))


def test_folders_that_are_named_in_another_way(tmp_path: Path, tree: Path) -> None:
    for folder in tree.iterdir():
        (tmp_path / "runs" / folder.name.replace(".", "-")).parent.mkdir(exist_ok=True)
        shutil.copytree(folder, tmp_path / "runs" / folder.name.replace(".", "-"))
    usual = measured_elsewhere(importing(tmp_path / "one", tree).campaign)
    (name, *_) = sorted(folder.name for folder in tree.iterdir())
    words = re.findall(r"([a-z]+)(\d+)", name.split(".")[1])
    pattern = "-" + "".join(rf"{word}(?P<{word}>\d+)" for word, _ in words) + "-"
    found = measured_elsewhere(importing(tmp_path / "two", tmp_path / "runs", {"pattern": pattern}).campaign)
    assert usual is not None and found is not None
    np.testing.assert_array_equal(found.points, usual.points)
    with pytest.raises(CampaignError, match="pattern"):
        measured_elsewhere(importing(tmp_path / "three", tmp_path / "runs", {"pattern": "x(?P<p>1)"}).campaign)


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ({"fixed": {"n": 7}}, "nothing in .* can be used"),
        ({"names": {"p": "n"}, "fixed": {}}, "do not say the value of p|ambiguous|do not say the value of n"),
    ],
)
def test_what_does_not_fit_is_refused(tmp_path: Path, tree: Path, entry: dict[str, Any], why: str) -> None:
    with pytest.raises(CampaignError, match=why):
        measured_elsewhere(importing(tmp_path, tree, entry).campaign)


def test_measurements_that_are_missing_or_damaged_are_named(tmp_path: Path) -> None:
    with pytest.raises(CampaignError, match="are missing"):
        measured_elsewhere(importing(tmp_path / "one", tmp_path / "nowhere").campaign)
    (tmp_path / "damaged.txt").write_text("what is this\n")
    with pytest.raises(CampaignError, match="cannot be read"):
        measured_elsewhere(importing(tmp_path / "two", tmp_path / "damaged.txt").campaign)


def test_changed_files_make_another_campaign(tmp_path: Path, tree: Path) -> None:
    table = tmp_path / "table.jsonl"
    write_jsonl(read_experiment(tree), table)
    before = importing(tmp_path / "campaign", table).id
    table.write_text(table.read_text() + "\n")
    assert importing(tmp_path / "campaign", table).id != before
