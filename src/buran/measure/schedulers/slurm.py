"""What Slurm says: a campaign's jobs, the state of one job, and what this job was really given."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from pathlib import Path

from buran.campaign.launcher import Placement
from buran.errors import RunError, ToolError

ENDED_STATES = frozenset(("COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "OUT_OF_MEMORY", "DEADLINE"))
LOST_STATES = frozenset(("NODE_FAIL", "BOOT_FAIL"))
CONF_VARIABLE = "BURAN_SLURM_CONF"
"""Carries SLURM_CONF into jobs: the workflow engine removes variables of that name there."""

_TIMEOUT_S = 30.0
_EARLY_S = 5.0  # Slurm looks at its jobs every few seconds
_PATIENCE_S = 900.0
_ASK_AGAIN_S = 5.0


class JobState(Enum):
    """What can be known of a job."""

    LIVE = "live"  # queued or running, not restarted since
    ENDED = "ended"  # all its processes are gone
    LOST = "lost"  # ended without its node's word for it, or started anew: processes may live on
    UNKNOWN = "unknown"  # Slurm does not answer


@dataclass(frozen=True)
class Job:
    """A job in the queue.

    Attributes
    ----------
    comment
        As the workflow engine sets it: rule and wildcards.
    reason
        Why it waits, in Slurm's words; the nodes it runs on otherwise.
    """

    id: str
    state: str
    comment: str
    reason: str


@dataclass(frozen=True)
class Allocation:
    """What Slurm gave to a job.

    Attributes
    ----------
    restarts
        How often Slurm started it anew.
    left_s
        Time that was left when Slurm was asked, by its own clock; None without a limit.
    asked_s
        When that was, on this process's monotonic clock.
    time_limit_s
        None without a limit.
    exclusive
        Whether nobody else can be on its nodes.
    waited_s
        From being submitted to being started.
    """

    job: str
    restarts: int
    nodes: tuple[str, ...]
    tasks: int
    cpus: int
    cpus_per_task: int
    left_s: float | None
    asked_s: float
    time_limit_s: float | None
    exclusive: bool
    waited_s: float | None
    partition: str
    account: str | None
    qos: str | None
    constraint: str | None
    comment: str
    node_list: str

    def is_for(self, bundle: str) -> bool:
        """Tell whether the job was submitted for a bundle, and not by a user for whatever runs inside."""
        return self.comment.endswith(bundle)

    def time_is_over(self) -> bool:
        """Tell whether Slurm ends the job about now for lack of time."""
        return self.left_s is not None and time.monotonic() - self.asked_s >= self.left_s - _EARLY_S


def is_available() -> bool:
    """Tell whether Slurm's commands are on PATH."""
    return shutil.which("squeue") is not None


def this_job() -> str | None:
    """Return the number of the Slurm job this process runs in."""
    return os.environ.get("SLURM_JOB_ID")


def this_node() -> str | None:
    """Return the name of this node in Slurm, inside a job."""
    return os.environ.get("SLURMD_NODENAME") if this_job() else None


