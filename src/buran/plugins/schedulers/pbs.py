"""PBS: OpenPBS and PBS Professional, by ``qsub``, ``qstat -f``, ``qdel`` and ``pbsnodes``."""

from __future__ import annotations

import getpass
import json
import math
import os
import re
import shutil
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from buran.errors import ConfigError, ToolError
from buran.files import JsonObject
from buran.measurement.schedulers.base import Allocation, Partition
from buran.measurement.schedulers.jobs import Job, JobReport, JobRequest, NotSubmitted, Refusal, Submission
from buran.plugins.schedulers.tabled import JobRow, TabledScheduler, allocation_with, megabytes_of, seconds_of

_STATES = {
    **{"Q": "PENDING", "W": "PENDING", "T": "PENDING", "H": "PENDING", "B": "RUNNING", "R": "RUNNING"},
    **{"E": "COMPLETING", "S": "SUSPENDED", "U": "SUSPENDED", "M": "REVOKED"},
}
_ENDED = ("F", "X", "C")  # finished, a finished task of an array, and what Torque calls completed
_STATES_BY_CODE = {  # exit statuses below zero are PBS's own; those named in its manual for administrators
    **dict.fromkeys((-29, -28), "TIMEOUT"),  # wall time, CPU time
    **dict.fromkeys((-27, -26), "OUT_OF_MEMORY"),
    **dict.fromkeys((-1, -2, -3, -4, -5, -6, -11, -14, -20, -30), "NODE_FAIL"),  # its nodes could not run it
}
_TERMINATED = 91  # substate of a job that somebody deleted
_KILLED_BY = {r"job killed: walltime": "TIMEOUT", r"job killed: v?mem": "OUT_OF_MEMORY"}
_BAD_ESCAPE = re.compile(r'\\(?!["\\/bfnrtu])')


