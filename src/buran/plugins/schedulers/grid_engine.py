"""Grid Engine (Sun's, Son of, Open, Altair's), by ``qsub``, ``qstat -xml``, ``qacct``, ``qdel`` and ``qconf``."""

from __future__ import annotations

import getpass
import os
import re
import shutil
import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from buran.errors import ConfigError, ToolError
from buran.files import digest
from buran.measurement.schedulers.base import Allocation, Partition
from buran.measurement.schedulers.jobs import Job, JobReport, JobRequest, NotSubmitted, Refusal, Submission
from buran.plugins.schedulers.tabled import JobRow, TabledScheduler, allocation_with, megabytes_of

_FOLDER_LETTERS = 8  # of the digest of a campaign's folder, in the names of its jobs: tables have no folders
_LIMIT_REACHED = (37,)  # codes of `failed` in the accounting, from its manual
_KILLED = (100,)
_LOST_NODE = (*range(1, 16), 17, *range(19, 26))
_GIVEN = "BURAN_TASKS"


@dataclass(frozen=True)
class _ParallelEnvironment:
    """How slots of a job are spread: a number of them on each node, or a rule's name."""

    name: str
    rule: str


class GridEngine(TabledScheduler):
    """Grid Engine."""

    name = "grid-engine"
    title = "Grid Engine"
    submit_program = "qsub"
    query = "qstat"
    submit_words = ("qsub",)
    cancel_words = ("qdel",)
    job_variable = "JOB_ID"
    foreign = (
        "SGE_TASK",
        "SGE_JOB",
        "SGE_STD",
        "SGE_O_",
        "JOB_",
        "PE_",
        "NSLOTS",
        "NHOSTS",
        "NQUEUES",
        "QUEUE",
        _GIVEN,
    )
    prelude = "PATH=${SGE_O_PATH:-$PATH}; export PATH\n"
    full = re.compile(r"only allow \d+ jobs|job_?limit|max_u_jobs|exceeds? .*limit.*jobs", re.IGNORECASE)
    unsupported = {"qos": "leave it out; queues have priorities (resources.partition)"}  # noqa: RUF012
    next_steps = {  # noqa: RUF012
        r"project": "`qconf -sprjl` lists the projects; say which in resources.account",
        r"unknown queue|queue.*does not exist": "`qconf -sql` lists the queues; say which in resources.partition",
        r"parallel environment": "`qconf -spl` lists them; see resources.extra",
        r"no suitable queues": "no queue has that much: see resources.nodes, threads, partition, memory_mb, constraint",
        r"unknown resource": "`qconf -sc` lists what can be requested; see resources.constraint and extra",
        r"advance reservation": "`qrstat` lists reservations; see resources.reservation",
    }

    def is_available(self) -> bool:
        """Tell whether its commands are on PATH; PBS has a ``qsub`` of its own."""
        return shutil.which("qsub") is not None and shutil.which("qconf") is not None

    def this_job(self) -> str | None:
        """Return the job's number, and after a point its task's in an array."""
        job, task = os.environ.get("JOB_ID"), os.environ.get("SGE_TASK_ID")
        if job is None or task is None:
            return None
        return job if task == "undefined" else f"{job}.{task}"

    def rows(self, jobs: Collection[str] | None) -> list[JobRow] | None:
        """Ask the queue, and the accounting for what it has forgotten."""
        done = self.ask(["qstat", "-u", getpass.getuser(), "-g", "d", "-xml"])
        queued = jobs_in(done.stdout) if done is not None and done.returncode == 0 else None
        if queued is None or jobs is None:
            return queued
        known = {row.id: row for row in queued}
        missing = {job.partition(".")[0] for job in jobs if job not in known}
        for number in sorted(missing):
            printed = self.ask(["qacct", "-j", number])
            if printed is not None and printed.returncode == 0:
                known |= {row.id: row for row in ended_in(printed.stdout) if row.id not in known}
        return [known[job] for job in jobs if job in known]

    def works_in(self, row: JobRow, campaign: Path) -> bool:
        """Tell by the folder in the job's name."""
        return row.purpose.startswith(f"buran_{_folder_in_name(campaign)}_")

    def options(self, folder: Path, request: JobRequest, submission: Submission, log: Path) -> list[str]:
        """Ask for slots of a parallel environment that spreads them as wanted, and for time as ``h_rt``."""
        kind, _, identity = submission.purpose.partition("_")
        wanted = {
            "-N": f"{kind}_{_folder_in_name(folder.resolve())}_{identity}",
            "-wd": str(folder),
            "-o": f"{log}/$JOB_ID.$TASK_ID.log",
            "-t": f"1-{len(submission.names)}" if submission.is_array else None,
            "-q": request.partition,
            "-P": request.account,
            "-ar": request.reservation,
            "-v": f"{_GIVEN}={request.tasks}",
        }
        resources = [
            f"h_rt={request.minutes * 60}",
            *([f"mem_free={request.memory_mb}M"] if request.memory_mb is not None else []),
            *([request.constraint] if request.constraint is not None else []),
            *([f"{self._exclusive()}=true"] if request.exclusive else []),
        ]
        slots = request.tasks * request.cpus_per_task
        spread = [] if slots == 1 or "-pe " in (request.extra or "") else ["-pe", self._spread(request), str(slots)]
        return [
            *("-terse", "-V", "-r", "n", "-j", "y", "-S", "/bin/sh"),
            *(word for option, value in wanted.items() if value is not None for word in (option, value)),
            *spread,
            *(word for resource in resources for word in ("-l", resource)),
        ]

    def _exclusive(self) -> str:
        """Return the name of what gives a job whole nodes, which each site names itself."""
        shown = self.ask(["qconf", "-sc"])
        lines = (line.split() for line in (shown.stdout if shown is not None else "").splitlines())
        name = next((words[0] for words in lines if len(words) > 3 and words[3] == "EXCL"), None)
        if shown is None or shown.returncode != 0:
            raise NotSubmitted("qconf is missing, or does not answer", Refusal.PASSING)
        if name is None:
            why = "whole nodes cannot be requested: `qconf -sc` lists no resource with the relation EXCL"
            raise NotSubmitted(f"{why}: say resources.exclusive: false", Refusal.FINAL)
        return name

    def _spread(self, request: JobRequest) -> str:
        """Return the parallel environment that puts as many slots on each node as wanted."""
        on_each = request.ranks_per_node * request.cpus_per_task
        has_rest = request.nodes * on_each != request.tasks * request.cpus_per_task
        rules = [str(on_each)] if not has_rest else []
        rules += ["$pe_slots"] if request.nodes == 1 else []
        known = self._environments(request.partition)
        for rule in rules:
            for environment in known:
                if environment.rule == rule:
                    return environment.name
        have = ", ".join(f"{environment.name} ({environment.rule})" for environment in known) or "none"
        why = f"no parallel environment puts {on_each} slots on each of {request.nodes} nodes; there are {have}"
        raise NotSubmitted(f"{why}: name one in resources.extra: '-pe NAME SLOTS'", Refusal.FINAL)

    def _environments(self, queue: str | None) -> list[_ParallelEnvironment]:
        # An environment that no queue has is waited for in vain.
        queues = queue or ",".join(self._qconf("-sql").split())
        allowed = re.findall(r"^pe_list\s+((?:.*\\\n)*.*)$", self._qconf("-sq", queues), re.MULTILINE)
        offered = {name for text in allowed for name in re.split(r"[\s,\\\[\]=]+", text)}
        names = [name for name in self._qconf("-spl").split() if name in offered]
        rules = (re.search(r"^allocation_rule\s+(\S+)", self._qconf("-sp", name), re.MULTILINE) for name in names)
        return [_ParallelEnvironment(name, rule[1]) for name, rule in zip(names, rules, strict=True) if rule]

    def _qconf(self, *words: str) -> str:
        done = self.ask(["qconf", *words])
        if done is None or done.returncode != 0:
            why = " ".join(done.stderr.split()) if done is not None else "qconf is missing, or does not answer"
            refusal = Refusal.PASSING if done is None else self.refusal(why, done.returncode)
            raise NotSubmitted(f"{why}{self.next_step(why)}", refusal)
        return done.stdout

    def number_in(self, printed: str) -> str | None:
        """Return what ``qsub -terse`` prints, without the tasks of an array."""
        numbers = (re.fullmatch(r"(\d+)(\.\d+-\d+:\d+)?", line.strip()) for line in printed.splitlines())
        return next((number[1] for number in numbers if number), None)

    def task_numbers(self, number: str, tasks: int) -> list[str]:
        """Return numbers such as ``12.3``; its tasks begin at 1."""
        return [f"{number}.{task + 1}" for task in range(tasks)]

    def array_task(self) -> int | None:
        """Return what Grid Engine says of it."""
        task = os.environ.get("SGE_TASK_ID", "undefined")
        return int(task) - 1 if task.isdecimal() else None

    def largest_array(self) -> int:
        """Ask for its limit; none is written as 0."""
        shown = self.ask(["qconf", "-sconf"])
        match = re.search(r"^max_aj_tasks\s+(\d+)", shown.stdout, re.MULTILINE) if shown is not None else None
        return (int(match[1]) or 75_000) if match else 1

    def never_starts(self, job: Job) -> str | None:
        """Look whether it is held, or could not be started."""
        if not job.waits:
            return None
        if "error" in job.reason:
            return "it could not be started: `qstat -j JOB` says why; `qmod -cj JOB` lets it try again"
        return "somebody holds it: `qrls JOB`, or ask the operators of the cluster" if "held" in job.reason else None

    def forgotten(self, job: str, folder: Path) -> JobReport:
        """Say what is known: a job that is deleted before it starts is in no accounting."""
        return JobReport(
            "FORGOTTEN", True, words="is gone and in no accounting: it was cancelled, or `qacct` is forbidden"
        )

    def given(self, job: str) -> Allocation | None:
        """Read the file of hosts that the job has, and ask for its times."""
        done = self.ask(["qstat", "-j", job.partition(".")[0], "-xml"])
        shown = _tree(done.stdout) if done is not None else None
        row = next(iter(self.rows([job]) or ()), None)
        if shown is None or row is None:
            return None
        hosts = hosts_in(os.environ.get("PE_HOSTFILE"))
        allocation = allocation_of(job, row, shown, hosts, int(os.environ.get(_GIVEN, sum(hosts.values()))))
        if allocation.exclusive:
            printed = self.ask(["qhost", "-h", ",".join(allocation.nodes), "-xml"])
            have = _processors(printed.stdout) if printed is not None and printed.returncode == 0 else 0
            return Allocation(**{**vars(allocation), "cpus": max(have, allocation.cpus)})
        return allocation

    def partition(self, name: str | None, constraint: str | None) -> Partition | None:
        """Ask for the nodes of a queue, or of all of them: without a name a job may come into any."""
        table = _tree(self.answer(["qstat", "-f", "-xml"]))
        hosts = _tree(self.answer(["qhost", "-xml"]))
        if table is None or hosts is None:
            raise ToolError(
                "Grid Engine does not answer", why="qstat and qhost print no XML", hint="`qstat -f` asks it"
            )
        limit = (
            re.search(r"^h_rt\s+(\S+)", self.answer(["qconf", "-sq", name]), re.MULTILINE)
            if name in queues_in(table)
            else None
        )
        return partition_of(name, table, hosts, limit[1] if limit else "INFINITY")


