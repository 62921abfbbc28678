"""Cache misses that follow from reuse distances, and those of caches whose lines compete for the ways of a set.

A line of a cache with W ways has W places, together with all lines of its set. Arrays fill sets evenly, so that it
makes no difference, but for strides that are powers of two: their lines crowd into few sets. Which set a line belongs
to follows from its address in a program where that within a page of 4 KiB tells it, as in most caches of level 1, with
64 sets. These are corrected; others are taken to hold any lines.

While all accesses are watched, of each it is known how many lines came in between, and how many of these in its own set
(stack distances of all sets at once: R. L. Mattson et al., "Evaluation techniques for storage hierarchies", IBM Systems
Journal 9(2), 1970). The difference between both kinds of misses is of the same accesses, so it is 0 without conflicts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from buran.plugins.memory.metrics import FIRST_TOUCHES, MISSES
from buran.plugins.memory.reuse import (
    BIN_METRICS,
    BINS,
    CROWDED,
    LEAST_DISTANCE,
    LINE,
    MOST_WAYS,
    NEVER,
    OF_ANY_SET,
    OF_OWN_SET,
    REUSE_METRICS,
    SETS,
)
from buran.profiles.metrics import metric_of
from buran.profiles.profile import Profile

_CACHE = re.compile(r"(\d+):(\d+)(?:/(\d+))?")


def histogram(profile: Profile) -> NDArray[np.float64]:
    """Return the accesses of a profile by reuse distance, shape (call path, location, bin); all 0 without any."""
    out = np.zeros((len(profile.tree), len(profile.locations), BINS))
    for number, name in enumerate(BIN_METRICS):
        if name in profile.values:
            out[..., number] = profile.values[name]
    return out


def streamed(far: NDArray[np.float64], followed: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return which share of far accesses belong to streams, as numbers of both kinds tell; NaN without any.

    Of the lines of a stream every second one has the other line of its 128 bytes before it.
    """
    return np.asarray(np.where(far > 0, np.minimum(2 * followed / np.where(far > 0, far, 1.0), 1.0), np.nan))


def misses(accesses: NDArray[np.float64], cache_bytes: float) -> NDArray[np.float64]:
    """Return how many accesses miss a fully associative cache that drops what was unused for the longest time.

    Parameters
    ----------
    accesses
        Shape (..., bin), as `histogram` gives them.
    cache_bytes
        What the cache holds.

    Returns
    -------
    NDArray
        Shape (...). Within the bin that the cache's size falls into, distances are taken to be spread evenly over their
        logarithms.
    """
    lines = cache_bytes / LINE
    least, most = LEAST_DISTANCE[1:NEVER], LEAST_DISTANCE[1:NEVER] * 2**0.25
    share = np.ones(BINS)
    share[0] = 0.0
    share[1:NEVER] = np.clip(np.log(most / lines) / np.log(most / least), 0.0, 1.0)
    return np.asarray(accesses @ share)


def caches_of(profile: Profile) -> tuple[int, ...]:
    """Return the sizes of the caches where a profile is from, in bytes, nearest first; empty if unknown."""
    return tuple(size for size, _ in _stated(profile))


def ways_of(profile: Profile) -> tuple[int | None, ...]:
    """Return the ways of these caches, nearest first; None where the machine does not tell them."""
    return tuple(ways for _, ways in _stated(profile))


def _stated(profile: Profile) -> list[tuple[int, int | None]]:
    stated = _CACHE.findall(profile.attributes.get("caches", ""))
    found = {int(level): (int(size), int(ways or 0) or None) for level, size, ways in stated}
    return [found[level] for level in sorted(found)] if sorted(found) == [*range(1, len(found) + 1)] else []


def with_misses(profile: Profile, caches: tuple[int, ...]) -> Profile:
    """Return the profile with misses of caches of these sizes, in bytes and nearest first, instead of distances."""
    accesses, values = histogram(profile), dict(profile.without(REUSE_METRICS).values)
    values[FIRST_TOUCHES.name] = accesses[..., NEVER]
    values |= {name: misses(accesses, size) for name, size in zip(MISSES, caches, strict=False)}
    metrics = {name: profile.metrics.get(name) or metric_of(name) for name in values}
    return replace(profile, metrics=metrics, values=values)


FEWEST = 1000
"""Watched accesses of a call path, from which on they are named: of fewer, some are too many."""


def has_known_sets(cache_bytes: float, ways: int | None) -> bool:
    """Return whether addresses in a program tell the sets of a cache; None are ways that nobody knows."""
    return ways is not None and ways <= MOST_WAYS and cache_bytes == SETS * ways * LINE


def conflict_share(profile: Profile, ways: int) -> NDArray[np.float64]:
    """Return which share of accesses misses a cache of 64 sets, beyond those that a cache of any lines misses.

    Returns
    -------
    NDArray
        Shape (call path,), mean over locations; below 0 where sets keep what others would have dropped, 0 where too few
        accesses were watched.
    """
    any_set, own_set = (_watched(profile, names) for names in (OF_ANY_SET, OF_OWN_SET))
    number = any_set.sum(axis=1)
    beyond = own_set[:, ways:].sum(axis=1) - any_set[:, ways:].sum(axis=1)
    return np.asarray(np.where(number >= FEWEST, beyond / np.maximum(number, 1.0), 0.0))


def misses_of_sets(profile: Profile, cache_bytes: float, ways: int | None) -> NDArray[np.float64]:
    """Return the misses of a cache with ways, shape (call path, location).

    They are those of a cache of any lines, as `misses` has them, where its sets are not known.
    """
    accesses = histogram(profile)
    of_any = misses(accesses, cache_bytes)
    if ways is None or not has_known_sets(cache_bytes, ways):
        return of_any
    all_of = accesses.sum(axis=2)
    of_sets = of_any + conflict_share(profile, ways)[:, None] * all_of
    return np.asarray(np.clip(of_sets, accesses[..., NEVER], all_of))


def used_sets(profile: Profile) -> NDArray[np.float64]:
    """Return into how many sets the lines of a call path fall that crowd, shape (call path,); 64 without any.

    Of accesses before which lines of their set came, four or more: how many lines came per line of the set.
    """
    lines, own = (_watched(profile, [name])[:, 0] for name in CROWDED)
    return np.asarray(np.where(own > 0, np.minimum(lines / np.maximum(own, 1.0), SETS), SETS))


def _watched(profile: Profile, names: Sequence[str]) -> NDArray[np.float64]:
    """Return numbers of all locations, shape (call path, name)."""
    none = np.zeros(len(profile.tree))
    return np.stack([np.asarray(profile.values[n].sum(axis=1) if n in profile.values else none) for n in names], axis=1)
