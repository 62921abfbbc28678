"""What a file may ask for: one budget of all readers, as a small file can ask for any amount of time and memory."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path

from buran.errors import FormatError, UsageError

VARIABLE = "BURAN_READ_BUDGET"
"""Environment variable with the factor by which all limits grow."""


@dataclass(frozen=True)
class Limit:
    """The most that a reader takes of something.

    Attributes
    ----------
    what
        That which is counted, as it stands behind a number.
    """

    most: int
    what: str

    @property
    def allowed(self) -> int:
        """Return the most, with what the user allows."""
        return int(self.most * _factor())

    def check(self, needed: float, where: str | Path | None) -> None:
        """Raise `FormatError` if a file asks for more."""
        if needed <= self.allowed:
            return
        raise FormatError(
            "a file asks for more than is read",
            where=where,
            why=f"it has {_number(needed)} {self.what}, and the limit is {self.allowed:,}",
            hint=f"if it is as it should be, set {VARIABLE}={_wanted(needed, self.most)} in the environment: "
            "all limits grow by that factor",
        )


BYTES = Limit(4_000_000_000, "bytes")
YAML_BYTES = Limit(1_000_000, "bytes of YAML")  # which take 10 s
YAML_DEPTH = Limit(200, "levels of YAML")
YAML_VALUES = Limit(500_000, "values of YAML, references followed")
DEPTH = Limit(200_000, "levels of calls")  # a level takes half a kilobyte while it is read
_MEMORY = Limit(256_000_000, "bytes of memory, unpacked")
_CHUNK = 1 << 20  # bytes that are read at once
_GROWTH = 1000  # bytes of memory for each of a file: what zlib packs of nothing but zeros


def check_memory(needed: float, file_bytes: int, where: str | Path | None) -> None:
    """Raise `FormatError` if a file would take too much memory for its size."""
    Limit(max(_MEMORY.most, _GROWTH * file_bytes), _MEMORY.what).check(needed, where)


def read_bytes(path: Path, limit: Limit = BYTES) -> bytes:
    """Read a whole file; raise `OSError`, or `FormatError` if it is too large, as one that never ends is."""
    with path.open("rb") as file:
        limit.check(os.fstat(file.fileno()).st_size, path)
        chunks, size = [], 0
        while chunk := file.read(_CHUNK):
            chunks.append(chunk)
            size += len(chunk)
            limit.check(size, path)
    return b"".join(chunks)


def read_text(path: Path, encoding: str = "utf-8", limit: Limit = BYTES) -> str:
    r"""Read a whole text, with ``\n`` at the ends of lines; raise as `read_bytes`, and `UnicodeDecodeError`."""
    return read_bytes(path, limit).decode(encoding).replace("\r\n", "\n").replace("\r", "\n")


def _factor() -> float:
    text = os.environ.get(VARIABLE, "1")
    try:
        factor = float(text)
    except ValueError:
        factor = 0.0
    if not 0 < factor < float("inf"):
        raise UsageError(f"{VARIABLE} is no number above 0", where="environment", why=f"it is {text!r}")
    return factor


def _wanted(needed: float, most: int) -> str:
    return f"{math.ceil(needed / most)}" if needed / most < 1e9 else "..."


def _number(value: float) -> str:
    return f"{value:,.0f}" if value < 1e15 else "any number of"