GRID_ENGINE = GridEngine()


def _folder_in_name(folder: Path) -> str:
    return digest(str(folder), _FOLDER_LETTERS)


def _tree(text: str) -> Element | None:
    """Return a table in XML; None if it is none."""
    try:
        return ElementTree.fromstring(text)
    except ElementTree.ParseError:
        return None


def jobs_in(text: str) -> list[JobRow] | None:
    """Return the jobs in what ``qstat -g d -xml`` prints; None if it printed no table."""
    tree = _tree(text)
    if tree is None or tree.tag != "job_info":
        return None
    rows = []
    for job in tree.iter("job_list"):
        number, letters, task = (job.findtext(key, "") for key in ("JB_job_number", "state", "tasks"))
        reason = "held" if "h" in letters else "error" if "E" in letters else "waiting"
        rows.append(
            JobRow(
                id=f"{number}.{task}" if task.isdecimal() else number,
                state=_state(letters),
                purpose=job.findtext("JB_name", ""),
                task=int(task) - 1 if task.isdecimal() else None,
                reason=job.findtext("queue_name", "") or reason,
                restarts=int("R" in letters),
            )
        )
    return rows


def _state(letters: str) -> str:
    if "d" in letters:
        return "COMPLETING"
    if "q" in letters or "w" in letters or "t" in letters or "h" in letters:
        return "PENDING"
    if set(letters) & set("sSTN"):
        return "SUSPENDED"
    return "RUNNING" if "r" in letters else "COMPLETED" if letters == "z" else ""


