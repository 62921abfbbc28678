"""Measuring how fast the caches, the memory and the cores of this machine are."""

from __future__ import annotations

import mmap
import os
import resource
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from buran.campaign.launcher import cpus_in
from buran.errors import RunError, ToolError, UsageError
from buran.measurement.machine.machine import disturbances, exclusive_machine
from buran.measurement.machine.provenance import describe_node, machine_state, read_system_file
from buran.measurement.toolchain.installed import find_gcc, find_tool, run_tool
from buran.modeling.numerics.tuning import HALF
from buran.plugins.memory.machine_file import Level, MachineFile, can_have
from buran.plugins.memory.tuning import SPEED_NOISE
from buran.profiles.metrics import CACHE_LINE

# Times longer than the least, which the median round may take for the test to be sure. Tuned: judgement.
LARGEST_SPREAD = 1.0

SOURCE = Path(__file__).with_suffix(".c")  # apart from what is compiled into programs: a change repeats no builds
_WHAT = "the machine cannot be calibrated"
_FLAGS = ("-O3", "-std=gnu11", "-pthread")
_NATIVE_FLAGS = (  # the first that the compiler knows
    ("-march=native", "-mprefer-vector-width=512"),
    ("-march=native",),
    ("-mcpu=native",),
    (),
)
_CPU = "/sys/devices/system/cpu/cpu{}"
# Lengths of rounds and how many: other work on the machine comes and goes within some of them.
_ROUND_MS, _ROUNDS = 8, 15
_BEYOND = 4  # times the last cache: of so much memory most lines are in none
_LEAST_MEMORY = 64 << 20
_FAULTING = 4 << 20  # bytes handed over and taken back at a time
_LARGE_PAGE = 2 << 20
_TOUCHED = 16 * _LARGE_PAGE
_HALVINGS = 6  # of the ratio of two sizes between which it ends
_TRIES = 3  # to find that; other work takes room away for a while, so the largest counts
_Cache = tuple[float, int, int | None]
"""Bytes, how many of the cores share it, and its ways if they are known."""
CODES = ("chain", "branches", "calls", "loops", "integers", "divisions")


@dataclass(frozen=True)
class _Kernel:
    """The program that measures."""

    path: Path
    compiler: str
    spreads: list[float]

    def seconds(self, test: str, size: float, cpus: Sequence[int]) -> float:
        """Return the CPU seconds of an operation, on each of some cores at once: the least of all rounds."""
        words: list[str | Path] = [self.path, test, str(int(size)), str(_ROUND_MS), str(_ROUNDS), *map(str, cpus)]
        rounds = np.array(run_tool(words, what=_WHAT).split(), dtype=np.float64)
        least = float(rounds.min())
        if not least > 0:
            raise RunError(_WHAT, where=test, why=f"{least:g} s for an operation", hint="try it again")
        self.spreads.append(float(np.median(rounds)) / least - 1)
        return least


