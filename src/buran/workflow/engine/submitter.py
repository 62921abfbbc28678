"""Jobs of the workflow engine: submitted as the scheduler takes them, queried all at once, followed to their end.

Whatever passes is waited for: a scheduler that does not answer, or takes no more jobs for now. A job that may have
been taken although the answer was lost is looked for in the queue before it is submitted again.
"""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from buran.campaign.layout import Layout
from buran.errors import ToolError
from buran.files import digest, write_json
from buran.measurement.schedulers.base import Scheduler
from buran.measurement.schedulers.jobs import (
    Job,
    JobEvents,
    JobReport,
    JobRequest,
    NotSubmitted,
    Refusal,
    Submission,
)
from buran.workflow.measure import jobs_in, name_of

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 2.0, 60.0  # between tries at a scheduler that takes nothing
_FORGOTTEN_S = 60.0  # after which a job that the scheduler does not know any more is over
_LINGERING_S = 300.0  # after which a job that has made everything is over, whatever the scheduler says


@dataclass(frozen=True)
class Task:
    """What a job is to make.

    Attributes
    ----------
    name
        Bundle or batch of bundles; other things have names of their own.
    command
        For the shell; None for what `Submitter.command` makes of the name.
    makes
        Files that are there when it is done.
    """

    name: str
    request: JobRequest
    command: str | None
    makes: tuple[Path, ...]

    def is_made(self) -> bool:
        """Tell whether everything is there."""
        return bool(self.makes) and all(path.is_file() for path in self.makes)


def tasks_of(folder: Path, name: str, request: JobRequest) -> list[Task]:
    """Return what is left to do of the jobs that the engine takes for one, or of a bundle's."""
    layout = Layout(folder)
    names = (name_of((job,)) for job in jobs_in(layout, name))
    tasks = (Task(each, request, None, (layout.job_pointer(each),)) for each in names)
    return [task for task in tasks if not task.is_made()]


@dataclass(frozen=True)
class Result:
    """How a task ended; `words` is empty if it succeeded."""

    task: Task
    succeeded: bool
    words: str = ""


@dataclass
class _Followed:
    """A job that is followed to its end."""

    task: Task
    state: str = ""
    unknown_since: float | None = None
    made_since: float | None = None


