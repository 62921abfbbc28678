"""Reading the profiles of a run's processes and merging them into one call tree.

The format is described in ``native/dump.c``.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from buran.errors import RunError
from buran.measure.toolchain.mpi_table import ONE_SIDED, POLLING, ROLES
from buran.profile.metrics import Metric, asked_for_by, metric_of
from buran.profile.profile import CallTree, Location, Profile, Region

MAGIC, END = b"BURANDMP", b"BURANEND"
VERSION = 2
HEADER = struct.Struct("<8sIIiidIIII")
COMPLETE, COUNTS_BLOCKS = 1, 2
TASK_CLOCK = "task_clock"  # counts nanoseconds
KIND_MPI, KIND_ROOT = 1, 2
NODE = np.dtype(
    [
        ("parent", "<u4"),
        ("region", "<u4"),
        ("visits", "<u8"),
        ("ticks", "<u8"),
        ("blocks", "<u8"),
        ("bytes_sent", "<u8"),
        ("bytes_received", "<u8"),
        ("comm_sum", "<u8"),
        ("comm_min", "<u4"),
        ("comm_max", "<u4"),
    ]
)
NO_CLOCK = "none"
# Facts that must be the same in all processes of a run.
COMMON_INFO = ("executable", "build_id", "mode", "compiler", "mpi", "toolchain", "fingerprint")


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
        Names of the counters that were read, out of those that campaigns can ask for.
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


def read_dumps(folder: Path, ranks: int) -> Profile:
    """Read the profiles that the processes of one run have left in a folder.

    Parameters
    ----------
    folder
        What ``BURAN_PROFILE_DIR`` was when the program ran.
    ranks
        How many processes there must be.

    Returns
    -------
    Profile
        One location per thread of each rank. The call paths of all threads are merged below one root, which
        stands for the executable. ``communicator_size_min`` and ``_max`` are 0 where no operation named a
        communicator. ``bytes_put`` and ``bytes_get`` are there if the program uses one-sided operations. The attribute
        ``polling_regions`` is a JSON list of regions that poll (``MPI_Test``) or contain the loop that does: their
        visits and basic blocks differ between runs. ``placement`` is a JSON list of hosts, CPUs (``0-3,8``) and the
        ranks that could run there.

    Raises
    ------
    RunError
        If a rank is missing or there twice, or a file is truncated, foreign, not completed, or of another
        binary.
    """
    # Programs with many ranks spread their files over folders.
    paths = sorted([*Path(folder).glob("*.buran"), *Path(folder).glob("ranks-*/*.buran")])
    known: dict[bytes, Region] = {}
    dumps = sorted((read_dump(path, known) for path in paths), key=lambda dump: dump.rank)
    _check_together(dumps, Path(folder), ranks)
    return _merge(dumps)


def read_dump(path: Path, known: dict[bytes, Region] | None = None) -> Dump:
    """Read the profile of one process; raise `RunError` if it is not whole.

    `known` keeps regions between files of one program.
    """
    known = {} if known is None else known
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
        raise RunError(
            "the profile of a process is not complete",
            where=path,
            why=info.get("incomplete") or "it left without MPI_Finalize, or called MPI_Abort",
            hint="look at the run's output",
        )
    counters = tuple(cursor.text() for _ in range(cursor.plausible(n_counters, 4)))
    if unknown := [name for name in counters if name not in asked_for_by("counters")]:
        cursor.fail(f"it has a counter {unknown[0]!r}")
    regions = tuple(cursor.regions(cursor.plausible(n_regions, 20), info.get("executable", ""), known))
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

    def regions(self, count: int, executable: str, known: dict[bytes, Region]) -> Iterator[Region]:
        """Read regions; those that stand so in another file are not made again, which saves most of the time."""
        for _ in range(count):
            begin = self.at
            for _ in range(3):
                self.at += 4 + int.from_bytes(self.data[self.at : self.at + 4], "little")
            self.at += 8
            if self.at > len(self.data):
                self.fail(f"a region at {begin} goes beyond the end")
            described = self.data[begin : self.at]
            if described not in known:
                self.at = begin
                known[described] = self.region(executable)
            yield known[described]

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
    if not (np.isfinite(dump.ticks_per_second) and dump.ticks_per_second > 0):
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


def _check_together(dumps: Sequence[Dump], folder: Path, ranks: int) -> None:
    """Check that these are all processes of one run of one binary."""
    by_rank: dict[int, Dump] = {}
    for dump in dumps:
        if dump.rank in by_rank:
            raise RunError(
                f"rank {dump.rank} has left two profiles",
                where=dump.path,
                why=f"the other is {by_rank[dump.rank].path.name}",
                hint="was the program started by the launcher of another MPI, or twice into one folder?",
            )
        by_rank[dump.rank] = dump
    for dump in dumps:
        if dump.size != ranks:
            raise RunError(
                f"the program ran with {dump.size} processes instead of {ranks}",
                where=dump.path,
                hint="was it started by the launcher of another MPI than it was built with?",
            )
    if missing := [rank for rank in range(ranks) if rank not in by_rank]:
        shown = ", ".join(map(str, missing[:8])) + (", ..." if len(missing) > 8 else "")
        raise RunError(
            f"{len(missing)} of {ranks} ranks have left no profile: {shown}",
            where=folder,
            why="they crashed, were killed, could not write, or were not built by Buran's wrappers",
            hint="look at the run's output",
        )
    first = dumps[0]
    for dump in dumps:
        for key in COMMON_INFO:
            if dump.info[key] != first.info[key]:
                raise RunError(
                    "profiles of different binaries",
                    where=dump.path,
                    why=f"{key} is {dump.info[key]}, and {first.info[key]} in {first.path.name}",
                )
        if dump.counts_blocks != first.counts_blocks:
            raise RunError("profiles of different binaries", where=dump.path, why="only some count basic blocks")


# ---- merging


def _merge(dumps: Sequence[Dump]) -> Profile:
    """Merge the call trees of all threads; equal call paths become one."""
    index_of: dict[Region, int] = {}
    parts: list[NDArray[np.void]] = []
    regions: list[NDArray[np.int64]] = []
    parents: list[NDArray[np.int64]] = []
    where: list[NDArray[np.int64]] = []
    seconds: list[NDArray[np.float64]] = []
    locations: list[Location] = []
    offset = 0
    for dump in dumps:
        numbers = np.array([index_of.setdefault(region, len(index_of)) for region in dump.regions], dtype=np.int64)
        for thread, nodes in sorted(dump.threads.items()):
            parent = nodes["parent"].astype(np.int64)
            parent[0] = -1
            parts.append(nodes)
            regions.append(numbers[nodes["region"]])
            where.append(np.full(len(nodes), len(locations)))
            seconds.append(nodes["ticks"] / dump.ticks_per_second)
            parents.append(np.where(parent >= 0, parent + offset, -1))
            locations.append(Location(dump.rank, thread))
            offset += len(nodes)

    nodes = np.concatenate(parts)
    path, tree = _unite(np.concatenate(parents), np.concatenate(regions), tuple(index_of))
    at = (path, np.concatenate(where))
    shape = (len(tree), len(locations))

    def added_up(values: NDArray[np.generic], dtype: type[np.generic]) -> NDArray[np.generic]:
        out = np.zeros(shape, dtype=dtype)
        np.add.at(out, at, values)
        return out

    smallest = np.full(shape, np.inf)
    np.minimum.at(smallest, at, np.where(nodes["comm_min"] > 0, nodes["comm_min"].astype(np.float64), np.inf))
    largest = np.zeros(shape)
    np.maximum.at(largest, at, nodes["comm_max"].astype(np.float64))
    values: dict[str, NDArray[np.generic]] = {
        "visits": added_up(nodes["visits"], np.uint64),
    }
    if all(dump.info.get("clock") != NO_CLOCK for dump in dumps):
        time = added_up(np.concatenate(seconds), np.float64)
        values["time"] = tree.inclusive(time.astype(np.float64, copy=False))
    if dumps[0].counts_blocks:
        values["basic_blocks"] = added_up(nodes["blocks"], np.uint64)
    # One-sided operations put and get: as Score-P does, these bytes are kept apart.
    is_one_sided = np.array([region.paradigm == "mpi" and region.name in ONE_SIDED for region in index_of], dtype=bool)
    one_sided = is_one_sided[np.concatenate(regions)]
    values |= {
        "bytes_sent": added_up(np.where(one_sided, 0, nodes["bytes_sent"]), np.uint64),
        "bytes_received": added_up(np.where(one_sided, 0, nodes["bytes_received"]), np.uint64),
    }
    if one_sided.any():
        values |= {
            "bytes_put": added_up(np.where(one_sided, nodes["bytes_sent"], 0), np.uint64),
            "bytes_get": added_up(np.where(one_sided, nodes["bytes_received"], 0), np.uint64),
        }
    values |= {
        "communicator_size_sum": added_up(nodes["comm_sum"], np.uint64),
        "communicator_size_min": np.where(np.isfinite(smallest), smallest, 0.0),
        "communicator_size_max": largest,
    }
    for name in _common_counters(dumps):
        counts = np.concatenate(
            [dump.counts[number][:, dump.counters.index(name)] for dump in dumps for number in sorted(dump.threads)]
        )
        if name == TASK_CLOCK:
            values[name] = tree.inclusive(added_up(counts / 1e9, np.float64).astype(np.float64, copy=False))
        else:
            values[name] = added_up(counts, np.uint64)
    metrics: dict[str, Metric] = {name: metric_of(name) for name in values}
    return Profile(tree, tuple(locations), metrics, values, _attributes(dumps, tree))


def _common_counters(dumps: Sequence[Dump]) -> list[str]:
    """Return the counters of all processes: a sum without some of the ranks would be wrong."""
    return [name for name in asked_for_by("counters") if all(name in dump.counters for dump in dumps)]


def _unavailable_counters(dumps: Sequence[Dump]) -> dict[str, str]:
    """Return the attribute that says which counters were asked for in vain, and why: the first rank's reason."""
    reasons: dict[str, str] = {}
    for dump in dumps:
        for line in dump.info.get("counters_unavailable", "").splitlines():
            name, _, reason = line.partition(": ")
            reasons.setdefault(name, f"{name}: {reason} (rank {dump.rank})" if len(dumps) > 1 else line)
    return {"counters_unavailable": "; ".join(reasons.values())} if reasons else {}


