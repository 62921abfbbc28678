"""The metrics: what each one is, in one table that everybody asks.

Whoever needs to know whether a metric is exact, timed, counted or shown asks `metric_of` or one of the questions below;
nobody keeps a list of names. A distribution of its own can bring further metrics, as entry points ``buran.metrics``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Literal

from buran.errors import PluginError
from buran.extensions import ExtensionPoint

Role = Literal["time", "exact", "sampled"]
Build = Literal["time", "effort", "memory"]
Effort = Literal["", "computation", "communication"]
Key = Literal["", "metrics", "counters"]
Combine = Literal["add", "min", "max"]
OfThreads = Literal["add", "first"]


@dataclass(frozen=True)
class Metric:
    """What is measured, named and typed as Score-P does, and what is known of it.

    Attributes
    ----------
    name
        Unique name, as in ``bytes_sent``.
    unit
        As Cube shows it: ``sec``, ``occ``, ``bytes``.
    kind
        How the numbers are stored: ``inclusive`` values contain the children's.
    dtype
        Cube's data type. ``MINDOUBLE`` and ``MAXDOUBLE`` are extremes, all others are added up.
    title, description
        For readers.
    role
        How repetitions differ: a ``time`` scatters, an ``exact`` number is the same in each, a ``sampled`` one, such as
        a counter of the processor, differs a little.
    builds
        Instrumented builds that measure it; models are made from runs of the first.
    effort
        Which part of a program's effort it stands for, in priors and in the choice of functions.
    key
        Key of the campaign file that asks for it; empty for what is measured without a request.
    reported
        Whether the report in plain text has a table of it.
    per_visit
        Whether it describes the visits of its own region, not the work done inside it, as all extremes do.
    perf
        Name in Linux's perf interface, for counters.
    of_threads
        How the threads of a rank are one: ``add`` combines them as call paths are, ``first`` takes the thread that
        opens parallel regions, whose time they take.
    is_detail
        Whether builds that count have it only where a campaign asks for it or for another such metric.
    """

    name: str
    unit: str
    kind: Literal["inclusive", "exclusive"]
    dtype: Literal["UINT64", "INT64", "DOUBLE", "MINDOUBLE", "MAXDOUBLE"]
    title: str = ""
    description: str = ""
    role: Role = "sampled"
    builds: tuple[Build, ...] = ("time",)
    effort: Effort = ""
    key: Key = ""
    reported: bool = False
    per_visit: bool = False
    perf: str = ""
    of_threads: OfThreads = "add"
    is_detail: bool = False

    @property
    def heading(self) -> str:
        """The metric as a heading."""
        return self.title or self.name.replace("_", " ").capitalize()

    @property
    def combination(self) -> Combine:
        """How values of several call paths become one; the table decides, as a profile may store another type."""
        dtype = table().get(self.name, self).dtype
        return "min" if dtype == "MINDOUBLE" else "max" if dtype == "MAXDOUBLE" else "add"

    @property
    def is_per_visit(self) -> bool:
        """Whether values stay behind when a region is no longer measured: the caller is not visited more."""
        return table().get(self.name, self).per_visit or self.combination != "add"

    @property
    def counted(self) -> bool:
        """Whether models are made from runs of the build that counts."""
        return self.builds[0] == "effort"

    @property
    def timed(self) -> bool:
        """Whether models are made from timed runs."""
        return self.builds[0] == "time"

    @property
    def noise_resilient(self) -> bool:
        """Whether neither noise nor the filter touches it, so that any difference is one of the program."""
        return self.counted and self.role == "exact"


def _count(name: str, title: str, description: str, builds: tuple[Build, ...], effort: Effort) -> Metric:
    """Return a count that campaigns ask for."""
    unit = "bytes" if effort == "communication" else "occ"
    return Metric(name, unit, "exclusive", "UINT64", title, description, "exact", builds, effort, "metrics", True)


def _counter(name: str, perf: str, title: str, description: str, effort: Effort = "") -> Metric:
    """Return a counter of the processor or the kernel that timed runs read at every visit."""
    return Metric(
        name, "occ", "exclusive", "UINT64", title, description, effort=effort, key="counters", perf=perf
    )  # fmt: skip


HEAP_BYTES, HEAP_PEAK = "heap_bytes", "heap_peak"
"""What effort builds count of memory of the heap."""

MINOR_FAULTS = "minor_faults"
"""What effort builds count of pages that the system hands over."""

CACHE_LINE = 64
"""Bytes, as native/runtime.h has it."""

_EVERY: tuple[Build, ...] = ("effort", "time")
_TIMED_FIRST: tuple[Build, ...] = ("time", "effort")

TEAM_IMBALANCE = "team_imbalance"
WORKING_THREADS = Metric(
    "working_threads", "occ", "exclusive", "MAXDOUBLE", "Working threads",
    "Threads of a rank that came there: its counts, divided by them, are the work that takes time",
    role="exact", builds=_EVERY,
)  # fmt: skip

METRICS: Mapping[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric(
            "visits", "occ", "exclusive", "UINT64", "Visits", "Number of visits",
            role="exact", builds=_TIMED_FIRST, key="metrics", reported=True, per_visit=True,
        ),
        Metric(
            "time", "sec", "inclusive", "DOUBLE", "Time", "CPU time of computation, wall-clock time of MPI operations",
            role="time", key="metrics", of_threads="first",
        ),
        Metric(
            "wall_time", "sec", "inclusive", "DOUBLE", "Wall-clock time", "Also while others had the core",
            role="time", of_threads="first",
        ),
        Metric("cpu_time", "sec", "inclusive", "DOUBLE", "CPU time", "Of all threads, without waiting", role="time"),
        Metric(
            "team_idle_time", "sec", "exclusive", "DOUBLE", "Idle time of teams",
            "Time in which threads of a team had no part of their parallel region to work on", role="time",
        ),
        Metric(
            TEAM_IMBALANCE, "sec", "exclusive", "DOUBLE", "Imbalance of teams",
            "Work of the thread that worked longest in a parallel region, less the mean of its team", role="time",
        ),
        _count("basic_blocks", "Basic blocks", "Executed basic blocks", ("effort",), "computation"),
        Metric(
            HEAP_BYTES, "bytes", "exclusive", "UINT64", "Bytes of the heap",
            "What functions ask for, given back or not", role="exact", builds=("effort",), key="metrics", reported=True,
        ),
        Metric(
            HEAP_PEAK, "bytes", "exclusive", "MAXDOUBLE", "Heap in use",
            "The most that the rank had at a time, when something was allocated there; of the whole rank at the root",
            builds=("effort",), key="metrics", reported=True,
        ),
        Metric(
            MINOR_FAULTS, "occ", "exclusive", "UINT64", "Minor page faults",
            "Touches of a page that the system had to hand over first, without reading it from a file",
            builds=("effort",), key="metrics", reported=True,
        ),
        Metric(
            "resident_bytes", "bytes", "exclusive", "MAXDOUBLE", "Resident memory",
            "The most that was in memory at a time, at the root: of the program, its libraries and the measurement",
            builds=_TIMED_FIRST, key="metrics", reported=True,
        ),
        _count("bytes_sent", "Bytes sent", "Bytes sent by MPI operations", _EVERY, "communication"),
        _count("bytes_received", "Bytes received", "Bytes received by MPI operations", _EVERY, "communication"),
        Metric(
            "bytes_put", "bytes", "exclusive", "UINT64", "Bytes put", "Bytes sent by one-sided MPI operations",
            role="exact", builds=_EVERY,
        ),
        Metric(
            "bytes_get", "bytes", "exclusive", "UINT64", "Bytes got", "Bytes received by one-sided MPI operations",
            role="exact", builds=_EVERY,
        ),
        Metric(
            "communicator_size_sum", "occ", "exclusive", "UINT64", "Communicator sizes, summed",
            "Size of the communicator, added up over visits; divide by visits for the mean",
            role="exact", builds=_EVERY, per_visit=True,
        ),
        Metric(
            "communicator_size_min", "occ", "exclusive", "MINDOUBLE", "Smallest communicator",
            role="exact", builds=_EVERY,
        ),
        Metric(
            "communicator_size_max", "occ", "exclusive", "MAXDOUBLE", "Largest communicator",
            role="exact", builds=_EVERY,
        ),
        Metric(
            "loop_trips", "occ", "exclusive", "UINT64", "Loop trips", "Rounds of loops, from other tools",
            role="exact", builds=("effort",), effort="computation",
        ),
        _counter("instructions", "instructions", "Instructions", "Executed outside the kernel", "computation"),
        _counter("cycles", "cpu-cycles", "Cycles", "Of the processor, outside the kernel"),
        _counter("cache_misses", "cache-misses", "Cache misses", "Of the last level, outside the kernel"),
        _counter("branch_misses", "branch-misses", "Branch misses", "Mispredicted, outside the kernel"),
        _counter("page_faults", "page-faults", "Page faults", "Outside the kernel"),
        Metric(
            "task_clock", "sec", "inclusive", "DOUBLE", "Processor time", "Time in which the thread had a core",
            role="time", key="counters", perf="task-clock",
        ),
        _counter("context_switches", "context-switches", "Context switches", "Losses of the core"),
        WORKING_THREADS,
        Metric("min_time", "sec", "exclusive", "MINDOUBLE", "Shortest visit", role="time"),
        Metric("max_time", "sec", "exclusive", "MAXDOUBLE", "Longest visit", role="time"),
    )
}  # fmt: skip


BROUGHT: ExtensionPoint[Metric] = ExtensionPoint("metric", "buran.metrics", Metric, {})


def table() -> Mapping[str, Metric]:
    """Return all metrics by name, those of other distributions last.

    Raises
    ------
    PluginError
        One of those cannot be used, or has the name of one that is there already.
    """
    return _table(tuple(BROUGHT.names))


@cache
def _table(brought: tuple[str, ...]) -> Mapping[str, Metric]:
    if twice := METRICS.keys() & set(brought):
        raise PluginError(
            f"the metric {min(twice)!r} is brought by another distribution and is one of Buran's own",
            where=f"entry point group {BROUGHT.group}",
            hint="give it another name, or uninstall the distribution",
        )
    return {**METRICS, **{name: BROUGHT.load(name) for name in brought}}


def metric_of(name: str) -> Metric:
    """Return what is known of a metric; one that is in no table is taken for a sampled sum without a unit."""
    return METRICS.get(name) or table().get(name) or Metric(name, "", "exclusive", "DOUBLE")


def requested_by(key: Key) -> tuple[str, ...]:
    """Return the metrics that a campaign file can ask for under a key, times first."""
    metrics = [metric for metric in table().values() if metric.key == key]
    return tuple(m.name for m in sorted(metrics, key=lambda m: m.role != "time" or key == "counters"))


def counted(names: Iterable[str]) -> tuple[str, ...]:
    """Return those of the metrics whose models are made from runs of the build that counts."""
    return tuple(name for name in names if metric_of(name).counted)


def uncounted(names: Iterable[str]) -> tuple[str, ...]:
    """Return those of the metrics whose models are made from timed runs."""
    return tuple(name for name in names if metric_of(name).timed)


def sampled(names: Iterable[str]) -> tuple[str, ...]:
    """Return those of the metrics whose models are made from runs that sample accesses to memory."""
    return tuple(name for name in names if metric_of(name).builds[0] == "memory")


def noise_resilient(names: Iterable[str]) -> tuple[str, ...]:
    """Return those of the metrics that can be compared number by number."""
    return tuple(name for name in names if metric_of(name).noise_resilient)


def stands_for(effort: Effort, names: Iterable[str]) -> tuple[str, ...]:
    """Return those of the metrics that stand for a part of the effort, the best of the table first."""
    present = set(names)
    return tuple(name for name, metric in table().items() if metric.effort == effort and name in present)


def work_metrics(names: Iterable[str]) -> tuple[str, ...]:
    """Return those of the metrics whose growth shows the work that functions do, whatever the noise."""
    return tuple(name for name in noise_resilient(names) if metric_of(name).effort)


def reported(names: Iterable[str]) -> tuple[str, ...]:
    """Return those of the metrics that have a table in the report, the noise-resilient ones first."""
    metrics = [metric for name in names if (metric := metric_of(name)).reported]
    order = list(table())
    return tuple(m.name for m in sorted(metrics, key=lambda m: (not m.noise_resilient, order.index(m.name))))
