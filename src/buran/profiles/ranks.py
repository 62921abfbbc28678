"""The threads of a rank as one: what a table of measurements knows of a run."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from buran.profiles.metrics import Metric, metric_of
from buran.profiles.profile import Location, Profile

Floats = NDArray[np.float64]


def of_ranks(values: Floats, locations: Sequence[Location], metric: Metric) -> Floats:
    """Return shape (call path, rank) of exclusive values from shape (call path, location).

    Counts of a rank are sums over its threads, so that they depend neither on the number of threads nor on who did
    what. Its time in a call path is that of its first thread, which opens parallel regions and waits for their end;
    where this thread never came, as in work of threads that the program has started itself, it is the longest of any
    thread.
    """
    ranks = np.array([location.rank for location in locations])
    first = np.flatnonzero(np.diff(ranks, prepend=-1))
    if len(first) == len(locations):
        return values
    if metric.of_threads == "first":
        opener = values[:, first]
        return np.where(opener != 0, opener, np.maximum.reduceat(values, first, axis=1))
    if metric.combination == "add":
        return np.add.reduceat(values, first, axis=1)
    extreme, neutral = (np.minimum, np.inf) if metric.combination == "min" else (np.maximum, -np.inf)
    out = extreme.reduceat(np.where(values == 0, neutral, values), first, axis=1)  # 0 stands for "not visited"
    return np.where(out == neutral, 0.0, out)


def working_threads(profile: Profile) -> Floats | None:
    """Return shape (call path, rank): how many threads share the work; None where nothing was counted or all had one.

    What several threads of a team came to is the whole team's, even if one found nothing left to do: a dynamic loop
    gives its rounds to whoever asks first.
    """
    counts = [profile.values[name] != 0 for name in ("visits", "basic_blocks") if name in profile.values]
    if not counts or all(location.thread == 0 for location in profile.locations):
        return None
    came = np.logical_or.reduce(counts).astype(np.float64)
    threads, tree = of_ranks(came, profile.locations, metric_of("visits")), profile.tree
    for depth in range(1, int(tree.depth.max(initial=0)) + 1):
        level = np.flatnonzero(tree.depth == depth)
        above = threads[tree.parent[level]]
        threads[level] = np.where(threads[level] > 1, np.maximum(threads[level], above), threads[level])
    return threads


def computation_of(profile: Profile) -> dict[str, float] | None:
    """Return wall-clock and CPU time of computation, over the first threads of all ranks; None if one is not there."""
    if not {"time", "wall_time", "cpu_time"} <= profile.values.keys():
        return None
    computes = [profile.tree.regions[number].paradigm != "mpi" for number in profile.tree.region.tolist()]
    first = [location.thread == 0 for location in profile.locations]
    seconds = {name: profile.exclusive(name)[np.ix_(computes, first)] for name in ("time", "wall_time", "cpu_time")}
    waited_s = seconds["time"] - seconds["cpu_time"]  # for their teams
    return {
        "wall_s": float((seconds["wall_time"] - waited_s).sum()),
        "cpu_s": float(seconds["cpu_time"].sum()),
    }
