"""Flux, by ``flux batch``, ``flux jobs``, ``flux cancel`` and ``flux resource``."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Collection, Sequence
from pathlib import Path

from buran.errors import ConfigError
from buran.measurement.schedulers.base import Allocation, Partition
from buran.measurement.schedulers.jobs import Job, JobRequest, Submission, expand_nodes
from buran.plugins.schedulers.tabled import JobRow, TabledScheduler, allocation_with

_FIELDS = (
    *("id.f58", "status", "name", "exception.type", "exception.note", "returncode", "urgency", "t_submit", "t_run"),
    *("duration", "nnodes", "ntasks", "ncores", "nodelist", "queue", "cwd"),  # the folder last: it may have any letters
)
_FORMAT = "|".join(f"{{{field}}}" for field in _FIELDS)
_STATES = {
    **dict.fromkeys(("NEW", "DEPEND", "PRIORITY", "SCHED", "PENDING"), "PENDING"),
    **{"RUN": "RUNNING", "RUNNING": "RUNNING", "CLEANUP": "COMPLETING"},
    **{"COMPLETED": "COMPLETED", "FAILED": "FAILED", "CANCELED": "CANCELLED", "TIMEOUT": "TIMEOUT"},
}
_NODE_LOST = re.compile(
    r"node failure|lost (contact|connection)|shell disconnected|broker .*(died|failed)", re.IGNORECASE
)
_TASKS = "BURAN_TASKS"


class Flux(TabledScheduler):
    """Flux, as the scheduler of a system; a job is a batch script in an instance of its own."""

    name = "flux"
    title = "Flux"
    submit_program = "flux"
    query = "flux jobs"
    submit_words = ("flux", "batch")
    cancel_words = ("flux", "cancel")
    job_variable = "FLUX_ENCLOSING_ID"
    foreign = ("FLUX_JOB", "FLUX_TASK", "FLUX_ENCLOSING", "PMI_", "PMIX_")
    full = re.compile(r"max.*jobs|limit.*jobs|too many", re.IGNORECASE)
    unsupported = {  # noqa: RUF012
        "qos": "leave it out; queues have priorities (resources.partition)",
        "memory_mb": "leave it out; Flux does not count memory, whole nodes have all of theirs",
        "reservation": "leave it out",
    }
    next_steps = {  # noqa: RUF012
        r"queue": "`flux queue list` lists the queues; say which in resources.partition",
        r"bank|account|association": "say which in resources.account: `flux account view-user $USER` shows yours",
        r"duration|time ?limit": "`flux queue list` shows limits; see resources.time_limit and time_margin",
        r"propert|constraint": "`flux resource list` shows properties; see resources.constraint",
        r"unsatisfiable|nodes|cores": "see resources.nodes, tasks_per_node and threads",
    }

    def this_job(self) -> str | None:
        """Return the job's number in F58, as tables show it."""
        job = os.environ.get(self.job_variable)
        return None if job is None else plain_number(job)

    def rows(self, jobs: Collection[str] | None) -> list[JobRow] | None:
        """Ask for all jobs of this user, of the last weeks too if some are wanted that may have ended."""
        lines = self._lines([] if jobs is None else ["-a", "--count=0"])
        if lines is None:
            return None
        rows = [row_of(fields) for fields in lines]
        return rows if jobs is None else [row for row in rows if row.id in jobs]

    def _lines(self, which: Sequence[str]) -> list[dict[str, str]] | None:
        # In a job, the commands would ask its own instance, which knows nothing of the job.
        parent = ["--parent"] if self.this_job() is not None else []
        done = self.ask(["flux", *parent, "jobs", *which, "-n", "-o", _FORMAT])
        return None if done is None or done.returncode != 0 else lines_in(done.stdout)

    def options(self, folder: Path, request: JobRequest, submission: Submission, log: Path) -> list[str]:
        """Ask for slots, one for each rank, on so many nodes."""
        wanted = {
            "--job-name": submission.purpose,
            "--cwd": folder,
            "--output": f"{log}/{{{{id}}}}.log",
            "--nodes": request.nodes,
            "--nslots": request.tasks,
            "--cores-per-slot": request.cpus_per_task,
            "--time-limit": f"{request.minutes}m",
            "--queue": request.partition,
            "--bank": request.account,
            "--requires": request.constraint,
            "--env": f"{_TASKS}={request.tasks}",
        }
        options = [f"{name}={value}" for name, value in wanted.items() if value is not None]
        return [*options, *(["--exclusive"] if request.exclusive else [])]

    def number_in(self, printed: str) -> str | None:
        """Return the last word, if it is a number in F58."""
        word = plain_number(printed.strip().rpartition("\n")[2].strip())
        return word if re.fullmatch(r"f[1-9A-HJ-NP-Za-km-z]+", word) else None

    def never_starts(self, job: Job) -> str | None:
        """Look whether it is held."""
        is_held = job.waits and job.reason == "held"
        return (
            "somebody holds it: `flux job urgency JOB default`, or ask the operators of the cluster"
            if is_held
            else None
        )

    def given(self, job: str) -> Allocation | None:
        """Ask for this job."""
        lines = self._lines(["-a", "--count=0"])
        fields = next((fields for fields in lines or () if plain_number(fields["id.f58"]) == job), None)
        if fields is None or not fields["nodelist"]:
            return None
        return allocation_of(job, fields, int(os.environ.get(_TASKS, fields["ntasks"] or 1)))

    def partition(self, name: str | None, constraint: str | None) -> Partition | None:
        """Ask for nodes and cores; limits of queues are left to Flux."""
        queue = [] if name is None else ["--queue", name]
        queues = self.ask(["flux", "queue", "list", "-n", "-o", "{queue}"]) if name is not None else None
        names = queues.stdout.split() if queues is not None and queues.returncode == 0 else None
        if names is not None and name not in names:
            hint = f"choose one of: {', '.join(names)}"
            raise ConfigError(f"there is no queue {name!r}", where="resources.partition", hint=hint)
        states = ["-s", "free,allocated", "-n", "-o", "{nnodes} {ncores}"]
        shown = self.answer(["flux", "resource", "list", *queue, *states])
        return partition_of(name or "any", shown)


