"""The protocol of schedulers, and which of them a process, a profile or a campaign has to do with."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from buran.campaign.config import Campaign
from buran.campaign.launcher import Placement
from buran.campaign.resources import NodeKind
from buran.campaign.sections import PartitionKeys
from buran.errors import ToolError
from buran.extensions import ExtensionPoint
from buran.files import Stored
from buran.measurement.finding import Finding
from buran.measurement.schedulers.jobs import Job, JobReport, JobRequest, JobState, NotSubmitted, Refusal, Submission

_EARLY_S = 5.0  # schedulers look at their jobs every few seconds


Ask = Callable[[Sequence[str]], subprocess.CompletedProcess[str] | None]
"""Runs one of a scheduler's commands; None if it does not answer."""


def answer_of(command: Sequence[str], ask: Ask, title: str, hint: str) -> str:
    """Return what a scheduler's command prints.

    Raises
    ------
    ToolError
        There is no such command, or it does not work now.
    """
    if shutil.which(command[0]) is None:
        raise ToolError(
            f"{title} does not answer",
            why=f"{command[0]} is not on PATH",
            hint="run this on a login node of the cluster, or load its module; `--profile default` measures here",
        )
    done = ask(command)
    if done is None or done.returncode != 0:
        why = f"{command[0]} takes too long" if done is None else done.stderr.strip()
        raise ToolError(f"{title} does not answer", why=why, hint=hint)
    return done.stdout


@dataclass(frozen=True)
class Partition(Stored):
    """What a partition has; None for what it does not limit.

    Attributes
    ----------
    nodes
        That a job can have.
    cores_per_node, cpus_per_node, memory_mb
        Of the smallest of its nodes; CPUs are hardware threads.
    longest_s
        Time limit of its jobs.
    accounts, qos
        That it takes, of those that this user has.
    """

    kind_of_file = "partition"

    name: str
    nodes: int
    cores_per_node: int
    cpus_per_node: int
    memory_mb: int | None = None
    longest_s: float | None = None
    accounts: tuple[str, ...] | None = None
    qos: tuple[str, ...] | None = None

    def as_described(self, keys: PartitionKeys) -> Partition:
        """Return what of it is used, as a campaign file says it."""
        return replace(self, cores_per_node=min(keys.cores_per_node or self.cores_per_node, self.cores_per_node))


def spread(campaign: Campaign, partitions: Mapping[str | None, Partition]) -> Campaign:
    """Return a campaign with its runs spread over the nodes of its partitions."""
    used = {name: partition.as_described(campaign.described(name)) for name, partition in partitions.items()}
    kinds = {name: NodeKind(part.cores_per_node, part.cpus_per_node) for name, part in used.items()}
    return replace(campaign, node_kinds=kinds) if kinds else campaign


@dataclass(frozen=True)
class Allocation:
    """What a job was given.

    Attributes
    ----------
    restarts
        How often the scheduler started it again.
    left_s
        Time that was left when the scheduler was asked, by its own clock; None without a limit.
    queried_s
        When that was, on this process's monotonic clock.
    time_limit_s
        None without a limit.
    exclusive
        Whether nobody else can be on its nodes.
    waited_s
        From being submitted to being started.
    elapsed_s
        Since it was started, when the scheduler was asked.
    purpose
        As in `Job`.
    node_list
        The nodes in the scheduler's own notation.
    """

    job: str
    restarts: int
    nodes: tuple[str, ...]
    tasks: int
    cpus: int
    cpus_per_task: int
    left_s: float | None
    queried_s: float
    time_limit_s: float | None
    exclusive: bool
    waited_s: float | None
    partition: str
    account: str | None
    qos: str | None
    constraint: str | None
    purpose: str
    node_list: str
    elapsed_s: float = 0.0

    def is_for(self, bundle: str) -> bool:
        """Tell whether the job was submitted for a bundle, and not by a user for whatever runs inside."""
        return self.purpose.endswith(bundle)

    def time_is_over(self) -> bool:
        """Tell whether the scheduler ends the job about now for lack of time."""
        return self.left_s is not None and time.monotonic() - self.queried_s >= self.left_s - _EARLY_S


