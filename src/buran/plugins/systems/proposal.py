"""A system file for this machine, of what its scheduler, its modules and its variables say."""

from __future__ import annotations

import json
import os
import platform
import shutil
from collections.abc import Iterator
from datetime import date
from itertools import chain

from buran.errors import BuranError
from buran.measurement.schedulers.base import SCHEDULERS, Partition, Scheduler
from buran.wording import counted


def proposal(name: str) -> str:
    """Return the text of a system file; what only its user can know is marked, and campaigns ask for it."""
    available = [scheduler for scheduler in SCHEDULERS if scheduler.is_available()]
    resources = [*chain(*map(_resources, available))]
    launcher = "srun" if "resources:" in resources and shutil.which("srun") else "auto"
    return "\n".join([*_environment(name, launcher), *resources, *_folders(name), ""])


def _environment(name: str, launcher: str) -> Iterator[str]:
    yield f"# Proposed on {platform.node()}, {date.today().isoformat()}. A campaign's own keys come first."
    yield f"environment: {name}"
    yield "environments:"
    yield f"  {name}:"
    yield f"    launcher: {launcher}"
    modules = [module for module in os.environ.get("LOADEDMODULES", "").split(":") if module]
    yield f"    modules: {json.dumps(modules)}  # those that are loaded now"


def _resources(scheduler: Scheduler) -> Iterator[str]:
    try:
        names, cluster = scheduler.partitions(), scheduler.cluster()
    except BuranError as error:
        yield f"# {error.what}: its partitions are not known"
        return
    usual = _partition_of(scheduler, None)
    names = names or ((usual.name,) if usual is not None else ())
    if not names:
        return
    yield "resources:"
    if cluster is not None:
        yield f"  cluster: {cluster}  # elsewhere nothing is measured"
    found = [(name, _partition_of(scheduler, name)) for name in names]
    yield "  partitions:  # a point goes to the first that takes its ranks"
    if usual is None:
        yield f"    {names[0]}: {{}}  # <- none is the usual one: choose, and take this mark away"
    for name, partition in found:
        mark = "" if usual is not None and name == usual.name else "# "
        if partition is None:
            yield f"    # {name}: {{}}  # nothing is known of it"
            continue
        most = partition.nodes * partition.cores_per_node
        yield f"    {mark}{name}: {{ranks: 1-{most}, charge_factor: 1.0}}  # {_in_words(partition)}"
    accounts = sorted({account for _, each in found if each is not None for account in each.accounts or ()})
    if accounts:
        choice = f"  # <- one of {', '.join(accounts)}" if len(accounts) > 1 else ""
        yield f"  account: {accounts[0]}{choice}"


def _partition_of(scheduler: Scheduler, name: str | None) -> Partition | None:
    try:
        return scheduler.partition(name, None)
    except BuranError:  # without nodes, or without a usual one
        return None


def _in_words(partition: Partition) -> str:
    memory = "" if partition.memory_mb is None else f", {partition.memory_mb} MB"
    longest = "" if partition.longest_s is None else f", {partition.longest_s / 3600:g} h at most"
    cores = counted(partition.cores_per_node, "core")
    return f"{counted(partition.nodes, 'node')} of {cores}{memory}{longest}"


def _folders(name: str) -> Iterator[str]:
    scratch = next((variable for variable in ("SCRATCH", "WORK") if os.environ.get(variable)), None)
    if scratch is not None:
        yield f"results: ${scratch}/buran"
    yield "# memory:"
    yield f"#   machine: {name}.json  # next to this file: buran doctor --calibrate FILE, on a node"
