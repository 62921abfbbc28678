"""What Slurm says, and what that means: partitions, reasons why jobs wait, complaints about requests."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

from buran.errors import ConfigError
from buran.measurement.schedulers.base import Partition
from buran.measurement.schedulers.jobs import Refusal

_TIME = "see resources.time_limit, expected_time and time_margin"
_CPUS = "see resources.nodes, tasks_per_node, ranks and threads"
_SPENT = "the account has no time left: `sshare` shows it; another in resources.account, or ask who grants it"
_NEVER_STARTS = {  # the first that fits; what is not here comes with waiting: Priority, Resources, ...MaxJobs, ...Grp
    r"PartitionTimeLimit": f"the partition gives less time: {_TIME}",
    r"PartitionNodeLimit": "the partition gives fewer nodes: see resources.nodes",
    r"PartitionConfig": f"the partition has less than that, as `sinfo` shows: {_CPUS}",
    r"PartitionDown|PartitionInactive": "choose another in resources.partition, or ask the operators of the cluster",
    r"BadConstraints": "no node is like that: `sinfo -o '%N %f'` lists what nodes have; see resources.constraint",
    r"Held|held": "somebody holds it: `scontrol release JOB`, or ask the operators of the cluster",
    r"DependencyNeverSatisfied": "what it depends on has failed: see resources.extra",
    r"AccountNotAllowed|InvalidAccount": "the partition does not take it: see resources.account and partition",
    r"QOSNotAllowed|InvalidQOS|QOSUsageThreshold": "`sacctmgr show assoc user=$USER format=account,qos` lists yours; "
    "see resources.qos",
    r"ReservationDeleted|InvalidReservation": "`scontrol show reservation` lists them; see resources.reservation",
    r"ReqNodeNotAvail": "its nodes are down or reserved: `sinfo -R` says why",
    r"(Assoc|QOS)Grp\w*(Minutes|RunMin)|GrpBilling": _SPENT,
    r"\w*(Wall|WallDuration)(PerJob)?(Limit)?$|\w*Minutes(PerJob)?": f"more time than a job may have: {_TIME}",
    r"\w*Mem\w*Per(Job|Node|Limit)|MaxMemPerLimit|\w*MinMem": "memory outside of the limits: see resources.memory_mb",
    r"\w*Nodes?PerJob|\w*MinNode": "the number of nodes is outside of the limits: see resources.nodes",
    r"\w*C[Pp][Uu]s?PerJob|\w*MinC[Pp][Uu]": f"the number of CPUs is outside of the limits: {_CPUS}",
    r"\w*(PerJob|Min\w*NotSatisfied)": f"outside of the limits of its account or quality of service: {_CPUS}",
    r"JobLaunchFailure|launch failed|SystemFailure|FrontEndDown|InvalidBBPath|NodeDown": "ask the operators of the "
    "cluster; `scontrol show job` shows more",
}
_NEXT_STEPS = {  # the first that fits
    r"\baccount\b": "`sacctmgr show associations user=$USER` lists yours; say which in resources.account",
    r"partition": "`sinfo` lists the partitions; say which in resources.partition",
    r"MaxSubmit|job submit limit": "the site takes no more jobs of yours: key `jobs` of the profile, or "
    "resources.points_per_job",
    r"unable to accept job|job queue full": "the whole cluster has as many jobs as it takes (MaxJobCount)",
    r"\bqos\b": "`sacctmgr show qos` lists them; say which in resources.qos",
    r"feature|constraint": "`sinfo -o '%N %f'` lists what nodes have; see resources.constraint",
    r"reservation": "`scontrol show reservation` lists them; see resources.reservation",
    r"memory": "`sinfo -o '%N %m'` lists what nodes have; see resources.memory_mb",
    r"time limit": "`sinfo -o '%P %l'` lists the partitions' limits; see resources.time_limit and time_margin",
    r"node count|node configuration|cpu count|more processors": "see resources.nodes, tasks_per_node and threads",
    r"credential|authentication|munge": "the clocks here and of Slurm differ, or munged is down: `munge -n | unmunge`",
    r"configuration (source|file)|slurm\.conf": "see the variable SLURM_CONF, or unset it",
}
_PASSING = re.compile(
    r"unable to contact|connection (refused|reset|timed out|failure)|timed out|zero bytes|communication|"
    r"temporarily un(available|able)|standby mode|unexpected message|authentication|credential|munge|try again|"
    r"transport endpoint|no route to host|network is unreachable|socket|msg_sendto|input/output error",
    re.IGNORECASE,
)


def step_to_start(reason: str) -> str | None:
    """Return what to do about a job that waits for what waiting alone may never bring; None for other reasons."""
    return next((step for pattern, step in _NEVER_STARTS.items() if re.search(pattern, reason)), None)


def refusal_of(complaint: str) -> Refusal:
    """Return what can be done about a job that Slurm did not take."""
    if re.search(r"job array", complaint, re.IGNORECASE):
        return Refusal.NO_ARRAY
    if re.search(r"MaxSubmit|unable to accept job|job queue full", complaint):  # the latter by MaxJobCount
        return Refusal.FULL
    if re.search(r"job submit limit", complaint):  # of all limits alike, where the reason is not named
        return Refusal.FINAL if step_to_start(complaint.partition(" ")[0]) else Refusal.FULL
    return Refusal.PASSING if _PASSING.search(complaint) else Refusal.FINAL


def next_step(why: str) -> str:
    """Return what to do about Slurm's complaint, after a colon; empty if nothing is known of it."""
    steps = (step for pattern, step in _NEXT_STEPS.items() if re.search(pattern, why, re.IGNORECASE))
    return next((f": {step}" for step in steps), "")


