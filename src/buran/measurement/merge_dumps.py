"""Reading the profiles of a run's processes and merging them into one call tree."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from buran.errors import RunError
from buran.features import natives, sampled_metrics
from buran.measurement.dump import COMMON_INFO, LOST_VISITS, Dump, read_dump
from buran.measurement.toolchain.mpi_operations import ONE_SIDED, POLLING
from buran.profiles.metrics import HEAP_BYTES, HEAP_PEAK, metric_of, table
from buran.profiles.profile import CallTree, Location, Profile, Region
from buran.profiles.regroup import preorder

TASK_CLOCK = "task_clock"  # counts nanoseconds
NO_CLOCK = "none"
CPU_TIME = "cpu_time"

Values = NDArray[np.generic]


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
        communicator. Times of computation are CPU times, those of MPI operations and of waiting for a team wall-clock
        times; where a rank had no clock of CPU time, all are wall-clock times and the attribute ``cpu_clock_missing``
        says why. Between two parallel regions a thread of a team belongs to nobody: only the first thread of a rank
        has times at the root.
        ``resident_bytes`` stand at the root, for the first thread of each rank.
        ``bytes_put`` and ``bytes_get`` are there if the program uses one-sided operations. The attribute
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
    regions_read: dict[bytes, Region] = {}
    dumps = sorted((read_dump(path, regions_read) for path in paths), key=lambda dump: dump.rank)
    _check_together(dumps, Path(folder), ranks)
    return _merge(dumps)


def _check_together(dumps: Sequence[Dump], folder: Path, ranks: int) -> None:
    """Check that these are all processes of one run of one binary."""
    there = {dump.rank for dump in dumps}
    if len(there) < len(dumps):
        raise RunError(
            f"{len(dumps)} processes have left profiles of {len(there)} of {ranks} ranks",
            where=folder,
            why="the program was built without MPI, or started by the launcher of another MPI than its own, or twice",
            hint="switch MPI on in program.build; a program that has none has one rank: `resources: {ranks: 1}`",
        )
    for dump in dumps:
        if dump.size != ranks:
            raise RunError(
                f"the program ran with {dump.size} processes instead of {ranks}",
                where=dump.path,
                hint="was it started by the launcher of another MPI than it was built with?",
            )
    if missing := [rank for rank in range(ranks) if rank not in there]:
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


def _merge(dumps: Sequence[Dump]) -> Profile:
    """Merge the call trees of all threads; equal call paths become one."""
    merged = _Merged.of(dumps)
    values: dict[str, Values] = {"visits": merged.added_up(merged.nodes["visits"])}
    if all(dump.info.get("clock") != NO_CLOCK for dump in dumps):
        values |= _times(merged)
    if dumps[0].counts_blocks:
        values["basic_blocks"] = merged.added_up(merged.nodes["blocks"])
    # A sum without some of the ranks would be wrong; of what features sample, a process names those that it has.
    common = [name for name in table() if all(name in dump.counters for dump in dumps)]
    values |= _traffic(merged) | _counters(merged, common)
    for name in ("resident_bytes", HEAP_PEAK):
        if all(of_ranks := _numbers(dumps, name)):
            first = [at for at, (dump, thread) in enumerate(merged.threads) if thread == min(dump.threads)]
            values.setdefault(name, np.zeros(merged.shape))[0, first] = of_ranks
    sampled = sampled_metrics()
    values |= _counters(merged, [name for name in sampled if any(name in dump.counters for dump in dumps)])
    metrics = {name: sampled.get(name) or metric_of(name) for name in values}
    locations = tuple(Location(dump.rank, thread) for dump, thread in merged.threads)
    return Profile(merged.tree, locations, metrics, values, _attributes(dumps, merged.tree))


@dataclass(frozen=True, eq=False)
class _Merged:
    """The nodes of all threads, and the call tree that they make up.

    Attributes
    ----------
    dumps, threads
        One for each rank; one for each location, with the thread's number.
    nodes, region, path, location
        Shape (node,): what was measured, and where it belongs in `tree` and among the locations.
    tree
        Call paths of all threads.
    """

    dumps: Sequence[Dump]
    threads: Sequence[tuple[Dump, int]]
    nodes: NDArray[np.void]
    region: NDArray[np.int64]
    path: NDArray[np.int64]
    location: NDArray[np.int64]
    tree: CallTree

    @classmethod
    def of(cls, dumps: Sequence[Dump]) -> _Merged:
        """Put the trees of all threads behind each other, and unite equal call paths."""
        threads = [(dump, thread) for dump in dumps for thread in sorted(dump.threads)]
        parts = [dump.threads[thread] for dump, thread in threads]
        nodes, sizes = np.concatenate(parts), np.array([len(part) for part in parts])
        roots, location = np.cumsum(sizes) - sizes, np.repeat(np.arange(len(parts)), sizes)
        parent = nodes["parent"].astype(np.int64) + roots[location]
        parent[roots] = -1
        index_of: dict[Region, int] = {}
        numbers = {
            dump.rank: np.array([index_of.setdefault(region, len(index_of)) for region in dump.regions], dtype=np.int64)
            for dump in dumps
        }
        region = np.concatenate([numbers[dump.rank][dump.threads[thread]["region"]] for dump, thread in threads])
        path, tree = _unite(parent, region, tuple(index_of))
        return cls(dumps, threads, nodes, region, path, location, tree)

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of call paths and of locations."""
        return len(self.tree), len(self.threads)

    def added_up(self, values: Values, dtype: type[np.generic] = np.uint64) -> Values:
        """Return shape (call path, location) of values (node,)."""
        out = np.zeros(self.shape, dtype=dtype)
        np.add.at(out, (self.path, self.location), values)
        return out

    def seconds(self, values: Values) -> NDArray[np.float64]:
        """Return shape (call path, location): times (node,) added up."""
        return self.added_up(values, np.float64).astype(np.float64, copy=False)

    def extreme(self, which: np.ufunc, values: Values, start: float = 0.0) -> Values:
        """Return shape (call path, location): the largest or smallest of values (node,) and a first one."""
        out = np.full(self.shape, start)
        which.at(out, (self.path, self.location), values.astype(np.float64))
        return out

    def is_mpi(self, operations: frozenset[str] | None = None) -> NDArray[np.bool_]:
        """Return shape (node,): whether it is one of these MPI operations, or any."""
        return _is_mpi(self.tree.regions, operations)[self.region]


