"""Cores that are shared are seen in the records of runs, and named before runs are made."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from buran.campaign.launcher import usable_cores
from buran.campaign.plan import Mode
from buran.campaign.point import Point
from buran.campaign.records import RunRecord, Status
from buran.reporting.summary import simulated
from buran.workflow import notes
from buran.workflow.notes import crowded_points, points_without_cores, sharing, sharing_ahead

QUIET: dict[str, Any] = {
    "clock": "real",
    "cores": 2,
    "wall_s": 10.0,
    "before": {"cpu_mask": [0, 1], "load": [0.1, 0.1, 0.1], "steal_s": 5.0},
    "after": {"steal_s": 5.0},
    "computation": {"cpu_s": 7.9, "wall_s": 8.0},
    "involuntary_switches": 3,
}


def said_of(monkeypatch: pytest.MonkeyPatch, *changes: dict[str, Any]) -> tuple[list[str], list[Point]]:
    records = {
        Path(str(number)): RunRecord(
            status=Status.MEASURED,
            build="b",
            target="t",
            mode=Mode.TIME,
            point=Point.of({"p": number + 1}),
            repetition=0,
            **{**QUIET, **change},
        )
        for number, change in enumerate(changes)
    }
    runs = [SimpleNamespace(folder=folder) for folder in records]
    history: Any = SimpleNamespace(runs=runs, run_record=records.__getitem__, plans=(), runs_of=lambda plans: runs)
    monkeypatch.setattr(notes, "in_store", list)
    crowded_here = crowded_points(history, history.runs)
    assert set(crowded_here) <= set(points_without_cores(history, history.runs))
    return sharing(history), crowded_here


def test_quiet_runs_are_not_talked_about(monkeypatch: pytest.MonkeyPatch) -> None:
    assert said_of(monkeypatch, {}, {}) == ([], [])
    assert said_of(monkeypatch, {"clock": "virtual", "cores": 64}) == ([], [])
    assert simulated(SimpleNamespace(simulated_on="")) == []


def test_a_simulated_machine_is_named_instead() -> None:
    (said,) = simulated(SimpleNamespace(simulated_on="a simulated machine: torus"))
    assert said.startswith("Simulated, not measured") and "a simulated machine: torus" in said


def test_shared_cores_are_named_with_their_extent(monkeypatch: pytest.MonkeyPatch) -> None:
    busy = {"cores": 6, "computation": {"cpu_s": 2.0, "wall_s": 8.0}, "after": {"steal_s": 6.0}}
    busy |= {"before": {**QUIET["before"], "load": [12.0, 3.0, 1.0]}, "involuntary_switches": 900}
    (said,), points = said_of(monkeypatch, {}, busy)
    assert points == [Point.of({"p": 2})]
    for words in ("1 of 2 points", "1 of 2 timed runs", "25 %", "load up to 12"):
        assert words in said
    assert "903 involuntary switches" in said and "took 5 %" in said and "CPU times" in said


def test_times_are_not_compared_with_predictions_where_runs_waited_for_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notes, "in_store", list)
    for cpu_s, waited in ((7.8, False), (3.0, True)):
        record = RunRecord(
            status=Status.MEASURED, build="b", target="t", mode=Mode.TIME, point=Point.of({"p": 1}), repetition=0,
            **{**QUIET, "computation": {"cpu_s": cpu_s, "wall_s": 8.0}},
        )  # fmt: skip
        history: Any = SimpleNamespace(run_record=lambda folder, record=record: record)
        assert bool(points_without_cores(history, [SimpleNamespace(folder=Path("0"))])) == waited


def test_a_missing_clock_of_cpu_time_is_told_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    lacking = {"computation": None, "cpu_clock_missing": "the kernel refuses perf_event_open: Permission denied"}
    (said,), _ = said_of(monkeypatch, {}, lacking)
    assert "wall-clock times" in said and "Permission denied" in said
    shared, alone = said_of(monkeypatch, {**lacking, "cores": 4})[0]
    assert shared.startswith("Cores were shared") and "CPU times" not in shared and "Permission denied" in alone


def test_what_will_share_the_cores_is_said_before_anything_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    def campaign(ranks: int, partition: str | None = None) -> Any:
        return SimpleNamespace(
            points=(Point.of({"p": 1}), Point.of({"p": ranks})),
            evaluation_points=(),
            is_simulated=False,
            nodes=lambda point: 1,
            cores=lambda point: int(point["p"]),
            partition=lambda point: partition,
            config=SimpleNamespace(resources=SimpleNamespace(partition=partition)),
        )

    monkeypatch.setattr(os, "getloadavg", lambda: (0.0, 0.0, 0.0))
    many = usable_cores() + 1
    (said,) = sharing_ahead(campaign(many))
    assert said.startswith("1 of 2 points") and "model.waiting" in said
    assert sharing_ahead(campaign(1)) == sharing_ahead(campaign(many, "batch")) == []
    monkeypatch.setattr(os, "getloadavg", lambda: (99.0, 0.0, 0.0))
    (said,) = sharing_ahead(campaign(1))
    assert "load average 99.0" in said
