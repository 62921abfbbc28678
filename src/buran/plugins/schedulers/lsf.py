"""IBM Spectrum LSF, by ``bsub``, ``bjobs -json``, ``bkill`` and ``bqueues``."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Mapping
from pathlib import Path

from buran.errors import ConfigError, ToolError
from buran.measurement.schedulers.base import Allocation, Partition
from buran.measurement.schedulers.jobs import Job, JobRequest, Submission
from buran.plugins.schedulers.tabled import JobRow, TabledScheduler, allocation_with, megabytes_of, seconds_of

_FIELDS = (
    "jobid jobindex stat job_name sub_cwd pend_reason exit_code exit_reason run_time runtimelimit exec_host "
    "queue proj_name pend_time"
)
_STATES = {
    **{"PEND": "PENDING", "PSUSP": "PENDING", "PROV": "PENDING", "WAIT": "PENDING", "RUN": "RUNNING"},
    **{"USUSP": "SUSPENDED", "SSUSP": "SUSPENDED", "DONE": "COMPLETED", "EXIT": "FAILED", "ZOMBI": "NODE_FAIL"},
}
_TERMINATIONS = {  # termination reasons, from its manual
    **dict.fromkeys(("TERM_RUNLIMIT", "TERM_CPULIMIT", "TERM_WINDOW"), "TIMEOUT"),
    **dict.fromkeys(("TERM_MEMLIMIT", "TERM_SWAP"), "OUT_OF_MEMORY"),
    **dict.fromkeys(("TERM_PREEMPT", "TERM_LOAD", "TERM_RC", "TERM_MC_RECALL"), "PREEMPTED"),
    **dict.fromkeys(
        ("TERM_OWNER", "TERM_ADMIN", "TERM_FORCE_OWNER", "TERM_FORCE_ADMIN", "TERM_BUCKET_KILL"), "CANCELLED"
    ),
    **dict.fromkeys(("TERM_ZOMBIE", "TERM_RMS", "TERM_PRE_EXEC_FAIL", "TERM_REMOVE_HUNG_JOB"), "NODE_FAIL"),
    "TERM_DEADLINE": "DEADLINE",
}
Record = Mapping[str, str]
"""A row of a table: LSF prints all values as text."""
_NOBODY = re.compile(r"No (unfinished |matching )?job found|is not found", re.IGNORECASE)


class Lsf(TabledScheduler):
    """LSF."""

    name = "lsf"
    title = "LSF"
    submit_program = "bsub"
    query = "bjobs"
    submit_words = ("bsub",)
    cancel_words = ("bkill",)
    job_variable = "LSB_JOBID"
    foreign = ("LSB_", "LS_", "LSF_PM", "LSFUSER")
    full = re.compile(r"pending job (slot )?threshold|job limit|MAX_PEND_JOBS|too many jobs", re.IGNORECASE)
    next_steps = {  # noqa: RUF012
        r"no such queue|queue.*(not exist|closed)": "`bqueues` lists the queues; say which in resources.partition",
        r"project": "say which in resources.account",
        r"user cannot use|not allowed to use": "`bqueues -u $USER` lists yours; see resources.partition",
        r"service class|SLA|qos": "`bsla` lists service classes; see resources.qos",
        r"run ?time limit|RUNLIMIT": "`bqueues -l` shows limits; see resources.time_limit and time_margin",
        r"memory|MEMLIMIT": "`bqueues -l` shows limits; see resources.memory_mb",
        r"reservation": "`brsvs` lists reservations; see resources.reservation",
        r"resource requirement": "see resources.constraint: words for select[...]; `lsinfo` lists them",
        r"processor|slots|affinity": "see resources.nodes, tasks_per_node and threads",
    }

    def this_job(self) -> str | None:
        """Return the job's number, with its task's in an array."""
        job, index = os.environ.get("LSB_JOBID"), os.environ.get("LSB_JOBINDEX", "0")
        return job if job is None or index == "0" else f"{job}[{index}]"

    def rows(self, jobs: Collection[str] | None) -> list[JobRow] | None:
        """Ask about jobs; LSF remembers them for an hour or so after their end."""
        records = self._records(jobs)
        return None if records is None else [row_of(record) for record in records]

    def _records(self, jobs: Collection[str] | None) -> list[Record] | None:
        which = [] if jobs is None else ["-a", *sorted({job.partition("[")[0] for job in jobs})]
        done = self.ask(["bjobs", "-o", _FIELDS, "-json", *which])
        if done is None:
            return None
        records = records_in(done.stdout)
        if records is None:
            return [] if _NOBODY.search(done.stderr + done.stdout) else None
        return [record for record in records if jobs is None or number_of(record) in jobs]

    def options(self, folder: Path, request: JobRequest, submission: Submission, log: Path) -> list[str]:
        """Ask for ranks, as many on each node, and cores for each."""
        tasks = f"[1-{len(submission.names)}]" if submission.is_array else ""
        where = [
            f"span[ptile={request.ranks_per_node}]",
            *([f"affinity[core({request.cpus_per_task})]"] if request.cpus_per_task > 1 else []),
            *([f"rusage[mem={request.memory_mb}MB/host]"] if request.memory_mb is not None else []),
            *([f"select[{request.constraint}]"] if request.constraint is not None else []),
        ]
        wanted = {
            "-J": f"{submission.purpose}{tasks}",
            "-cwd": str(folder),
            "-oo": f"{log}/%J{'.%I' if submission.is_array else ''}.log",
            "-W": str(request.minutes),
            "-n": str(request.tasks),
            "-q": request.partition,
            "-P": request.account,
            "-sla": request.qos,
            "-U": request.reservation,
        }
        return [
            *("-env", "all", "-rn"),
            *(word for option, value in wanted.items() if value is not None for word in (option, value)),
            *(["-x"] if request.exclusive else []),
            *("-R", " ".join(where)),
        ]

    def number_in(self, printed: str) -> str | None:
        """Return the number between the first brackets, in whatever language; not that of a task."""
        match = re.search(r"<(\d+)>", printed)
        return match[1] if match else None

    def task_numbers(self, number: str, tasks: int) -> list[str]:
        """Return numbers such as ``12[3]``; its tasks begin at 1."""
        return [f"{number}[{task + 1}]" for task in range(tasks)]

    def array_task(self) -> int | None:
        """Return what LSF says of it; 0 is no task."""
        task = int(os.environ.get("LSB_JOBINDEX", "0"))
        return task - 1 if task > 0 else None

    def largest_array(self) -> int:
        """Ask for the site's limit; 1000 without an answer, as LSF has it where nobody changed it."""
        shown = self.ask(["bparams", "-a"])
        match = re.search(r"MAX_JOB_ARRAY_SIZE\s*=\s*(\d+)", shown.stdout) if shown is not None else None
        return max(int(match[1]), 1) if match else 1000

    def never_starts(self, job: Job) -> str | None:
        """Look at the reason why it is pending."""
        if not job.waits:
            return None
        if re.search(r"PSUSP|suspended (by|while)|held", job.reason, re.IGNORECASE):
            return "somebody holds it: `bresume JOB`, or ask the operators of the cluster"
        if re.search(
            r"requirements? (are |is )?(not|never)|not satisfied|no eligible hosts", job.reason, re.IGNORECASE
        ):
            return "no node is like that: see resources.constraint, nodes, threads and memory_mb"
        return None

    def given(self, job: str) -> Allocation | None:
        """Ask for this job."""
        record = next(iter(self._records([job]) or ()), None)
        return None if record is None or not record.get("EXEC_HOST") else allocation_of(job, record)

    def partition(self, name: str | None, constraint: str | None) -> Partition | None:
        """Ask for the queue and for the slots of its hosts; time limits are in no table and are left to LSF."""
        if name is None:
            return None  # nobody tells which queue is the usual one
        queues = records_in(self.answer(["bqueues", "-o", "queue_name hosts", "-json"]))
        hosts = records_in(self.answer(["bhosts", "-o", "host_name status max", "-json"]))
        loads = records_in(self.answer(["lshosts", "-json"])) or []
        if queues is None or hosts is None:
            raise ToolError("LSF does not answer", why="bqueues and bhosts print no table", hint="`lsid` asks it")
        return partition_of(name, queues, hosts, loads)


