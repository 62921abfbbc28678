"""What a run or a build was made on and with: nodes once each by hash, the rest in every record.

Of the environment only variables of an allow-list are kept: the whole would hold secrets.
"""

from __future__ import annotations

import os
import platform
import socket
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from buran.extensions import version_of
from buran.files import digest, write_json
from buran.measurement.git import commit_and_changes
from buran.measurement.schedulers.registry import current_scheduler

_ALLOWED = (
    *("LD_LIBRARY_PATH", "LD_PRELOAD", "LOADEDMODULES", "TZ", "LANG", "LC_ALL", "CPATH", "LIBRARY_PATH"),
    *("CC", "CXX", "FC", "CPPFLAGS", "CFLAGS", "CXXFLAGS", "FFLAGS", "FCFLAGS", "LDFLAGS", "LIBS"),
    *("PKG_CONFIG_PATH", "CMAKE_PREFIX_PATH", "CMAKE_BUILD_TYPE", "MAKEFLAGS"),
)
_ALLOWED_PREFIXES = (
    *("OMP_", "GOMP_", "KMP_", "OMPI_MCA_", "PRTE_MCA_", "PMIX_MCA_", "MPICH_", "I_MPI_", "UCX_", "FI_"),
    *("MALLOC_", "GLIBC_TUNABLES", "OMPI_CC", "OMPI_CXX", "OMPI_FC"),
)
_TOOLS = ("buran", "snakemake", "numpy", "scipy", "pycubexr")
_LARGEST_DIFF = 1_000_000  # characters of uncommitted changes that a record keeps
_VARYING = ("MHz", "scaling", "BogoMIPS")


def environment_of(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that can change what is measured and hold no secrets."""
    return {
        name: value
        for name, value in sorted(variables.items())
        if name in _ALLOWED or name.startswith(_ALLOWED_PREFIXES)
    }


@cache
def tool_versions() -> Mapping[str, str | None]:
    """Return the versions of the tools that measure; None for one that is not installed."""
    versions: dict[str, str | None] = {"python": platform.python_version()}
    return versions | {name: version_of(name) for name in _TOOLS}


def machine_state() -> dict[str, Any]:
    """Return what changes from run to run; what cannot be read is None."""
    cpus = Path("/sys/devices/system/cpu")
    frequencies = [read_system_file(str(path)) for path in sorted(cpus.glob("cpu[0-9]*/cpufreq/scaling_cur_freq"))]
    throttled = [
        read_system_file(str(path)) for path in sorted(cpus.glob("cpu[0-9]*/thermal_throttle/core_throttle_count"))
    ]
    available = _pairs(read_system_file("/proc/meminfo")).get("MemAvailable", "").split()
    return {
        "load": list(os.getloadavg()),
        "cpu_mask": sorted(os.sched_getaffinity(0)),
        "steal_s": _stolen_s(read_system_file("/proc/stat")),
        "frequencies_khz": [int(value) for value in frequencies if value] or None,
        "throttle_count": sum(int(value) for value in throttled if value) if throttled else None,
        "memory_available_kib": int(available[0]) if available else None,
    }


def _stolen_s(text: str | None) -> float | None:
    """Return the time that the host of a virtual machine has taken from its cores since it started."""
    fields = (text or "").partition("\n")[0].split()
    return int(fields[8]) / os.sysconf("SC_CLK_TCK") if len(fields) > 8 and fields[8].isdecimal() else None


def working_copy(folder: Path) -> dict[str, str | None]:
    """Return the git revision of a source folder and its uncommitted changes; None where there are none or no git."""
    commit, diff = commit_and_changes(folder)
    if diff and len(diff) > _LARGEST_DIFF:
        diff = f"{diff[:_LARGEST_DIFF]}\n... cut off; the sources as built are kept in the store\n"
    return {"commit": commit, "diff": diff or None}


def _run(*command: str) -> str | None:
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=60,
            env={**os.environ, "LC_ALL": "C"},
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def _lscpu() -> dict[str, str] | None:
    text = _run("lscpu")
    if text is None:
        return None
    return {key: value for key, value in _pairs(text).items() if not any(word in key for word in _VARYING)}


def _pairs(text: str | None) -> dict[str, str]:
    """Return the pairs of lines such as ``key: value``."""
    lines = (line.split(":", 1) for line in (text or "").splitlines() if ":" in line)
    return {key.strip(): value.strip() for key, value in lines}


@cache
def describe_node() -> dict[str, Any]:
    """Describe the hardware and system software of this host; what cannot be read is None."""
    cpu = _pairs((read_system_file("/proc/cpuinfo") or "").partition("\n\n")[0])  # the first processor
    return {
        "host": current_scheduler().this_node() or socket.gethostname(),
        "kernel": platform.release(),
        "machine": platform.machine(),
        "libc": " ".join(platform.libc_ver()),
        "lscpu": _lscpu(),
        "cpu": cpu.get("model name"),
        "cores": sum(1 for _ in Path("/sys/devices/system/cpu").glob("cpu[0-9]*")) or None,
        "microcode": cpu.get("microcode"),
        "governor": read_system_file("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "transparent_huge_pages": read_system_file("/sys/kernel/mm/transparent_hugepage/enabled"),
    }


def record_node(store: Path) -> str:
    """Write this host's description into the store, once; return its hash."""
    description = describe_node()
    name = digest(description)
    path = store / "nodes" / f"{name}.json"
    if not path.is_file():
        write_json(path, description)
    return name


def read_system_file(path: str) -> str | None:
    """Return the content of a file of the system, stripped; None if it cannot be read."""
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except OSError:
        return None
