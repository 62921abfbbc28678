"""Driving a campaign whose measurements are Slurm jobs: what the workflow engine alone does not get right."""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from buran.errors import ToolError
from buran.measure.schedulers import slurm

MOST_RESTARTS = 5
_QUIET_S = 400.0  # the engine looks into the queue every 180 s at the latest
_CHECK_S = 10.0
_WAIT_POLL_S = 2.0
_ENDED_JOB = re.compile(r"SLURM-job '(\d+)' failed\b.{0,200}?SLURM status is:\s*'(\w+)'", re.DOTALL)
_REFUSED = re.compile(r"SLURM sbatch failed\. The error message was '(.*?)'\.", re.DOTALL)
_NOT_SUBMITTED = re.compile(
    r"Job submission failed with exception: (?!SLURM sbatch failed)(.*?)For further error details", re.DOTALL
)
_NEXT_STEPS = {  # the first that fits
    r"\baccount\b": "`sacctmgr show associations user=$USER` lists yours; say which in resources.account",
    r"partition": "`sinfo` lists the partitions; say which in resources.partition",
    r"\bqos\b": "`sacctmgr show qos` lists them; say which in resources.qos",
    r"feature|constraint": "`sinfo -o '%N %f'` lists what nodes have; see resources.constraint",
    r"reservation": "`scontrol show reservation` lists them; see resources.reservation",
    r"memory": "`sinfo -o '%N %m'` lists what nodes have; see resources.memory_mb",
    r"time limit": "`sinfo -o '%P %l'` lists the partitions' limits; see resources.time_limit_s and time_margin",
    r"node count|node configuration|cpu count|more processors": "see resources.nodes, tasks_per_node and threads",
    r"credential|authentication|munge": "the clocks here and of Slurm differ, or munged is down: `munge -n | unmunge`",
}
_NEVER_STARTS = re.compile(
    r"Partition|BadConstraints|JobHeld|Held|DependencyNeverSatisfied|NotAllowed|Invalid|ReqNodeNotAvail|"
    r"(Assoc|QOS)\w*(PerJob|Minutes|Wall|Min)|launch failed"
)
_NEXT_STEP_OF_REASON = {
    "PartitionTimeLimit": "the partition gives less time: see resources.time_limit_s, expected_s and time_margin",
    "PartitionConfig": "the partition has less than that: see resources.nodes, tasks_per_node and threads, and `sinfo`",
    "PartitionNodeLimit": "the partition gives fewer nodes: see resources.nodes",
    "PartitionDown": "ask the operators of the cluster, or choose another in resources.partition",
    "ReqNodeNotAvail": "its nodes are down or reserved: `sinfo -R` says why",
}
_NO_ANSWER = re.compile(r"Unable to contact slurm controller|Connection refused|Socket timed out", re.IGNORECASE)


def next_step(why: str) -> str:
    """Return what to do about Slurm's complaint, after a colon; empty if nothing is known of it."""
    found = (step for pattern, step in _NEXT_STEPS.items() if re.search(pattern, why, re.IGNORECASE))
    return next((f": {step}" for step in found), "")


@dataclass(frozen=True)
class StuckJobs:
    """Tells, once for each reason, of queued jobs that wait for something that waiting alone may never bring.

    Attributes
    ----------
    say
        Called with what is wrong and what to do.
    """

    say: Callable[[str], None]
    _told: set[str] = field(default_factory=set)

    def look(self, jobs: Iterable[slurm.Job]) -> None:
        """Look through the queue."""
        reasons = Counter(job.reason.strip("()") for job in jobs if job.state == "PENDING")
        for reason, number in reasons.items():
            if _NEVER_STARTS.match(reason) and reason not in self._told:
                self._told.add(reason)
                known = (step for key, step in _NEXT_STEP_OF_REASON.items() if reason.startswith(key))
                step = next(known, "`scontrol show job` tells more")
                self.say(f"{number} jobs may never start ({reason}): {step}; `buran run --cancel` and Ctrl-C end them")


def engine_options() -> list[str]:
    """Return what the Slurm executor must be told on this machine.

    Raises
    ------
    ToolError
        There is no Slurm here.
    """
    if not slurm.is_available():
        raise ToolError(
            "there is no Slurm here",
            why="squeue is not on PATH",
            hint="run this on a login node of the cluster, or load its module; `--profile default` measures here",
        )
    accounting = slurm.has_accounting()
    command = ["--slurm-status-command", "sacct" if accounting else "squeue"]
    return command if accounting else [*command, "--slurm-no-account"]


