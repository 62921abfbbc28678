"""The index of runs: `status` reads the record of each run once, and the index is made again when it is lost."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from buran.campaign.layout import Layout
from buran.campaign.plan import Mode
from buran.campaign.point import Point
from buran.campaign.records import RunRecord, Status, read_run
from buran.workflow import crowded


def made(layout: Layout, number: int, cores: int = 2) -> Path:
    folder = layout.store / "b" / f"n={number}~c" / "rep-00"
    folder.mkdir(parents=True)
    RunRecord(
        status=Status.MEASURED, cost_core_hours=1.0, build="b", target="t", mode=Mode.TIME,
        point=Point.of({"n": number}), repetition=0, clock="real", cores=cores, involuntary_switches=7,
        before={"cpu_mask": [0], "load": [3.0]}, computation={"cpu_s": 0.5, "wall_s": 1.0},
    ).write(folder)  # fmt: skip
    return folder


@pytest.mark.parametrize(
    "damage",
    [
        None,
        "",
        "{",
        '{"schema": 1, "runs": {"b/n=1~c/rep-00": [1]}}',
        '{"schema": 9}',
        '{"schema": 1, "runs": ["b/n=1~c/rep-00"], "columns": [[1]]}',
    ],
)
def test_records_are_read_once_and_an_index_that_is_lost_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: str | None
) -> None:
    monkeypatch.setattr(crowded, "_WORTH_KEEPING", 0)
    layout, read = Layout(tmp_path), list[Path]()
    folders = [made(layout, number) for number in (1, 2)]
    places = [str(folder.relative_to(layout.store)) for folder in folders]

    def record(folder: Path) -> RunRecord:
        read.append(folder)
        return read_run(folder)

    monkeypatch.setattr(crowded, "read_run", record)
    history: Any = SimpleNamespace(layout=layout)
    said = crowded.sharing(history, places)
    assert "at 2 of 2 points" in said[0] and "14 involuntary switches" in said[0]
    assert crowded.sharing(history, places) == said
    assert read == folders
    if damage is not None:
        layout.shared_cores.write_text(damage)
        assert crowded.sharing(history, places) == said
        assert len(read) == 4 and len(json.loads(layout.shared_cores.read_text())["runs"]) == 2


def test_a_run_that_is_gone_is_not_talked_about(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    history: Any = SimpleNamespace(layout=layout)
    assert crowded.sharing(history, ["b/n=1~c/rep-00"]) == []
