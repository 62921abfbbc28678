"""Where call paths leave the caches: misses at the target, working sets, and flops for each byte of memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from buran.reporting.files import environment
from buran.reporting.plain import briefs, section
from buran.wording import named

Interval = tuple[float | None, float | None]
"""Ends; None for those that are not known."""


@dataclass(frozen=True)
class Leaving:
    """Where a part of a call path's accesses no longer fits into a cache.

    Attributes
    ----------
    level
        Level of the cache, from 1.
    parameter, value, interval
        The value at which it is left, all other parameters as at the target.
    bytes
        The working set as a formula.
    share
        Share of the call path's misses of that level at the target.
    ranks
        That share the cache there.
    """

    level: int
    parameter: str
    value: float
    interval: Interval
    bytes: str
    share: float
    ranks: float = 1.0


@dataclass(frozen=True)
class CachedPath:
    """What a call path asks of the caches at the target, mean over ranks.

    Attributes
    ----------
    misses, intervals
        By level, nearest first.
    intensity
        Flops for each byte that comes from memory; None where flops were not counted.
    leaving
        Where it leaves which cache before the target.
    """

    call_path: str
    misses: Sequence[float]
    intervals: Sequence[Interval]
    intensity: float | None
    leaving: Sequence[Leaving]


@dataclass(frozen=True)
class CacheTable:
    """What the program asks of caches.

    Attributes
    ----------
    caches, shares
        Bytes, nearest first, and those that a rank has of them at the target.
    rows
        Call paths with the most misses of the last level at the target, these first.
    left_out
        How many call paths have no row.
    left_out_share
        Of these misses.
    parameter, values, working_sets
        For a plot: values of a parameter, and the largest working set of each row there, in bytes.
    largest
        The largest measured value of that parameter.
    """

    caches: Sequence[int]
    shares: Sequence[float]
    rows: Sequence[CachedPath]
    left_out: int
    left_out_share: float
    parameter: str
    values: Sequence[float]
    working_sets: Sequence[Sequence[float | None]]
    largest: float


EXPLANATION = (
    "Misses follow from how the distances between accesses to the same memory grow (reuse distances), also for caches "
    "that no measured point has left. A cache is left where a tenth of the accesses of one kind, such as those to a "
    "whole array, misses it. Caches are taken to hold any lines. Notes name conflicts. Ranks that share a cache have "
    "an equal part each, as far as a machine file (memory.machine) states who shares it."
)


def size_text(size: float) -> str:
    """Return bytes in the largest unit of which there is one at least."""
    for unit, scale in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if size >= scale:
            return f"{size / scale:.3g} {unit}"
    return f"{size:.3g} bytes"


def header_of(table: CacheTable) -> list[str]:
    """Return the titles of the columns."""
    levels = [f"misses of level {level}, {each}" for level, each in enumerate(_sizes(table), start=1)]
    return ["call path", *levels, "flops per byte", "leaves"]


def _sizes(table: CacheTable) -> list[str]:
    pairs = zip(table.caches, table.shares, strict=True)
    return [size_text(whole) if own >= whole else f"{size_text(own)} of {size_text(whole)}" for whole, own in pairs]


def rows_of(table: CacheTable) -> list[list[str]]:
    """Return the cells of each row, as `header_of` says."""
    names = briefs([row.call_path for row in table.rows])
    return [
        [
            name,
            *(f"{misses:.3g} {_reach(bounds, 2)}" for misses, bounds in zip(row.misses, row.intervals, strict=True)),
            "–" if row.intensity is None else f"{row.intensity:.2g}",
            "; ".join(map(_leaves, row.leaving)) or "–",
        ]
        for name, row in zip(names, table.rows, strict=True)
    ]


def _leaves(leaving: Leaving) -> str:
    shared = f"for {leaving.ranks:.3g} ranks that share it " if leaving.ranks > 1 else ""
    return (
        f"level {leaving.level} at {leaving.parameter} = {leaving.value:.3g} {_reach(leaving.interval, 3)} {shared}"
        f"({leaving.bytes} bytes, {100 * leaving.share:.0f} % of its misses)"
    )


def _reach(interval: Interval, digits: int) -> str:
    return f"[{', '.join('?' if end is None else f'{end:.{digits}g}' for end in interval)}]"


def words_of(table: CacheTable) -> str:
    """Return what a reader must know of the table."""
    rest = f" {table.left_out} more call paths have {100 * table.left_out_share:.2g} % of the misses."
    return EXPLANATION + (rest if table.left_out else "")


def cache_text(table: CacheTable, target: Mapping[str, float]) -> str:
    """Return the table as plain text."""
    title = f"Caches at {named(target)}"
    text = section(title, header_of(table), rows_of(table))
    return f"{text}\n\n{words_of(table)}"


def cache_page(table: CacheTable, target: Mapping[str, float]) -> str:
    """Return the table as HTML."""
    template = environment(Path(__file__).parent).get_template("caches.html.j2")
    words = f"{words_of(table)} Shown is {named(target)}."
    return template.render(words=words, header=header_of(table), rows=rows_of(table))


def cache_plot(table: CacheTable) -> dict[str, Any] | None:
    """Return what the page draws: working sets along a parameter, and the caches."""
    if not table.values:
        return None
    return {
        "parameter": table.parameter,
        "largest": table.largest,
        "values": list(table.values),
        "lines": [
            [name, list(sizes)]
            for name, sizes in zip(briefs([row.call_path for row in table.rows]), table.working_sets, strict=True)
        ],
        "caches": [
            [f"level {level}, {text}", size]
            for level, (text, size) in enumerate(zip(_sizes(table), table.shares, strict=True), start=1)
        ],
    }
