"""What a program prints, kept up to a limit: beginning and end stay, however much there is between them."""

from __future__ import annotations

import os
import select
import threading
from io import FileIO
from pathlib import Path

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