# What the runtime says of each process, and how it is summed up for all of them.
_ADDED_UP = (
    "visits_below_depth_limit",
    "visits_in_interrupted_hooks",
    "threads_sharing_a_location",
    "threads_running_at_exit",
    "forks",
)
_GREATEST = ("call_paths", "memory_bytes", "threads")
_SAME = ("clock", "recursion", "depth_limit", "call_path_limit")


def _attributes(dumps: Sequence[Dump], tree: CallTree) -> dict[str, str]:
    def numbers(key: str) -> list[int]:
        texts = [dump.info.get(key, "0") for dump in dumps]
        return [int(text) if text.isdecimal() else 0 for text in texts]

    hertz = [dump.ticks_per_second for dump in dumps]
    return {
        "creator": "buran embedded",
        **{key: dumps[0].info[key] for key in COMMON_INFO},
        "complete": "true",
        "ranks": str(len(dumps)),
        **{key: ", ".join(sorted({dump.info.get(key, "") for dump in dumps})) for key in _SAME},
        "clock_hz": f"{min(hertz):.0f}" if min(hertz) == max(hertz) else f"{min(hertz):.0f} to {max(hertz):.0f}",
        **{key: str(sum(numbers(key))) for key in _ADDED_UP},
        **{f"{key}_per_rank": str(max(numbers(key))) for key in _GREATEST},
        **_unavailable_counters(dumps),
        "placement": placement_of(
            {dump.rank: (dump.info.get("host", ""), dump.info.get("cpus", "")) for dump in dumps}
        ),
        "polling_regions": json.dumps(_polling_regions(tree)),
    }