class Pbs(TabledScheduler):
    """OpenPBS."""

    name = "pbs"
    title = "PBS"
    submit_program = "qsub"
    query = "qstat"
    submit_words = ("qsub",)
    cancel_words = ("qdel",)
    job_variable = "PBS_JOBID"
    foreign = ("PBS_JOB", "PBS_O_", "PBS_NODE", "PBS_TASK", "PBS_MOM", "PBS_QUEUE", "PBS_ENV", "PBS_ARRAY", "NCPUS")
    prelude = "PATH=${PBS_O_PATH:-$PATH}; export PATH\n"
    full = re.compile(
        r"would exceed (complex|queue|server|limit)|maximum number of jobs|exceeds? .*per-user", re.IGNORECASE
    )
    next_steps = {  # noqa: RUF012
        r"unknown queue|route|access to queue": "`qstat -Q` lists the queues; say which in resources.partition",
        r"account|project": "say which in resources.account",
        r"reserv|resv": "`pbs_rstat` lists reservations; see resources.reservation",
        r"walltime": "`qstat -Q -f` shows the limits of queues; see resources.time_limit and time_margin",
        r"\bmem\b|memory": "`qstat -Q -f` shows the limits of queues; see resources.memory_mb",
        r"nodect|ncpus|mpiprocs|select": "see resources.nodes, tasks_per_node and threads",
        r"unknown resource|illegal": "see resources.constraint, qos and extra: `pbsnodes -a` shows what nodes have",
    }

    def is_available(self) -> bool:
        """Tell whether its commands are on PATH; Grid Engine has a ``qsub`` of its own."""
        return shutil.which("qsub") is not None and shutil.which("pbsnodes") is not None

    def rows(self, jobs: Collection[str] | None) -> list[JobRow] | None:
        """Ask about jobs with their history; where none is kept, those that ended are missing."""
        known = self._jobs(jobs)
        return None if known is None else [job.row for job in known]

    def _jobs(self, jobs: Collection[str] | None) -> list[PbsJob] | None:
        if jobs is None:
            listed = self.ask(["qselect", "-u", getpass.getuser()])
            if listed is None or listed.returncode != 0:
                return None
            jobs = listed.stdout.split()
        if not jobs:
            return []
        # Of an array all tasks at once: its own number instead of theirs.
        known = self._table(sorted({re.sub(r"\[\d+\]", "[]", job) for job in jobs}))
        if known is None:
            return None
        wanted = {full_number(job) for job in jobs}
        return [
            PbsJob.from_json(number, fields)
            for number, fields in known.items()
            if "[]" not in number and _names(number) & wanted
        ]

    def _table(self, numbers: Sequence[str]) -> dict[str, dict[str, Any]] | None:
        """Return what is known of jobs, with their history where it is kept; None without an answer.

        They are queried as text: OpenPBS 23.06 prints the first job alone if several are queried in JSON.
        """
        done = self.ask(["qstat", "-x", "-t", "-f", *numbers])
        if done is not None and "history" in done.stderr and not jobs_in(done.stdout):
            done = self.ask(["qstat", "-t", "-f", *numbers])
        if done is None:
            return None
        # It fails if it does not know some of them, and says so of each.
        complaints = [line for line in done.stderr.splitlines() if line.strip()]
        harmless = all(re.search("Unknown Job Id|has finished", line) for line in complaints)
        known = jobs_in(done.stdout)
        return known if harmless and (known or complaints) else None

    def options(self, folder: Path, request: JobRequest, submission: Submission, log: Path) -> list[str]:
        """Ask for chunks: the fullest nodes, and one node with what is left."""
        # An array must be rerunnable; a task that is started anew goes on where it was.
        shape = ["-J", f"0-{len(submission.names) - 1}"] if submission.is_array else ["-r", "n"]
        placement = f"place={'scatter' if request.nodes > 1 else 'pack'}{':excl' if request.exclusive else ''}"
        wanted = {
            "-N": submission.purpose,
            "-j": "oe",
            "-o": f"{log}/",
            "-q": request.partition if request.reservation is None else request.reservation,
            "-A": request.account,
        }
        if request.reservation is not None and request.partition is not None:
            raise NotSubmitted(
                "a reservation of PBS is a queue of its own: leave resources.partition out", Refusal.FINAL
            )
        resources = [
            f"select={select_of(request)}",
            placement,
            f"walltime={request.minutes * 60}",
            *([f"qos={request.qos}"] if request.qos is not None else []),
        ]
        return [
            "-V",
            *(word for option, value in wanted.items() if value is not None for word in (option, value)),
            *shape,
            *(word for resource in resources for word in ("-l", resource)),
        ]

    def number_in(self, printed: str) -> str | None:
        """Return the line that is a number and a server."""
        return next(
            (line.strip() for line in printed.splitlines() if re.fullmatch(r"\d+(\[\])?(\.\S+)?", line.strip())), None
        )

    def task_numbers(self, number: str, tasks: int) -> list[str]:
        """Return numbers such as ``12[3].server``."""
        return [number.replace("[]", f"[{task}]") for task in range(tasks)]

    def array_task(self) -> int | None:
        """Return what PBS says of it."""
        task = os.environ.get("PBS_ARRAY_INDEX")
        return int(task) if task is not None else None

    def largest_array(self) -> int:
        """Ask for the server's limit."""
        shown = self.ask(["qstat", "-B", "-f", "-F", "json"])
        servers = section(shown.stdout, "Server") if shown is not None and shown.returncode == 0 else None
        limits = [int(fields.get("max_array_size", 10_000)) for fields in (servers or {}).values()]
        return max(min(limits, default=1), 1)

    def never_starts(self, job: Job) -> str | None:
        """Look at the server's comment."""
        if not job.waits:
            return None
        if re.search(r"Can Never Run|can never run", job.reason):
            return "the nodes never have that much: see resources.nodes, tasks_per_node, threads, memory_mb, constraint"
        if re.search(r"\bheld\b|Hold", job.reason, re.IGNORECASE):
            return "somebody holds it: `qrls JOB`, or ask the operators of the cluster"
        if re.search(r"queue not started|not running: queue|draining|no longer accepts", job.reason, re.IGNORECASE):
            return "choose another in resources.partition, or ask the operators of the cluster"
        return None

    def forgotten(self, job: str, folder: Path) -> JobReport:
        """Read in the job's log why it was ended, as PBS writes there; it is kept where no history is."""
        number = re.sub(r"\..*", "", full_number(job))
        for path in (folder / "logs" / self.name).glob(f"{number.replace('[', '[[]')}.*"):
            text = path.read_text(errors="replace")
            for pattern, state in _KILLED_BY.items():
                if re.search(pattern, text):
                    return JobRow(job, state).report
        return JobReport(
            "FORGOTTEN", True, words="is gone, and PBS keeps no history: it was cancelled, or lost its node"
        )

    def given(self, job: str) -> Allocation | None:
        """Ask for this job; CPUs of nodes that it has for itself are all its own."""
        known = self._jobs([job])
        if not known or known[0].allocation is None:
            return None
        allocation = replace(known[0].allocation, job=job)
        if allocation.exclusive:
            shown = self.ask(["pbsnodes", "-F", "json", *allocation.nodes])
            nodes = section(shown.stdout, "nodes") if shown is not None and shown.returncode == 0 else None
            have = [PbsNode.from_json(node).cores for node in (nodes or {}).values()]
            return replace(allocation, cpus=max(sum(have), allocation.cpus))
        return allocation

    def partition(self, name: str | None, constraint: str | None) -> Partition | None:
        """Ask for the queue's limits and for the nodes it may have."""
        if name is None:
            servers = section(self.answer(["qstat", "-B", "-f", "-F", "json"]), "Server") or {}
            name = next((fields["default_queue"] for fields in servers.values() if "default_queue" in fields), None)
        queues = section(self.answer(["qstat", "-Q", "-f", "-F", "json"]), "Queue")
        nodes = section(self.answer(["pbsnodes", "-a", "-F", "json"]), "nodes")
        if queues is None or nodes is None:
            raise ToolError("PBS does not answer", why="qstat and pbsnodes print no table", hint="`qstat -B` asks it")
        known = {queue: PbsQueue.from_json(fields) for queue, fields in queues.items()}
        return partition_of(name, constraint, known, [*map(PbsNode.from_json, nodes.values())])


