"""Reading the profile of one process as the measurement runtime leaves it.

The format is described in ``native/dump.c``.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from buran.errors import RunError
from buran.features import sampled_metrics
from buran.measurement.toolchain.mpi_operations import ROLES
from buran.profiles.metrics import requested_by
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
        Names of the counters that were read, out of those that campaigns can ask for, and of what features add.
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
    cursor = _Cursor(data[:-12], HEADER.size, path)
    texts = [cursor.text() for _ in range(cursor.plausible(n_info, 4))]
    info = dict(zip(texts[::2], texts[1::2], strict=False))
    if not flags & COMPLETE:
        why = info.get("incomplete") or "it left without MPI_Finalize, or called MPI_Abort"
        raise RunError(
            "the profile of a process is not complete",
            where=path,
            why=why,
            hint=FEWER_CALL_PATHS if NODE_LIMIT in why else "look at the run's output",
        )
    counters = tuple(cursor.text() for _ in range(cursor.plausible(n_counters, 4)))
    known = {*requested_by("counters"), *requested_by("metrics"), *sampled_metrics()}
    if unknown := [name for name in counters if name not in known]:
        cursor.fail(f"it has a counter {unknown[0]!r}")
    regions = tuple(cursor.regions(cursor.plausible(n_regions, 20), info.get("executable", ""), regions_read))
    threads: dict[int, NDArray[np.void]] = {}
    counts: dict[int, NDArray[np.uint64]] = {}
    for _ in range(cursor.plausible(n_threads, 8)):
        number, nodes = cursor.u32(), cursor.nodes()
        if number in threads:
            cursor.fail(f"thread {number} is there twice")
        threads[number] = nodes
        counts[number] = cursor.counts(len(nodes), len(counters))
    counts_blocks = bool(flags & COUNTS_BLOCKS)
    dump = Dump(path, rank, size, counts_blocks, hertz, info, regions, threads, counters, counts)
    _check_alone(dump, cursor)
    return dump


class _Cursor:
    """Reads a dump from front to back and raises `RunError` where it is not as it should be."""

    def __init__(self, data: bytes, at: int, path: Path) -> None:
        self.data, self.at, self.path = data, at, path

    def fail(self, why: str) -> None:
        raise RunError("a profile is damaged", where=self.path, why=why)

    def take(self, size: int) -> bytes:
        if size > len(self.data) - self.at:
            self.fail(f"{size} bytes expected at {self.at}, {len(self.data) - self.at} are left")
        self.at += size
        return self.data[self.at - size : self.at]

    def plausible(self, count: int, least_size: int) -> int:
        """Refuse counts that cannot fit into the rest of the file."""
        if count * least_size > len(self.data) - self.at:
            self.fail(f"{count} entries do not fit into the rest of the file")
        return count

    def u32(self) -> int:
        return int.from_bytes(self.take(4), "little")

    def text(self) -> str:
        return self.take(self.u32()).decode("utf-8", errors="replace")

    def regions(self, count: int, executable: str, regions_read: dict[bytes, Region]) -> Iterator[Region]:
        """Read regions; those that stand so in another file are not made again, which saves most of the time."""
        for _ in range(count):
            begin = self.at
            for _ in range(3):
                self.at += 4 + int.from_bytes(self.data[self.at : self.at + 4], "little")
            self.at += 8
            if self.at > len(self.data):
                self.fail(f"a region at {begin} goes beyond the end")
            described = self.data[begin : self.at]
            if described not in regions_read:
                self.at = begin
                regions_read[described] = self.region(executable)
            yield regions_read[described]

    def region(self, executable: str) -> Region:
        name, mangled, file = self.text(), self.text(), self.text()
        line, kind = self.u32(), self.u32()
        if kind == KIND_ROOT:
            return Region(executable, executable, "", 0, "measurement", "artificial")
        if kind == KIND_MPI:
            return Region(name, mangled, file, line, "mpi", ROLES.get(name, "function"))
        return Region(name, mangled, file, line)

    def nodes(self) -> NDArray[np.void]:
        count = self.plausible(self.u32(), NODE.itemsize)
        return np.frombuffer(self.take(count * NODE.itemsize), dtype=NODE)

    def counts(self, nodes: int, counters: int) -> NDArray[np.uint64]:
        data = np.frombuffer(self.take(8 * nodes * counters), dtype="<u8")
        return data.reshape(nodes, counters).astype(np.uint64)


def _check_alone(dump: Dump, cursor: _Cursor) -> None:
    """Check what one process says for contradictions."""
    if cursor.at != len(cursor.data):
        cursor.fail(f"{len(cursor.data) - cursor.at} bytes too many")
    if missing := [key for key in COMMON_INFO if not dump.info.get(key)]:
        cursor.fail(
            f"it does not say its {missing[0]}"
            + (": the program was linked without --build-id" if "build_id" in missing else "")
        )
    if not 1 <= dump.ticks_per_second <= 1e15:  # between a tick a second and one a femtosecond; NaN is neither
        cursor.fail(f"its clock ran at {dump.ticks_per_second} Hz")
    if not 0 <= dump.rank < dump.size:
        cursor.fail(f"rank {dump.rank} of {dump.size}")
    if not dump.threads:
        cursor.fail("it has no threads")
    for nodes in dump.threads.values():
        if not len(nodes) or nodes["parent"][0] != 0 or (nodes["region"] >= len(dump.regions)).any():
            cursor.fail("a call path without a region, or no call paths")
        if (nodes["parent"][1:] >= np.arange(1, len(nodes))).any():
            cursor.fail("a call path that begins before its caller")
