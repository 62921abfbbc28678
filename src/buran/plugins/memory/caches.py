"""What the call paths of a campaign ask of the caches at its target: from sampled accesses to memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from buran.campaign.config import Campaign
from buran.modeling.functions.terms import Array
from buran.modeling.pmnf.model_set import ModelSet
from buran.modeling.pmnf.text import format_function
from buran.modeling.priors.paths import taken_up
from buran.plugins.memory.distances import DistanceModels, distance_models
from buran.plugins.memory.misses import streamed
from buran.plugins.memory.reuse import BIN_METRICS, FAR, FOLLOWED, LAST_RATE, LINE
from buran.plugins.memory.tuning import SHOWN_KIND
from buran.profiles.experiment.build import Run, experiment_from_profiles
from buran.profiles.experiment.table import Experiment
from buran.profiles.profile import CallTree
from buran.reporting.call_paths import rounded
from buran.reporting.html import environment
from buran.reporting.tables import briefs, section
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


MOST_ROWS = 10
_STEPS = 100  # of curves and of the search for the place where a cache is left
_MODELLED = (*BIN_METRICS, FAR, FOLLOWED)  # conflicts are not: they come and go with the sizes
_FEWEST = 3  # points, of which growth takes at least so many
Divided = Callable[[Array], Array]
"""By how many ranks a cache is shared at points, shape (point, parameter)."""


def _whole(points: Array) -> Array:
    return np.ones(len(points))


def models_of(runs: Sequence[Run], tree: CallTree | None = None) -> DistanceModels | None:
    """Return models of the distances that runs have sampled, mean over ranks; None where they are too few.

    Parameters
    ----------
    tree
        Call paths that take up those of the runs; without it, these have models of their own.
    """
    sampled = (
        (
            point,
            repetition,
            replace(
                profile,
                metrics={name: metric for name, metric in profile.metrics.items() if name in _MODELLED},
                values={name: values for name, values in profile.values.items() if name in _MODELLED},
            ),
        )
        for point, repetition, profile in runs
    )
    table = experiment_from_profiles(sampled) if runs else None
    if table is None or len(table.points) < _FEWEST or not (table.points > 0).all():
        return None
    accesses = np.stack([_number(table, name) for name in _MODELLED], axis=2)
    if tree is not None:
        accesses = taken_up(accesses, table.tree, tree)
    rates = _rates(runs, table.points, table.parameters)
    largest = int(np.argmax(table.points.prod(axis=1)))
    streams = streamed(*np.moveaxis(accesses[:, largest, len(BIN_METRICS) :], 1, 0))
    names = (tree or table.tree).names
    return distance_models(table.points, accesses[..., : len(BIN_METRICS)], table.parameters, names, rates, streams)


def _number(table: Experiment, name: str) -> Array:
    """Return shape (call path, point): a run without accesses of a kind does not name it."""
    if name not in table.values:
        return np.zeros((len(table.tree), len(table.points)))
    return np.asarray(np.nan_to_num(table.over_locations(name)).max(axis=2))


def _rates(runs: Sequence[Run], points: Array, parameters: Sequence[str]) -> Array:
    """Return the last rate of each point's sample, the lowest of its runs: one line in so many was looked at."""
    found: dict[tuple[float, ...], float] = {}
    for point, _, profile in runs:
        key = tuple(float(point[name]) for name in parameters)
        found[key] = max(found.get(key, 1.0), float(profile.attributes.get(LAST_RATE, 1)))
    return np.array([found[tuple(point)] for point in points.tolist()])


def cache_table(
    runs: Sequence[Run],
    caches: Sequence[int],
    campaign: Campaign,
    models: Mapping[str, ModelSet],
    divided: Sequence[Divided] = (),
) -> CacheTable | None:
    """Return what call paths ask of caches at the target; None without enough runs that sampled accesses.

    Parameters
    ----------
    runs
        With distances.
    caches
        In bytes, nearest first.
    models
        By metric; those of flops tell the arithmetic intensity.
    divided
        Of each cache, by how many ranks it is shared; without, each rank has the whole.
    """
    divided = divided or [_whole] * len(caches)
    found = models_of(runs)
    if found is None or not caches:
        return None
    at = np.array([[float(campaign.target[name]) for name in found.parameters]])
    shares = [float(size / by(at)[0]) for size, by in zip(caches, divided, strict=True)]
    misses = np.array([found.misses(at, size)[:, 0] for size in shares])
    intervals = np.array([np.stack(found.misses_interval(at, size))[..., 0] for size in shares])
    order = np.argsort(-misses[-1], kind="stable")
    chosen = [row for row in order[:MOST_ROWS].tolist() if misses[-1, row] > 0]
    whole = float(misses[-1].sum())
    points = np.array([[float(point[name]) for name in found.parameters] for point, *_ in runs])
    column = int(np.argmax(np.maximum(at[0], points.max(axis=0)) / points.min(axis=0)))
    line = _line(points, at, column)
    flops = _flops(models, found, at)
    leaving = _leaving(found, list(zip(caches, shares, divided, strict=True)), points, at, misses)
    return CacheTable(
        tuple(caches),
        tuple(shares),
        tuple(
            CachedPath(
                found.call_paths[row],
                tuple(misses[:, row].tolist()),
                tuple((rounded(low), rounded(high)) for low, high in intervals[:, :, row].tolist()),
                None if flops is None else rounded(float(flops[row] / (LINE * misses[-1, row]))),
                tuple(leaving.get(row, ())),
            )
            for row in chosen
        ),
        int((misses[-1] > 0).sum()) - len(chosen),
        1 - float(misses[-1, chosen].sum()) / whole if whole else 0.0,
        found.parameters[column],
        tuple(line[:, column].tolist()),
        tuple(tuple(map(rounded, sizes)) for sizes in found.working_sets(line, caches[0])[chosen]),
        float(points[:, column].max()),
    )


def _line(points: Array, at: Array, column: int) -> Array:
    """Return points along one parameter, the others as at the target."""
    line = np.repeat(at, _STEPS, axis=0)
    line[:, column] = np.geomspace(points[:, column].min(), max(at[0, column], points[:, column].max()), _STEPS)
    return line


def _flops(models: Mapping[str, ModelSet], found: DistanceModels, at: Array) -> Array | None:
    counted = models.get("flops")
    if counted is None:
        return None
    flops = dict(zip(counted.call_paths, counted.predict(at)[:, 0].tolist(), strict=True))
    return np.array([flops.get(name, np.nan) for name in found.call_paths])


def _leaving(
    found: DistanceModels, caches: Sequence[tuple[int, float, Divided]], points: Array, at: Array, misses: Array
) -> dict[int, list[Leaving]]:
    """Return by call path where its modes leave caches between the smallest point and the target."""
    out: dict[int, list[Leaving]] = {}
    for level, (size, share_at_target, by) in enumerate(caches):
        counts = found.misses_of_modes(at, share_at_target)[:, 0]
        share = counts / np.maximum(misses[level, found.row], np.finfo(float).tiny)
        for column, parameter in enumerate(found.parameters):
            line = _line(points, at, column)
            values = found.leaving(line, column, size / by(line))
            for mode in np.flatnonzero(np.isfinite(values[0]) & (share >= SHOWN_KIND)).tolist():
                value, low, high = values[:, mode].tolist()
                out.setdefault(int(found.row[mode]), []).append(
                    Leaving(
                        level + 1,
                        parameter,
                        value,
                        (low, high),
                        format_function(found.working_set(mode), found.parameters),
                        float(share[mode]),
                        float(np.interp(value, line[:, column], by(line))),
                    )
                )
    return out