LSF = Lsf()


def records_in(text: str) -> list[Record] | None:
    """Return the records of a table in JSON; None if there is none. Words such as "Please wait" may stand before it."""
    try:
        table = json.loads(text[text.index("{") :], strict=False)
    except ValueError:
        return None
    records = table.get("RECORDS") if isinstance(table, dict) else None
    if not isinstance(records, list):
        return None
    return [
        {key: "" if value is None else str(value) for key, value in record.items()}
        for record in records
        if isinstance(record, dict) and "ERROR" not in record
    ]


def number_of(record: Record) -> str:
    """Return a job's number, with its task's in an array."""
    number, index = record.get("JOBID", ""), record.get("JOBINDEX") or "0"
    return number if index == "0" or "[" in number else f"{number}[{index}]"


def row_of(record: Record) -> JobRow:
    """Return what a table has of a job."""
    number, letters = number_of(record), record.get("STAT", "")
    task = re.search(r"\[(\d+)\]", number)
    why = record.get("EXIT_REASON", "")
    term = next((state for word, state in _TERMINATIONS.items() if re.match(rf"{word}\b", why)), None)
    state = _STATES.get(letters, "")
    code = record.get("EXIT_CODE", "")
    return JobRow(
        id=number,
        state=term if letters == "EXIT" and term is not None else state,
        purpose=record.get("JOB_NAME", "").partition("[")[0],
        task=int(task[1]) - 1 if task else None,
        folder=os.path.expandvars(record.get("SUB_CWD", "")),
        reason=("PSUSP " if letters == "PSUSP" else "") + record.get("PEND_REASON", ""),
        exit_code=int(code) if code.isdecimal() else None,
    )


