"""Runs that sampled accesses: their misses, samples that are too thin, and lines that crowd into few sets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from buran.campaign.plan import Mode
from buran.errors import ConfigError
from buran.measurement.attempt import PROFILE
from buran.modeling.numerics.tuning import LARGER
from buran.plugins.memory.keys import cache_ways, caches_kib
from buran.plugins.memory.misses import (
    caches_of,
    has_known_sets,
    histogram,
    misses,
    misses_of_sets,
    used_sets,
    ways_of,
    with_misses,
)
from buran.plugins.memory.reuse import FIRST_RATE, LAST_RATE, LINE, SETS
from buran.plugins.memory.tuning import RESOLVED, SHOWN_KIND
from buran.profiles.cubex_read import read_profile
from buran.profiles.experiment.build import Run
from buran.profiles.profile import Profile
from buran.reporting.tables import brief
from buran.workflow import collect
from buran.workflow.history import FinishedRun, History, in_store

USUAL_RATE = 64
"""Without a rate that is requested, that of runs that touch many lines, as native/reuse.c has it."""


def misses_of_runs(
    runs: Iterable[FinishedRun], parameters: Sequence[str], caches_kib: Sequence[float] | None
) -> Iterator[Run]:
    """Read the profiles of runs that sampled accesses to memory, one after the other: misses instead of distances.

    Parameters
    ----------
    caches_kib
        Sizes of the caches, nearest first; None for those of the machine that the runs were made on.

    Raises
    ------
    ConfigError
        The caches of that machine are not known, or other runs were made on one with other caches.
    """
    before: tuple[int, ...] = ()
    for point, repetition, profile in collect.profiles_of(runs, parameters):
        caches = cache_sizes([profile], caches_kib)
        if not caches or caches != (before or caches):
            raise ConfigError(
                "the misses of caches need their sizes",
                where="key memory.caches_kib",
                why="runs were made on machines with different caches" if caches else "the machine reports none",
                hint="say them in KiB, as in memory: {caches_kib: [32, 1024]}; nothing is measured again",
            )
        before = caches
        yield point, repetition, with_misses(profile, caches)


def cache_sizes(profiles: Iterable[Profile], caches_kib: Sequence[float] | None) -> tuple[int, ...]:
    """Return sizes of caches in bytes, nearest first: those that are requested, else those of the first profile."""
    requested = tuple(round(1024 * size) for size in caches_kib or ())
    return requested or next(map(caches_of, profiles), ())


@dataclass(frozen=True)
class Crowd:
    """A call path at a point: shares of its accesses that miss level 1, and the sets that its lines are in."""

    point: str
    missed: float
    missed_of_any: float
    sets: float


@dataclass
class _Found:
    """What runs tell, by what is said of it; of caches of these sizes and ways, or of those of the machine."""

    caches_kib: Sequence[float] | None
    ways: Sequence[int | None]
    lowered: dict[int, list[str]] = field(default_factory=dict)
    thin: dict[tuple[int, int, int], list[str]] = field(default_factory=dict)
    crowds: dict[str, list[Crowd]] = field(default_factory=dict)
    unknown: set[str] = field(default_factory=set)

    def add(self, profile: Profile, point: str) -> None:
        first, last = (int(profile.attributes.get(key, "0")) for key in (FIRST_RATE, LAST_RATE))
        if last > max(first, USUAL_RATE):
            self.lowered.setdefault(last, []).append(point)
        sizes = cache_sizes([profile], self.caches_kib)
        for level, size in enumerate(sizes, start=1):
            if size < RESOLVED * LINE * last:
                self.thin.setdefault((level, last, size // LINE // last), []).append(point)
        ways = next(iter(ways_of_caches(profile, sizes, self.ways)), None)
        if sizes and not has_known_sets(sizes[0], ways):
            self.unknown.add(
                "its ways are not known; memory.ways says them"
                if ways is None
                else f"it has {sizes[0] / LINE / ways:g} sets, and addresses in a program determine only {SETS}"
            )
        elif sizes:
            for path, crowd in crowded(profile, sizes[0], ways, point):
                self.crowds.setdefault(path, []).append(crowd)


def sample_notes(history: History) -> list[str]:
    """Say where samples of accesses are too thin, and where lines crowd into few sets of level 1."""
    campaign = history.session.campaign
    found = _Found(caches_kib(campaign), cache_ways(campaign))
    for run in in_store(run for run in history.runs if run.mode is Mode.MEMORY):
        found.add(read_profile(run.folder / PROFILE), str(run.point))
    lowered = [
        f"Accesses to memory were sampled at a lower rate at {', '.join(points)}: one cache line in {rate} in the end, "
        "as a thread touched more lines than are looked at together. Misses there are less certain."
        for rate, points in sorted(found.lowered.items())
    ]
    thin = [
        f"Measured misses of level {level} are uncertain at {', '.join(points)}: of the sample, one line in {rate}, "
        f"the cache has room for {lines}. Models of distances do without. A denser sample shows more: BURAN_REUSE_RATE "
        f"(a power of 2, such as {max(rate // 8, 1)}) in environments.NAME.variables."
        for (level, rate, lines), points in sorted(found.thin.items())
    ]
    unknown = [f"Whether lines crowd into few sets of level 1 is not said: {why}." for why in sorted(found.unknown)]
    return [*lowered, *thin, *(crowds_in_words(path, crowds) for path, crowds in found.crowds.items()), *unknown]


def ways_of_caches(profile: Profile, sizes: tuple[int, ...], named: Sequence[int | None]) -> tuple[int | None, ...]:
    """Return the ways of caches of these sizes, as far as the campaign names them or the machine tells them."""
    return tuple(named) or (ways_of(profile) if caches_of(profile) == sizes else ())


def crowded(profile: Profile, cache_bytes: float, ways: int | None, point: str = "") -> list[tuple[str, Crowd]]:
    """Return the call paths of which many more accesses miss level 1 than if it contained any lines."""
    accesses = histogram(profile)
    all_of, of_any = accesses.sum(axis=(1, 2)), misses(accesses, cache_bytes).sum(axis=1)
    of_sets = misses_of_sets(profile, cache_bytes, ways).sum(axis=1)
    beyond = of_sets - of_any
    matters = beyond > LARGER * of_any
    matters &= beyond > SHOWN_KIND * of_sets.sum()
    sets = used_sets(profile)
    return [
        (
            profile.tree.names[row],
            Crowd(point, of_sets[row] / all_of[row], of_any[row] / all_of[row], float(sets[row])),
        )
        for row in np.flatnonzero(matters).tolist()
    ]


def crowds_in_words(path: str, crowds: list[Crowd]) -> str:
    """Say what conflicts there are, at the point where they are most."""
    worst = max(crowds, key=lambda crowd: crowd.missed - crowd.missed_of_any)
    factor = worst.missed / worst.missed_of_any if worst.missed_of_any else 0.0
    times = f"{factor:,.{int(factor < 10)}f} times as many as" if factor else "and none would"
    others = [crowd.point for crowd in crowds if crowd is not worst]
    return (
        f"Lines that {brief(path)} touches crowd into about {worst.sets:.0f} of the {SETS} sets of level 1 at "
        f"{worst.point}: {100 * worst.missed:.3g} % of its accesses miss it, {times} in a cache that holds any lines"
        + (f". They do, less or as much, at {', '.join(others)}" if others else "")
        + ". Metrics and models do without such conflicts, as they come and go with sizes. Rows that are a line longer "
        "(padding) avoid them."
    )
