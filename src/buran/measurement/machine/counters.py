"""Which counters of the processor and the kernel this machine lets a program read."""

from __future__ import annotations

import ctypes
import os
import platform
import struct
from collections.abc import Iterable

from buran.measurement.machine.provenance import read_system_file

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
