"""Schedulers that show their jobs in tables: what is the same for all of them.

States of jobs have the names of `buran.measurement.schedulers.jobs`, whichever the scheduler.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import time
from abc import abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from buran.errors import RunError, ToolError
from buran.measurement.finding import Finding, Health
from buran.measurement.schedulers.base import Allocation, Scheduler, answer_of
from buran.measurement.schedulers.jobs import (
    Job,
    JobReport,
    JobRequest,
    JobState,
    NotSubmitted,
    Refusal,
    Submission,
    meaning_of,
    purpose_of,
    report_of,
)

_TIMEOUT_S = 60.0  # of one command
_PATIENCE_S = 900.0  # with a scheduler that does not answer
_ASK_AGAIN_S = 5.0  # between two tries meanwhile
_SHELL_FUNCTION = "BASH_FUNC_"
_PASSING = re.compile(
    r"cannot connect|connection (refused|reset|timed out)|timed out|temporarily un(available|able)|try again|"
    r"communication|unable to contact|can't connect|not responding|is down|no route to host|network is unreachable|"
    r"end of file|protocol (failure|error)|please wait|resource busy|broker|server (is )?shutting down|commlib|"
    r"authentication|credential|munge|request timed|not up yet|overload|got no connection",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class JobRow:
    """A job in a scheduler's table.

    Attributes
    ----------
    state
        By its name in `buran.measurement.schedulers.jobs`.
    purpose
        Purpose of the job, or of the array that it is a task of.
    task
        Its number in the array, from 0 on; None outside of arrays.
    folder
        It works in.
    reason
        Why it waits, in the scheduler's words.
    restarts
        How often it was started anew.
    exit_code
        None while it runs, and if nobody knows.
    """

    id: str
    state: str
    purpose: str = ""
    task: int | None = None
    folder: str = ""
    reason: str = ""
    restarts: int = 0
    exit_code: int | None = None

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return meaning_of(self.state) in (JobState.ENDED, JobState.LOST)

    @property
    def report(self) -> JobReport:
        """What its state means to whoever submitted it."""
        said = report_of(self.state)
        return replace(said, words=f"{said.words} (exit code {self.exit_code})") if self._failed else said

    @property
    def _failed(self) -> bool:
        return self.state == "FAILED" and self.exit_code is not None


class TabledScheduler(Scheduler):
    """A scheduler that answers all questions about jobs with a table.

    Attributes
    ----------
    job_variable
        Environment variable with the number of the job that a process runs in.
    query
        The command that shows the table.
    submit_words, cancel_words
        The commands that take a script with its options, and numbers of jobs to end.
    foreign
        Beginnings of variables that a job has from its scheduler: jobs that it submits must not inherit them.
    unsupported
        Keys of `JobRequest` that nothing here stands for, each with what to do.
    next_steps
        By what a complaint looks like, what to do about it.
    final
        What complaints look like that a later try does not cure, although they look like an outage.
    """

    job_variable: str
    query: str
    submit_words: tuple[str, ...]
    cancel_words: tuple[str, ...]
    foreign: tuple[str, ...] = ()
    unsupported: Mapping[str, str] = {}
    next_steps: Mapping[str, str] = {}
    full: re.Pattern[str]

    # What each of them says for itself

    @abstractmethod
    def rows(self, jobs: Collection[str] | None) -> list[JobRow] | None:
        """Return what the table has of some jobs, by their numbers, or of all of this user's in the queue.

        Jobs it does not know are missing; None without an answer.
        """

    @abstractmethod
    def options(self, folder: Path, request: JobRequest, submission: Submission, log: Path) -> list[str]:
        """Return the submit command's options; raises `NotSubmitted` for what cannot be requested here."""

    @abstractmethod
    def number_in(self, printed: str) -> str | None:
        """Return the number of the job in what the submit command printed."""

    @abstractmethod
    def given(self, job: str) -> Allocation | None:
        """Return what this job was given; None if the scheduler does not tell now."""

    # The same for all

    def is_available(self) -> bool:
        """Tell whether its commands are on PATH."""
        return self.submit_program is not None and shutil.which(self.submit_program) is not None

    def finding(self) -> Finding | None:
        """Tell whether it answers, where it is installed."""
        if not self.is_available():
            return None
        if self.rows(None) is None:
            costs = f"the profile {self.name} cannot follow its jobs; campaigns run on this machine alone"
            return Finding(
                self.title, Health.LIMITED, f"installed, but {self.query} gets no answer", costs, f"try `{self.query}`"
            )
        return Finding(self.title, Health.WORKS, "answers")

    def this_job(self) -> str | None:
        """Return the number of the job this process runs in."""
        return os.environ.get(self.job_variable)

    def allocation(self) -> Allocation | None:
        """Return what this job was given; None outside of jobs. Raises `RunError` if the scheduler does not tell."""
        job = self.this_job()
        if job is None:
            return None
        deadline = time.monotonic() + _PATIENCE_S
        while (given := self.given(job)) is None:
            if time.monotonic() >= deadline:
                raise RunError(f"{self.title} does not report what this job was given", where=f"job {job}")
            time.sleep(_ASK_AGAIN_S)
        return given

    def why_ended(self, allocation: Allocation) -> str | None:
        """Return why this job is over, or may be, although this process still runs; None if it goes on."""
        deadline = time.monotonic() + _PATIENCE_S
        while (rows := self.rows([allocation.job])) is None and time.monotonic() < deadline:
            time.sleep(_ASK_AGAIN_S)
        if rows is None:
            return f"{self.title} did not report what became of its job {allocation.job}"
        state = rows[0].state if rows else "FORGOTTEN"
        if state == "RUNNING" and rows[0].restarts == allocation.restarts:
            return None
        return f"{self.title} ended its job {allocation.job} ({state})"

    def job_state(self, job: str, restarts: int) -> JobState:
        """Look it up; what the scheduler has forgotten has ended."""
        rows = self.rows([job])
        if rows is None:
            return JobState.UNKNOWN
        if not rows:
            return JobState.ENDED
        return JobState.LOST if rows[0].restarts > restarts else meaning_of(rows[0].state)

    def restarts(self, job: str) -> int:
        """Look it up."""
        rows = self.rows([job])
        return rows[0].restarts if rows else 0

    def campaign_jobs(self, folder: Path) -> list[Job] | None:
        """Return the queued and running jobs that work in a campaign's folder; None without an answer."""
        rows = self.rows(None)
        if rows is None:
            return None
        campaign = folder.resolve()
        return [
            Job(row.id, row.state, self._purpose(campaign, row), row.reason, waits=row.state == "PENDING")
            for row in rows
            if not row.is_over and self.works_in(row, campaign)
        ]

    def works_in(self, row: JobRow, campaign: Path) -> bool:
        """Tell whether a job is of ours and works in a campaign's folder; others may have any name and folder."""
        return row.purpose.startswith("buran_") and Path(row.folder).resolve() == campaign

    def _purpose(self, campaign: Path, row: JobRow) -> str:
        return purpose_of(campaign, row.purpose, "" if row.task is None else str(row.task))

    def cancel(self, jobs: Sequence[Job]) -> None:
        """Cancel jobs; those that have ended meanwhile are no failure."""
        numbers = [job.id for job in jobs]
        if not numbers:
            return
        done = self.ask([*self.cancel_words, *numbers])
        if done is not None and done.returncode == 0:
            return
        rows = self.rows(numbers)
        if rows is None or any(not row.is_over and row.state != "COMPLETING" for row in rows):
            why = done.stderr.strip() if done else f"{self.cancel_words[0]} is missing or does not answer"
            raise ToolError("the jobs could not be cancelled", why=why, hint=shlex.join([*self.cancel_words, *numbers]))

    def submit_command(self, folder: Path, request: JobRequest, submission: Submission, script: Path) -> list[str]:
        """Return the command with its options; the submission is the job's name, by which it is found again."""
        for key, step in self.unsupported.items():
            if getattr(request, key) not in (None, False):
                raise NotSubmitted(f"{self.title} has nothing for the key resources.{key}: {step}", Refusal.FINAL)
        own = shlex.split(request.extra) if request.extra else []
        options = self.options(folder, request, submission, Path("logs", self.name))
        return [*self.submit_words, *options, *own, str(script)]

    def submit(self, folder: Path, request: JobRequest, submission: Submission, script: Path) -> str:
        """Submit it."""
        words = self.submit_command(folder, request, submission, script)
        (folder / "logs" / self.name).mkdir(parents=True, exist_ok=True)
        done = self.ask(words, folder=folder, submits=True)
        if done is None:
            raise NotSubmitted(f"{self.submit_program} is missing, or does not answer", Refusal.PASSING)
        number = self.number_in(done.stdout) if done.returncode == 0 else None
        if number is not None:
            return number
        why = " ".join(done.stderr.split()) or f"{self.submit_program} printed {done.stdout!r}"
        raise NotSubmitted(f"{why}{self.next_step(why)}", self.refusal(why, done.returncode))

    def refusal(self, why: str, exit_code: int) -> Refusal:
        """Return what can be done about a job that was not taken; an exit code of 0 without a number may pass."""
        if self.full.search(why):
            return Refusal.FULL
        return Refusal.PASSING if exit_code == 0 or _PASSING.search(why) else Refusal.FINAL

    def next_step(self, why: str) -> str:
        """Return what to do about a complaint, after a colon; empty if nothing is known of it."""
        steps = (step for pattern, step in self.next_steps.items() if re.search(pattern, why, re.IGNORECASE))
        return next((f": {step}" for step in steps), "")

    def reports(self, jobs: Sequence[str]) -> Mapping[str, JobReport] | None:
        """Ask about all of them at once."""
        rows = self.rows(jobs)
        return None if rows is None else {row.id: row.report for row in rows}

    def ask(
        self, command: Sequence[str], *, folder: Path | None = None, submits: bool = False
    ) -> subprocess.CompletedProcess[str] | None:
        """Run a command of the scheduler; None if it is missing or does not answer in time.

        Parameters
        ----------
        submits
            Whether it submits a job, which inherits the variables: then without functions of the shell, which end
            tables too early, and without those of the job that this process runs in.
        """
        unwanted = (_SHELL_FUNCTION, *self.foreign) if submits else (_SHELL_FUNCTION,)
        environment = {name: value for name, value in os.environ.items() if not name.startswith(unwanted)}
        environment |= {} if submits else {"LC_ALL": "C"}
        try:
            return subprocess.run(
                list(command),
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                timeout=_TIMEOUT_S,
                env=environment,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            return None

    def answer(self, command: Sequence[str]) -> str:
        """Return what a command prints; raises as `answer_of`."""
        return answer_of(command, self.ask, self.title, f"`{shlex.join(command)}` asks it")


def allocation_with(
    job: str,
    *,
    nodes: Iterable[str],
    tasks: int,
    cpus: int,
    node_list: str,
    partition: str,
    purpose: str,
    elapsed_s: float,
    limit_s: float | None,
    waited_s: float | None,
    restarts: int = 0,
    exclusive: bool = False,
    account: str | None = None,
    qos: str | None = None,
) -> Allocation:
    """Return what a job was given, of what a table says of it just now; its CPUs are shared out among its tasks."""
    return Allocation(
        job=job,
        restarts=restarts,
        nodes=tuple(nodes),
        tasks=tasks,
        cpus=cpus,
        cpus_per_task=max(cpus // max(tasks, 1), 1),
        left_s=None if limit_s is None else limit_s - elapsed_s,
        queried_s=time.monotonic(),
        time_limit_s=limit_s,
        exclusive=exclusive,
        waited_s=waited_s,
        partition=partition,
        account=account,
        qos=qos,
        constraint=None,
        purpose=purpose,
        node_list=node_list,
        elapsed_s=elapsed_s,
    )


def seconds_of(text: str | None) -> float | None:
    """Return a time as ``[[hours:]minutes:]seconds`` in seconds; None for anything else."""
    if text is None or re.fullmatch(r"\d+(:\d+){0,2}(\.\d+)?", text) is None:
        return None
    total = 0.0
    for part in text.split(":"):
        total = 60.0 * total + float(part)
    return total


def megabytes_of(text: str | None) -> int | None:
    """Return memory such as ``4gb`` or ``1024kb`` in MB; None for anything else."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmgtp]?)(?:i?b|w)?", (text or "").strip().lower())
    if match is None:
        return None
    return int(
        float(match[1]) * {"": 2.0**-20, "k": 2.0**-10, "m": 1.0, "g": 2.0**10, "t": 2.0**20, "p": 2.0**30}[match[2]]
    )
