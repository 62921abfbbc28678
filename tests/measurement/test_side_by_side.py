"""Bundles side by side: processes on cores of their own, and what each of them is charged."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from buran.campaign.launcher import local_cores
from buran.campaign.packing import Need
from buran.errors import RunError
from buran.measurement.machine.process import Interrupted
from buran.measurement.side_by_side import Lane, SharedMeter, side_by_side

two_cores = pytest.mark.skipif(len(local_cores()) < 2, reason="one core: nothing goes on side by side")


class Clock:
    """A clock that is set by hand."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        monkeypatch.setattr(time, "monotonic", lambda: self.now)


def test_what_a_job_holds_is_charged_once(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    meter = SharedMeter(8, 90.0)  # began ten seconds ago
    mine = meter.start(1)
    clock.now = 102.0
    first, mine = meter.charge(1, mine)
    assert first == pytest.approx(8 * 12.0), "alone, with the start of the job"
    other = meter.start(3)
    clock.now = 106.0
    (a, mine), (b, other) = meter.charge(1, mine), meter.charge(3, other)
    assert (a, b) == (pytest.approx(8.0), pytest.approx(24.0)), "by their cores"
    clock.now = 107.0
    meter.stop(3, other)  # what it did not account for falls to those that are left
    clock.now = 108.0
    rest, mine = meter.charge(1, mine)
    assert rest == pytest.approx(2.0 + 6.0 + 8.0)
    meter.stop(1, mine)
    clock.now = 110.0
    late = meter.start(2)
    assert meter.charge(2, late)[0] == pytest.approx(16.0), "nobody worked: the next one pays"
    assert first + a + b + rest + 16.0 == pytest.approx(8 * 20.0)


@two_cores
def test_each_has_cores_of_its_own_and_none_has_two(tmp_path: Path) -> None:
    def work(number: int, lane: Lane) -> None:
        assert os.sched_getaffinity(0) == set(lane.cpus)
        begun = time.monotonic()
        time.sleep(0.05)
        (tmp_path / str(number)).write_text(f"{begun} {time.monotonic()} {' '.join(map(str, lane.cpus))}")

    before = os.sched_getaffinity(0)
    assert side_by_side([Need(1), Need(1), Need(2), Need(1), Need(9)], None, None, None, work) == []
    assert os.sched_getaffinity(0) == before
    told = {int(path.name): path.read_text().split() for path in tmp_path.iterdir()}
    assert sorted(told) == [0, 1, 2, 3, 4]
    for one, (begun, ended, *cpus) in told.items():
        for other, (begun_too, ended_too, *cpus_too) in told.items():
            at_once = float(begun) < float(ended_too) and float(begun_too) < float(ended)
            assert one == other or not at_once or not set(cpus) & set(cpus_too)
    assert len(told[4]) == 2 + len(before), "one that wants more than there is has all"


def test_what_fails_is_told_and_stops_nobody(tmp_path: Path) -> None:
    def work(number: int, lane: Lane) -> None:
        if number == 0:
            raise RunError("no", where="here", why="so", hint="go")
        if number == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        (tmp_path / str(number)).touch()

    problems = side_by_side([Need(1)] * 4, None, 1, None, work)
    assert [str(problem) for problem in problems if problem.what == "no"] == [
        str(RunError("no", where="here", why="so", hint="go"))
    ]
    assert any("vanished" in problem.what and problem.why == "signal 9" for problem in problems)
    assert {path.name for path in tmp_path.iterdir()} == {"2", "3"}


def test_memory_keeps_apart_what_does_not_fit(tmp_path: Path) -> None:
    def work(number: int, lane: Lane) -> None:
        with (tmp_path / "log").open("a") as file:
            file.write("begin\n")
        time.sleep(0.05)
        with (tmp_path / "log").open("a") as file:
            file.write("end\n")

    side_by_side([Need(1, 600)] * 2, 1000, None, None, work)
    assert (tmp_path / "log").read_text().split() == ["begin", "end"] * 2


def test_an_interrupted_one_lets_the_others_end_and_starts_no_more(tmp_path: Path) -> None:
    def work(number: int, lane: Lane) -> None:
        (tmp_path / str(number)).touch()
        raise Interrupted("the scheduler is away")

    with pytest.raises(Interrupted, match="away"):
        side_by_side([Need(1)] * 3, None, 1, None, work)
    assert len(list(tmp_path.iterdir())) == 1


def test_who_is_stopped_stops_those_that_work(tmp_path: Path) -> None:
    def work(number: int, lane: Lane) -> None:
        if number == 1:
            os.kill(os.getppid(), signal.SIGTERM)
        time.sleep(60)

    begun = time.monotonic()
    with pytest.raises(Interrupted, match="SIGTERM"):
        side_by_side([Need(1)] * 2, None, 2, None, work)
    assert time.monotonic() - begun < 30
