"""Between `buran run` and the workflow engine: a small process that ends the engine, whatever becomes of the other two.

``python supervisor.py GRACE COMMAND...``: standard input is a pipe from `buran run`. A byte is a request to stop;
its end means that `buran run` is gone. The engine is interrupted first, as by Ctrl-C, and killed with all its group
when it takes longer than the grace, in seconds, or is interrupted again: it can be stuck in handling signals. Without
a grace it is killed at once.

It runs without Buran's packages, so that it starts at once.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys
import time

_PR_SET_PDEATHSIG = 1
_KILLED = 128  # and the number of the signal: exit code for an engine that a signal ended


def main(grace_s: float, command: list[str]) -> int:
    """Run the engine to its end; return its exit code."""
    libc = ctypes.CDLL(None)

    def prepare() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        # In the background of a script SIGINT is ignored, and what is ignored is inherited.
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    engine = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True, preexec_fn=prepare)
    handle = os.pidfd_open(engine.pid)
    requests, deadline = [0], float("inf")
    while True:
        wait_s = None if deadline == float("inf") else max(deadline - time.monotonic(), 0)
        ready = select.select([handle, *requests], [], [], wait_s)[0]
        if handle in ready:
            code = engine.wait()
            return code if code >= 0 else _KILLED - code
        is_requested = 0 in ready
        if is_requested and not os.read(0, 1):
            requests = []
        if not is_requested or (deadline < float("inf") and requests):
            _signal(engine.pid, signal.SIGKILL)
            requests, deadline = [], float("inf")
        elif deadline == float("inf"):
            _signal(engine.pid, signal.SIGINT if grace_s > 0 else signal.SIGKILL)
            deadline = time.monotonic() + grace_s


def _signal(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, number)


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]), sys.argv[2:]))