def calibrate(caches: Sequence[float] | None = None) -> MachineFile:
    """Measure this machine; takes some ten seconds, and longer where a cache is large.

    Parameters
    ----------
    caches
        Bytes of the caches, nearest first; as the machine tells them where it is None.

    Raises
    ------
    UsageError
        If the machine does not say its caches, or those that are given make no sense.
    ToolError
        If there is no C compiler.
    RunError
        If other work disturbs too much.
    """
    cpus = _one_of_each_core()
    sizes = _caches_of(cpus, caches)
    with tempfile.TemporaryDirectory(prefix="buran-speed-") as name, exclusive_machine():
        before = disturbances()
        kernel = _build(Path(name))
        beyond = min(_beyond_caches(sizes), _room())
        stated, sizes = sizes, sizes if caches is not None else measured_size(kernel, cpus[0], sizes, beyond)
        levels = tuple(_levels(kernel, cpus, sizes, beyond))
        near = sizes[0][0] * HALF
        flops = [
            1 / min(kernel.seconds(test, near, some) for test in ("few_flops", "many_flops"))
            for some in (cpus[:1], cpus)
        ]
        fault_s, fault_busy_s = (kernel.seconds("faults", _FAULTING, some) for some in (cpus[:1], cpus))
        codes = {test: kernel.seconds(test, near, cpus[:1]) for test in CODES}
    spread = max(kernel.spreads)
    if spread > LARGEST_SPREAD:
        raise RunError(
            "the machine is too busy to be calibrated",
            why=f"the median of {_ROUNDS} rounds took {1 + spread:.2g} times as long as the least"
            + "".join(f"; {disturbance}" for disturbance in before),
            hint="stop what else runs here, or try it again later",
        )
    notes = [f"while it was measured: {disturbance}" for disturbance in before]
    if sizes != stated:
        said, found = (f"{size / 2**20:.3g} MiB" for size in (stated[-1][0], sizes[-1][0]))
        notes.append(f"level {len(sizes)} has {said} by what the system says, and holds {found}: others may share it")
    if _beyond_caches(stated) > _room():
        notes.append("there was too little free memory to be sure that no cache holds a part of what was read")
    node = describe_node()
    return MachineFile(
        host=node["host"],
        cpu=node["cpu"] or node["machine"],
        kernel=node["kernel"],
        compiler=kernel.compiler,
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        cores=len(cpus),
        levels=levels,
        flops=flops[0],
        flops_busy=flops[1],
        codes=codes,
        spread=spread,
        notes=tuple(notes),
        fault_s=fault_s,
        fault_busy_s=fault_busy_s,
        page_bytes=page_bytes(),
    )


def page_bytes() -> int:
    """Return how many bytes a page fault of a large array hands over, rounded to a power of 2; 0 if nobody counts them.

    Programs that ask for nothing get small pages, or large ones where the system gives these to all.
    """
    private = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    array = np.frombuffer(mmap.mmap(-1, _TOUCHED + _LARGE_PAGE, flags=private), dtype=np.uint8)
    first = -array.ctypes.data % _LARGE_PAGE
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    array[first : first + _TOUCHED : mmap.PAGESIZE] = 1
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
    return int(2 ** np.round(np.log2(_TOUCHED / faults))) if faults else 0


def _build(folder: Path) -> _Kernel:
    compiler = find_gcc().path if find_tool("cc") is None else "cc"
    binary, error = folder / "speed", None
    for native in _NATIVE_FLAGS:
        try:
            run_tool([compiler, *_FLAGS, *native, SOURCE, "-o", binary], what=_WHAT)
        except ToolError as failed:
            error = failed
        else:
            version = run_tool([compiler, "--version"], what=_WHAT).partition("\n")[0]
            return _Kernel(binary, " ".join((version, *_FLAGS, *native)), [])
    assert error is not None
    raise error