class Scheduler(Protocol):
    """A scheduler. Whoever subclasses this says only what differs from having no jobs at all.

    Attributes
    ----------
    name
        As claims and records name it.
    title
        As sentences name it.
    submit_program
        What submits jobs.
    prelude
        Lines that begin a job's script: for what its shell does not leave as it was when the job was submitted.
    """

    name: str
    title: str
    submit_program: str | None = None
    prelude: str = ""

    def is_available(self) -> bool:
        """Tell whether its commands are on PATH."""
        return False

    def finding(self) -> Finding | None:
        """Return how it stands on this machine, for ``buran doctor``; None for nothing to say."""
        return None

    # The job that this process runs in

    def this_job(self) -> str | None:
        """Return its number; None outside of this scheduler's jobs."""
        return None

    def this_node(self) -> str | None:
        """Return the name of this node as the scheduler knows it, inside a job."""
        return None

    def allocation(self) -> Allocation | None:
        """Return what this job was given; None outside of jobs. Raises `RunError` if the scheduler does not say."""
        return None

    def why_ended(self, allocation: Allocation) -> str | None:
        """Return why this job is over, or may be, although this process still runs; None if it goes on.

        Schedulers end programs and the process that measures them in any order.
        """
        return None

    def outages(self) -> Callable[[], bool] | None:
        """Return what tells whether it was away, or started again, since the last call; None if nothing does.

        While it is away, launchers that ask it for resources wait or fail.
        """
        return None

    def first_failure(self, log: Path) -> str | None:
        """Return what the scheduler's launcher wrote of the first rank that failed, as it may end the others itself."""
        return None

    def launcher_waited(self, log: Path) -> str | None:
        """Return what the scheduler's launcher wrote of having waited for room: that is in the run's wall time."""
        return None

    def partition(self, name: str | None, constraint: str | None) -> Partition | None:
        """Return what a partition has, without a name the usual one; None if there are no partitions.

        Parameters
        ----------
        constraint
            Features that its nodes must have.

        Raises
        ------
        ConfigError
            There is no such partition, none is the usual one, or it has no node with these features.
        ToolError
            The scheduler does not answer.
        """
        return None

    def partitions(self) -> tuple[str, ...]:
        """Return the names of its partitions, the usual one first; raises `ToolError` if it does not answer."""
        return ()

    def cluster(self) -> str | None:
        """Return the name of the cluster; None if it has none. Raises `ToolError` if it does not answer."""
        return None

    # Jobs of others

    def job_state(self, job: str, restarts: int) -> JobState:
        """Ask what became of a job that had been started again so often when it was known last."""
        return JobState.UNKNOWN

    def restarts(self, job: str) -> int:
        """Return how often a job was started again; zero if that is not known."""
        return 0

    def campaign_jobs(self, folder: Path) -> list[Job] | None:
        """Return the queued and running jobs that work in a campaign's folder; None without an answer."""
        return []

    def never_starts(self, job: Job) -> str | None:
        """Return what to do about a queued job that waits for what waiting alone may never bring; None for others."""
        return None

    def cancel(self, jobs: Sequence[Job]) -> None:
        """Cancel jobs; raises `ToolError` if that fails."""
        return None

    # Jobs of ours, which the workflow engine's executor `buran` submits

    def largest_array(self) -> int:
        """Return how many tasks an array of jobs may have; 1 where there are no arrays."""
        return 1

    def submit_command(self, folder: Path, request: JobRequest, submission: Submission, script: Path) -> list[str]:
        """Return the command that submits a script which is to run in a folder; nothing where it is not shown.

        Raises
        ------
        NotSubmitted
            It cannot be requested here.
        """
        return []

    def submit(self, folder: Path, request: JobRequest, submission: Submission, script: Path) -> str:
        """Submit a script that is to run in a folder; return the number of the job, or of the array.

        Raises
        ------
        NotSubmitted
            It was not taken, as far as this can be known.
        """
        raise NotSubmitted(f"{self.title} takes no jobs from the executor buran", Refusal.FINAL)

    def task_numbers(self, number: str, tasks: int) -> list[str]:
        """Return the numbers of an array's jobs, by the array's own."""
        return [f"{number}_{task}" for task in range(tasks)]

    def reports(self, jobs: Sequence[str]) -> Mapping[str, JobReport] | None:
        """Return what is known of jobs, all at once, without those it does not know; None without an answer."""
        return None

    def forgotten(self, job: str, folder: Path) -> JobReport:
        """Return what can be said of a job that works in a folder and that the scheduler does not know any more."""
        return JobReport("FORGOTTEN", True, False, True, "is gone, and nobody knows how it ended")

    def array_task(self) -> int | None:
        """Return the number of this process's task in an array of jobs; None outside of arrays."""
        return None

    # The workflow engine, which submits jobs

    def serves(self, profile: Mapping[str, object]) -> bool:
        """Tell whether jobs of a profile of the workflow engine, given by its settings, are this scheduler's."""
        return profile.get("executor") == "buran" and profile.get("buran-scheduler") == self.name

    def check_submission(self) -> None:
        """Raise `ToolError` if jobs cannot be submitted on this machine."""
        if not self.is_available():
            raise ToolError(
                f"there is no {self.title} here",
                why=f"{self.submit_program or 'its command'} is not on PATH",
                hint="run this on a login node of the cluster, or load its module; `--profile default` measures here",
            )

    def worked_in(self, folder: Path) -> bool:
        """Tell whether jobs were submitted for the campaign in a folder, where they leave their logs."""
        return (folder / "logs" / self.name).is_dir()


