"""What is said of jobs while somebody waits for them."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from buran.measurement.schedulers.jobs import Job, JobEvents
from buran.measurement.schedulers.slurm import SLURM
from buran.workflow.engine.controller import StuckJobs, Watchdog, wait_for_jobs


def test_news_are_told_and_jobs_that_may_never_start_are_named_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    began_s = time.monotonic()
    now_s, said, events = [began_s + 1.0], list[str](), JobEvents(tmp_path / "jobs.jsonl")
    held = Job("1", "PENDING", "buran_a", "(JobHeldUser)", True)
    monkeypatch.setattr(SLURM, "campaign_jobs", lambda folder: [held, Job("2", "PENDING", "", "(Priority)", True)])
    monkeypatch.setattr(time, "monotonic", lambda: now_s[0])
    dog = Watchdog(tmp_path, StuckJobs(SLURM, said.append), events, said.append)
    events.write("Slurm answers again")
    while now_s[0] < began_s + 100.0:
        dog.look()
        now_s[0] += 1.0
    news, text = said
    assert news == "Slurm answers again" and "1 job " in text and "(JobHeldUser)" in text and "scontrol release" in text


def test_jobs_of_an_earlier_controller_are_waited_for_also_through_silence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter([[Job("7", "RUNNING", "", "n1", False)], None, []])
    monkeypatch.setattr(SLURM, "campaign_jobs", lambda folder: next(answers))
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    said: list[str] = []
    wait_for_jobs(tmp_path, StuckJobs(SLURM, said.append))
    assert "1 running" in said[0] and "does not answer" in said[1] and len(said) == 2