def ended_in(text: str) -> Iterator[JobRow]:
    """Yield the jobs in what ``qacct -j`` prints; of one that was started several times, the last end."""
    found: dict[str, JobRow] = {}
    for part in re.split(r"^=+$", text, flags=re.MULTILINE):
        pairs = (line.split(None, 1) for line in part.splitlines())
        fields = {words[0]: words[1].strip() for words in pairs if len(words) == 2}
        if "jobnumber" not in fields:
            continue
        task = fields.get("taskid", "undefined")
        number = fields["jobnumber"] + (f".{task}" if task.isdecimal() else "")
        failed, code = (int((fields.get(key, "0").split() or ["0"])[0]) for key in ("failed", "exit_status"))
        found[number] = JobRow(
            id=number,
            state=_end(failed, code),
            purpose=fields.get("jobname", ""),
            task=int(task) - 1 if task.isdecimal() else None,
            exit_code=code,
        )
    yield from found.values()


def _end(failed: int, code: int) -> str:
    if failed in _LIMIT_REACHED:
        return "TIMEOUT"
    if failed in _KILLED:
        return "CANCELLED"
    if failed in _LOST_NODE:
        return "NODE_FAIL"
    return "COMPLETED" if failed == 0 and code == 0 else "FAILED"


def hosts_in(path: str | None) -> dict[str, int]:
    """Return the slots of each node, of the file of hosts that jobs with several slots have."""
    if path is None:
        return {os.environ.get("HOSTNAME", "localhost"): 1}
    slots: dict[str, int] = {}
    for host, number, *_ in (line.split() for line in Path(path).read_text().splitlines() if line.split()[1:]):
        slots[host] = slots.get(host, 0) + int(number)
    return slots


