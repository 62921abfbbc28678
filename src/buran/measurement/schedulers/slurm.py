"""Slurm: its jobs, and what a job was really given."""

from __future__ import annotations

import getpass
import os
import re
import shlex
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path

from buran.errors import RunError, ToolError
from buran.measurement.finding import Finding, Health
from buran.measurement.schedulers.base import Allocation, Partition, Scheduler, answer_of
from buran.measurement.schedulers.jobs import (
    Job,
    JobReport,
    JobRequest,
    JobState,
    NotSubmitted,
    Refusal,
    Submission,
    expand_nodes,
    meaning_of,
    purpose_of,
    report_of,
    state_in_full,
)
from buran.measurement.schedulers.slurm_words import (
    NODES_FORMAT,
    next_step,
    partition_of,
    refusal_of,
    seconds,
    step_to_start,
    usual_or_named,
)

CONFIG = ("scontrol", "show", "config")
_TIMEOUT_S = 30.0  # of one of Slurm's commands
_PATIENCE_S = 900.0  # with a Slurm that does not answer
_ASK_AGAIN_S = 5.0  # between two tries meanwhile
_OF_A_JOB = ("SLURM_JOB", "SLURM_N", "SLURM_TASK", "SLURM_CPU", "SLURM_MEM", "SLURM_STEP", "SLURM_ARRAY", "SLURMD_")
_FOREIGN_SETTINGS = ("SLURM_TIME_FORMAT", "SLURM_BITSTR_LEN", "SQUEUE_", "SACCT_")  # change what is printed


