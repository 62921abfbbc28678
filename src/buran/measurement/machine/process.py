"""Running one program under a time limit: every process it leaves behind is ended, its output kept up to a limit."""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import FileIO
from pathlib import Path
from types import FrameType

_CHUNK = 1 << 16  # bytes that a pipe holds
_LOOK_S = 0.2  # between two looks whether somebody wants the end of it


class CappedOutput(threading.Thread):
    """Reads a pipe to its end and writes a file from it.

    Parameters
    ----------
    pipe
        Handle to read from.
    file
        Open for writing, without a buffer.
    limit
        Bytes of the file; half of it for the beginning, half for the end.

    Attributes
    ----------
    left_out
        Bytes that were printed and are not in the file: beyond the limit, or the disk was full.
    """

    def __init__(self, pipe: int, file: FileIO, limit: int) -> None:
        self.path = Path(str(file.name))
        super().__init__(daemon=True, name=f"output to {self.path.name}")
        self.left_out = 0
        self._file, self._pipe, self._half = file.fileno(), pipe, limit // 2
        self._given_up = threading.Event()

    def run(self) -> None:
        """Read until all who could print are gone."""
        room, end = self._half, bytearray()
        while chunk := self._next():
            self._write(chunk[:room])
            rest = chunk[room:]
            room -= len(chunk) - len(rest)
            end += rest
            if len(end) > 2 * self._half:
                self._forget(end)
        self._forget(end)
        if self.left_out:
            self._write(f"\n[{self.left_out} bytes are left out here]\n".encode())
        self._write(end)

    def finish(self, patience_s: float) -> None:
        """Wait until everything is written; whoever holds the pipe open cannot keep us for longer than that."""
        self.join(patience_s)
        self._given_up.set()
        self.join()

    def _next(self) -> bytes:
        """Return the next bytes; none at the end."""
        while not select.select([self._pipe], [], [], _LOOK_S)[0]:
            if self._given_up.is_set():
                return b""
        return os.read(self._pipe, _CHUNK)

    def _forget(self, end: bytearray) -> None:
        """Leave out what is too much."""
        more = max(len(end) - self._half, 0)
        self.left_out += more
        del end[:more]

    def _write(self, data: bytes | bytearray) -> None:
        while data:
            try:
                data = data[os.write(self._file, data) :]
            except OSError:  # the program must not wait for a disk that is full
                self.left_out += len(data)
                return


MARKER = "BURAN_RUN"
"""Environment variable that tells the processes of a run from all others, whatever session they move to."""

OUTPUT_LIMIT = 10_000_000
"""Bytes of an output that are kept where nobody says otherwise."""

_BEAT_S = 5.0  # between two beats while a process runs
_GRACE_S = 2.0  # for killed processes to go
_ENVIRONMENT_TRIES = 4  # 2 ms apart: a process that is about to start a program has none for a moment
_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True)


class Interrupted(BaseException):
    """The measuring process was asked to stop."""


