"""What a run or a build was made on and with: nodes once each by hash, the rest in every record.

Of the environment only variables of an allow-list are kept: the whole would hold secrets.
"""

from __future__ import annotations

import ctypes
import os
import platform
import socket
import struct
import subprocess
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from buran.extensions import version_of
from buran.files import digest, write_json
from buran.measurement.schedulers.base import current_scheduler

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


def _lscpu() -> dict[str, str] | None:
    environment = {**os.environ, "LC_ALL": "C"}
    try:
        done = subprocess.run(["lscpu"], capture_output=True, encoding="utf-8", env=environment, check=True, timeout=60)
    except (OSError, subprocess.SubprocessError):
        return None
    return {key: value for key, value in _pairs(done.stdout).items() if not any(word in key for word in _VARYING)}


def _pairs(text: str | None) -> dict[str, str]:
    """Return the pairs of lines such as ``key: value``."""
    lines = (line.split(":", 1) for line in (text or "").splitlines() if ":" in line)
    return {key.strip(): value.strip() for key, value in lines}


def host_name() -> str:
    """Return the name of this host, or of the node as the scheduler knows it."""
    return current_scheduler().this_node() or socket.gethostname()


@cache
def describe_node() -> dict[str, Any]:
    """Describe the hardware and system software of this host; what cannot be read is None."""
    cpu = _pairs((read_system_file("/proc/cpuinfo") or "").partition("\n\n")[0])  # the first processor
    return {
        "host": host_name(),
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


_SYSCALL = {"x86_64": 298, "aarch64": 241, "riscv64": 241, "ppc64le": 319, "s390x": 331}  # perf_event_open
# Type and number by perf's name, as in linux/perf_event.h.
_EVENTS = {
    "cpu-cycles": (0, 0), "instructions": (0, 1), "cache-misses": (0, 3), "branch-misses": (0, 5),
    "task-clock": (1, 1), "page-faults": (1, 2), "context-switches": (1, 3),
}  # fmt: skip
_ATTRIBUTES = 112  # bytes of the structure
_USER_ONLY = 1 << 5 | 1 << 6  # neither the kernel nor a hypervisor


def refused_counters(names: Iterable[str]) -> dict[str, str]:
    """Open counters in one group, as measurement systems do; return why some cannot be, by perf's name."""
    number, refused, opened = _SYSCALL.get(platform.machine()), dict[str, str](), list[int]()
    for name in names:
        if number is None:
            refused[name] = f"how to open it is not known on {platform.machine()}"
            continue
        kind, event = _EVENTS[name]
        attributes = ctypes.create_string_buffer(_ATTRIBUTES)
        struct.pack_into("=IIQ", attributes, 0, kind, _ATTRIBUTES, event)
        struct.pack_into("=Q", attributes, 40, _USER_ONLY)
        group = opened[0] if opened else -1
        handle = ctypes.CDLL(None, use_errno=True).syscall(number, attributes, 0, -1, group, 0)
        if handle < 0:
            paranoid = read_system_file("/proc/sys/kernel/perf_event_paranoid")
            refused[name] = f"{os.strerror(ctypes.get_errno())} (perf_event_paranoid {paranoid})"
        else:
            opened.append(handle)
    for handle in opened:
        os.close(handle)
    return refused
