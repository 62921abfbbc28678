"""What the whole program takes, where the baseline ran and where it did not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from buran.campaign.plan import BuildSpec, Mode, Purpose
from buran.campaign.point import Point
from buran.workflow.collect import FinishedRun
from buran.workflow.history import baseline, run_times


def run(n: int, mode: Mode, wall_s: float, filter_text: str = "a", purpose: Purpose = Purpose.MODEL) -> FinishedRun:
    build = BuildSpec("target", mode, "" if mode is Mode.VANILLA else filter_text)
    return FinishedRun(0, Point.of({"n": n}), purpose, mode, build, 0, Path(), wall_s, wall_s)


def test_runs_with_hooks_stand_in_for_the_baseline_after_their_hooks_are_taken_off() -> None:
    runs = [
        *(run(n, Mode.VANILLA, 1.0 * n) for n in (1, 2)),
        *(run(n, Mode.TIME, 1.25 * n) for n in (1, 2, 4)),
        run(4, Mode.EFFORT, 99.0),
        run(8, Mode.VANILLA, 99.0, purpose=Purpose.EVALUATION),
    ]
    found = run_times(runs, Purpose.MODEL)
    assert {dict(point)["n"]: walls for point, walls in found.items()} == {1: [1.0], 2: [2.0], 4: [4.0]}


def test_noise_never_makes_hooks_cost_less_than_nothing() -> None:
    runs = [run(1, Mode.VANILLA, 2.0), run(1, Mode.TIME, 1.0), run(2, Mode.TIME, 3.0)]
    assert run_times(runs, Purpose.MODEL)[Point.of({"n": 2})] == [3.0]


def test_the_newest_filter_with_a_baseline_is_taken() -> None:
    runs = [
        run(1, Mode.VANILLA, 1.0),
        run(1, Mode.TIME, 2.0, "wide"),
        run(2, Mode.TIME, 8.0, "wide"),
        run(1, Mode.TIME, 1.0, "narrow"),
        run(2, Mode.TIME, 5.0, "narrow"),
        run(2, Mode.TIME, 50.0, "never compared"),
    ]
    assert run_times(runs[:3], Purpose.MODEL)[Point.of({"n": 2})] == [4.0]
    assert run_times(runs, Purpose.MODEL)[Point.of({"n": 2})] == [5.0]


def test_without_a_baseline_nothing_is_known_unless_hooks_cost_nothing() -> None:
    timed = run(1, Mode.TIME, 1.0)
    assert run_times([timed], Purpose.MODEL) == {}
    runs = [replace(timed, hooks_free=True), replace(run(2, Mode.EFFORT, 1.0), hooks_free=True)]
    assert run_times(runs, Purpose.MODEL) == baseline(runs, Purpose.MODEL) == {Point.of({"n": 1}): [1.0]}