def placement_of(places: Mapping[int, tuple[str, str]]) -> str:
    """Return where the ranks ran, as JSON: for each host and set of CPUs, the ranks that had it, as in ``0-3,8``.

    Parameters
    ----------
    places
        Host and CPUs of each rank; empty where they are not known.
    """
    ranks: dict[tuple[str, str], list[int]] = {}
    for rank, place in places.items():
        ranks.setdefault(place, []).append(rank)
    return json.dumps([{"host": host, "cpus": cpus, "ranks": _spans(own)} for (host, cpus), own in ranks.items()])


def _spans(numbers: Sequence[int]) -> str:
    spans: list[list[int]] = []
    for number in numbers:
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in spans)


def _polling_regions(tree: CallTree) -> list[str]:
    """Return the names of the regions whose counts depend on how long something takes: polls and what calls them."""
    polls = np.array([region.paradigm == "mpi" and region.name in POLLING for region in tree.regions], dtype=bool)
    polling = polls[tree.region] & (tree.parent >= 0)
    callers = tree.region[tree.parent[polling]]
    found = {tree.regions[i] for i in np.concatenate((tree.region[polling], callers))}
    return sorted({region.name for region in found if region.paradigm != "measurement"})


def _unite(
    parent: NDArray[np.int64], region: NDArray[np.int64], regions: tuple[Region, ...]
) -> tuple[NDArray[np.int64], CallTree]:
    """Give nodes with the same chain of regions the same call path.

    Parameters
    ----------
    parent, region
        Shape (node,); parent -1 for the roots of the threads, which all become call path 0.

    Returns
    -------
    path, tree
        Shape (node,): index into the tree's call paths. Siblings stand in the order of first appearance.
    """
    path = np.zeros(len(parent), dtype=np.int64)
    levels = _levels(parent)
    path_region = [region[levels[0][:1]]]
    path_parent = [np.array([-1], dtype=np.int64)]
    known = 1
    for nodes in levels[1:]:
        keys = path[parent[nodes]] * len(regions) + region[nodes]
        unique, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
        order = np.argsort(first, kind="stable")
        rank_of = np.empty_like(order)
        rank_of[order] = np.arange(len(order))
        path[nodes] = known + rank_of[inverse.reshape(-1)]
        path_region.append(unique[order] % len(regions))
        path_parent.append(unique[order] // len(regions))
        known += len(unique)
    all_parents = np.concatenate(path_parent)
    position = _pre_order(all_parents)
    by_position = np.argsort(position)
    sorted_parents = all_parents[by_position]
    tree = CallTree(
        regions,
        np.concatenate(path_region)[by_position],
        np.where(sorted_parents >= 0, position[sorted_parents], -1),
    )
    return position[path], tree


def _levels(parent: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Node indices by depth, each in ascending order."""
    depth = np.zeros(len(parent), dtype=np.int64)
    nodes, above = np.arange(len(parent)), parent
    while len(nodes):
        below = above >= 0
        nodes, above = nodes[below], above[below]
        depth[nodes] += 1
        above = parent[above]
    order = np.argsort(depth, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(depth[order])) + 1)


def _pre_order(parent: NDArray[np.int64]) -> NDArray[np.int64]:
    """Position of every call path in pre-order; input by depth, the root first, siblings in their order."""
    levels = _levels(parent)
    size = np.ones(len(parent), dtype=np.int64)
    for nodes in levels[:0:-1]:
        np.add.at(size, parent[nodes], size[nodes])
    position = np.zeros(len(parent), dtype=np.int64)
    for nodes in levels[1:]:
        nodes = nodes[np.argsort(parent[nodes], kind="stable")]
        before = np.cumsum(size[nodes]) - size[nodes]
        starts = np.flatnonzero(np.r_[True, np.diff(parent[nodes]) != 0])
        of_first_sibling = np.repeat(before[starts], np.diff(np.r_[starts, len(nodes)]))
        position[nodes] = position[parent[nodes]] + 1 + before - of_first_sibling
    return position
