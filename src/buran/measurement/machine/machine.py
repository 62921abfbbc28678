"""Where programs are built and run, one measurement at a time: what disturbs the machine, and the folders of runs."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from buran.campaign.plan import BuildSpec, Mode
from buran.campaign.point import Point
from buran.campaign.resources import Input
from buran.errors import ToolError
from buran.files import check_room, digest
from buran.measurement.machine.process import Outcome, kill_marked, run_limited
from buran.measurement.machine.provenance import machine_state, read_system_file
from buran.measurement.schedulers.base import current_scheduler

_LOCK = "buran-measurement.lock"
_SESSION = "buran-"  # begins the name of an MPI's folder, a short one: paths of sockets end after 107 characters
Clock = Literal["real", "virtual"]


@dataclass(frozen=True)
class Command:
    """A command that is about to start.

    Attributes
    ----------
    environment
        The whole environment.
    """

    argv: Sequence[str]
    cwd: Path
    environment: Mapping[str, str]
    stdout: Path
    stderr: Path
    time_limit_s: float
    binary: Path


@dataclass(frozen=True)
class BuildJob(Command):
    """A build; afterwards the program is where `binary` says."""

    spec: BuildSpec


@dataclass(frozen=True)
class RunJob(Command):
    """A run of a program.

    Attributes
    ----------
    raw
        Folder for the raw profile.
    filter_file
        Filter that is applied while it runs.
    ranks
        MPI ranks.
    key
        What tells this run from all others of the campaign: build, point, repetition, and earlier failures.
    beat
        To be called every few seconds.
    session_variable
        By which the MPI is told where to keep its own files while it runs; None if it need not be told.
    """

    mode: Mode
    point: Point
    ranks: int
    raw: Path
    filter_file: Path | None
    key: str
    beat: Callable[[], None]
    session_variable: str | None = None


class Machine:
    """What builds and runs programs: the machine that Buran runs on, or what subclasses make of it."""

    @property
    def clock(self) -> Clock:
        """Whether seconds pass while a program runs; on a virtual clock an interrupted run has cost nothing."""
        return "real"

    def reserved(self) -> AbstractContextManager[None]:
        """Hold the machine for the measurements of one point."""
        return exclusive_machine()

    def state(self) -> dict[str, Any]:
        """Return what changes from run to run: load, frequencies, memory."""
        return machine_state()

    def disturbances(self) -> tuple[str, ...]:
        """Name what makes timings noisy right now."""
        return disturbances()

    def build(self, job: BuildJob) -> Outcome:
        """Build a program."""
        return self._start(job, free_marker(), lambda: None)

    def run(self, job: RunJob) -> Outcome:
        """Run a program to its end or its time limit; raise `OSError` if it cannot be started."""
        marker = new_marker()
        with _session_folder(job.session_variable, marker) as variables:
            with_session = replace(job, environment={**job.environment, **variables})
            return self._start(with_session, marker, job.beat)

    def _start(self, job: Command, marker: str, beat: Callable[[], None]) -> Outcome:
        return run_limited(
            job.argv,
            cwd=job.cwd,
            environment=job.environment,
            marker=marker,
            stdout=job.stdout,
            stderr=job.stderr,
            time_limit_s=job.time_limit_s,
            beat=beat,
        )


def lock_path() -> Path:
    """Return the lock file that all users and campaigns of this machine share.

    In a scheduler's job it belongs to the job's node: emulated nodes share one host.
    """
    node = current_scheduler().this_node()
    return Path(os.environ.get("BURAN_LOCK_FOLDER", "/tmp")) / (f"{_LOCK}.{node}" if node else _LOCK)


def new_marker() -> str:
    """Return a unique name for a run that holds the machine; all that compete for the same lock begin alike."""
    return f"{digest(str(lock_path()))}-{os.urandom(8).hex()}"


def free_marker() -> str:
    """Return a unique name for a build or a run that does not hold the machine: no measurement next to it ends it."""
    return f"free-{os.urandom(8).hex()}"


@contextmanager
def _session_folder(variable: str | None, marker: str) -> Iterator[Mapping[str, str]]:
    """Make the MPI's folder of a run, named as the run's processes are; yield the variable that tells it."""
    if variable is None:
        yield {}
        return
    folder = Path(tempfile.gettempdir()) / f"{_SESSION}{marker}"
    folder.mkdir(mode=0o700)
    try:
        yield {variable: str(folder)}
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _lock() -> Iterator[None]:
    import fcntl  # of Linux and macOS alone: reports are also read elsewhere

    path, handle = lock_path(), None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = _open_or_create(path)
        fcntl.flock(handle, fcntl.LOCK_EX)
    except OSError as error:
        raise ToolError(
            "cannot use the machine's measurement lock",
            where=path,
            why=error.strerror,
            hint="make it readable and writable for all, or name another folder, with locks, in BURAN_LOCK_FOLDER",
        ) from error
    else:
        yield
    finally:
        if handle is not None:
            os.close(handle)


def _open_or_create(path: Path) -> int:
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
    except FileExistsError:  # without O_CREAT: hardened kernels refuse it for another user's file in a sticky folder
        return os.open(path, os.O_RDWR)
    os.fchmod(handle, 0o666)
    return handle


@contextmanager
def exclusive_machine() -> Iterator[None]:
    """Wait for the machine, hold it, and end what a measurement that was killed left running.

    The lock is the kernel's, on an open file: it vanishes with its holder, however that ends.
    """
    with _lock():
        prefix = f"{digest(str(lock_path()))}-"
        kill_marked(prefix)
        for folder in Path(tempfile.gettempdir()).glob(f"{_SESSION}{prefix}*"):
            shutil.rmtree(folder, ignore_errors=True)
        yield


def disturbances() -> tuple[str, ...]:
    """Name what makes timings on this machine noisy right now; empty where nothing is seen."""
    noise = []
    cores = os.cpu_count() or 1
    load = os.getloadavg()[0]
    if load > 0.2 * cores:
        noise.append(f"load average {load:.1f} on {cores} cores")
    governor = read_system_file("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
    if governor not in (None, "performance"):
        noise.append(f"frequency governor {governor}")
    for supply in Path("/sys/class/power_supply").glob("*/online"):
        if read_system_file(str(supply)) == "0":
            noise.append("running on battery")
    return tuple(noise)


Stamps = Mapping[Path, tuple[int, int]]


def bring_inputs(
    inputs: Iterable[Input], build_folder: Path, folder: Path, texts: Mapping[str, str] | None = None
) -> Stamps:
    """Copy inputs into a run's folder, or link them; return size and time of what is linked.

    Parameters
    ----------
    texts
        What stands at the run's point in those that values are put into, by name.

    Raises
    ------
    OSError
        One is missing or cannot be read.
    """
    linked: dict[Path, tuple[int, int]] = {}
    for entry in inputs:
        for file, location in entry.files(build_folder):
            target = folder / location
            target.parent.mkdir(parents=True, exist_ok=True)
            if entry.fill and texts is not None:
                target.write_bytes(texts[entry.name].encode(errors="surrogateescape"))
            elif entry.link:
                target.symlink_to(file.resolve())
                linked[file] = _stamp(file)
            else:
                shutil.copy2(file, target)
    return linked


def changed_input(linked: Stamps) -> str | None:
    """Return why a run that wrote to a file it was linked to is worth nothing, and so would be all that follow."""
    for path, stamp in linked.items():
        if not path.exists() or _stamp(path) != stamp:
            return f"it changed its input {path} (program.inputs: leave out link: true, and each run gets a copy)"
    return None


def keep_output(folder: Path, patterns: Sequence[str], limit: int, kept: Path) -> dict[str, int]:
    """Copy the files that patterns name, as long as they fit; return the sizes of those that do not."""
    files = {path for pattern in patterns for path in folder.glob(pattern) if path.is_file() and not path.is_symlink()}
    left_out: dict[str, int] = {}
    for path in sorted(files):
        size, name = path.stat().st_size, path.relative_to(folder)
        try:
            if size > limit:
                raise OverflowError
            (kept / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, kept / name)
            limit -= size
        except (OverflowError, OSError):  # the measurement is worth more than its output
            (kept / name).unlink(missing_ok=True)
            left_out[str(Path(kept.name) / name)] = size
    return left_out


def with_room(folder: Path, reason: str) -> str:
    """Return why a run in a folder failed: a program that filled the disk says nothing about itself.

    Raises
    ------
    OSError
        The disk is full of other things.
    """
    try:
        check_room(folder)
    except OSError:
        written = _size_of(folder)
        shutil.rmtree(folder, ignore_errors=True)
        check_room(folder.parent)
        return f"the disk was full: the run had written {written / 1e6:.0f} MB into its folder; {reason}"
    return reason


def _size_of(folder: Path) -> int:
    """Return the bytes of all files in a folder."""
    paths = (Path(walked) / name for walked, _, names in os.walk(folder) for name in names)
    return sum(path.lstat().st_size for path in paths)


def _stamp(path: Path) -> tuple[int, int]:
    stat = path.stat()
    return stat.st_size, stat.st_mtime_ns