def _ask(command: Sequence[str]) -> subprocess.CompletedProcess[str] | None:
    """Run one of Slurm's commands; None if it is missing or does not answer in time."""
    environment = {**os.environ, **_conf()}
    try:
        return subprocess.run(
            list(command), capture_output=True, text=True, timeout=_TIMEOUT_S, env=environment, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None


def _conf() -> dict[str, str]:
    conf = os.environ.get(CONF_VARIABLE)
    return {"SLURM_CONF": conf} if conf and "SLURM_CONF" not in os.environ else {}


def job_state(job: str, restarts: int) -> JobState:
    """Ask what became of a job.

    Parameters
    ----------
    restarts
        How often it had been started anew when it was known last.
    """
    fields = show_job(job)
    if isinstance(fields, JobState):
        return fields
    state = fields["JobState"]
    if int(fields.get("Restarts", "0")) > restarts or state in LOST_STATES:
        return JobState.LOST
    return JobState.ENDED if state in ENDED_STATES else JobState.LIVE


def why_ended(given: Allocation) -> str | None:
    """Return why this job is over, or may be, although this process still runs; None if it goes on.

    Slurm ends programs and the process that measures them in any order. While it is away, nothing can be said.
    """
    fields = _insist(given.job)
    if isinstance(fields, JobState):
        return f"Slurm did not tell what became of its job {given.job}"
    if fields["JobState"] == "RUNNING" and int(fields.get("Restarts", "0")) == given.restarts:
        return None
    return f"Slurm ended its job {given.job} ({fields['JobState']})"


def show_job(job: str) -> dict[str, str] | JobState:
    """Return what Slurm's controller knows of a job; `ENDED` if it has forgotten it, `UNKNOWN` without an answer."""
    done = _ask(["scontrol", "show", "job", "--details", "--oneliner", job])
    if done is None:
        return JobState.UNKNOWN
    if done.returncode == 0 and done.stdout.strip():
        return parse_job(done.stdout)
    return JobState.ENDED if "nvalid job id" in done.stdout + done.stderr else JobState.UNKNOWN


def parse_job(text: str) -> dict[str, str]:
    """Parse the one line that ``scontrol show job --oneliner`` prints; the first of equal keys counts."""
    fields: dict[str, str] = {}
    for key, value in re.findall(r"(?:^|\s)([A-Za-z_:/]+)=(\S*)", text):
        fields.setdefault(key, value)
    return fields


def campaign_jobs(folder: Path) -> list[Job] | None:
    """Return the queued and running jobs that work in a campaign's folder; None if Slurm does not answer."""
    done = _ask(["squeue", "--me", "--noheader", "--format", "%i|%T|%k|%R|%Z"])
    if done is None or done.returncode != 0:
        return None
    wanted = folder.resolve()
    jobs = []
    for line in done.stdout.splitlines():
        number, state, comment, reason, place = line.split("|", 4)
        if Path(place).resolve() == wanted:
            jobs.append(Job(number, state, comment, reason))
    return jobs


def cancel(jobs: Sequence[Job]) -> None:
    """Cancel jobs.

    Raises
    ------
    ToolError
        Slurm does not answer.
    """
    if not jobs:
        return
    done = _ask(["scancel", *(job.id for job in jobs)])
    if done is None or done.returncode != 0:
        why = done.stderr.strip() if done else "scancel is missing or does not answer"
        raise ToolError("the jobs could not be cancelled", why=why, hint=f"scancel {' '.join(job.id for job in jobs)}")


def has_accounting() -> bool:
    """Tell whether ``sacct`` answers from a database; without one it answers too, but knows nothing."""
    shown = _ask(["scontrol", "show", "config"])
    if shown is None or shown.returncode != 0:
        return False
    kind = re.search(r"^AccountingStorageType\s*=\s*(\S+)", shown.stdout, re.MULTILINE)
    if kind is None or kind[1] in ("(null)", "accounting_storage/none"):
        return False
    done = _ask(["sacct", "-X", "--noheader", "--starttime", "now-1minutes", "--format", "JobIDRaw"])
    return done is not None and done.returncode == 0


def allocation() -> Allocation | None:
    """Return what this job was given; None outside of Slurm.

    Raises
    ------
    RunError
        This is a job, but Slurm does not tell what it was given.
    """
    job = this_job()
    if job is None:
        return None
    fields = _insist(job)
    if isinstance(fields, JobState):
        raise RunError("Slurm does not tell what this job was given", where=f"job {job}")
    return allocation_of(fields)


def _insist(job: str) -> dict[str, str] | JobState:
    """Ask about this job until Slurm answers; it may be away for minutes."""
    deadline = time.monotonic() + _PATIENCE_S
    while (fields := show_job(job)) is JobState.UNKNOWN and time.monotonic() < deadline:
        time.sleep(_ASK_AGAIN_S)
    return fields


class Outages:
    """Notices that Slurm was away: while it is, launchers that ask it for a step wait or fail."""

    def __init__(self) -> None:
        self._start = _controller_start()

    def one_since(self) -> bool:
        """Tell whether Slurm's controller was started anew, or has not answered, since this was asked last."""
        before, self._start = self._start, _controller_start()
        return before is None or before != self._start


def _controller_start() -> str | None:
    shown = _ask(["scontrol", "show", "config"])
    found = re.search(r"^BOOT_TIME\s*=\s*(\S+)", shown.stdout, re.MULTILINE) if shown else None
    return found and found[1]


def allocation_of(fields: Mapping[str, str]) -> Allocation:
    """Read an allocation from the fields of ``scontrol show job``."""
    limit_s = seconds(fields.get("TimeLimit", "UNLIMITED"))
    nodes = fields.get("NodeList", "(null)")
    return Allocation(
        job=fields["JobId"],
        restarts=int(fields.get("Restarts", "0")),
        nodes=expand_nodes("" if nodes == "(null)" else nodes),
        tasks=int(fields.get("NumTasks", "1")),
        cpus=int(fields["NumCPUs"]),
        cpus_per_task=int(fields.get("CPUs/Task", "1")) if fields.get("CPUs/Task", "1").isdigit() else 1,
        left_s=None if limit_s is None else limit_s - (seconds(fields.get("RunTime", "")) or 0.0),
        asked_s=time.monotonic(),
        time_limit_s=limit_s,
        exclusive=fields.get("OverSubscribe") == "NO",
        waited_s=_between(fields.get("SubmitTime"), fields.get("StartTime")),
        partition=fields.get("Partition", ""),
        account=_given(fields.get("Account")),
        qos=_given(fields.get("QOS")),
        constraint=_given(fields.get("Features")),
        comment=fields.get("Comment", ""),
        node_list=nodes,
    )


def _between(first: str | None, second: str | None) -> float | None:
    try:
        return (datetime.fromisoformat(str(second)) - datetime.fromisoformat(str(first))).total_seconds()
    except ValueError:
        return None


def _given(text: str | None) -> str | None:
    return None if text in (None, "(null)", "") else text


def seconds(limit: str) -> float | None:
    """Return a time limit as Slurm writes it, ``[days-]hours:minutes:seconds``, in seconds; None for no limit."""
    found = re.fullmatch(r"(?:(\d+)-)?(\d+):(\d+):(\d+)", limit)
    if found is None:
        return None
    days, hours, minutes, rest = (int(each or 0) for each in found.groups())
    return float(((days * 24 + hours) * 60 + minutes) * 60 + rest)


def expand_nodes(text: str) -> tuple[str, ...]:
    """Write a list such as ``n[01-03,7],login`` out, name by name."""
    nodes: list[str] = []
    for part in re.findall(r"(?:[^,\[]|\[[^\]]*\])+", text):
        nodes.extend(_expand(part))
    return tuple(nodes)


def _expand(part: str) -> list[str]:
    found = re.search(r"\[([^\]]*)\]", part)
    if found is None:
        return [part]
    names = []
    for span in found[1].split(","):
        first, dash, last = span.partition("-")
        numbers = [str(each).zfill(len(first)) for each in range(int(first), int(last) + 1)] if dash else [first]
        for number in numbers:
            names.extend(_expand(part[: found.start()] + number + part[found.end() :]))
    return names


def mismatch(given: Allocation, wanted: Placement, *, exact: bool) -> str | None:
    """Return how an allocation differs from the one a run needs, in words; None if it does not.

    Parameters
    ----------
    exact
        Whether more than needed is a difference too: it is where the job was submitted for this run.
    """
    pairs = [
        ("nodes", len(given.nodes), wanted.nodes),
        ("tasks", given.tasks, wanted.ranks),
        ("CPUs a task", given.cpus_per_task, wanted.threads),
        ("CPUs", given.cpus, wanted.ranks * wanted.threads),
    ]
    problems = []
    for what, have, need in pairs:
        is_count = what in ("nodes", "tasks")
        differs = have != need if exact and is_count else have < need
        if differs and (exact or what in ("nodes", "CPUs")):  # in a user's own job only room counts
            problems.append(f"{have} {what} instead of {need}")
    return f"Slurm gave {', '.join(problems)} (job {given.job})" if problems else None


def misplaced(hosts: Iterable[str], wanted: Placement) -> str | None:
    """Return in words that a program's ranks said they ran on another number of nodes than wanted; None if not."""
    names = sorted(set(hosts))
    if len(names) == wanted.nodes:
        return None
    return f"the ranks ran on {len(names)} nodes instead of {wanted.nodes}: {', '.join(names)}"


def first_failure(log: Path) -> str | None:
    """Return what srun says of the first task that failed; its exit code may be that of a task it ended."""
    ends = re.findall(r"^srun: error: (\S+: tasks? [^:]+: .*)$", log.read_text(errors="replace"), re.MULTILINE)
    return next((end for end in ends if not end.endswith((": Terminated", ": Killed"))), None)


def launch_variables(given: Allocation, placement: Placement) -> dict[str, str]:
    """Return the variables by which launchers know an allocation; the workflow engine removes them in its jobs."""
    nodes = str(len(given.nodes))
    fullest = placement.ranks_per_node
    per_node = f"{fullest}(x{nodes})" if len(given.nodes) > 1 else str(fullest)
    return {
        **_conf(),
        "SLURM_JOB_ID": given.job,
        "SLURM_JOBID": given.job,
        "SLURM_JOB_NODELIST": given.node_list,
        "SLURM_NODELIST": given.node_list,
        "SLURM_JOB_NUM_NODES": nodes,
        "SLURM_NNODES": nodes,
        "SLURM_NTASKS": str(placement.ranks),
        "SLURM_NPROCS": str(placement.ranks),
        "SLURM_TASKS_PER_NODE": per_node,
        "SLURM_RESTART_COUNT": str(given.restarts),
    }