PBS = Pbs()


def full_number(job: str) -> str:
    """Return a job's number and the first word of its server's name; others add its domain, or leave both out."""
    number, _, server = job.partition(".")
    return f"{number}.{server.partition('.')[0]}"


def _names(job: str) -> set[str]:
    """Return by which numbers a job may have been queried: its own, and that of its array."""
    number = full_number(job)
    return {number, re.sub(r"\[\d+\]", "[]", number)}


def section(text: str, name: str) -> dict[str, dict[str, Any]] | None:
    """Return one section of a table in JSON; None if it is none.

    PBS does not escape all that it should: backslashes of other people's variables, and control characters.
    """
    for attempt in (text, _BAD_ESCAPE.sub(r"\\\\", text)):
        try:
            table = json.loads(attempt, strict=False)
        except ValueError:
            continue
        found = table.get(name, {}) if isinstance(table, dict) else None
        return found if isinstance(found, dict) else None
    return None


def jobs_in(text: str) -> dict[str, dict[str, Any]]:
    """Return the jobs in what ``qstat -f`` prints; keys with points, such as those of resources, have a table each."""
    jobs: dict[str, dict[str, Any]] = {}
    for part in re.split(r"^Job Id: *", re.sub(r"\n\t", "", text), flags=re.MULTILINE)[1:]:
        number, _, lines = part.partition("\n")
        fields: dict[str, Any] = {}
        for key, value in re.findall(r"^ +([\w.]+) = (.*)$", lines, re.MULTILINE):
            name, _, inner = key.partition(".")
            if inner:
                fields.setdefault(name, {})[inner] = value
            else:
                fields[name] = _variables(value) if name == "Variable_List" else value
        jobs[number.strip()] = fields
    return jobs