def allocation_of(job: str, row: JobRow, shown: Element, hosts: Mapping[str, int], tasks: int) -> Allocation:
    """Put together what ``qstat -j`` says of a job, and its hosts."""
    resources = {item.findtext("CE_name", ""): item for item in shown.iter("qstat_l_requests")}
    limit = resources["h_rt"].findtext("CE_doubleval") if "h_rt" in resources else None
    limit_s = None if limit is None else float(limit)
    task = job.partition(".")[2] or "1"
    starts = (item for item in shown.iter("ulong_sublist") if item.findtext("JAT_task_number") == task)
    started, submitted = (
        next((_epoch(item.findtext("JAT_start_time")) for item in starts), None),
        _epoch(shown.findtext(".//JB_submission_time")),
    )
    elapsed_s = 0.0 if started is None else max(time.time() - started, 0.0)
    cpus = sum(hosts.values())
    exclusive = any(item.findtext("CE_relop") == "7" or "excl" in name for name, item in resources.items())
    return allocation_with(
        job,
        restarts=row.restarts,
        nodes=hosts,
        tasks=tasks,
        cpus=cpus,
        elapsed_s=elapsed_s,
        limit_s=limit_s,
        exclusive=exclusive,
        waited_s=None if started is None or submitted is None else max(started - submitted, 0.0),
        partition=row.reason.partition("@")[0],
        account=shown.findtext(".//JB_project"),
        purpose=row.purpose,
        node_list=",".join(hosts),
    )


def _epoch(text: str | None) -> float | None:
    """Return a time in seconds: a number, in some versions of milliseconds, or a date."""
    if text is None or text == "0":
        return None
    if text.isdecimal():
        return float(text) / (1000.0 if len(text) > 11 else 1.0)
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return None


def _processors(text: str) -> int:
    tree = _tree(text)
    values = (
        [] if tree is None else [item.text or "" for item in tree.iter("hostvalue") if item.get("name") == "num_proc"]
    )
    return sum(int(value) for value in values if value.isdecimal())


def queues_in(table: Element) -> set[str]:
    """Return the names of queues in what ``qstat -f -xml`` prints."""
    return {name.partition("@")[0] for item in table.iter("Queue-List") if (name := item.findtext("name", ""))}


def partition_of(name: str | None, table: Element, hosts: Element, longest: str) -> Partition:
    """Put together what is known of a queue, or of all.

    Raises
    ------
    ConfigError
        There is no such queue, or it has no nodes.
    """
    queues = queues_in(table)
    if name is not None and name not in queues:
        hint = f"choose one of: {', '.join(sorted(queues))}"
        raise ConfigError(f"there is no queue {name!r}", where="resources.partition", hint=hint)
    slots: dict[str, int] = {}
    for item in table.iter("Queue-List"):
        queue, _, host = item.findtext("name", "").partition("@")
        if name in (None, queue) and not set(item.findtext("state", "")) & set("duE"):
            slots[host] = max(slots.get(host, 0), int(item.findtext("slots_total", "0")))
    if not any(slots.values()):
        raise ConfigError(
            f"no node of the queue {name or 'of any name'} is up", where="resources.partition", hint="see `qstat -f`"
        )
    memory = {
        host.get("name", ""): next(
            (item.text for item in host.iter("hostvalue") if item.get("name") == "mem_total"), None
        )
        for host in hosts.iter("host")
    }
    sizes = [size for host in slots if (size := megabytes_of(memory.get(host))) is not None]
    cores = min(number for number in slots.values() if number)
    limit_s = None if longest in ("INFINITY", "NONE") else _clock(longest)
    return Partition(
        name or "any", sum(1 for number in slots.values() if number), cores, cores, min(sizes, default=None), limit_s
    )


def _clock(text: str) -> float | None:
    parts = text.split(":")
    return (
        sum(float(part) * 60.0**power for power, part in enumerate(reversed(parts)))
        if all(p.isdecimal() for p in parts)
        else None
    )
