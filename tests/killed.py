"""Campaigns that are killed as a whole, at a moment of a test's choice."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from buran.workflow.engine.controller import engines


def start(command: Sequence[str], locks: Path) -> subprocess.Popen[str]:
    """Start the command line in a session of its own."""
    environment = {**os.environ, "NO_COLOR": "1", "BURAN_LOCK_FOLDER": str(locks)}
    return subprocess.Popen(
        [sys.executable, "-m", "buran.cli", *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment,
        start_new_session=True,
    )


def kill_when(command: Sequence[str], locks: Path, root: Path, reached: Callable[[Path], bool]) -> None:
    """Start, and kill everything with SIGKILL as soon as a condition on the results in `root` holds."""
    process = start(command, locks)
    while process.poll() is None and not reached(root):
        time.sleep(0.02)
    # On a busy machine it may end between the condition and the kill: then the next one goes on from there.
    assert process.poll() is None or reached(root), "it ended before the condition held"
    for group in (process.pid, *engines(root)):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)
    process.wait()
    assert process.stdout is not None
    process.stdout.close()


def count(pattern: str, least: int) -> Callable[[Path], bool]:
    """Return whether so many files are there."""
    return lambda root: len(list(root.glob(pattern))) >= least


def derived(root: Path) -> dict[str, bytes]:
    """Every plan, filter, model and table; not which points share a job: those that are there by then do not."""
    files = [*(root / "iterations").rglob("*"), *(root / "latest").rglob("models.json")]
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted(files)
        if path.is_file() and path.name != "jobs.json"
    }