FLUX = Flux()


def plain_number(job: str) -> str:
    """Return a job's number in F58 with an ordinary ``f``; terminals without UTF-8 show it so, too."""
    return f"f{job[1:]}" if job.startswith("\N{LATIN SMALL LETTER F WITH HOOK}") else job


def lines_in(text: str) -> list[dict[str, str]]:
    """Return the fields of each job in what ``flux jobs`` prints; other lines are warnings."""
    lines = (line.split("|", len(_FIELDS) - 1) for line in text.splitlines())
    return [dict(zip(_FIELDS, fields, strict=True)) for fields in lines if len(fields) == len(_FIELDS)]


def row_of(fields: dict[str, str]) -> JobRow:
    """Return what a table has of a job."""
    state = _STATES.get(fields["status"].strip().upper(), "")
    note = " ".join(filter(None, (fields["exception.type"].strip(), fields["exception.note"].strip())))
    if state == "FAILED" and _NODE_LOST.search(note):
        state = "NODE_FAIL"
    elif state == "FAILED" and fields["exception.type"] == "timeout":
        state = "TIMEOUT"
    code = fields["returncode"].strip()
    return JobRow(
        id=plain_number(fields["id.f58"].strip()),
        state=state,
        purpose=fields["name"].strip(),
        folder=fields["cwd"].strip(),
        reason="held" if fields["urgency"].strip() == "0" else note,
        exit_code=int(code) if re.fullmatch(r"-?\d+", code) else None,
    )


def allocation_of(job: str, fields: dict[str, str], tasks: int) -> Allocation:
    """Read an allocation from a job's line."""
    started, submitted = _number(fields["t_run"]), _number(fields["t_submit"])
    limit_s = _number(fields["duration"]) or None
    elapsed_s = max(time.time() - started, 0.0) if started else 0.0
    nodes, cores = int(_number(fields["nnodes"]) or 1), int(_number(fields["ncores"]) or 1)
    return allocation_with(
        job,
        nodes=expand_nodes(fields["nodelist"].strip()) or tuple(map(str, range(nodes))),
        tasks=tasks,
        cpus=cores,
        elapsed_s=elapsed_s,
        limit_s=limit_s,
        waited_s=max(started - submitted, 0.0) if started and submitted else None,
        partition=fields["queue"].strip(),
        purpose=fields["name"].strip(),
        node_list=fields["nodelist"].strip(),
    )


def _number(text: str) -> float:
    try:
        return float(text.strip())
    except ValueError:
        return 0.0


def partition_of(name: str, shown: str) -> Partition:
    """Put together what is known of a queue, of lines with nodes and the cores that they have together.

    Raises
    ------
    ConfigError
        It has no nodes.
    """
    pairs = [tuple(map(int, words)) for line in shown.splitlines() if len(words := line.split()) == 2]
    pairs = [(nodes, cores) for nodes, cores in pairs if nodes > 0]
    if not pairs:
        raise ConfigError(
            f"no node of the queue {name} is up", where="resources.partition", hint="see `flux resource list`"
        )
    cores = min(cores // nodes for nodes, cores in pairs)
    return Partition(name, sum(nodes for nodes, _ in pairs), cores, cores)
