"""A program of `test_store_faults`, under a preloaded library: each write of the store fails once, in turn.

Arguments: a folder, and the library. Prints how many writes a run takes.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from test_store_faults import fault_every_call

_LIBRARY = ctypes.CDLL(sys.argv[2])


@contextmanager
def failing_write(number: int, code: int) -> Iterator[list[None]]:
    """Let the write of this number fail, none below 0; yields a list that is as long as there were calls in the end."""
    calls: list[None] = []
    _LIBRARY.failing_calls_set(number if number >= 0 else 1 << 30, code or 1)
    try:
        yield calls
    finally:
        calls += [None] * int(_LIBRARY.failing_calls_made())
        _LIBRARY.failing_calls_set(0, 0)


if __name__ == "__main__":
    print(fault_every_call(Path(sys.argv[1]), failing_write))
