"""Reuse distances, as builds for memory sample them.

The reuse distance of an access is how many other cache lines its thread has touched since it touched this one the last
time. A cache that holds C lines, and drops the one that was unused for the longest time, misses where it is C or more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from buran.profiles.metrics import CACHE_LINE, Metric

LINE = CACHE_LINE
BINS = 162
"""Distance 0, then four to each doubling, then lines that were never touched before; as in native/reuse.c."""
NEVER = BINS - 1
FAR, FOLLOWED = "reuse_far", "reuse_followed"
"""Further metrics: accesses that may miss a cache, and those that followed the other line of their pair."""
SETS, MOST_WAYS = 64, 16
"""Sets and ways of the caches whose conflicts are watched; as in native/reuse.c."""
CROWDED = ("reuse_crowded_any", "reuse_crowded_set")
"""Metrics of watched accesses before which lines of their set came: sums of lines with their own, and of those of
their set."""
FIRST_RATE, LAST_RATE = "sampled_lines_first", "sampled_lines_last"
"""Attributes of profiles: one cache line in so many was looked at, in the beginning and in the end of the run."""


def _least(number: int) -> float:
    """Return the smallest distance of a bin, in lines."""
    return 0.0 if number == 0 else float("inf") if number == NEVER else 2.0 ** ((number - 1) / 4)


LEAST_DISTANCE: NDArray[np.float64] = np.array([_least(number) for number in range(BINS)])
"""Shape (bin,): in lines; infinite for those that were never touched before."""


def _described(number: int) -> str:
    if number == NEVER:
        return "Accesses to a cache line that its thread has not touched before"
    least, end = LEAST_DISTANCE[number], LEAST_DISTANCE[number + 1]
    span = "no other line" if number == 0 else f"{least:.4g} lines or more, fewer than {end:.4g},"
    return f"Accesses before which {span} came since the last one to their cache line"


BIN_METRICS: Mapping[str, Metric] = {
    name: Metric(name, "occ", "exclusive", "UINT64", title, _described(number), builds=("memory",))
    for number in range(BINS)
    for name, title in [(f"reuse_bin_{number:03}", f"Reuse distance, bin {number}")]
}
"""The bins as metrics of a profile, in their order; a profile has those that are not empty."""
OF_ANY_SET, OF_OWN_SET = (
    tuple(f"reuse_{kind}_{number:02}" for number in range(MOST_WAYS + 1)) for kind in ("any", "set")
)
"""Metrics of watched accesses, by the lines that came in between: 64 each, and one each of their set."""


def _watched(name: str) -> Metric:
    kind, number = name.split("_")[1:]
    least = int(number) * (SETS if kind == "any" else 1)
    title = f"Watched, {least} lines or more" + ("" if kind == "any" else " of the set")
    described = f"Accesses, while all were watched, before which {least} other lines or more came"
    suffix = " of the same one of 64 sets" if kind == "set" else ""
    return Metric(name, "occ", "exclusive", "UINT64", title, described + suffix, builds=("memory",))


REUSE_METRICS: Mapping[str, Metric] = {
    **BIN_METRICS,
    **{name: _watched(name) for name in (*OF_ANY_SET, *OF_OWN_SET)},
    **{
        name: Metric(name, "occ", "exclusive", "UINT64", title, description, builds=("memory",))
        for name, title, description in (
            (FAR, "Far accesses", "Accesses to cache lines that were not touched of late, or never before"),
            (FOLLOWED, "Followed lines", "Far accesses just before which the other line of 128 bytes was touched"),
            (CROWDED[0], "Lines between", "Sum over watched accesses before which four lines of their set came"),
            (CROWDED[1], "Lines of the set between", "Those of the same one of 64 sets among them"),
        )
    },
}
"""All that builds for memory sample."""


def reuse_metrics() -> Mapping[str, Metric]:
    """Return all that builds for memory sample."""
    return REUSE_METRICS


def sampling_of(processes: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Return how accesses were sampled, where they were: one cache line in so many, first and last; and the caches.

    Machines whose caches differ have none that could be named.
    """
    sampled = [info for info in processes if FIRST_RATE in info]
    if not sampled:
        return {}
    caches = {info["caches"] for info in sampled}
    rates = {key: str(max(int(info[key]) for info in sampled)) for key in (FIRST_RATE, LAST_RATE)}
    return {**rates, "caches": caches.pop() if len(caches) == 1 else ""}