class Slurm(Scheduler):
    """Slurm, as its commands show it."""

    name = "slurm"
    title = "Slurm"
    submit_program = "sbatch"

    def is_available(self) -> bool:
        """Tell whether Slurm's commands are on PATH."""
        return shutil.which("squeue") is not None

    def finding(self) -> Finding:
        """Tell whether it answers, and whether it keeps accounts."""
        if not self.is_available():
            costs = "campaigns run on this machine alone (there are profiles for other schedulers, too)"
            return Finding(
                "Slurm", Health.MISSING, "no sbatch in PATH", costs, "try it on one machine: make slurm-sandbox"
            )
        if self.campaign_jobs(Path()) is None:
            costs = "the profile slurm cannot follow its jobs; campaigns run on this machine alone"
            remedy = "ask the controller: scontrol ping; a Slurm of its own to try it: make slurm-sandbox"
            return Finding("Slurm", Health.LIMITED, "installed, but squeue gets no answer", costs, remedy)
        if not has_accounting():
            costs = "after a restart of slurmctld, ends of jobs are only known for as long as it remembers them"
            return Finding(
                "Slurm", Health.LIMITED, "answers, but keeps no accounting", costs, "ask the site for slurmdbd"
            )
        return Finding("Slurm", Health.WORKS, "answers, with accounting")

    def this_job(self) -> str | None:
        """Return the number of the Slurm job this process runs in."""
        return os.environ.get("SLURM_JOB_ID")

    def this_node(self) -> str | None:
        """Return the name of this node in Slurm, inside a job."""
        return os.environ.get("SLURMD_NODENAME") if self.this_job() else None

    def allocation(self) -> Allocation | None:
        """Return what this job was given; None outside of Slurm. Raises `RunError` if Slurm does not say."""
        job = self.this_job()
        if job is None:
            return None
        fields = _insist(job)
        if isinstance(fields, JobState):
            hint = "load Slurm's module; outside of jobs: unset SLURM_JOB_ID"
            raise RunError("Slurm does not report what this job was given", where=f"SLURM_JOB_ID={job}", hint=hint)
        return allocation_of(fields)

    def why_ended(self, allocation: Allocation) -> str | None:
        """Return why this job is over, or may be, although this process still runs; None if it goes on.

        Slurm ends programs and the process that measures them in any order. While it is away, nothing can be said.
        """
        fields = _insist(allocation.job)
        if isinstance(fields, JobState):
            return f"Slurm did not report what became of its job {allocation.job}"
        if state_in_full(fields["JobState"]) == "RUNNING" and int(fields.get("Restarts", "0")) == allocation.restarts:
            return None
        return f"Slurm ended its job {allocation.job} ({fields['JobState']})"

    def outages(self) -> Callable[[], bool]:
        """Return what tells whether its controller was started again, or has not answered, since the last call."""
        start = _setting("BOOT_TIME")

        def one_since() -> bool:
            nonlocal start
            before, start = start, _setting("BOOT_TIME")
            return before is None or before != start

        return one_since

    def first_failure(self, log: Path) -> str | None:
        """Return what srun says of the first task that failed; its exit code may be that of a task it ended."""
        text = log.read_text(errors="replace")
        memory = re.search(r"error: (.*(?:oom.kill event|exceeded memory limit).*)$", text, re.MULTILINE)
        if memory is not None:
            return f"{memory[1]}: see resources.memory_mb"
        messages = re.findall(r"^srun: error: (\S+: tasks? [^:]+: .*)$", text, re.MULTILINE)
        return next((end for end in messages if not end.endswith((": Terminated", ": Killed"))), None)

    def launcher_waited(self, log: Path) -> str | None:
        """Return what srun says of a step that it could not create at once."""
        text = log.read_text(errors="replace") if log.is_file() else ""
        waits = re.search(r"^srun: (.*step creation temporarily disabled.*)$", text, re.MULTILINE)
        return waits and waits[1]

    def partition(self, name: str | None, constraint: str | None) -> Partition | None:
        """Ask for its limits and its nodes, and for the accounts of this user."""
        shown = _answer(["scontrol", "show", "partition", "--oneliner"])
        lines = (parse_job(line) for line in shown.splitlines())
        fields = usual_or_named([line for line in lines if "PartitionName" in line], name)
        nodes = _answer(["sinfo", "--noheader", "--partition", fields["PartitionName"], "--format", NODES_FORMAT])
        whose = ["show", "associations", f"user={getpass.getuser()}", "format=Account,QOS"]
        own = ask(["sacctmgr", "--noheader", "--parsable2", *whose]) if has_accounting() else None
        return partition_of(fields, nodes, constraint, own.stdout if own and own.returncode == 0 else None)

    def partitions(self) -> tuple[str, ...]:
        """Ask for those that this user may see."""
        words = _answer(["sinfo", "--noheader", "--format", "%P"]).split()
        return tuple(dict.fromkeys(word.rstrip("*") for word in sorted(words, key=lambda word: word[-1] != "*")))

    def cluster(self) -> str | None:
        """Return what jobs are told, or the controller's own name."""
        given = os.environ.get("SLURM_CLUSTER_NAME")
        shown = None if given else re.search(r"^ClusterName\s*=\s*(\S+)", _answer(CONFIG), re.MULTILINE)
        return given or (shown and shown[1])

    # Jobs of others

    def job_state(self, job: str, restarts: int) -> JobState:
        """Ask what became of a job that had been started again so often when it was known last."""
        fields = show_job(job)
        if isinstance(fields, JobState):
            return fields
        return JobState.LOST if int(fields.get("Restarts", "0")) > restarts else meaning_of(fields["JobState"])

    def restarts(self, job: str) -> int:
        """Ask how often a job was started again."""
        fields = show_job(job)
        return 0 if isinstance(fields, JobState) else int(fields.get("Restarts", "0"))

    def campaign_jobs(self, folder: Path) -> list[Job] | None:
        """Return the queued and running jobs that work in a campaign's folder; None if Slurm does not answer."""
        done = ask(["squeue", "--me", "--array", "--noheader", "--format", "%i|%T|%k|%R|%Z"])
        if done is None or done.returncode != 0 or not _is_a_queue(done.stdout):
            return None
        campaign_folder = folder.resolve()
        jobs = []
        # A list of clusters (SLURM_CLUSTERS) puts a line of its own before each.
        for number, state, comment, reason, job_folder in (
            line.split("|", 4) for line in done.stdout.splitlines() if line.count("|") >= 4
        ):
            if Path(job_folder).resolve() == campaign_folder:
                word, purpose = state_in_full(state), purpose_of(campaign_folder, comment, number.partition("_")[2])
                jobs.append(Job(number, word, purpose, reason, waits=word == "PENDING"))
        return jobs

    def never_starts(self, job: Job) -> str | None:
        """Look at the reason why it is pending."""
        return step_to_start(job.reason.strip("()")) if job.waits else None

    def cancel(self, jobs: Sequence[Job]) -> None:
        """Cancel jobs; raises `ToolError` if Slurm does not answer."""
        if not jobs:
            return
        done = ask(["scancel", *(job.id for job in jobs)])
        if done is None or done.returncode != 0:
            why = done.stderr.strip() if done else "scancel is missing or does not answer"
            raise ToolError(
                "the jobs could not be cancelled", why=why, hint=f"scancel {' '.join(job.id for job in jobs)}"
            )

    def largest_array(self) -> int:
        """Ask for its limit; an array's numbers begin at 0."""
        most = _setting("MaxArraySize")
        return max(int(most), 1) if most and most.isdecimal() else 1

    def submit_command(self, folder: Path, request: JobRequest, submission: Submission, script: Path) -> list[str]:
        """Return ``sbatch`` with its options; the submission is the job's comment, by which it is found again."""
        log = Path("logs", self.name, "%A_%a.log" if submission.is_array else "%j.log")
        wanted = {
            "job-name": f"buran-{submission.id}",
            "comment": submission.purpose,
            "chdir": folder,
            "output": log,
            "array": f"0-{len(submission.names) - 1}" if submission.is_array else None,
            "nodes": request.nodes,
            "ntasks": request.tasks,
            "ntasks-per-node": request.tasks_per_node,
            "cpus-per-task": request.cpus_per_task,
            "time": request.minutes,
            "mem": request.memory_mb,
            "partition": request.partition,
            "account": request.account,
            "constraint": request.constraint,
            "qos": request.qos,
            "reservation": request.reservation,
        }
        options = [f"--{name}={value}" for name, value in wanted.items() if value is not None]
        options += ["--exclusive"] if request.exclusive else []
        own = shlex.split(request.extra) if request.extra else []
        return ["sbatch", "--parsable", "--no-requeue", *options, *own, str(script)]

    def submit(self, folder: Path, request: JobRequest, submission: Submission, script: Path) -> str:
        """Submit it."""
        (folder / "logs" / self.name).mkdir(parents=True, exist_ok=True)
        done = ask(self.submit_command(folder, request, submission, script), submits=True)
        if done is None:
            raise NotSubmitted("sbatch is missing, or does not answer", Refusal.PASSING)
        number = done.stdout.strip().rpartition("\n")[2].partition(";")[0]  # a list of clusters adds which
        if done.returncode == 0 and number.isdecimal():
            return number
        why = " ".join(done.stderr.replace("sbatch: error: ", "").split()) or f"sbatch printed {done.stdout!r}"
        raise NotSubmitted(f"{why}{next_step(why)}", refusal_of(why))

    def reports(self, jobs: Sequence[str]) -> Mapping[str, JobReport] | None:
        """Ask the queue, which knows jobs for minutes after their end, and then the accounting for those it forgot."""
        queue = ask(["squeue", "--me", "--array", "--noheader", "--states=all", "--format", "%i|%T"])
        answered = queue is not None and queue.returncode == 0 and _is_a_queue(queue.stdout)
        states = _states(queue) if queue is not None and answered else {}
        missing = [job for job in jobs if job not in states]
        if missing:
            wanted = ("--format=JobID,State", f"--jobs={','.join(missing)}")
            known = ask(["sacct", "--allocations", "--noheader", "--parsable2", *wanted])
            if known is not None and known.returncode == 0:
                # It may be behind: only ends are sure.
                ended = {job: state for job, state in _states(known).items() if report_of(state).is_over}
                states |= ended
                answered = answered or bool(ended)
        return {job: report_of(states[job]) for job in jobs if job in states} if answered else None

    def array_task(self) -> int | None:
        """Return what Slurm says of it."""
        task = os.environ.get("SLURM_ARRAY_TASK_ID")
        return int(task) if task is not None else None

    def check_submission(self) -> None:
        """Look for its commands and its configuration."""
        super().check_submission()
        conf = os.environ.get("SLURM_CONF")
        if conf and not Path(conf).is_file():
            raise ToolError(
                "Slurm does not answer",
                where=f"SLURM_CONF={conf}",
                why="there is no such file",
                hint="unset SLURM_CONF, or load the module of Slurm again",
            )