def allocation_of(job: str, record: Record) -> Allocation:
    """Read an allocation from a job's record; a slot is a rank."""
    slots = hosts_in(record["EXEC_HOST"])
    elapsed_s = _seconds(record.get("RUN_TIME")) or 0.0
    minutes = re.match(r"\d+(\.\d+)?$", record.get("RUNTIMELIMIT", ""))
    limit_s = 60.0 * float(minutes[0]) if minutes else seconds_of(record.get("RUNTIMELIMIT", ""))
    cpus = int(os.environ.get("LSB_MAX_NUM_PROCESSORS", sum(slots.values())))
    tasks = sum(slots.values())
    return allocation_with(
        job,
        nodes=slots,
        tasks=tasks,
        cpus=max(cpus, tasks),
        elapsed_s=elapsed_s,
        limit_s=limit_s,
        waited_s=_seconds(record.get("PEND_TIME")),
        partition=record.get("QUEUE", ""),
        account=record.get("PROJ_NAME"),
        purpose=record.get("JOB_NAME", "").partition("[")[0],
        node_list=record["EXEC_HOST"],
    )


def hosts_in(text: str) -> dict[str, int]:
    """Return the slots of each node of a list such as ``4*n1:n2``."""
    slots: dict[str, int] = {}
    for part in filter(None, text.split(":")):
        number, star, host = part.partition("*")
        slots[host if star else part] = slots.get(host if star else part, 0) + (int(number) if star else 1)
    return slots


def _seconds(text: str | None) -> float | None:
    """Return a time such as ``57 second(s)``."""
    match = re.match(r"(\d+)( second| *$)", text or "")
    return float(match[1]) if match else seconds_of(text)


def partition_of(
    name: str,
    queues: Collection[Record],
    hosts: Collection[Record],
    loads: Collection[Record],
) -> Partition:
    """Put together what is known of a queue.

    Raises
    ------
    ConfigError
        There is no such queue, or it has no hosts.
    """
    names = [queue.get("QUEUE_NAME", "") for queue in queues]
    if name not in names:
        raise ConfigError(
            f"there is no queue {name!r}", where="resources.partition", hint=f"choose one of: {', '.join(names)}"
        )
    allowed = next(queue for queue in queues if queue.get("QUEUE_NAME") == name).get("HOSTS", "all").split()
    of_groups = any(host.endswith("/") or host in ("all", "-") for host in allowed)
    slots = {
        host["HOST_NAME"]: int(host["MAX"])
        for host in hosts
        if host.get("MAX", "").isdecimal() and not host.get("STATUS", "").startswith("un")
    }
    fitting = {host: number for host, number in slots.items() if of_groups or host in allowed}
    if not fitting:
        raise ConfigError(f"no host of the queue {name} is up", where="resources.partition", hint="see `bhosts`")
    memory = {load.get("HOST_NAME", ""): megabytes_of(load.get("maxmem", load.get("MAXMEM"))) for load in loads}
    sizes = [size for host in fitting if (size := memory.get(host)) is not None]
    cores = min(fitting.values())
    return Partition(name, len(fitting), cores, cores, min(sizes, default=None))
