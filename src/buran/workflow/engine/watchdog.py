"""Watching over a campaign whose measurements are jobs: what the workflow engine alone does not get right."""

from __future__ import annotations

import contextlib
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from buran.measurement.schedulers.base import Job, Scheduler

MOST_RESTARTS = 5  # of the engine, before somebody has to look
_QUIET_S = 400.0  # executors look into the queue more often
_CHECK_S = 10.0  # between two looks for signs of life
_WAIT_POLL_S = 2.0  # between two looks while it waits


@dataclass(frozen=True)
class StuckJobs:
    """Tells, once for each reason, of queued jobs that wait for something that waiting alone may never bring.

    Attributes
    ----------
    say
        Called with what is wrong and what to do.
    keep
        Called with the same, for later.
    """

    scheduler: Scheduler
    say: Callable[[str], None]
    keep: Callable[[str], None] = lambda words: None
    _reported: set[str] = field(default_factory=set)

    def look(self, queue: Iterable[Job]) -> None:
        """Look through the queue."""
        waiting = [job for job in queue if job.waits]
        numbers = Counter(job.reason.strip("()") for job in waiting)
        for job in waiting:
            reason, step = job.reason.strip("()"), self.scheduler.never_starts(job)
            if step is not None and reason not in self._reported:
                self._reported.add(reason)
                jobs_and_reason = (
                    f"{numbers[reason]} {'job' if numbers[reason] == 1 else 'jobs'} may never start ({reason})"
                )
                self.say(f"{jobs_and_reason}: {step}; `buran run --cancel` and Ctrl-C end them")
                self.keep(f"{jobs_and_reason}: {step}")


def wait_for_jobs(folder: Path, stuck: StuckJobs, beat: Callable[[], None]) -> None:
    """Wait for jobs that an earlier controller left in the queue: they measure what would be measured twice.

    Parameters
    ----------
    stuck
        Of the scheduler that is queried; is shown the queue, and says how many jobs are left.
    beat
        Called every few seconds.
    """
    last_news = None
    while True:
        beat()
        jobs = stuck.scheduler.campaign_jobs(folder)
        if jobs == []:
            return
        stuck.look(jobs or ())
        if jobs is None:
            news = f"{stuck.scheduler.title} does not answer; waiting until it does"
        else:
            states = Counter(job.state.lower() for job in jobs)
            news = "waiting for jobs that are still in the queue: " + ", ".join(
                f"{number} {state}" for state, number in sorted(states.items())
            )
        if news != last_news:
            stuck.say(news)
            last_news = news
        time.sleep(_WAIT_POLL_S)


@dataclass
class Watchdog:
    """Notices an engine that waits for jobs which are not in the queue any more, and jobs that will never start.

    Attributes
    ----------
    stuck
        Of the scheduler that is queried; is shown the queue now and then.
    beat
        Called at each look.
    quiet_s
        How long the engine must have been silent, with nothing in the queue and nothing running here.
    """

    folder: Path
    log: Path
    stuck: StuckJobs
    beat: Callable[[], None] = lambda: None
    quiet_s: float = field(default_factory=lambda: float(os.environ.get("BURAN_WATCHDOG_S", _QUIET_S)))
    _checked: float = field(default_factory=time.monotonic)
    _suspicious_since: float | None = None
    _looked_s: float = field(default_factory=time.monotonic)

    def engine_hangs(self, engine: int) -> bool:
        """Look, now and then; an outage of the scheduler proves nothing and restarts the time."""
        now = time.monotonic()
        if now - self._checked < min(_CHECK_S, self.quiet_s / 4):
            return False
        self._checked = now
        self.beat()
        self._look_for_stuck_jobs(now)
        is_busy = self._silence_s() < self.quiet_s or _has_children(engine)
        if is_busy or self.stuck.scheduler.campaign_jobs(self.folder) != []:
            self._suspicious_since = None
            return False
        if self._suspicious_since is None:
            self._suspicious_since = now
        return now - self._suspicious_since >= self.quiet_s / 2

    def _look_for_stuck_jobs(self, now: float) -> None:
        if now - self._looked_s >= self.quiet_s / 8:
            self._looked_s = now
            self.stuck.look(self.stuck.scheduler.campaign_jobs(self.folder) or ())

    def _silence_s(self) -> float:
        try:
            return time.time() - self.log.stat().st_mtime
        except FileNotFoundError:
            return 0.0


def _has_children(parent: int) -> bool:
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            with contextlib.suppress(OSError):
                if int((process / "stat").read_text().rpartition(")")[2].split()[1]) == parent:
                    return True
    return False
