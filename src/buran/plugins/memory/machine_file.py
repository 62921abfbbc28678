"""How fast a machine's caches, memory and cores are: what ``buran doctor --calibrate`` writes and campaigns read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from buran.files import Stored
from buran.profiles.metrics import CACHE_LINE


def can_have(cache_bytes: float, ways: int) -> bool:
    """Return whether a cache can have so many ways: its lines are ways times sets."""
    return ways >= 1 and cache_bytes >= CACHE_LINE and (cache_bytes / CACHE_LINE) % ways == 0


@dataclass(frozen=True)
class Level:
    """A level of caches, or memory; nearest first.

    Attributes
    ----------
    bytes
        What one cache of that level holds; None for memory.
    shared_by
        Cores that one of them serves.
    latency_s, latency_busy_s
        Of a load whose address the load before has given, on one core, and on all cores at once.
    gather_s, gather_busy_s
        Of a load in random order that waits for no other.
    bandwidth, bandwidth_busy
        Bytes a second that one core reads and writes: alone, and while all cores do.
    ways
        Places for a line, which it shares with the others of its set; None where nobody tells, and for memory.
    """

    bytes: int | None
    shared_by: int
    latency_s: float
    latency_busy_s: float
    gather_s: float
    gather_busy_s: float
    bandwidth: float
    bandwidth_busy: float
    ways: int | None = None


@dataclass(frozen=True)
class MachineFile(Stored):
    """One node of a machine.

    Attributes
    ----------
    host, cpu, kernel, compiler
        What was measured, and with what.
    date
        When, as ISO 8601.
    cores
        That were busy together: one hardware thread of each that the process may use.
    levels
        The caches, nearest first, and memory.
    flops, flops_busy
        Floating-point operations a second of one core: alone, and while all cores compute.
    codes
        By kind of code, seconds of one core for an operation without misses.
    spread
        By what share the median round took longer than the least, over tests the largest: what other work added.
    notes
        What a user should know, in sentences.
    fault_s, fault_busy_s
        Of a page of the smallest size that the system hands over and takes back: on one core, and on all cores at
        once. 0 where that was not measured.
    page_bytes
        Of the pages in which memory was measured: those that programs get. 0 where that is not known, as in files of
        earlier versions, which requested large ones from the system.
    """

    kind_of_file: ClassVar[str] = "machine file"
    schema_read: ClassVar[str | int] = "buran-machine/1"

    host: str
    cpu: str
    kernel: str
    compiler: str
    date: str
    cores: int
    levels: tuple[Level, ...]
    flops: float
    flops_busy: float
    codes: Mapping[str, float]
    spread: float
    notes: tuple[str, ...] = ()
    fault_s: float = 0.0
    fault_busy_s: float = 0.0
    page_bytes: int = 0

    def __post_init__(self) -> None:
        sizes = [level.bytes for level in self.levels]
        if not sizes or sizes[-1] is not None or None in sizes[:-1]:
            raise ValueError("levels are caches with their sizes, and memory without one at the end")
        rates = [rate for each in self.levels for rate in (each.bandwidth, each.bandwidth_busy)]
        of_levels = ((each.latency_s, each.latency_busy_s, each.gather_s, each.gather_busy_s) for each in self.levels)
        times = [time for times in of_levels for time in times]
        if min(*rates, *times, self.flops, self.flops_busy, *self.codes.values()) <= 0 or self.cores < 1:
            raise ValueError("times, speeds and cores are above 0")
        if any(level.ways is not None and not can_have(level.bytes or 0, level.ways) for level in self.levels):
            raise ValueError("the lines of a cache are its ways times its sets")
        if min(self.fault_s, self.fault_busy_s, self.page_bytes) < 0:
            raise ValueError("page faults take no negative time, and pages have no negative size")

    @property
    def caches(self) -> tuple[int, ...]:
        """Sizes of the caches in bytes, nearest first."""
        return tuple(level.bytes for level in self.levels if level.bytes is not None)

    def cache_of_a_rank(self, level: int, ranks: float) -> float:
        """Return the bytes that a rank has of a level's cache, with so many ranks on a node, spread over its cores."""
        found = self.levels[level]
        assert found.bytes is not None
        return found.bytes / max(min(ranks, self.cores) * found.shared_by / self.cores, 1.0)

    def latency_s_of(self, level: int, ranks: int) -> float:
        """Return the latency with so many ranks on a node: in between one and all cores, in proportion."""
        found = self.levels[level]
        return self._between(found.latency_s, found.latency_busy_s, ranks)

    def gather_s_of(self, level: int, ranks: int) -> float:
        """Return what a load in random order takes that waits for no other, likewise."""
        found = self.levels[level]
        return self._between(found.gather_s, found.gather_busy_s, ranks)

    def fault_s_of(self, ranks: int) -> float:
        """Return what a page fault takes, likewise; 0 where it is not known."""
        return self._between(self.fault_s, self.fault_busy_s, ranks)

    def _between(self, alone: float, busy: float, ranks: int) -> float:
        return alone + (min(ranks, self.cores) - 1) / max(self.cores - 1, 1) * (busy - alone)

    def bandwidth_of(self, level: int, ranks: int) -> float:
        """Return the bytes a second that each of so many ranks on a node gets: one core's, until the node is full."""
        found = self.levels[level]
        return min(found.bandwidth, found.bandwidth_busy * self.cores / min(ranks, self.cores))

    def flops_of(self, ranks: int) -> float:
        """Return the floating-point operations a second of each of so many ranks on a node."""
        return self._between(self.flops, self.flops_busy, ranks)