SLURM = Slurm()


def _setting(name: str) -> str | None:
    """Return a line of Slurm's configuration; None without one, or without an answer."""
    shown = ask(CONFIG)
    match = re.search(rf"^{name}\s*=\s*(\S+)", shown.stdout, re.MULTILINE) if shown else None
    return match and match[1]


def _is_a_queue(printed: str) -> bool:
    """Tell whether jobs are listed, or none; anything else is no answer, as a notice of the site with exit code 0."""
    lines = [line for line in printed.splitlines() if line.strip() and not line.startswith("CLUSTER:")]
    return not lines or any("|" in line for line in lines)


def _states(done: subprocess.CompletedProcess[str]) -> dict[str, str]:
    """Return states by job from lines of both; other lines are a list of clusters, or in another language."""
    pairs = (line.strip().split("|") for line in done.stdout.splitlines() if line.count("|") == 1)
    return {job: state_in_full(state) for job, state in pairs}


def ask(command: Sequence[str], *, submits: bool = False) -> subprocess.CompletedProcess[str] | None:
    """Run one of Slurm's commands; None if it is missing or does not answer in time.

    Parameters
    ----------
    submits
        Whether it submits a job, which must not inherit the variables of the job that this process runs in. What it
        complained of before its time was over is an answer: sbatch tries again for minutes.
    """
    foreign = (*_FOREIGN_SETTINGS, *_OF_A_JOB) if submits else _FOREIGN_SETTINGS
    environment = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    environment |= {} if submits else {"LC_ALL": "C"}
    try:
        return subprocess.run(
            list(command), capture_output=True, text=True, timeout=_TIMEOUT_S, env=environment, check=False
        )
    except subprocess.TimeoutExpired as late:
        complaint = (late.stderr or b"").decode(errors="replace") if submits else ""
        return subprocess.CompletedProcess(list(command), 1, "", complaint) if complaint.strip() else None
    except OSError:
        return None


