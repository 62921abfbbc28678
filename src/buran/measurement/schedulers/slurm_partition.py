"""What a partition of Slurm has, from what ``scontrol``, ``sinfo`` and ``sacctmgr`` print."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

from buran.errors import ConfigError
from buran.measurement.schedulers.base import Partition
from buran.measurement.schedulers.slurm_words import seconds

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