def wait_for_jobs(folder: Path, stuck: StuckJobs, beat: Callable[[], None]) -> None:
    """Wait for jobs that an earlier controller left in the queue: they measure what would be measured twice.

    Parameters
    ----------
    stuck
        Is shown the queue, and says how many jobs are left.
    beat
        Called every few seconds.
    """
    told = None
    while True:
        beat()
        jobs = slurm.campaign_jobs(folder)
        if jobs == []:
            return
        stuck.look(jobs or ())
        if jobs is None:
            news = "Slurm does not answer; waiting until it does"
        else:
            states = Counter(job.state.lower() for job in jobs)
            news = "waiting for jobs that are still in the queue: " + ", ".join(
                f"{number} {state}" for state, number in sorted(states.items())
            )
        if news != told:
            stuck.say(news)
            told = news
        time.sleep(_WAIT_POLL_S)


@dataclass
class Watchdog:
    """Notices an engine that waits for jobs which are not in the queue any more, and jobs that will never start.

    Attributes
    ----------
    beat
        Called at each look.
    stuck
        Is shown the queue now and then.
    quiet_s
        How long the engine must have been silent, with nothing in the queue and nothing running here.
    """

    folder: Path
    log: Path
    beat: Callable[[], None] = lambda: None
    stuck: StuckJobs = field(default_factory=lambda: StuckJobs(lambda text: None))
    quiet_s: float = field(default_factory=lambda: float(os.environ.get("BURAN_WATCHDOG_S", _QUIET_S)))
    _checked: float = field(default_factory=time.monotonic)
    _suspicious_since: float | None = None
    _asked: float = field(default_factory=time.monotonic)

    def engine_hangs(self, engine: int) -> bool:
        """Look, now and then; an outage of Slurm proves nothing and starts the time anew."""
        now = time.monotonic()
        if now - self._checked < min(_CHECK_S, self.quiet_s / 4):
            return False
        self._checked = now
        self.beat()
        self._look_for_stuck_jobs(now)
        if self._silence_s() < self.quiet_s or _children(engine) or slurm.campaign_jobs(self.folder) != []:
            self._suspicious_since = None
            return False
        if self._suspicious_since is None:
            self._suspicious_since = now
        return now - self._suspicious_since >= self.quiet_s / 2

    def _look_for_stuck_jobs(self, now: float) -> None:
        if now - self._asked >= self.quiet_s / 8:
            self._asked = now
            self.stuck.look(slurm.campaign_jobs(self.folder) or ())

    def _silence_s(self) -> float:
        try:
            return time.time() - self.log.stat().st_mtime
        except FileNotFoundError:
            return 0.0


def _children(parent: int) -> list[str]:
    """Return the names of a process's children, without those that ask Slurm."""
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            with contextlib.suppress(OSError):
                name, _, rest = (process / "stat").read_text().partition("(")[2].rpartition(")")
                if int(rest.split()[1]) == parent and name not in ("squeue", "sacct", "scontrol"):
                    found.append(name)
    return found


@dataclass(frozen=True)
class JobEnds:
    """How jobs ended that did not succeed.

    Attributes
    ----------
    states
        Slurm's state by job.
    refused
        Why jobs could not be submitted.
    """

    states: dict[str, str]
    refused: tuple[str, ...]

    @property
    def may_resume(self) -> bool:
        """Tell whether starting again can help: time can be longer, nodes others, Slurm back."""
        if any(not _NO_ANSWER.search(why) for why in self.refused):
            return False
        return bool(self.states or self.refused) and set(self.states.values()) <= {"TIMEOUT", *slurm.LOST_STATES}

    def in_words(self) -> list[str]:
        """Name each."""
        words = {
            "TIMEOUT": "ran out of time",
            "CANCELLED": "was cancelled",
            "NODE_FAIL": "lost its node",
            "OUT_OF_MEMORY": "ran out of memory (resources.memory_mb)",
        }
        ends = [f"Slurm job {job} {words.get(state, f'ended as {state}')}" for job, state in self.states.items()]
        return [*ends, *(f"Slurm refused a job: {why}{next_step(why)}" for why in dict.fromkeys(self.refused))]


def job_ends(log: Path) -> JobEnds:
    """Read from the engine's log what became of its jobs."""
    text = log.read_text(errors="replace") if log.is_file() else ""
    refused = [*_REFUSED.findall(text), *_NOT_SUBMITTED.findall(text)]
    return JobEnds(dict(_ENDED_JOB.findall(text)), tuple(" ".join(why.split()) for why in refused))
