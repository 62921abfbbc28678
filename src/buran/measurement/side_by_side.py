"""Several bundles of a job at the same time, each in a process of its own on cores of its own."""

from __future__ import annotations

import mmap
import os
import pickle
import selectors
import signal
import struct
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

from buran.campaign.launcher import local_cores
from buran.campaign.packing import Need, NodeRoom, WaitingNeeds, within
from buran.errors import BuranError, RunError
from buran.measurement.machine.process import Interrupted, begin_child, interruptible, stops_held_back

_GRACE_S = 2.0  # for the processes of a job to see a signal that their scheduler sent to all of them
_STATE = struct.Struct("dddd")


class SharedMeter:
    """What a job is charged, distinguished for those that go on side by side in it.

    Of every second each has the part that its cores are of all that work; so the sum is what the job held. What it held
    while nobody worked falls to whoever works next.
    """

    def __init__(self, cpus: float, begun: float) -> None:
        """Begin.

        Parameters
        ----------
        cpus
            That the job is charged for.
        begun
            On the machine's monotonic clock, which processes share.
        """
        self.cpus = cpus
        self._lock = os.memfd_create("buran-meter")  # its locks end with their process, however that ends
        os.truncate(self._lock, _STATE.size)
        self._memory = mmap.mmap(self._lock, _STATE.size)
        _STATE.pack_into(self._memory, 0, begun, 0.0, 0.0, 0.0)

    def _until_now(self, cores: int = 0, left: tuple[int, float] = (0, 0.0)) -> tuple[float, float]:
        """Go on to the present; return core seconds that a core at work was charged so far, and how many cores work.

        Parameters
        ----------
        cores
            That begin to work, or with a minus end.
        left
            Cores that were not charged since a mark.
        """
        import fcntl  # of Linux and macOS alone: reports are also read elsewhere

        fcntl.lockf(self._lock, fcntl.LOCK_EX)
        try:
            then, each, idle, working = _STATE.unpack_from(self._memory)
            now = time.monotonic()
            idle += (now - then) * self.cpus
            if working > 0:
                each, idle = each + idle / working, 0.0
            ended, mark = left
            _STATE.pack_into(self._memory, 0, now, each, idle + (each - mark) * ended, working + cores)
            return each, working + cores
        finally:
            fcntl.lockf(self._lock, fcntl.LOCK_UN)

    def start(self, cores: int) -> float:
        """Let somebody begin to work; return the mark from which `charge` counts."""
        return self._until_now(cores)[0]

    def stop(self, cores: int, mark: float) -> None:
        """Let somebody end; what was not charged to it falls to the others."""
        self._until_now(-cores, (cores, mark))

    def charge(self, cores: int, mark: float) -> tuple[float, float]:
        """Return the core seconds of somebody since a mark, and the next mark."""
        each, _ = self._until_now()
        return (each - mark) * cores, each

    def working(self) -> float:
        """Return how many cores work now."""
        return self._until_now()[1]


