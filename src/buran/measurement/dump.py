"""Reading the profile of one process as the measurement runtime leaves it.

The format is described in ``native/dump.c``.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from buran.errors import RunError
from buran.measurement.toolchain.mpi_operations import ROLES
from buran.profiles.profile import Region

MAGIC, END = b"BURANDMP", b"BURANEND"
VERSION = 3
HEADER = struct.Struct("<8sIIiidIIII")
COMPLETE, COUNTS_BLOCKS = 1, 2
KIND_MPI, KIND_ROOT = 1, 2
NODE = np.dtype(
    [
        ("parent", "<u4"),
        ("region", "<u4"),
        ("visits", "<u8"),
        ("ticks", "<u8"),
        ("cpu", "<u8"),
        ("waited", "<u8"),
        ("idle", "<u8"),
        ("imbalance", "<u8"),
        ("blocks", "<u8"),
        ("bytes_sent", "<u8"),
        ("bytes_received", "<u8"),
        ("comm_sum", "<u8"),
        ("comm_min", "<u4"),
        ("comm_max", "<u4"),
    ]
)
# Facts that must be the same in all processes of a run.
COMMON_INFO = ("executable", "build_id", "mode", "compiler", "mpi", "toolchain", "fingerprint")

LOST_VISITS = "visits_in_interrupted_hooks"
"""Visits of functions that signal handlers called while they interrupted a hook."""

NODE_LIMIT = "BURAN_NODE_LIMIT"
FEWER_CALL_PATHS = (
    "instrument fewer functions, with refinement.drop, or raise the limit, as in "
    f"environments.NAME.variables: {{{NODE_LIMIT}: 1000000}}; a call path takes 168 bytes"
)


@dataclass(frozen=True, eq=False)
class Dump:
    """The profile of one process as it lies in its file.

    Attributes
    ----------
    path
        The file.
    rank, size
        Of the process in the whole program.
    counts_blocks
        Whether basic blocks were counted (``effort`` builds).
    ticks_per_second
        Rate of the clock.
    info
        What the runtime says of itself and the build.
    regions
        Indexed by the nodes' field ``region``.
    threads
        By thread number, records of `NODE`; node 0 is the root, parents come first.
    counters
        Names of the counters that were read.
    counts
        By thread number, shape (node, counter).
    """

    path: Path
    rank: int
    size: int
    counts_blocks: bool
    ticks_per_second: float
    info: Mapping[str, str]
    regions: tuple[Region, ...]
    threads: Mapping[int, NDArray[np.void]]
    counters: tuple[str, ...]
    counts: Mapping[int, NDArray[np.uint64]]


def read_dump(path: Path, regions_read: dict[bytes, Region] | None = None) -> Dump:
    """Read the profile of one process; raise `RunError` if it is not whole.

    `regions_read` keeps regions between files of one program.
    """
    regions_read = {} if regions_read is None else regions_read
    try:
        data = path.read_bytes()
    except OSError as error:
        raise RunError("a profile cannot be read", where=path, why=error.strerror) from None
    if len(data) < HEADER.size or data[: len(MAGIC)] != MAGIC:
        raise RunError("this is not a profile of Buran's runtime", where=path, why=f"it does not begin with {MAGIC!r}")
    _, version, flags, rank, size, hertz, n_info, n_regions, n_threads, n_counters = HEADER.unpack_from(data)
    if version != VERSION:
        raise RunError(
            "a profile of another version of Buran's runtime",
            where=path,
            why=f"version {version}, this reader knows {VERSION}",
            hint="build and run the program again",
        )
    if len(data) < HEADER.size + 12 or data[-12:-4] != END:
        raise RunError("a profile is truncated", where=path, why=f"it does not end with {END!r}")
    if zlib.crc32(data[:-12]) != int.from_bytes(data[-4:], "little"):
        raise RunError("a profile is damaged", where=path, why="its checksum is wrong")
    cursor = _Cursor(data[:-12], path)
    texts = [cursor.text() for _ in range(n_info)]
    info = dict(zip(texts[::2], texts[1::2], strict=False))
    if not flags & COMPLETE:
        why = info.get("incomplete") or "it left without MPI_Finalize, or called MPI_Abort"
        raise RunError(
            "the profile of a process is not complete",
            where=path,
            why=why,
            hint=FEWER_CALL_PATHS if NODE_LIMIT in why else "look at the run's output",
        )
    if missing := [key for key in COMMON_INFO if not info.get(key)]:
        why = "it was linked without --build-id" if "build_id" in missing else f"it does not say its {missing[0]}"
        raise RunError("a program cannot be distinguished from others", where=path, why=why)
    if not 1 <= hertz <= 1e15:  # between a tick a second and one a femtosecond; NaN is neither
        raise RunError("a profile has no times", where=path, why=f"its clock ran at {hertz} Hz")
    counters = tuple(cursor.text() for _ in range(n_counters))
    regions = tuple(cursor.region(info["executable"], regions_read) for _ in range(n_regions))
    threads: dict[int, NDArray[np.void]] = {}
    counts: dict[int, NDArray[np.uint64]] = {}
    for _ in range(n_threads):
        number, size_of_tree = cursor.u32(), cursor.u32()
        threads[number] = np.frombuffer(cursor.take(size_of_tree * NODE.itemsize), dtype=NODE)
        read = np.frombuffer(cursor.take(8 * size_of_tree * len(counters)), dtype="<u8")
        counts[number] = read.reshape(size_of_tree, len(counters)).astype(np.uint64)
    return Dump(path, rank, size, bool(flags & COUNTS_BLOCKS), hertz, info, regions, threads, counters, counts)


class _Cursor:
    """Reads a dump from front to back, behind its head."""

    def __init__(self, data: bytes, path: Path) -> None:
        self.data, self.at, self.path = data, HEADER.size, path

    def take(self, size: int) -> bytes:
        self.at += size
        if self.at > len(self.data):
            raise RunError("a profile is damaged", where=self.path, why=f"it ends after {len(self.data)} bytes")
        return self.data[self.at - size : self.at]

    def u32(self) -> int:
        return int.from_bytes(self.take(4), "little")

    def text(self) -> str:
        return self.take(self.u32()).decode("utf-8", errors="replace")

    def region(self, executable: str, regions_read: dict[bytes, Region]) -> Region:
        """Read a region; one that stands so in another file is not made again, which saves most of the time."""
        begin = self.at
        for _ in range(3):
            self.at += 4 + int.from_bytes(self.data[self.at : self.at + 4], "little")
        self.at += 8
        described = self.data[begin : self.at]
        if described not in regions_read:
            self.at = begin
            name, mangled, file, line, kind = self.text(), self.text(), self.text(), self.u32(), self.u32()
            region = Region(name, mangled, file, line)
            if kind == KIND_ROOT:
                region = Region(executable, executable, "", 0, "measurement", "artificial")
            elif kind == KIND_MPI:
                region = replace(region, paradigm="mpi", role=ROLES.get(name, "function"))
            regions_read[described] = region
        return regions_read[described]