def _variables(text: str) -> dict[str, str]:
    """Return the variables of a job; commas and backslashes in values have a backslash before them."""
    pairs = re.findall(r"(\w+)=((?:\\.|[^,\\])*)", text)
    return {name: re.sub(r"\\(.)", r"\1", value) for name, value in pairs}


@dataclass(frozen=True)
class PbsJob:
    """A job in PBS's table, and what it was given; None before it has started."""

    row: JobRow
    allocation: Allocation | None

    @classmethod
    def from_json(cls, number: str, fields: JsonObject) -> PbsJob:
        """Read what ``qstat -f`` says of a job."""
        status = fields.get("Exit_status", fields.get("exit_status"))
        code = None if status is None else int(status)
        letter, task = str(fields.get("job_state", "")), re.search(r"\[(\d+)\]", number)
        reason = str(fields.get("comment", ""))
        if letter == "H" and not re.search("held", reason, re.IGNORECASE):
            reason = f"{reason} (held: {fields.get('Hold_Types', '')})".strip()
        row = JobRow(
            id=number,
            state=_state(letter, code, is_terminated=int(fields.get("substate", 0)) == _TERMINATED),
            purpose=str(fields.get("Job_Name", "")),
            task=int(task[1]) if task else None,
            folder=str(fields.get("Variable_List", {}).get("PBS_O_WORKDIR", "")),
            reason=reason,
            restarts=max(int(fields.get("run_count", 1)) - 1, 0),
            exit_code=code,
        )
        if "exec_host" not in fields:
            return cls(row, None)
        hosts, wanted = str(fields["exec_host"]), fields.get("Resource_List", {})
        elapsed_s = _since(fields.get("stime"))
        nodes = tuple(dict.fromkeys(host.partition("/")[0] for host in hosts.split("+")))
        allocation = allocation_with(
            number,
            restarts=row.restarts,
            nodes=nodes,
            tasks=int(wanted.get("mpiprocs", len(nodes))),
            cpus=int(wanted.get("ncpus", 1)),
            elapsed_s=elapsed_s,
            limit_s=seconds_of(wanted.get("walltime")),
            exclusive="excl" in str(wanted.get("place", "")),
            waited_s=max(_since(fields.get("qtime")) - elapsed_s, 0.0),
            partition=str(fields.get("queue", "")),
            account=fields.get("Account_Name"),
            qos=wanted.get("qos"),
            purpose=row.purpose,
            node_list=hosts,
        )
        return cls(row, allocation)


def _state(letter: str, code: int | None, *, is_terminated: bool) -> str:
    if letter not in _ENDED:
        return _STATES.get(letter, "")
    if code in _STATES_BY_CODE:
        return _STATES_BY_CODE[code]
    if is_terminated or code is None:
        return "CANCELLED"
    return "COMPLETED" if code == 0 else "FAILED"


def select_of(request: JobRequest) -> str:
    """Return the chunks of a job: ``nodes:ncpus=...:mpiprocs=...``."""
    fullest = request.ranks_per_node
    whole, rest = divmod(request.tasks, fullest)
    memory = "" if request.memory_mb is None else f":mem={request.memory_mb}mb"
    features = "" if request.constraint is None else f":{request.constraint}"

    def chunk(nodes: int, ranks: int) -> str:
        threads = f":ompthreads={request.cpus_per_task}" if request.cpus_per_task > 1 else ""
        return f"{nodes}:ncpus={ranks * request.cpus_per_task}:mpiprocs={ranks}{threads}{memory}{features}"

    return "+".join([*([chunk(whole, fullest)] if whole else []), *([chunk(1, rest)] if rest else [])])


def _since(text: str | None) -> float:
    """Return the seconds since a date such as ``Mon Nov 23 10:40:39 2026``, which PBS writes in local time."""
    try:
        return max(time.time() - datetime.strptime(str(text), "%a %b %d %H:%M:%S %Y").timestamp(), 0.0)
    except ValueError:
        return 0.0