def mismatch(scheduler: Scheduler, allocation: Allocation, placement: Placement, *, exact: bool) -> str | None:
    """Return how an allocation differs from the one a run needs, as text; None if it does not.

    Parameters
    ----------
    exact
        Whether more than needed is a difference too: it is where the job was submitted for this run.
    """
    pairs = [
        ("nodes", len(allocation.nodes), placement.nodes),
        ("tasks", allocation.tasks, placement.ranks),
        ("CPUs a task", allocation.cpus_per_task, placement.threads),
        ("CPUs", allocation.cpus, placement.ranks * placement.threads),
    ]
    problems = []
    for what, have, need in pairs:
        is_count = what in ("nodes", "tasks")
        differs = have != need if exact and is_count else have < need
        if differs and (exact or what in ("nodes", "CPUs")):  # in a user's own job only room counts
            problems.append(f"{have} {what} instead of {need}")
    return f"{scheduler.title} gave {', '.join(problems)} (job {allocation.job})" if problems else None


def misplaced(hosts: Iterable[str], placement: Placement) -> str | None:
    """Return as text that a program's ranks said they ran on another number of nodes than wanted; None if not."""
    names = sorted(set(hosts))
    if len(names) == placement.nodes:
        return None
    return f"the ranks ran on {len(names)} nodes instead of {placement.nodes}: {', '.join(names)}"


class NoScheduler(Scheduler):
    """Has no jobs."""

    name = "none"
    title = "no scheduler"


NONE = NoScheduler()


SCHEDULERS: ExtensionPoint[Scheduler] = ExtensionPoint(
    "scheduler",
    "buran.schedulers",
    Scheduler,
    {
        "none": "buran.measurement.schedulers.base:NONE",
        "slurm": "buran.measurement.schedulers.slurm:SLURM",
    },
)


def current_scheduler() -> Scheduler:
    """Return the scheduler in one of whose jobs this process runs; `NONE` outside of jobs."""
    return next((scheduler for scheduler in SCHEDULERS if scheduler.this_job() is not None), NONE)


def scheduler_of_profile(settings: Mapping[str, object]) -> Scheduler:
    """Return the scheduler whose jobs a profile of the workflow engine submits; `NONE` if it is none we know.

    Raises
    ------
    UsageError
        The profile names one that belongs to a plug-in or distribution that is not installed.
    """
    named = settings.get("buran-scheduler")
    if settings.get("executor") == "buran" and isinstance(named, str) and named in SCHEDULERS.possible_names:
        return SCHEDULERS.load(named)
    return next((scheduler for scheduler in SCHEDULERS if scheduler.serves(settings)), NONE)


def scheduler_of_campaign(folder: Path, *, had_jobs: bool) -> Scheduler:
    """Return the scheduler on this machine that has, or may have, jobs of the campaign in a folder; else `NONE`.

    Parameters
    ----------
    had_jobs
        Whether some of its measurements ran in jobs, of whichever scheduler.
    """
    available = [scheduler for scheduler in SCHEDULERS if scheduler.is_available()]
    return next(
        (scheduler for scheduler in available if scheduler.worked_in(folder)),
        available[0] if available and had_jobs else NONE,
    )


def first_failure(log: Path) -> str | None:
    """Return what any scheduler's launcher wrote of the first rank that failed; None if it wrote nothing."""
    return next((words for scheduler in SCHEDULERS if (words := scheduler.first_failure(log))), None)