@dataclass
class Submitter:
    """Submits tasks and follows their jobs.

    Attributes
    ----------
    folder
        The campaign's results.
    command
        Makes the command of a job from the name of its submission.
    clock
        Seconds that only grow.
    most
        Jobs in the queue at a time.
    """

    scheduler: Scheduler
    folder: Path
    command: Callable[[str], str]
    events: JobEvents
    clock: Callable[[], float] = time.monotonic
    most: int = sys.maxsize
    _waiting: dict[int, Task] = field(default_factory=dict)
    _jobs: dict[str, _Followed] = field(default_factory=dict)
    _pause_s: float = 0.0
    _not_before: float = 0.0
    _largest_array: int | None = None
    _may_be_queued: bool = True  # jobs of an earlier engine, or whose number was lost
    _silent: bool = False

    def add(self, task: Task) -> None:
        """Take a task; it is submitted at the next steps."""
        self._waiting[id(task)] = task

    def step(self) -> list[Result]:
        """Submit what the scheduler takes and look what became of jobs; return what has ended since."""
        return [*self._submit(), *self._look()]

    def cancel(self) -> None:
        """Cancel every job that has not ended; raises `ToolError` if that fails."""
        self._waiting.clear()
        self.scheduler.cancel([Job(number, "", "", "", waits=False) for number in self._jobs])

    # -- submitting -----------------------------------------------------------------------------------

    def _submit(self) -> list[Result]:
        refused: list[Result] = []
        while self._waiting and self.clock() >= self._not_before and len(self._jobs) < self.most:
            if self._may_be_queued and not self._adopt():
                break
            group = self._next_group()
            if not group:
                break
            try:
                self._hand_over(group)
                self._pause_s = 0.0
            except NotSubmitted as error:
                if error.refusal is Refusal.FINAL:
                    words = f"{self.scheduler.title} refused a job: {error.why}"
                    self.events.write(words, refused=str(error.why))
                    refused += [Result(task, False, words) for task in group]
                    self._drop(group)
                elif error.refusal is Refusal.NO_ARRAY:
                    self._largest_array = max(len(group) // 2, 1)
                else:
                    self._wait(error, len(group))
        return refused

    def _next_group(self) -> list[Task]:
        """Return tasks that can be one array, in the order they came; others are alone."""
        if self._largest_array is None:
            self._largest_array = self.scheduler.largest_array()
        first = next(iter(self._waiting.values()), None)
        if first is None or first.command is not None:
            return [] if first is None else [first]
        like = (task for task in self._waiting.values() if task.command is None and task.request == first.request)
        return list(islice(like, min(self._largest_array, self.most - len(self._jobs))))

    def _hand_over(self, group: Sequence[Task]) -> None:
        names = tuple(task.name for task in group)
        layout, first = Layout(self.folder), group[0]
        identity = names[0] if len(names) == 1 else digest([names, time.time_ns()], 16)
        submission = Submission(identity, names)
        if submission.is_array:
            write_json(layout.submission(identity), {"schema": 1, **vars(submission)})
        script = layout.job_script(identity)
        script.parent.mkdir(parents=True, exist_ok=True)
        # Some schedulers start jobs in the user's home.
        there = f"{self.scheduler.prelude}cd {shlex.quote(str(self.folder))} || exit 1\n"
        script.write_text(f"#!/bin/sh\n{there}{first.command or f'exec {self.command(identity)}'}\n")
        number = self.scheduler.submit(self.folder, first.request, submission, script)
        numbers = self.scheduler.task_numbers(number, len(names)) if submission.is_array else [number]
        self._jobs |= {job: _Followed(task) for job, task in zip(numbers, group, strict=True)}
        self._drop(group)

    def _wait(self, error: NotSubmitted, tasks: int) -> None:
        """Try again in a while; a site that takes no array of that size may take a smaller one."""
        title = self.scheduler.title
        self._may_be_queued = True
        if error.refusal is Refusal.FULL and tasks > 1:
            self._largest_array = tasks // 2
            return
        if self._pause_s == 0.0:
            now = time.strftime("%H:%M:%S")
            said = "takes no more jobs for now" if error.refusal is Refusal.FULL else f"cannot take jobs since {now}"
            self.events.write(f"{title} {said}, waiting: {error.why}")
        self._pause_s = min(max(2 * self._pause_s, _FIRST_PAUSE_S), _LONGEST_PAUSE_S)
        self._not_before = self.clock() + self._pause_s

    def _drop(self, group: Iterable[Task]) -> None:
        for task in group:
            del self._waiting[id(task)]

    def _adopt(self) -> bool:
        """Follow jobs in the queue that are for waiting tasks; return whether the scheduler answered."""
        jobs = self.scheduler.campaign_jobs(self.folder)
        if jobs is None:
            self._wait(NotSubmitted("its queue does not answer", Refusal.PASSING), 1)
            return False
        by_purpose = {job.purpose.rpartition("_")[2]: job.id for job in jobs}
        new = {name: job for name, job in by_purpose.items() if job not in self._jobs}
        adopted = [task for task in self._waiting.values() if task.name in new]
        self._jobs |= {new[task.name]: _Followed(task) for task in adopted}
        self._drop(adopted)
        self._may_be_queued = False
        return True

    # -- following ------------------------------------------------------------------------------------

    def _look(self) -> list[Result]:
        if not self._jobs:
            return []
        reports = self.scheduler.reports(list(self._jobs))
        self._tell_outage(is_silent=reports is None)
        results = []
        for number, job in list(self._jobs.items()):
            result = self._result(number, job, None if reports is None else reports.get(number), reports is not None)
            if result is not None:
                results.append(result)
                del self._jobs[number]
                self._not_before = min(self._not_before, self.clock() + _FIRST_PAUSE_S)  # there is room for another
        return results

    def _tell_outage(self, *, is_silent: bool) -> None:
        if is_silent != self._silent:
            now, title = time.strftime("%H:%M:%S"), self.scheduler.title
            self.events.write(
                f"{title} does not answer since {now}; its jobs go on, waiting until it does"
                if is_silent
                else f"{title} answers again ({now})"
            )
            self._silent = is_silent

    def _result(self, number: str, job: _Followed, report: JobReport | None, answered: bool) -> Result | None:
        now, title = self.clock(), self.scheduler.title
        if report is None:
            job.unknown_since = (job.unknown_since or now) if answered else None
            if job.unknown_since is None:
                return None
            if job.task.is_made():
                return Result(job.task, True)
            if now - job.unknown_since < _FORGOTTEN_S:
                return None
            report = self.scheduler.forgotten(number, self.folder)
        job.unknown_since = None
        if not report.is_over:
            if job.state == "RUNNING" and report.state not in ("RUNNING", "COMPLETING", "SUSPENDED"):
                self.events.write(f"{title} job {number} was requeued ({report.state.lower()})")
            job.state = report.state
            job.made_since = (job.made_since or now) if job.task.is_made() else None
            lingers = job.made_since is not None and now - job.made_since >= _LINGERING_S
            return Result(job.task, True) if lingers else None
        if report.succeeded or job.task.is_made():
            return Result(job.task, True)
        words = f"{title} job {number} {report.words}"
        self.events.write(words, job=number, state=report.state, may_resume=report.may_resume)
        return Result(job.task, False, words)


def cancel_all(scheduler: Scheduler, folder: Path, say: Callable[[str], None], pause_s: float = 1.0) -> int:
    """Cancel the jobs that work in a campaign's folder until there are none; return how many there were.

    A job may appear late: what submitted it was ended before it had the answer. A scheduler that does not answer is
    waited for.
    """
    cancelled: set[str] = set()
    empty, has_warned = 0, False
    while empty < 2:
        jobs = scheduler.campaign_jobs(folder)
        try:
            scheduler.cancel([job for job in jobs or () if job.state != "COMPLETING"])
        except ToolError:
            jobs = None
        if jobs is None and not has_warned:
            say(f"{scheduler.title} does not answer; waiting to cancel the jobs (Ctrl-C leaves them)")
            has_warned = True
        cancelled |= {job.id for job in jobs or ()}
        empty = empty + 1 if jobs == [] else 0
        time.sleep(pause_s)
    return len(cancelled)