def measured_size(kernel: _Kernel, cpu: int, sizes: list[_Cache], beyond: float) -> list[_Cache]:
    """Return the caches, the last one as large as streams of one core find it.

    A virtual machine tells the cache of its host, which it shares with others, or has a part of.

    Parameters
    ----------
    beyond
        Bytes that are in no cache.
    """
    (stated, shared_by, _), below = sizes[-1], sizes[-2][0] if len(sizes) > 1 else 0.0
    near, far = 2 * below, stated * HALF
    apart = replace(kernel, spreads=[])  # where a cache ends, times scatter
    if not 0 < near < far:
        return sizes
    fast, slow = (apart.seconds("triad", size, [cpu]) for size in (near, beyond))
    middle = float(np.sqrt(fast * slow))
    if slow < (1 + SPEED_NOISE) * fast or apart.seconds("triad", far, [cpu]) < middle:
        return sizes
    found = near
    for _ in range(_TRIES):
        low, high = near, far
        for _ in range(_HALVINGS):
            size = float(np.sqrt(low * high))
            low, high = (size, high) if apart.seconds("triad", size, [cpu]) < middle else (low, size)
        found = max(found, low)
    return [*sizes[:-1], (found // CACHE_LINE * CACHE_LINE, shared_by, None)]


def _levels(kernel: _Kernel, cpus: Sequence[int], sizes: Sequence[_Cache], beyond: float) -> Iterator[Level]:
    """Measure each cache where it is half full, or in the middle between it and the one before; then memory."""
    below = 0.0
    for size, shared_by, ways in [*sizes, (None, len(cpus), None)]:
        whole = beyond if size is None else max(size * HALF, below)
        alone = whole if size is None or not below else float(np.sqrt(whole * below))
        # Cores that share a cache have a part of it each, and each of them leaves its own caches.
        each = max(alone / max(shared_by, 1), min(2 * below, whole / max(shared_by, 1)))
        yield Level(
            bytes=None if size is None else int(size),
            shared_by=shared_by,
            latency_s=kernel.seconds("chase", alone, cpus[:1]),
            latency_busy_s=kernel.seconds("chase", each, cpus),
            gather_s=kernel.seconds("gather", alone, cpus[:1]),
            gather_busy_s=kernel.seconds("gather", each, cpus),
            bandwidth=1 / kernel.seconds("triad", alone, cpus[:1]),
            bandwidth_busy=1 / kernel.seconds("triad", each, cpus),
            ways=ways,
        )
        below = below if size is None else size


def _beyond_caches(sizes: Sequence[_Cache]) -> float:
    return max(_BEYOND * sizes[-1][0], float(_LEAST_MEMORY))


def _room() -> float:
    available = machine_state()["memory_available_kib"]
    return HALF * 1024 * available if available else float("inf")


def _one_of_each_core() -> list[int]:
    """Return CPUs that this process may use, one of each core: hardware threads of one core share its caches."""
    allowed, seen = sorted(os.sched_getaffinity(0)), set[str]()
    chosen = []
    for cpu in allowed:
        siblings = read_system_file(f"{_CPU.format(cpu)}/topology/thread_siblings_list") or str(cpu)
        if siblings not in seen:
            seen.add(siblings)
            chosen.append(cpu)
    return chosen


def _caches_of(cpus: Sequence[int], given: Sequence[float] | None) -> list[_Cache]:
    """Return each cache, nearest first; of those that are given, nobody tells the ways."""
    stated = _reported_by_the_system(cpus)
    if given is None and not stated:
        raise UsageError(
            "this machine does not report its caches",
            why=f"nothing can be read in {_CPU.format(cpus[0])}/cache, as in many virtual machines",
            hint="give their sizes in KiB, nearest first: --caches-kib 32,1024,32768",
        )
    if given is None:
        return stated
    if not given or any(far <= near for near, far in zip([0.0, *given], given, strict=False)):
        raise UsageError("each cache must be larger than the one before", where="--caches-kib", hint="nearest first")
    # The last of several caches usually serves all cores, the others one each.
    last = len(cpus) if len(given) > 2 else 1
    usual = [1] * (len(given) - 1) + [last]
    shared = [by for _, by, _ in stated] if len(stated) == len(given) else usual
    return [(size, by, None) for size, by in zip(given, shared, strict=True)]


def _reported_by_the_system(cpus: Sequence[int]) -> list[_Cache]:
    found: dict[int, _Cache] = {}
    for folder in sorted(Path(_CPU.format(cpus[0]), "cache").glob("index*")):
        names = ("level", "type", "size", "shared_cpu_list", "ways_of_associativity")
        level, kind, size, shared, ways_text = (read_system_file(str(folder / name)) or "" for name in names)
        number = size.rstrip("KMG")
        if kind in ("Data", "Unified") and level.isdecimal() and number.isdecimal():
            scale = {"K": 2**10, "M": 2**20, "G": 2**30}.get(size[-1], 1)
            whole, ways = float(number) * scale, int(ways_text) if ways_text.isdecimal() else 0
            stated = ways if can_have(whole, ways) else None
            found[int(level)] = whole, len(cpus_in(shared) & set(cpus)) or 1, stated
    return [found[level] for level in sorted(found)]
