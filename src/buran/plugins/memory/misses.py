"""Cache misses that follow from reuse distances."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from buran.plugins.memory.metrics import FIRST_TOUCHES, MISSES
from buran.plugins.memory.reuse import BIN_METRICS, BINS, LEAST_DISTANCE, LINE, NEVER, REUSE_METRICS
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