_held_back: list[signal.Signals] | None = None  # what asked this process to stop while it may not; None where it may
_STOPPING = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def interruptible() -> Iterator[None]:
    """Turn SIGINT and SIGTERM into `Interrupted`, so that runs are ended and recorded."""

    def stop(number: int, frame: FrameType | None) -> None:
        if _held_back is None:
            raise Interrupted(signal.Signals(number).name)
        _held_back.append(signal.Signals(number))

    before = {number: signal.signal(number, stop) for number in _STOPPING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def stops_held_back() -> Iterator[None]:
    """Raise `Interrupted` only afterwards: what is raised in a hook of a fork is lost, and so is the new process.

    Not by a signal mask: other threads would take the signal.
    """
    global _held_back
    _held_back = held_back = list[signal.Signals]()
    try:
        yield
    finally:
        _held_back = None
        if held_back:
            raise Interrupted(held_back[0].name)


def begin_child() -> None:
    """Begin in a child that was forked while stops were held back: its parent's are not for it; it ends with it."""
    global _held_back
    _held_back = None
    for number in _STOPPING:
        signal.signal(number, signal.SIG_DFL)
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


@dataclass(frozen=True)
class Outcome:
    """How a program ended.

    Attributes
    ----------
    exit_code
        None if a signal ended it.
    signal
        Number of the signal that ended it, if one did.
    wall_s, user_s, system_s
        Elapsed time; CPU time of the program and all children it waited for.
    max_rss_kib
        Largest resident set of a single process.
    involuntary_switches
        How often its processes lost their core to others.
    left_out
        Bytes that it printed and that were not kept, by file; see `CappedOutput`.
    """

    exit_code: int | None
    signal: int | None
    timed_out: bool
    wall_s: float
    user_s: float
    system_s: float
    max_rss_kib: int
    left_out: Mapping[str, int] = field(default_factory=dict)
    involuntary_switches: int = 0

    @property
    def failure(self) -> str | None:
        """Reason, as text; None for a clean end."""
        if self.timed_out:
            return f"time limit reached after {self.wall_s:.1f} s"
        if self.signal is not None:
            return f"killed by signal {self.signal} ({signal.Signals(self.signal).name})"
        if self.exit_code == 0:
            return None
        by_signal = (self.exit_code or 0) - 128  # as shells and launchers pass on that a process was killed
        if by_signal in set(signal.Signals):
            return f"killed by {signal.Signals(by_signal).name} (exit code {self.exit_code})"
        return f"exit code {self.exit_code}"


def marked_processes(prefix: str) -> list[int]:
    """Return the processes of this user that belong to runs whose marker begins with `prefix`."""
    marker = f"\0{MARKER}={prefix}".encode()
    pids = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit() or int(folder.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            if marker in b"\0" + _environment(folder):
                pids.append(int(folder.name))
    return pids


def _environment(process: Path) -> bytes:
    """Read a process's environment; one that is about to start a program has none for a moment.

    Raises
    ------
    OSError
        The process is gone, belongs to somebody else or to the kernel.
    """
    for _ in range(_ENVIRONMENT_TRIES):
        environment = (process / "environ").read_bytes()
        if environment:
            return environment
        (process / "exe").readlink()  # fails for the kernel's own threads, which never have one
        time.sleep(0.002)
    return b""


def kill_marked(prefix: str) -> None:
    """End all processes of runs whose marker begins with `prefix`, first politely."""
    deadline = time.monotonic() + _GRACE_S
    alive, number = marked_processes(prefix), signal.SIGTERM
    while alive:
        for pid in alive:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)
        time.sleep(0.02)
        if time.monotonic() > deadline:
            number = signal.SIGKILL
        if time.monotonic() > deadline + _GRACE_S:
            break
        alive = marked_processes(prefix)


def run_limited(
    argv: Sequence[str],
    *,
    cwd: Path,
    environment: Mapping[str, str],
    marker: str,
    stdout: Path,
    stderr: Path,
    time_limit_s: float,
    output_limit: int = OUTPUT_LIMIT,
    beat: Callable[[], None] = lambda: None,
) -> Outcome:
    """Run a program to its end or its time limit.

    Parameters
    ----------
    environment
        The whole environment of the program.
    marker
        Unique name of the run; no process that carries it survives this call.
    output_limit
        Bytes that are kept of each of its two outputs.
    beat
        Called every few seconds while the program runs.

    Raises
    ------
    OSError
        The program cannot be started, or its outputs cannot be written.
    """
    start = time.monotonic()
    outputs = list[CappedOutput]()
    with (
        stdout.open("wb", buffering=0) as stdout_file,
        stderr.open("wb", buffering=0) as stderr_file,
        contextlib.ExitStack() as afterwards,
    ):
        with stops_held_back():
            process = afterwards.enter_context(
                subprocess.Popen(
                    list(argv),
                    cwd=cwd,
                    env={**environment, MARKER: marker},
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    start_new_session=True,
                    preexec_fn=begin_child,
                )
            )
            afterwards.callback(_finish, outputs)
            afterwards.callback(kill_marked, marker)
        assert process.stdout is not None and process.stderr is not None
        for pipe, file in ((process.stdout, stdout_file), (process.stderr, stderr_file)):
            output = CappedOutput(pipe.fileno(), file, output_limit)
            output.start()
            outputs.append(output)
        handle = os.pidfd_open(process.pid)
        try:
            timed_out = not _wait(handle, start + time_limit_s, beat)
            if timed_out:
                kill_marked(marker)
            _, status, usage = os.wait4(process.pid, 0)
            wall_s = time.monotonic() - start
        finally:
            os.close(handle)
        process.returncode = os.waitstatus_to_exitcode(status)
    code = process.returncode
    return Outcome(
        exit_code=code if code >= 0 else None,
        signal=-code if code < 0 else None,
        timed_out=timed_out,
        wall_s=wall_s,
        user_s=usage.ru_utime,
        system_s=usage.ru_stime,
        max_rss_kib=usage.ru_maxrss,
        left_out={output.path.name: output.left_out for output in outputs if output.left_out},
        involuntary_switches=usage.ru_nivcsw,
    )


def _finish(outputs: Sequence[CappedOutput]) -> None:
    for output in outputs:
        output.finish(_GRACE_S)


def _wait(handle: int, deadline: float, beat: Callable[[], None]) -> bool:
    """Wait for a process to end; return False if the deadline came first."""
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    while True:
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            return False
        if poll.poll(min(remaining, _BEAT_S) * 1000):
            return True
        beat()
