"""Claims: who measures or builds what right now, so that nobody else does it at the same time.

A claim is a file that only one process can create. It names its owner; an owner that is gone, on this host
by its process, in a scheduler's job by what that says, elsewhere by a heartbeat that stopped, gets one successor.

Successors form a chain: who follows the owner with the nonce X creates the file ``.<claim>.X.next``, and only
one process can. The last of the chain owns the claim. Only ``link``, ``rename`` and ``unlink`` are needed, which
shared file systems carry out for all hosts alike; locks are not.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

from buran.campaign.records import with_scheduler
from buran.errors import RunError, StorageError
from buran.measurement.machine.provenance import host_name, read_system_file
from buran.measurement.schedulers.base import SCHEDULERS, current_scheduler
from buran.measurement.schedulers.jobs import JobState

HEARTBEAT_TIMEOUT_S = 120.0  # without a beat, the holder of a claim counts as dead
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS)
_POLL_S = 0.2  # between two looks at a claim of this machine
_FOREIGN_POLL_S = 2.0  # of another machine: its file system is shared
_LIVE_MEMORY_S = 2.0  # for which a job that was seen alive is not asked about again
_live_jobs: dict[tuple[str, str, int], float] = {}


@dataclass(frozen=True)
class Owner:
    """The process that holds a claim.

    Attributes
    ----------
    host
        Name of the host, or of the node as the scheduler knows it.
    started
        Start time of the process in clock ticks since boot, against reused process numbers.
    boot
        Identity of the host's last boot.
    scheduler, job
        Name of the scheduler and number of its job; None outside of jobs.
    restarts
        How often the job had been started again.
    nonce
        Unlike that of any other claim ever made.
    """

    host: str
    pid: int
    started: int
    boot: str
    scheduler: str | None = None
    job: str | None = None
    restarts: int = 0
    nonce: str = ""

    @classmethod
    def this_process(cls) -> Owner:
        """Describe the calling process."""
        pid, scheduler = os.getpid(), current_scheduler()
        identity = (host_name(), pid, _start_ticks(pid) or 0, _boot_id())
        job = scheduler.this_job()
        if job is None:
            return cls(*identity, nonce=os.urandom(8).hex())
        return cls(*identity, scheduler.name, job, _restarts(scheduler.name, job), os.urandom(8).hex())

    def __str__(self) -> str:
        where = f"process {self.pid} on {self.host}"
        if self.scheduler is None:
            return where
        is_known = self.scheduler in SCHEDULERS.names
        return f"{SCHEDULERS.load(self.scheduler).title if is_known else self.scheduler} job {self.job} ({where})"

    @property
    def why_unknown(self) -> str | None:
        """Why it is unknown here whether the owner is alive, and what to do; None if it is known."""
        if self.scheduler is None or self.scheduler in SCHEDULERS.names:
            return None
        return (
            f"Buran here does not know the scheduler {self.scheduler!r} and cannot ask it what became of the job "
            f"{self.job}: install the package that brings it, or remove the claim if the job is gone"
        )


@cache  # a job that is started again has new processes
def _restarts(scheduler: str, job: str) -> int:
    return SCHEDULERS.load(scheduler).restarts(job)


def _start_ticks(pid: int) -> int | None:
    fields = (read_system_file(f"/proc/{pid}/stat") or "").rpartition(")")[2].split()
    return int(fields[19]) if fields and fields[0] != "Z" else None


def _boot_id() -> str:
    return read_system_file("/proc/sys/kernel/random/boot_id") or ""


def read_owner(path: Path) -> Owner | None:
    """Return who a claim's file names; None if it was left unreadable, as by a full disk.

    Raises
    ------
    FileNotFoundError
        There is no such file.
    """
    try:
        return Owner(**with_scheduler(json.loads(path.read_text(encoding="utf-8"))))
    except (ValueError, TypeError, AttributeError, RecursionError):
        return None


def _next(claim: Path, path: Path, owner: Owner | None) -> Path:
    """Return the file of whoever follows an owner; an unreadable one is known by its file."""
    nonce = owner.nonce if owner and owner.nonce else f"file-{path.stat().st_ino}"
    return claim.with_name(f".{claim.name}.{nonce}.next")


def _identity(path: Path) -> tuple[int, bytes]:
    return path.stat().st_ino, path.read_bytes()


def _tail(claim: Path) -> tuple[Path, Owner | None]:
    """Return the file and the owner at the end of the chain.

    Raises
    ------
    FileNotFoundError
        There is no claim.
    """
    path, owner = claim, read_owner(claim)
    while True:
        try:
            follower = _next(claim, path, owner)
            path, owner = follower, read_owner(follower)
        except FileNotFoundError:
            return path, owner


def owner_of(claim: Path) -> Owner | None:
    """Return who holds a claim, alive or not; None if nobody does or the file is unreadable."""
    try:
        return _tail(claim)[1]
    except FileNotFoundError:
        return None


def is_alive(claim: Path) -> bool:
    """Tell whether a claim's owner still works on it; False if there is no claim."""
    try:
        path, owner = _tail(claim)
        return _lives(path, owner)
    except FileNotFoundError:
        return False


