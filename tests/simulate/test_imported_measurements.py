"""Campaigns that go on from measurements that exist already."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from imported_trees import measured_tree, plans
from simulated_campaigns import opened

from buran.campaign.plan import Mode
from buran.files import not_synced
from buran.measure import ledger, store
from buran.model.model_set import read_models
from buran.report.text import render
from buran.steps.loop import carry_out
from buran.steps.progress import progress_of
from buran.steps.report import gather, write_results
from buran.steps.session import Session

TARGET = {"p": 4096, "n": 200}


@pytest.fixture(autouse=True)
def quick() -> Iterator[None]:
    with not_synced():
        yield


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("earlier")
    with not_synced():
        return measured_tree(folder / "campaign", folder / "tree")


def importing(
    folder: Path, path: Path, *, pool: bool = True, changes: dict[str, Any] | None = None, **entry: Any
) -> Session:
    given = {"path": str(path), "pool": pool, **entry}
    return opened(
        folder, measurements=[given], **{"refinement": {"enabled": False, "target": TARGET}, **(changes or {})}
    )


def own_runs(session: Session) -> list[dict[str, Any]]:
    records = [store.record(folder) for folder in ledger.run_folders(session.layout.store)]
    return [each for each in records if each["mode"] != Mode.IMPORTED]


def test_points_that_are_imported_are_not_measured_again(tmp_path: Path, tree: Path) -> None:
    without = opened(tmp_path / "without", refinement={"enabled": False, "target": TARGET})
    session = importing(tmp_path / "with", tree)
    carry_out(without)
    last = carry_out(session)
    found = plans(session)
    assert [plan.phase for plan in found] == ["import", "times", "end"]
    assert last.reason.startswith("the lines are measured")
    timed = [each for each in own_runs(session) if each["mode"] == Mode.TIME]
    assert len(timed) == 1  # for comparison
    assert len([each for each in own_runs(without) if each["mode"] == Mode.TIME]) > 10
    assert last.spent_core_hours < plans(without)[-1].spent_core_hours / 2
    models = {each.metric: each for each in read_models(session.layout.models(session.id, 1))}
    assert "simulated->main->solve->tiny" in models["time"].call_paths
    assert "basic_blocks" in models  # effort is counted all the same


def test_what_was_imported_says_so_everywhere(tmp_path: Path, tree: Path) -> None:
    session = importing(tmp_path, tree)
    carry_out(session)
    state = progress_of(session)
    assert not state.failures
    account = {item.phase: item for item in state.account}
    assert account["imported"].core_hours == 0.0
    assert account["imported"].runs == len(list(tree.iterdir()))
    assert [row.measured for row in state.rows if row.mode == "imported"] == [account["imported"].runs]
    said = render(gather(session))
    assert f"{account['imported'].runs} runs at" in said
    assert "had cost" in said
    assert "Their times are mixed with those of the campaign, which are" in said
    record = next(
        store.record(folder)
        for folder in ledger.run_folders(session.layout.store)
        if store.record(folder)["mode"] == Mode.IMPORTED
    )
    assert Path(record["source"]["path"]).is_relative_to(tree)
    assert len(record["source"]["sha256"]) == 64
    assert record["had_cost_core_hours"] == pytest.approx(record["wall_s"] * record["cores"] / 3600)
    folder = tmp_path / "results-of-it"
    write_results(session, folder)
    assert (folder / "report.html").is_file()
