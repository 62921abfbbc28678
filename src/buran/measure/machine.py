"""One measurement at a time on a machine, whoever starts it, and what may disturb it."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from buran.errors import ToolError
from buran.files import digest
from buran.measure import slurm
from buran.measure.process import kill_marked
from buran.measure.provenance import read_system_file

_LOCK = "buran-measurement.lock"


def lock_path() -> Path:
    """Return the lock file that all users and campaigns of this machine share.

    In a Slurm job it belongs to the job's node: emulated nodes share one host.
    """
    node = slurm.this_node()
    return Path(os.environ.get("BURAN_LOCK_FOLDER", "/tmp")) / (f"{_LOCK}.{node}" if node else _LOCK)


def new_marker() -> str:
    """Return a unique name for a run; all that compete for the same machine lock begin alike."""
    return f"{digest(str(lock_path()))}-{os.urandom(8).hex()}"


def _open_lock() -> int:
    path = lock_path()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return _open_or_create(path)
    except OSError as error:
        raise ToolError(
            "cannot use the machine's measurement lock",
            where=path,
            why=error.strerror,
            hint="make it readable and writable for all, or name another folder in BURAN_LOCK_FOLDER",
        ) from error


def _open_or_create(path: Path) -> int:
    # Opening with O_CREAT another user's file in a sticky folder is refused by hardened kernels.
    with contextlib.suppress(FileNotFoundError):
        return os.open(path, os.O_RDWR)
    with contextlib.suppress(FileExistsError):
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
        os.fchmod(handle, 0o666)
        return handle
    return os.open(path, os.O_RDWR)


@contextmanager
def exclusive_machine() -> Iterator[None]:
    """Wait for the machine, hold it, and end what a measurement that was killed left running.

    The lock is the kernel's, on an open file: it vanishes with its holder, however that ends.
    """
    handle = _open_lock()
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        kill_marked(digest(str(lock_path())) + "-")
        yield
    finally:
        os.close(handle)


def disturbances() -> tuple[str, ...]:
    """Name what makes timings on this machine noisy right now; empty where nothing is seen."""
    found = []
    cores = os.cpu_count() or 1
    load = os.getloadavg()[0]
    if load > 0.2 * cores:
        found.append(f"load average {load:.1f} on {cores} cores")
    governor = read_system_file("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
    if governor not in (None, "performance"):
        found.append(f"frequency governor {governor}")
    for supply in Path("/sys/class/power_supply").glob("*/online"):
        if read_system_file(str(supply)) == "0":
            found.append("running on battery")
    return tuple(found)