def seconds(limit: str) -> float | None:
    """Return a time limit as Slurm writes it, ``[days-]hours:minutes:seconds``, in seconds; None for no limit."""
    match = re.fullmatch(r"(?:(\d+)-)?(\d+):(\d+):(\d+)", limit)
    if match is None:
        return None
    days, hours, minutes, rest = (int(number or 0) for number in match.groups())
    return float(((days * 24 + hours) * 60 + minutes) * 60 + rest)


NODES_FORMAT = "%D|%z|%m|%f"
"""Columns of ``sinfo``: number of nodes, sockets : cores : threads, memory in MB, features."""


def usual_or_named(partitions: Sequence[Mapping[str, str]], name: str | None) -> Mapping[str, str]:
    """Return the partition of a name, or the one that jobs go to without a name.

    Raises
    ------
    ConfigError
        There is none.
    """
    for fields in partitions:
        if fields["PartitionName"] == name or (name is None and fields.get("Default") == "YES"):
            return fields
    what = "no partition is the default one" if name is None else f"there is no partition {name!r}"
    names = ", ".join(fields["PartitionName"] for fields in partitions)
    raise ConfigError(what, where="resources.partition", hint=f"choose one of: {names}" if names else "see `sinfo`")


def partition_of(fields: Mapping[str, str], nodes: str, constraint: str | None, associations: str | None) -> Partition:
    """Put together what is known of a partition.

    Parameters
    ----------
    fields
        Of ``scontrol show partition``.
    nodes
        Lines of ``sinfo`` in `NODES_FORMAT`.
    constraint
        Features that nodes must have; what is more than names with ``&`` between them is not looked at.
    associations
        Lines ``account|qos,qos`` of this user; None without accounting.

    Raises
    ------
    ConfigError
        It has no such nodes.
    """
    wanted = set(constraint.split("&")) if constraint and re.fullmatch(r"[\w.&-]+", constraint) else set()
    rows = [line.split("|", 3) for line in nodes.splitlines() if line.count("|") >= 3]
    fitting = [row for row in rows if wanted <= set(row[3].split(","))]
    cores = [int(sockets) * int(each) for row in fitting for sockets, each, _ in [row[1].split(":")]]
    cpus = [math.prod(map(int, row[1].split(":"))) for row in fitting]
    if not cores:
        raise ConfigError(
            f"no node of the partition {fields['PartitionName']} is like that",
            where="resources.constraint" if rows else "resources.partition",
            hint="`sinfo -o '%P %N %f'` lists partitions, nodes and their features",
        )
    most_nodes = fields.get("MaxNodes", "UNLIMITED")
    there = sum(int(row[0]) for row in fitting)
    memory = [int(row[2].rstrip("+")) for row in fitting]
    most_memory = fields.get("MaxMemPerNode", "UNLIMITED")
    pairs = [line.split("|")[:2] for line in (associations or "").splitlines() if "|" in line]
    accounts = {account for account, _ in pairs}
    qos = {word for _, words in pairs for word in words.split(",") if word}
    return Partition(
        name=fields["PartitionName"],
        nodes=min(there, int(most_nodes)) if most_nodes.isdecimal() else there,
        cores_per_node=min(cores),
        cpus_per_node=min(cpus),
        memory_mb=min([*memory, *([int(most_memory)] if most_memory.isdecimal() and int(most_memory) else [])]),
        longest_s=seconds(fields.get("MaxTime", "UNLIMITED")),
        accounts=_allowed(accounts, fields.get("AllowAccounts"), fields.get("DenyAccounts")),
        qos=_allowed(qos, fields.get("AllowQos"), fields.get("DenyQos")),
    )


def _allowed(own: set[str], allowed: str | None, denied: str | None) -> tuple[str, ...] | None:
    """Return which of a user's a partition takes; None if nothing is known of the user's."""
    if not own:
        return None
    left = own if allowed in (None, "ALL") else own & set(str(allowed).split(","))
    return tuple(sorted(left - set((denied or "").split(","))))