@dataclass
class Lane:
    """Where a bundle is measured next to others.

    Attributes
    ----------
    cpus
        That this process and its programs are kept to.
    cores
        Physical ones, as many as the bundle was given.
    """

    cpus: tuple[int, ...]
    cores: int
    meter: SharedMeter | None
    _mark: float = field(default=0.0, init=False)

    @property
    def charged_cores(self) -> float | None:
        """What it is charged for now; None where programs alone are charged."""
        return None if self.meter is None else self.meter.cpus / self.at_once

    @property
    def at_once(self) -> float:
        """How many like this one are measured now, by their cores."""
        return 1.0 if self.meter is None else max(self.meter.working() / self.cores, 1.0)

    def core_hours(self) -> float:
        """Return what was occupied since the last call."""
        assert self.meter is not None
        seconds, self._mark = self.meter.charge(self.cores, self._mark)
        return seconds / 3600.0

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Keep this process to its cores, and share what the job is charged."""
        os.sched_setaffinity(0, self.cpus)
        if self.meter is None:
            yield
            return
        self._mark = self.meter.start(self.cores)
        try:
            yield
        finally:
            self.meter.stop(self.cores, self._mark)


Work = Callable[[int, Lane], None]
"""Measures the bundle with a number."""


@dataclass
class _Child:
    """A process that measures a bundle."""

    pid: int
    need: Need
    cores: list[frozenset[int]]
    pipe: int


def side_by_side(
    needs: Sequence[Need], memory_mb: int | None, most_cpus: int | None, meter: SharedMeter | None, work: Work
) -> list[BuranError]:
    """Do work for each need, as much at a time as there are cores and memory; return what failed.

    Parameters
    ----------
    memory_mb
        Of this node; None where it is not known.
    most_cpus
        That the job was given, where this process could use more.

    Raises
    ------
    Interrupted
        This process was, or the work; what goes on side by side has ended by then.
    """
    free = local_cores()[:most_cpus]
    room = NodeRoom(len(free), memory_mb)
    met = [within(need, room) for need in needs]
    waiting, children = WaitingNeeds(met), dict[int, _Child]()
    problems, interrupted = list[BuranError](), list[str]()
    selector = selectors.DefaultSelector()
    try:
        with interruptible():
            while children or (waiting and not interrupted):
                while not interrupted and (number := waiting.pop(room)) is not None:
                    need = met[number]
                    room.take(need)
                    taken, free = free[: need.cores], free[need.cores :]
                    lane = Lane(tuple(sorted(frozenset[int]().union(*taken))), need.cores, meter)
                    with stops_held_back():
                        child = _fork(need, taken, partial(_done, number, lane, work))
                        children[child.pipe] = child
                    selector.register(child.pipe, selectors.EVENT_READ)
                for key, _ in selector.select():
                    child = children.pop(key.fd)
                    selector.unregister(key.fd)
                    problem = _end_of(child)
                    free = [*free, *child.cores]
                    room.take(child.need, -1)
                    if isinstance(problem, BuranError):
                        problems.append(problem)
                    elif problem is not None:
                        interrupted.append(problem)
    finally:
        _end_all(children.values())
        selector.close()
    if interrupted:
        raise Interrupted(interrupted[0])
    return problems


_Ended = tuple[str, dict[str, str | None]] | str | None
"""What went wrong: what an error says, or what interrupted it."""


def _fork(need: Need, cores: list[frozenset[int]], do: Callable[[], _Ended]) -> _Child:
    reading, writing = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    parent = os.getpid()
    pid = os.fork()
    if pid:
        os.close(writing)
        return _Child(pid, need, cores, reading)
    code = 1
    try:
        os.close(reading)
        begin_child()
        if os.getppid() == parent:
            os.write(writing, pickle.dumps(do()))
            code = 0
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _done(number: int, lane: Lane, work: Work) -> _Ended:
    try:
        with lane.entered():
            work(number, lane)
    except BuranError as error:
        return error.what, {"where": error.where, "why": error.why, "hint": error.hint}
    except Interrupted as interrupted:
        return str(interrupted)
    except BaseException as error:
        traceback.print_exc()
        return f"a concurrent measuring process ended: {error}", {}
    return None


def _end_of(child: _Child) -> BuranError | str | None:
    """Return what became of a process that has ended, or is about to."""
    with os.fdopen(child.pipe, "rb") as pipe:
        answer = pipe.read()
    _, status = os.waitpid(child.pid, 0)
    code = os.waitstatus_to_exitcode(status)
    if not answer:
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        return RunError("a concurrent measuring process vanished", why=how, hint="`buran run` goes on from here")
    ended = pickle.loads(answer)  # of our own child
    return RunError(ended[0], **ended[1]) if isinstance(ended, tuple) else ended


def _end_all(children: Iterable[_Child]) -> None:
    """End what still works, and wait for what it writes down."""
    left = {child.pid for child in children}
    deadline, has_warned = time.monotonic() + _GRACE_S, False
    while left:
        left -= {pid for pid in left if os.waitpid(pid, os.WNOHANG)[0]}
        if not has_warned and time.monotonic() > deadline:
            has_warned = True
            for pid in left:
                os.kill(pid, signal.SIGTERM)
        time.sleep(0.02)