def _lives(path: Path, owner: Owner | None) -> bool:
    if owner is None:
        return _heartbeat_age_s(path) < HEARTBEAT_TIMEOUT_S
    if owner.host == host_name():
        return owner.boot == _boot_id() and _start_ticks(owner.pid) == owner.started
    match _job_state(owner):
        case JobState.LIVE | JobState.UNKNOWN:
            # Waiting while a scheduler is silent costs time; a second measurement would cost the result.
            return True
        case JobState.ENDED:
            return False
    return _heartbeat_age_s(path) < HEARTBEAT_TIMEOUT_S


def _job_state(owner: Owner) -> JobState | None:
    """Ask the scheduler about an owner's job; None if there is no such job, or no scheduler here that could be asked.

    It is not asked again at once: all runs of a bundle have the same job.
    """
    if owner.scheduler is None or owner.job is None:
        return None
    if owner.why_unknown:
        return JobState.UNKNOWN
    scheduler, key = SCHEDULERS.load(owner.scheduler), (owner.scheduler, owner.job, owner.restarts)
    if not scheduler.is_available():
        return None
    seen = _live_jobs.get(key)
    if seen is not None and time.monotonic() - seen < _LIVE_MEMORY_S:
        return JobState.LIVE
    state = scheduler.job_state(owner.job, owner.restarts)
    if state is JobState.LIVE:
        _live_jobs[key] = time.monotonic()
    return state


def _heartbeat_age_s(path: Path) -> float:
    """Return the age of a heartbeat by the file system's clock, since the hosts' clocks may differ."""
    probe = path.with_name(f".now.{os.urandom(8).hex()}")
    try:
        probe.touch()
        now = probe.stat().st_mtime
    except FileNotFoundError:
        raise
    except OSError:  # full or read-only
        now = time.time()
    finally:
        with contextlib.suppress(OSError):
            probe.unlink()
    return now - path.stat().st_mtime


def _link(owner: Owner, path: Path) -> bool:
    """Make a file that must not exist; it is complete from the first moment it can be seen."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".own.{owner.nonce}")
    try:
        draft.write_text(json.dumps(asdict(owner)), encoding="utf-8")
        os.link(draft, path)
    except FileExistsError:
        # A server that carried the request out but whose answer was lost is asked twice.
        return draft.stat().st_nlink == 2
    except OSError as error:
        if error.filename2 is None or error.errno not in _NO_LINKS:
            raise
        raise StorageError(
            "runs cannot be claimed: the file system has no hard links",
            where=path,
            why=error.strerror,
            hint="name a folder on another file system in the campaign's key `results`; `buran doctor` tests it",
        ) from error
    finally:
        draft.unlink(missing_ok=True)
    return True


def _succeed(claim: Path, owner: Owner) -> bool:
    """Follow a dead owner; return False if another process was faster."""
    successor: Path | None = None
    try:
        head = _identity(claim)
        path, last = _tail(claim)
        if _lives(path, last):  # who was seen dead may be gone by now, and the claim somebody else's
            return False
        successor = _next(claim, path, last)
        if not _link(owner, successor):
            return False
        # An owner that gives up removes the head first and its own file last. If the head is the one that was
        # seen before, no owner has given up since, and the file that was created here is the end of the chain.
        if _identity(claim) == head:
            return True
    except FileNotFoundError:
        if successor is None:
            return False
    successor.unlink(missing_ok=True)
    return False


def _release(claim: Path, owner: Owner) -> None:
    """Give a claim up: the head first, so that nobody can follow, then the rest of the chain."""
    try:
        path, holder = claim, read_owner(claim)
        chain = [claim]
        while holder != owner:
            path = _next(claim, path, holder)
            holder = read_owner(path)
            chain.append(path)
    except FileNotFoundError:  # somebody removed it by hand
        return
    for path in chain:
        path.unlink(missing_ok=True)


def beat(claim: Path) -> None:
    """Show that the owner is still at work."""
    with contextlib.suppress(OSError):
        os.utime(_tail(claim)[0])


@contextmanager
def claimed(claim: Path, *, wait: bool = True) -> Iterator[None]:
    """Hold a claim; wait while somebody alive holds it, take it over from the dead.

    Parameters
    ----------
    wait
        Without it, somebody alive is an error; the last heartbeat of a lost job, as on a node that died, is waited out.

    Raises
    ------
    RunError
        Somebody alive holds the claim.
    """
    owner, unknown = Owner.this_process(), None
    while not _link(owner, claim):
        try:
            path, current = _tail(claim)
            alive = _lives(path, current)
        except FileNotFoundError:
            continue
        if not alive:
            if _succeed(claim, owner):
                break
        elif not wait and not (current is not None and _job_state(current) is JobState.LOST):
            raise RunError(
                "this is being measured elsewhere",
                where=claim,
                why=f"by {current}",
                hint="nothing to do: its result will be used",
            )
        else:
            if current is not None and current.why_unknown != unknown:
                unknown = current.why_unknown
                print(f"waiting for {claim}, locked by {current}: {unknown}", file=sys.stderr, flush=True)
            local = current is None or current.host == owner.host
            time.sleep(_POLL_S if local else _FOREIGN_POLL_S)
    try:
        yield
    finally:
        _release(claim, owner)
