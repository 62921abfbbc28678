"""Misses of caches whose lines compete for few ways: those of one set.

A line of a cache with W ways has W places, together with all lines of its set. Arrays fill sets evenly, so that it
makes no difference, but for strides that are powers of two: their lines crowd into few sets. Which set a line belongs
to follows from its address in a program where that within a page of 4 KiB tells it, as in most caches of level 1, with
64 sets. These are corrected; others are taken to hold any lines.

While all accesses are watched, of each it is known how many lines came in between, and how many of these in its own set
(stack distances of all sets at once: R. L. Mattson et al., "Evaluation techniques for storage hierarchies", IBM Systems
Journal 9(2), 1970). The difference between both kinds of misses is of the same accesses, so it is 0 without conflicts.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from buran.plugins.memory.misses import histogram, misses
from buran.plugins.memory.reuse import CROWDED, LINE, MOST_WAYS, NEVER, OF_ANY_SET, OF_OWN_SET, SETS
from buran.profiles.profile import Profile

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
