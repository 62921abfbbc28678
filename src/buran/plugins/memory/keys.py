"""The key ``memory`` of campaign files: where accesses to memory are sampled, for which caches, on which machine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise, zip_longest
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from buran.campaign.document import below
from buran.campaign.identity import Keys
from buran.campaign.mistakes import Mistake
from buran.campaign.point import Point
from buran.campaign.values import OfAnalysis, OfPlan, PointMapping, Text
from buran.errors import FormatError
from buran.plugins.memory.machine_file import MachineFile, can_have
from buran.plugins.memory.metrics import MISSES
from buran.profiles.metrics import CACHE_LINE, MINOR_FAULTS, sampled

if TYPE_CHECKING:
    from buran.campaign.config import Campaign
    from buran.campaign.shape import CampaignFile

KEY = "memory"
_CacheSizes = Annotated[tuple[Annotated[float, Field(gt=0)], ...], Field(min_length=1, max_length=4)]
_CacheWays = Annotated[tuple[Annotated[int, Field(ge=1)], ...], Field(min_length=1, max_length=4)]


class MemoryKeys(Keys, title="Memory"):
    """Where accesses to memory are sampled, and for which caches."""

    points: OfPlan[Annotated[tuple[PointMapping, ...], Field(min_length=1)] | None] = Field(
        None,
        description="Modelling points at which accesses are sampled, one run each; by default all, or a few cheap "
        "ones where the strategy chooses points. Small ones are enough.",
        examples=[[{"p": 1, "n": 8}, {"p": 1, "n": 12}]],
    )
    caches_kib: OfAnalysis[_CacheSizes | None] = Field(
        None,
        description="Sizes of the caches whose misses are modelled, nearest first, in KiB (1024 bytes); by default "
        "those of the machine.",
        examples=[[32, 1024]],
    )
    ways: OfAnalysis[_CacheWays | None] = Field(
        None,
        description="Associativity of these caches, nearest first; by default that of the machine, or full where it "
        "is unknown.",
        examples=[[8, 16]],
    )
    machine: OfAnalysis[Text | None] = Field(
        None,
        description="File of `buran doctor --calibrate` for the machine where the programs run: speed and sizes of "
        "caches, memory and cores. The report then says what bounds each call path.",
        examples=["machine.json"],
    )


def keys_of(config: CampaignFile) -> MemoryKeys:
    """Return the section of a campaign file."""
    keys: MemoryKeys = getattr(config, KEY)
    return keys


def sampled_at(campaign: Campaign) -> tuple[Point, ...] | None:
    """Return the points that the file names; None where it names none."""
    points = keys_of(campaign.config).points
    return None if points is None else tuple(dict.fromkeys(map(Point.of, points)))


def machine_of(campaign: Campaign) -> MachineFile | None:
    """Return how fast the machine is; None where the campaign names no file that says it.

    Raises
    ------
    FormatError
        The file cannot be read.
    """
    name = keys_of(campaign.config).machine
    return None if name is None else MachineFile.read(below(campaign.folder, name))


def caches_kib(campaign: Campaign) -> tuple[float, ...] | None:
    """Return sizes of the caches, nearest first; None where only the runs tell them."""
    named, machine = keys_of(campaign.config).caches_kib, machine_of(campaign)
    return named if named or machine is None else tuple(size / 1024 for size in machine.caches)


def cache_ways(campaign: Campaign) -> tuple[int | None, ...]:
    """Return ways of these caches, nearest first; empty where nobody but the runs may tell them."""
    machine, ways = machine_of(campaign), keys_of(campaign.config).ways or ()
    if ways or machine is None or caches_kib(campaign) != tuple(each / 1024 for each in machine.caches):
        return ways
    return tuple(level.ways for level in machine.levels[:-1])


def mistakes_of(campaign: Campaign) -> Iterator[Mistake]:
    """Check that accesses to memory can be sampled where that is requested."""
    keys, metrics = keys_of(campaign.config), campaign.config.metrics
    requested = sampled(metrics)
    for i, point in enumerate((sampled_at(campaign) or ()) if requested else ()):
        if point not in campaign.points:
            hint = "name one of them, or add it to the values or points"
            yield Mistake(("memory", "points", i), f"{point} is not one of the modelling points", hint=hint)
    prices_faults = keys.machine and MINOR_FAULTS in metrics
    of_caches = keys.caches_kib or keys.ways
    wanted = keys.points or of_caches or (keys.machine and not prices_faults)
    if wanted and not requested:
        hint = "add misses_level_1, or leave out the section memory"
        yield Mistake(("memory",), "no metric asks for sampled accesses to memory", hint=hint)
    try:
        sizes = caches_kib(campaign) or ()
    except FormatError as error:
        what, hint = f"{keys.machine}: {error.what}", "write it with buran doctor --calibrate FILE"
        yield Mistake(("memory", "machine"), what, error.why, hint)
        return
    if any(far <= near for near, far in pairwise(sizes)):
        yield Mistake(("memory", "caches_kib"), "each cache must be larger than the one before", hint="nearest first")
    yield from _ways_mistakes(keys.ways or (), sizes)
    for i, metric in enumerate(metrics):
        if metric in MISSES[len(sizes) :] and sizes:
            named = "memory.caches_kib names" if keys.caches_kib else "memory.machine describes"
            what = f"{named} {len(sizes)} caches, and {metric} is of another one"
            yield Mistake(("metrics", i), what, hint="add its size, or leave the metric out")
    path = ("metrics", metrics.index(requested[0])) if requested else ("metrics",)
    if requested and campaign.is_simulated:
        why = "it has no caches"
        yield Mistake(path, f"{requested[0]} cannot be measured on a simulated machine", why, "leave it out")


def _ways_mistakes(ways: Sequence[int], sizes_kib: Sequence[float]) -> Iterator[Mistake]:
    """Check that the ways of caches go with their sizes."""
    for i, (number, size) in enumerate(zip_longest(ways, sizes_kib[: len(ways)])):
        if size is None:
            hint = "name the sizes: memory.caches_kib"
            yield Mistake(("memory", "ways", i), "nothing names the size of this cache", hint=hint)
        elif not can_have(1024 * size, number):
            why = f"{number} ways do not divide the {1024 * size / CACHE_LINE:g} lines of {size:g} KiB"
            hint = "lines of 64 bytes are ways times sets, as in caches_kib: [48], ways: [12]"
            yield Mistake(("memory", "ways", i), "no cache of this size has that many ways", why, hint)
