"""Signals a part of a campaign at a chosen call: copied as ``sitecustomize.py`` to where its Pythons find it.

The folder `BURAN_KILLS` holds aims, JSON files that begin with what takes them: a role, or ``measure`` for the jobs
that measure; ``job`` are the others. What was signalled, and each run that begins although it is finished or just being
made, is a line of ``log`` there.

It imports nothing but the standard library, and little of that: every Python of the campaign loads it.
"""
# pathlib calls what is counted here, so it is not used
# ruff: noqa: PTH110, PTH112, PTH118, PTH123, PTH208

from __future__ import annotations

import atexit
import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

VARIABLE = "BURAN_KILLS"
LOG = "log"
ROLES = ("job", "engine", "supervisor", "controller")
RENAMES = ("rename", "replace", "link")
CALLS = (*RENAMES, "unlink", "mkdir", "fsync")
UPDATE = "Updating checkpoint dependencies"
_plain = {name: getattr(os, name) for name in CALLS}


def role_of(words: list[str]) -> str | None:
    """Return what a process is to a campaign, by its command line."""
    if any(word.endswith("/workflow/engine/supervisor.py") for word in words):
        return "supervisor"
    if "buran.cli" in words:
        return "controller"
    if any("/.snakemake/scripts/" in word for word in words):
        return "job"
    return "engine" if "snakemake" in words else None


def parts_above(pid: int) -> dict[str, int]:
    """Return the parts of the campaign that a process descends from, itself among them."""
    parts: dict[str, int] = {}
    while pid > 1:
        try:
            with open(f"/proc/{pid}/cmdline") as words, open(f"/proc/{pid}/stat") as stat:
                role = role_of(words.read().split("\0"))
                parent = int(stat.read().rpartition(")")[2].split()[1])
        except OSError:
            break
        if role is not None:
            parts.setdefault(role, pid)
        pid = parent
    return parts


def processes_of(folder: str) -> list[int]:
    """Return all processes of the campaign that takes its aims from a folder."""
    marker, pids = f"{VARIABLE}={folder}".encode(), []
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError), open(f"/proc/{name}/environ", "rb") as file:
                if marker in file.read().split(b"\0"):
                    pids.append(int(name))
    return pids


class Hook:
    """What one process of a campaign does beside its work.

    Attributes
    ----------
    aim
        ``at`` (``rename``, ``call`` or ``checkpoint``), ``number`` of that from 0, ``after`` it or before, ``victim``,
        ``signal``, ``hold_s``: for how long the process stays where it is. The victim is a role, ``self`` or
        ``everything``.
    """

    def __init__(self, folder: str, role: str) -> None:
        self.folder, self.role, self.pid = folder, role, os.getpid()
        self.counts = dict.fromkeys(("rename", "call", "checkpoint"), 0)
        self.aim: dict[str, Any] | None = None
        self._taken = ""
        takes = "measure" if any(word.endswith(".measure.py") for word in sys.orig_argv) else role
        for name in sorted(os.listdir(folder)):
            if name.startswith(f"{takes}-"):
                self._name, self._taken = os.path.join(folder, name), os.path.join(folder, f"taken-{self.pid}-{name}")
                with contextlib.suppress(OSError):
                    _plain["rename"](self._name, self._taken)
                    with open(self._taken) as file:
                        self.aim = json.load(file)
                    atexit.register(self._give_back)
                    break

    def note(self, **fields: Any) -> None:
        """Append a line to the log."""
        handle = os.open(os.path.join(self.folder, LOG), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(handle, (json.dumps({"role": self.role, **fields}) + "\n").encode())
        os.close(handle)

    def reach(self, at: str, call: Callable[[], Any]) -> Any:
        """Make a call, and signal the victim before or after it if this is the one."""
        if os.getpid() != self.pid:  # a child on its way to another program
            return call()
        matching = [at] if at in self.counts else ["call", *(["rename"] if at in RENAMES else [])]
        aim = self.aim
        is_it = aim is not None and aim["at"] in matching and self.counts[aim["at"]] == aim["number"]
        for kind in matching:
            self.counts[kind] += 1
        if aim is None or not is_it:
            return call()
        self.aim = None
        if not aim["after"]:
            self._fire(aim)
        result = call()
        if aim["after"]:
            self._fire(aim)
        return result

    def _fire(self, aim: dict[str, Any]) -> None:
        victim, number = aim["victim"], signal.Signals(aim["signal"])
        if victim == "self":
            pids = [self.pid]
        elif victim == "everything":
            pids = [*(pid for pid in processes_of(self.folder) if pid != self.pid), self.pid]
        else:
            pids = [pid for pid in (parts_above(self.pid).get(victim),) if pid is not None]
        if not pids:  # it is gone already
            return
        self.note(
            killed=self.role if victim == "self" else victim,
            signal=number.name,
            at=aim["at"],
            number=aim["number"],
            after=aim["after"],
        )
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        time.sleep(aim.get("hold_s", 0.0))

    def _give_back(self) -> None:
        if self.aim is not None and os.getpid() == self.pid:
            with contextlib.suppress(OSError):
                _plain["rename"](self._taken, self._name)

    def watch_run(self, path: str) -> None:
        """Note a run that is begun although it is finished, or while somebody else makes it."""
        point, name = os.path.split(path)
        if not name.startswith(".tmp-"):
            return
        slot = name.removeprefix(".tmp-").rsplit("-", 2)[0]
        there = os.listdir(point) if os.path.isdir(point) else []
        others = [other for other in there if other.startswith(f".tmp-{slot}-")]
        if name not in there and (others or os.path.exists(os.path.join(point, slot, "run.json"))):
            self.note(again=path, beside=others)


def install(folder: str, role: str) -> None:
    """Have the calls of this process counted."""
    hook = Hook(folder, role)

    def counted(name: str) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            if name == "mkdir":
                hook.watch_run(os.fspath(arguments[0]))
            return hook.reach(name, lambda: _plain[name](*arguments, **options))

        return call

    for name in CALLS:
        setattr(os, name, counted(name))
    if role == "engine":
        import logging

        info = logging.Logger.info

        def logged(self: logging.Logger, message: object, *arguments: Any, **options: Any) -> None:
            def write() -> None:
                info(self, message, *arguments, **options)

            hook.reach("checkpoint", write) if str(message).startswith(UPDATE) else write()

        logging.Logger.info = logged  # type: ignore[method-assign,assignment]


if __name__ == "sitecustomize":
    _role = role_of(sys.orig_argv)
    if VARIABLE in os.environ and _role is not None:
        install(os.environ[VARIABLE], _role)