def _times(merged: _Merged) -> dict[str, Values]:
    """Return the times by metric, those of computing and of waiting among them; at the roots of first threads alone."""
    threads, nodes, inclusive = merged.threads, merged.nodes, merged.tree.inclusive
    has_cpu_clock = not any(dump.info.get("cpu_clock_missing") for dump in merged.dumps)
    ticks_per_second = np.array([dump.ticks_per_second for dump, _ in threads])[merged.location]
    idles = np.zeros(len(nodes), dtype=bool)
    idles[np.unique(merged.location, return_index=True)[1]] = [thread > 0 for _, thread in threads]
    on_wall_clock = merged.is_mpi() if has_cpu_clock else np.ones(len(nodes), dtype=bool)
    ticks = {
        "time": np.where(on_wall_clock, nodes["ticks"], nodes["cpu"] + nodes["waited"]),
        "wall_time": nodes["ticks"],
    }
    if has_cpu_clock:
        ticks[CPU_TIME] = nodes["cpu"]
    if len(threads) > len(merged.dumps):
        ticks |= {"team_idle_time": nodes["idle"], "team_imbalance": nodes["imbalance"]}
    seconds = {name: merged.seconds(np.where(idles, 0, each) / ticks_per_second) for name, each in ticks.items()}
    return {name: inclusive(each) if metric_of(name).kind == "inclusive" else each for name, each in seconds.items()}


def _traffic(merged: _Merged) -> dict[str, Values]:
    """Return bytes and communicators of MPI; one-sided operations put and get, apart as with Score-P."""
    nodes, one_sided = merged.nodes, merged.is_mpi(ONE_SIDED)
    out = {name: merged.added_up(np.where(one_sided, 0, nodes[name])) for name in ("bytes_sent", "bytes_received")}
    if one_sided.any():
        apart = {"bytes_put": nodes["bytes_sent"], "bytes_get": nodes["bytes_received"]}
        out |= {name: merged.added_up(np.where(one_sided, each, 0)) for name, each in apart.items()}
    sizes = np.where(nodes["comm_min"] > 0, nodes["comm_min"].astype(np.float64), np.inf)
    smallest = merged.extreme(np.minimum, sizes, np.inf)
    return out | {
        "communicator_size_sum": merged.added_up(nodes["comm_sum"]),
        "communicator_size_min": np.where(np.isfinite(smallest), smallest, 0.0),
        "communicator_size_max": merged.extreme(np.maximum, nodes["comm_max"]),
    }


def _counters(merged: _Merged, names: Iterable[str]) -> dict[str, Values]:
    """Return what processes counted, by metric."""
    out: dict[str, Values] = {}
    for name in names:
        counts = np.concatenate([_column(dump, thread, name) for dump, thread in merged.threads])
        if name == HEAP_PEAK:
            out[name] = merged.extreme(np.maximum, counts)
        elif name == HEAP_BYTES:  # an MPI needs more or less of it, as the run goes
            out[name] = merged.added_up(np.where(merged.is_mpi(), 0, counts))
        elif name == TASK_CLOCK:
            out[name] = merged.tree.inclusive(merged.seconds(counts / 1e9))
        else:
            out[name] = merged.added_up(counts)
    return out


def _column(dump: Dump, thread: int, name: str) -> NDArray[np.uint64]:
    """Return shape (node,): what a thread counted; 0 where its process has no such counter."""
    if name not in dump.counters:
        return np.zeros(len(dump.threads[thread]), dtype=np.uint64)
    return dump.counts[thread][:, dump.counters.index(name)]


