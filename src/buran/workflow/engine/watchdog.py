"""Watching over a campaign whose measurements are jobs: what the workflow engine alone does not get right."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from buran.measurement.schedulers.base import Scheduler
from buran.measurement.schedulers.jobs import Job, JobEvents
from buran.wording import counted

MOST_RESTARTS = 5  # of the engine, before somebody has to look
_NEWS_S, _LOOK_S = 10.0, 30.0  # between two looks for news, and at the queue
_WAIT_POLL_S = 2.0  # between two looks while it waits


@dataclass(frozen=True)
class StuckJobs:
    """Tells, once for each reason, of queued jobs that wait for something that waiting alone may never bring.

    Attributes
    ----------
    say
        Called with what is wrong and what to do.
    """

    scheduler: Scheduler
    say: Callable[[str], None]
    _reported: set[str] = field(default_factory=set)

    def look(self, queue: Iterable[Job]) -> None:
        """Look through the queue."""
        waiting = [job for job in queue if job.waits]
        numbers = Counter(job.reason.strip("()") for job in waiting)
        for job in waiting:
            reason, step = job.reason.strip("()"), self.scheduler.never_starts(job)
            if step is not None and reason not in self._reported:
                self._reported.add(reason)
                jobs = counted(numbers[reason], "job")
                self.say(f"{jobs} may never start ({reason}): {step}; `buran run --cancel` and Ctrl-C end them")


def wait_for_jobs(folder: Path, stuck: StuckJobs) -> None:
    """Wait for jobs that an earlier controller left in the queue: they measure what would be measured twice.

    Parameters
    ----------
    stuck
        Of the scheduler that is queried; is shown the queue, and says how many jobs are left.
    """
    last_news = None
    while True:
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
    """Says, while the workflow engine runs, what is new of its jobs, and why some may wait for ever.

    Attributes
    ----------
    stuck
        Of the scheduler that is queried; is shown the queue now and then.
    events
        Of the engine's jobs.
    """

    folder: Path
    stuck: StuckJobs
    events: JobEvents
    say: Callable[[str], None]
    _news_s: float = field(default_factory=time.monotonic)
    _looked_s: float = field(default_factory=time.monotonic)

    def look(self) -> None:
        """Look, now and then."""
        now = time.monotonic()
        if now - self._news_s >= _NEWS_S:
            self._news_s = now
            for line in self.events.news():
                self.say(line)
        if now - self._looked_s >= _LOOK_S:
            self._looked_s = now
            self.stuck.look(self.stuck.scheduler.campaign_jobs(self.folder) or ())
