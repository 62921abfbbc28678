"""What a run was made on: described once for each kind of node, named by hash in every run."""

from __future__ import annotations

import platform
import socket
from pathlib import Path
from typing import Any

from buran.files import digest, write_json


def describe_node() -> dict[str, Any]:
    """Describe the hardware and system software of this host; what cannot be read is None."""
    cpu = _cpuinfo()
    return {
        "host": socket.gethostname(),
        "kernel": platform.release(),
        "machine": platform.machine(),
        "cpu": cpu.get("model name"),
        "cores": sum(1 for _ in Path("/sys/devices/system/cpu").glob("cpu[0-9]*")) or None,
        "microcode": cpu.get("microcode"),
        "flags_constant_tsc": "constant_tsc" in cpu.get("flags", "").split(),
        "governor": read_system_file("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "smt": read_system_file("/sys/devices/system/cpu/smt/active"),
        "transparent_huge_pages": read_system_file("/sys/kernel/mm/transparent_hugepage/enabled"),
        "numa_nodes": sum(1 for _ in Path("/sys/devices/system/node").glob("node[0-9]*")) or None,
    }


def record_node(store: Path) -> str:
    """Write this host's description into the store, once; return its hash."""
    description = describe_node()
    name = digest(description)
    path = store / "nodes" / f"{name}.json"
    if not path.is_file():
        write_json(path, description)
    return name


def _cpuinfo() -> dict[str, str]:
    pairs: dict[str, str] = {}
    for line in (read_system_file("/proc/cpuinfo") or "").splitlines():
        if not line.strip():
            break
        name, _, value = line.partition(":")
        pairs[name.strip()] = value.strip()
    return pairs


def read_system_file(path: str) -> str | None:
    """Return the content of a file of the system, stripped; None if it cannot be read."""
    try:
        return Path(path).read_text().strip()
    except OSError:
        return None