def _is_mpi(regions: Iterable[Region], operations: frozenset[str] | None = None) -> NDArray[np.bool_]:
    """Return shape (region,): whether it is one of these MPI operations, or any."""
    return np.array(
        [region.paradigm == "mpi" and (operations is None or region.name in operations) for region in regions],
        dtype=bool,
    )


def _unavailable_counters(dumps: Sequence[Dump]) -> dict[str, str]:
    """Return the attribute that says which counters were requested in vain, and why: the first rank's reason."""
    reasons: dict[str, str] = {}
    for dump in dumps:
        for line in dump.info.get("counters_unavailable", "").splitlines():
            name, _, reason = line.partition(": ")
            reasons.setdefault(name, f"{name}: {reason} (rank {dump.rank})" if len(dumps) > 1 else line)
    return {"counters_unavailable": "; ".join(reasons.values())} if reasons else {}


def _missing_cpu_clock(dumps: Sequence[Dump]) -> dict[str, str]:
    """Return the attribute that says why times of computation are wall-clock times: the first rank's reason."""
    reasons = (dump.info.get("cpu_clock_missing", "") for dump in dumps if dump.info.get("clock") != NO_CLOCK)
    reason = next(filter(None, reasons), "")
    return {"cpu_clock_missing": reason} if reason else {}


# What the runtime says of each process, and how it is summed up for all of them.
_ADDED_UP = ("visits_below_depth_limit", LOST_VISITS, "threads_sharing_a_location", "threads_running_at_exit", "forks")
_GREATEST = ("call_paths", "memory_bytes", "threads")
_SAME = ("clock", "recursion", "depth_limit", "call_path_limit")


def _numbers(dumps: Sequence[Dump], key: str) -> list[int]:
    texts = [dump.info.get(key, "0") for dump in dumps]
    return [int(text) if text.isdecimal() else 0 for text in texts]


def _attributes(dumps: Sequence[Dump], tree: CallTree) -> dict[str, str]:
    hertz = [dump.ticks_per_second for dump in dumps]
    return {
        "creator": "buran embedded",
        **{key: dumps[0].info[key] for key in COMMON_INFO},
        "complete": "true",
        "ranks": str(len(dumps)),
        **{key: ", ".join(sorted({dump.info.get(key, "") for dump in dumps})) for key in _SAME},
        "clock_hz": f"{min(hertz):.0f}" if min(hertz) == max(hertz) else f"{min(hertz):.0f} to {max(hertz):.0f}",
        **{key: str(sum(_numbers(dumps, key))) for key in _ADDED_UP},
        **{f"{key}_per_rank": str(max(_numbers(dumps, key))) for key in _GREATEST},
        **_unavailable_counters(dumps),
        **_missing_cpu_clock(dumps),
        **{key: text for native in natives() for key, text in native.attributes([d.info for d in dumps]).items()},
        "placement": placement_of(
            {dump.rank: (dump.info.get("host", ""), dump.info.get("cpus", "")) for dump in dumps}
        ),
        "polling_regions": json.dumps(_polling_regions(tree)),
    }


def placement_of(locations: Mapping[int, tuple[str, str]]) -> str:
    """Return where the ranks ran, as JSON: for each host and set of CPUs, the ranks that had it, as in ``0-3,8``.

    Parameters
    ----------
    locations
        Host and CPUs of each rank; empty where they are not known.
    """
    ranks: dict[tuple[str, str], list[int]] = {}
    for rank, host_and_cpus in locations.items():
        ranks.setdefault(host_and_cpus, []).append(rank)
    return json.dumps(
        [{"host": host, "cpus": cpus, "ranks": _spans(numbers)} for (host, cpus), numbers in ranks.items()]
    )


def _spans(numbers: Sequence[int]) -> str:
    runs = np.split(np.array(numbers), np.flatnonzero(np.diff(numbers) != 1) + 1)
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)


def _polling_regions(tree: CallTree) -> list[str]:
    """Return the names of the regions whose counts depend on how long something takes: polls and what calls them."""
    polling = _is_mpi(tree.regions, POLLING)[tree.region] & (tree.parent >= 0)
    callers = tree.region[tree.parent[polling]]
    regions = {tree.regions[i] for i in np.concatenate((tree.region[polling], callers))}
    return sorted({region.name for region in regions if region.paradigm != "measurement"})


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
    call_paths = 1
    for nodes in levels[1:]:
        # one key for each call path of the parent and region; numbered by first appearance
        keys = path[parent[nodes]] * len(regions) + region[nodes]
        unique, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
        order = np.argsort(first, kind="stable")
        rank_of = np.empty_like(order)
        rank_of[order] = np.arange(len(order))
        path[nodes] = call_paths + rank_of[inverse.reshape(-1)]
        path_region.append(unique[order] % len(regions))
        path_parent.append(unique[order] // len(regions))
        call_paths += len(unique)
    # from the order of levels to preorder
    above = np.concatenate(path_parent)
    order = preorder(above)
    position = np.argsort(order)
    above = above[order]
    tree = CallTree(regions, np.concatenate(path_region)[order], np.where(above >= 0, position[above], -1))
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
