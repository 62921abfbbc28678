"""An engine that waits for nothing is told from one that works."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from buran.measurement.schedulers.base import Job
from buran.measurement.schedulers.slurm import SLURM
from buran.workflow.engine.watchdog import StuckJobs, Watchdog, wait_for_jobs
from patience import PATIENCE_S

QUIET_S = 0.2
SILENT = StuckJobs(SLURM, lambda text: None)


@pytest.fixture
def engine() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    yield process
    process.communicate(b"\n")


def judged(watchdog: Watchdog, engine: int, within_s: float = 10 * QUIET_S) -> bool:
    """Whether the engine is called hung at any time within a while."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        if watchdog.engine_hangs(engine):
            return True
        time.sleep(0.02)
    return False


@pytest.mark.parametrize(
    ("jobs", "hung"), [([], True), (None, False), ([Job("1", "PENDING", "buran_a", "(Priority)", True)], False)]
)
def test_nothing_in_the_queue_is_a_sign_and_no_answer_is_none(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    engine: subprocess.Popen[bytes],
    jobs: list[Job] | None,
    hung: bool,
) -> None:
    monkeypatch.setattr(SLURM, "campaign_jobs", lambda folder: jobs)
    log = tmp_path / "log"
    log.touch()
    os.utime(log, (1, 1))
    beats: list[int] = []
    watchdog = Watchdog(tmp_path, log, SILENT, lambda: beats.append(1), quiet_s=QUIET_S)
    # A busy machine lets the engine come to rest late.
    assert judged(watchdog, engine.pid, PATIENCE_S if hung else 10 * QUIET_S) is hung
    assert beats


def test_an_engine_that_writes_or_works_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: subprocess.Popen[bytes]
) -> None:
    monkeypatch.setattr(SLURM, "campaign_jobs", lambda folder: [])
    log = tmp_path / "log"
    log.touch()
    os.utime(log, (time.time() + 3600, time.time() + 3600))
    assert not judged(Watchdog(tmp_path, log, SILENT, quiet_s=QUIET_S), engine.pid)
    os.utime(log, (1, 1))
    assert not judged(Watchdog(tmp_path, log, SILENT, quiet_s=QUIET_S), os.getpid()), "it has a child"


def test_jobs_of_an_earlier_controller_are_waited_for_also_through_silence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter([[Job("7", "RUNNING", "", "n1", False)], None, []])
    monkeypatch.setattr(SLURM, "campaign_jobs", lambda folder: next(answers))
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    said: list[str] = []
    wait_for_jobs(tmp_path, StuckJobs(SLURM, said.append), lambda: None)
    assert "1 running" in said[0] and "does not answer" in said[1] and len(said) == 2
