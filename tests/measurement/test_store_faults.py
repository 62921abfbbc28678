"""Every system call of the store fails once, in turn: the next process completes the run; nothing is there twice."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sized
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from competitors import fill, slot_in

from buran.campaign.records import RECORD
from buran.measurement.store import claims, store
from buran.measurement.store.store import Slot

pytestmark = pytest.mark.slow

SHIM = Path(__file__).resolve().parents[2] / "studies" / "benchmarks" / "failing_calls.c"
CALLS = ("rename", "replace", "link", "unlink", "mkdir", "rmdir", "fsync", "open", "chmod", "utime", "stat", "listdir")


@contextmanager
def failing(number: int, code: int) -> Iterator[list[str]]:
    """Let the call of this number, from 0, fail; yields the names of the calls so far."""
    calls: list[str] = []
    before = {name: getattr(os, name) for name in CALLS}

    def shim(name: str) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            calls.append(name)
            if len(calls) - 1 == number:
                raise OSError(code, os.strerror(code), "injected")
            return before[name](*arguments, **options)

        return call

    for name in CALLS:
        setattr(os, name, shim(name))
    try:
        yield calls
    finally:
        for name, function in before.items():
            setattr(os, name, function)


def measure(slot: Slot, log: Path) -> None:
    """Make a run, unless it is settled; note that the program ran."""
    with store.reserve(slot) as folder:
        if folder is None:
            return
        with log.open("a") as file:
            file.write("run\n")
        fill(folder)
        store.commit(slot, folder)


Failing = Callable[[int, int], AbstractContextManager[Sized]]


def in_process(slot: Slot, log: Path, number: int, code: int, failing: Failing) -> int:
    """Measure in a process of its own, which ends as one does whose disk fails; return how many calls it made."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        with failing(number, code) as calls, suppress(BaseException):
            measure(slot, log)
        os.write(writer, str(len(calls)).encode())
        os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    made = os.read(reader, 100)
    os.close(reader)
    return int(made)


def fault_every_call(tmp_path: Path, failing: Failing) -> int:
    """Make a run again and again, each time with another call that fails; return how many calls it makes."""
    number = in_process(slot_in(tmp_path / "counted"), tmp_path / "log", -1, 0, failing)
    for code in (errno.ENOSPC, errno.EIO, errno.EROFS, errno.EDQUOT):
        for call in range(number):
            folder = tmp_path / f"{code}-{call}"
            slot, log = slot_in(folder), folder.with_suffix(".log")
            in_process(slot, log, call, code, failing)
            was_finished = slot.is_measured()
            sealed = {path: path.read_bytes() for path in slot.folder.glob("*")} if was_finished else {}
            measure(slot, log)
            assert slot.is_measured() and list(store.damage(slot.folder)) == [], (code, call)
            assert not was_finished or all(path.read_bytes() == data for path, data in sealed.items())
            ran = log.read_text().count("run")
            kept = [slot.folder, *slot.attempts()]
            assert ran == 1 or not was_finished, "a finished run was made again"
            assert [path for path in slot.point.glob("rep-*") if path.is_dir()] == [slot.folder]
            assert ran <= 2 and all((path / RECORD).is_file() for path in kept)
            assert not list(slot.point.glob(".tmp-*")) and not claims.is_alive(slot.claim)
    return number


def test_whichever_call_fails_nothing_is_lost_or_doubled(tmp_path: Path) -> None:
    assert fault_every_call(tmp_path, failing) > 20


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
def test_whichever_write_fails_nothing_is_lost_or_doubled(tmp_path: Path) -> None:
    library, folder = tmp_path / "failing_calls.so", tmp_path / "runs"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, SHIM, "-ldl"], check=True)
    folder.mkdir()
    preload = {"LD_PRELOAD": str(library), "FAILING_CALLS": "write", "FAILING_BELOW": str(folder)}
    preload["PYTHONPATH"] = str(Path(__file__).parents[1])
    command = [sys.executable, str(Path(__file__).with_name("write_faults.py")), str(folder), str(library)]
    done = subprocess.run(command, env={**os.environ, **preload}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= 5  # the claim, what the test writes, the checksums


@pytest.mark.parametrize("name", CALLS)
def test_the_shim_sees_each_call(name: str) -> None:
    with failing(0, errno.EIO), pytest.raises(OSError, match="injected"):
        getattr(os, name)("/nowhere", "/nowhere") if name in ("rename", "replace", "link") else getattr(os, name)("/x")