def _answer(command: Sequence[str]) -> str:
    return answer_of(command, ask, "Slurm", "`scontrol ping` asks its controller")


def show_job(job: str) -> dict[str, str] | JobState:
    """Return what Slurm's controller knows of a job; `ENDED` if it has forgotten it, `UNKNOWN` without an answer."""
    done = ask(["scontrol", "show", "job", "--details", "--oneliner", job])
    if done is None:
        return JobState.UNKNOWN
    fields = parse_job(done.stdout) if done.returncode == 0 else {}
    if "JobState" in fields:
        return fields
    return JobState.ENDED if "nvalid job id" in done.stdout + done.stderr else JobState.UNKNOWN


def _insist(job: str) -> dict[str, str] | JobState:
    """Ask about this job until Slurm answers, if it can be asked here; it may be away for minutes."""
    if shutil.which("scontrol") is None:
        return JobState.UNKNOWN
    deadline = time.monotonic() + _PATIENCE_S
    while (fields := show_job(job)) is JobState.UNKNOWN and time.monotonic() < deadline:
        time.sleep(_ASK_AGAIN_S)
    return fields


def parse_job(text: str) -> dict[str, str]:
    """Parse the one line that ``scontrol show job --oneliner`` prints; the first of equal keys counts."""
    fields: dict[str, str] = {}
    for key, value in re.findall(r"(?:^|\s)([A-Za-z_:/]+)=(\S*)", text):
        fields.setdefault(key, value)
    return fields


def has_accounting() -> bool:
    """Tell whether ``sacct`` answers from a database; without one it answers too, but knows nothing."""
    if _setting("AccountingStorageType") in (None, "(null)", "accounting_storage/none"):
        return False
    done = ask(["sacct", "-X", "--noheader", "--starttime", "now-1minutes", "--format", "JobIDRaw"])
    return done is not None and done.returncode == 0


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
        queried_s=time.monotonic(),
        time_limit_s=limit_s,
        exclusive=fields.get("OverSubscribe") == "NO",
        waited_s=_between(fields.get("SubmitTime"), fields.get("StartTime")),
        partition=fields.get("Partition", ""),
        account=_given(fields.get("Account")),
        qos=_given(fields.get("QOS")),
        constraint=_given(fields.get("Features")),
        purpose=fields.get("Comment", ""),
        node_list=nodes,
        elapsed_s=seconds(fields.get("RunTime", "")) or 0.0,
    )


def _between(first: str | None, second: str | None) -> float | None:
    try:
        return (datetime.fromisoformat(str(second)) - datetime.fromisoformat(str(first))).total_seconds()
    except ValueError:
        return None


def _given(text: str | None) -> str | None:
    return None if text in (None, "(null)", "") else text
