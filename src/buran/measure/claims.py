"""Claims: who measures or builds what right now, so that nobody else does it at the same time.

A claim is a file that only one process can create. It names its owner; an owner that is gone, on this
host by its process, elsewhere by a heartbeat that stopped, is replaced, and by one successor only.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

HEARTBEAT_TIMEOUT_S = 120.0
_POLL_S = 0.2


@dataclass(frozen=True)
class Owner:
    """The process that holds a claim.

    Attributes
    ----------
    started
        Start time of the process in clock ticks since boot, against reused process numbers.
    boot
        Identity of the host's last boot.
    """

    host: str
    pid: int
    started: int
    boot: str
    slurm_job: str | None = None

    @classmethod
    def this_process(cls) -> Owner:
        """Describe the calling process."""
        pid = os.getpid()
        return cls(socket.gethostname(), pid, _start_ticks(pid) or 0, _boot_id(), os.environ.get("SLURM_JOB_ID"))


def _start_ticks(pid: int) -> int | None:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] == "Z" else int(fields[19])


def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def is_alive(claim: Path) -> bool:
    """Tell whether a claim's owner still works on it; False if there is no claim."""
    try:
        owner = Owner(**json.loads(claim.read_text()))
        age_s = time.time() - claim.stat().st_mtime
    except FileNotFoundError:
        return False
    except (ValueError, TypeError):
        # Created a moment ago and not yet filled, or left empty by a full disk.
        with contextlib.suppress(FileNotFoundError):
            return time.time() - claim.stat().st_mtime < HEARTBEAT_TIMEOUT_S
        return False
    if owner.host == socket.gethostname():
        return owner.boot == _boot_id() and _start_ticks(owner.pid) == owner.started
    return age_s < HEARTBEAT_TIMEOUT_S


def _create(claim: Path) -> bool:
    """Make a claim if there is none; it is complete from the first moment it can be seen."""
    claim.parent.mkdir(parents=True, exist_ok=True)
    own = claim.with_name(f".{claim.name}.{socket.gethostname()}.{os.getpid()}")
    own.write_text(json.dumps(asdict(Owner.this_process())))
    try:
        os.link(own, claim)
    except FileExistsError:
        return False
    finally:
        own.unlink()
    return True


def _bury(claim: Path) -> None:
    """Remove a claim whose owner is gone; the lock keeps two successors from removing each other's."""
    with claim.with_name(".takeover.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not is_alive(claim):
            claim.unlink(missing_ok=True)


def beat(claim: Path) -> None:
    """Show that the owner is still at work."""
    with contextlib.suppress(FileNotFoundError):
        os.utime(claim)


@contextmanager
def claimed(claim: Path) -> Iterator[None]:
    """Hold a claim; wait while somebody alive holds it, take it over from the dead."""
    while not _create(claim):
        if is_alive(claim):
            time.sleep(_POLL_S)
        else:
            _bury(claim)
    try:
        yield
    finally:
        claim.unlink(missing_ok=True)