@dataclass(frozen=True)
class PbsNode:
    """A node: whose jobs it takes, None for all queues; whether it is up; its CPUs; and what else it has, by name."""

    queue: str | None
    is_up: bool
    cores: int
    resources: Mapping[str, Any]

    @classmethod
    def from_json(cls, fields: JsonObject) -> PbsNode:
        """Read what ``pbsnodes`` says of it."""
        is_up = not {"offline", "down"} & set(str(fields.get("state", "")).split(","))
        resources = fields.get("resources_available", {})
        return cls(fields.get("queue"), is_up, int(resources.get("ncpus", 0)), resources)


@dataclass(frozen=True)
class PbsQueue:
    """A queue: where it leads to, None if jobs run in it; and what a job may have, infinity without a limit."""

    route: tuple[str, ...] | None
    most_nodes: float
    longest_s: float

    @classmethod
    def from_json(cls, fields: JsonObject) -> PbsQueue:
        """Read what ``qstat -Q -f`` says of it."""
        listed, most = str(fields.get("route_destinations", "")).split(","), fields.get("resources_max", {})
        route = tuple(name.strip().partition("@")[0] for name in listed)
        is_route = str(fields.get("queue_type", "")).casefold() == "route"
        longest_s = seconds_of(most.get("walltime"))
        return cls(
            route if is_route else None,
            math.inf if most.get("nodect") is None else int(most["nodect"]),
            math.inf if longest_s is None else longest_s,
        )


def partition_of(
    name: str | None,
    constraint: str | None,
    queues: Mapping[str, PbsQueue],
    nodes: Sequence[PbsNode],
) -> Partition:
    """Put together what is known of a queue.

    Raises
    ------
    ConfigError
        There is no such queue, or it has no such nodes.
    """
    if name is None or name not in queues:
        what = "no queue is the default one" if name is None else f"there is no queue {name!r}"
        raise ConfigError(what, where="resources.partition", hint=f"choose one of: {', '.join(queues)}")
    execution = _execution_queues(name, queues)
    wanted = [pair.partition("=") for pair in (constraint or "").split(":") if "=" in pair]
    fitting = [
        node
        for node in nodes
        if node.queue in (None, *execution)
        and node.is_up
        and node.cores > 0
        and all(value in str(node.resources.get(key, "")).split(",") for key, _, value in wanted)
    ]
    if not fitting:
        raise ConfigError(
            f"no node of the queue {name} is like that, or up",
            where="resources.constraint" if constraint else "resources.partition",
            hint="`pbsnodes -a` lists what nodes have",
        )
    memory = [size for node in fitting if (size := megabytes_of(node.resources.get("mem"))) is not None]
    cores = min(node.cores for node in fitting)
    # A route tries its ends until one takes the job: it may be as large as the largest of them allows.
    counts = {end: sum(node.queue in (None, end) for node in fitting) for end in execution}
    most_nodes = max(min(counts[end], queues[end].most_nodes) for end in execution)
    longest_s = min(max(queues[end].longest_s for end in execution), queues[name].longest_s)
    return Partition(
        name=name,
        nodes=int(min(most_nodes, queues[name].most_nodes)),
        cores_per_node=cores,
        cpus_per_node=cores,
        memory_mb=min(memory, default=None),
        longest_s=None if longest_s == math.inf else longest_s,
    )


def _execution_queues(name: str, queues: Mapping[str, PbsQueue]) -> list[str]:
    """Return the queues in which jobs of a queue may run: itself, or where a route leads to in the end.

    Raises
    ------
    ConfigError
        It leads to no queue of this server.
    """
    open_names, seen, found = [name], {name}, list[str]()
    while open_names:
        queue = open_names.pop()
        route = queues[queue].route
        if route is None:
            found.append(queue)
            continue
        further = [name for name in route if name in queues and name not in seen]
        seen.update(further)
        open_names += further
    if not found:
        execution = [queue for queue, known in queues.items() if known.route is None]
        raise ConfigError(
            f"the queue {name} is a route to no queue of this server",
            where="resources.partition",
            hint=f"choose one of: {', '.join(execution)}",
        )
    return sorted(found)
