"""Call paths that have another name or another caller than before: recognised by what they count."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from buran.plugins.versions.side import Side
from buran.profiles.experiment.collect import split_call_path
from buran.profiles.experiment.table import Aggregate, Experiment
from buran.profiles.metrics import noise_resilient
from buran.profiles.profile import SEPARATOR

_DIGITS = 10  # of counts that are called equal: sums over ranks and repetitions are rounded

Signature = tuple[float, ...]


@dataclass(frozen=True)
class Pair:
    """One function in two versions: the call paths before and after."""

    before: str
    after: str

    @property
    def renamed(self) -> bool:
        """Whether the function itself has another name; else it, or a caller of it, stands elsewhere."""
        return split_call_path(self.before)[-1] != split_call_path(self.after)[-1]


def pair_call_paths(before: Side, after: Experiment) -> tuple[Pair, ...]:
    """Find the call paths of the earlier version that exist no more among those that are new.

    From the callers down: what keeps its name below a caller that was paired; what keeps its name and its counts
    below another caller; what keeps its caller and its counts under another name; at last the only one of a name that
    is gone with the only one that is new. Without counts of the earlier version there are no pairs.
    """
    if before.counts is None:
        return ()
    kept = set(before.counts.tree.names) & set(after.tree.names)
    gone = sorted((name for name in before.counts.tree.names if name not in kept), key=_depth)
    new = sorted((name for name in after.tree.names if name not in kept), key=_depth)
    if not gone or not new:
        return ()
    metrics = [name for name in noise_resilient(before.models) if name in before.counts.values and name in after.values]
    old_counts, new_counts = _signatures(before, before.counts, after, metrics, gone, new)
    names: dict[str, str] = {}
    left = dict.fromkeys(new)
    by_leaf, by_caller = _grouped(new, new_counts)

    def take(name: str, other: str | None) -> bool:
        if other is None or other not in left:
            return False
        names[name] = other
        del left[other]
        return True

    for name in gone:
        caller, leaf = _split(name)
        caller = names.get(caller, caller)
        counts = old_counts[name]
        if take(name, f"{caller}{SEPARATOR}{leaf}") or not any(counts):
            continue
        for choices in (by_leaf.get((leaf, counts), ()), by_caller.get((caller, counts), ())):
            if take(name, next((choice for choice in choices if choice in left), None)):
                break
    _pair_by_name(gone, names, left, old_counts)
    return tuple(Pair(name, other) for name, other in names.items())


def _grouped(
    names: Sequence[str], counts: Mapping[str, Signature]
) -> tuple[dict[tuple[str, Signature], list[str]], dict[tuple[str, Signature], list[str]]]:
    """Return the names by leaf and counts, and by caller and counts."""
    by_leaf: dict[tuple[str, Signature], list[str]] = {}
    by_caller: dict[tuple[str, Signature], list[str]] = {}
    for name in names:
        caller, leaf = _split(name)
        by_leaf.setdefault((leaf, counts[name]), []).append(name)
        by_caller.setdefault((caller, counts[name]), []).append(name)
    return by_leaf, by_caller


def _pair_by_name(
    gone: Sequence[str], names: dict[str, str], left: Mapping[str, None], counts: Mapping[str, Signature]
) -> None:
    """Pair what is the only one of its name on both sides, whatever it counts: it moved, and changed.

    Of what counts nothing, such as barriers, there may be several, if they are as many as before.
    """
    before = _by_leaf([name for name in gone if name not in names])
    after = _by_leaf(list(left))
    for leaf, members in before.items():
        others = after.get(leaf, [])
        if len(members) == len(others) and (len(members) == 1 or not any(any(counts[name]) for name in members)):
            names |= zip(members, others, strict=True)


def _by_leaf(names: Sequence[str]) -> dict[str, list[str]]:
    by_leaf: dict[str, list[str]] = {}
    for name in names:
        by_leaf.setdefault(_split(name)[1], []).append(name)
    return by_leaf


def _split(name: str) -> tuple[str, str]:
    """Return the caller's call path and the region's name."""
    *callers, leaf = split_call_path(name)
    return SEPARATOR.join(callers), leaf


def _depth(name: str) -> int:
    return len(split_call_path(name))


def _signatures(
    before: Side, first: Experiment, second: Experiment, metrics: Sequence[str], gone: Sequence[str], new: Sequence[str]
) -> tuple[dict[str, Signature], dict[str, Signature]]:
    """Return all counts of each call path at the points that both tables have."""
    positions = [
        {tuple(point): row for row, point in enumerate(table.points_in(before.parameters).tolist())}
        for table in (first, second)
    ]
    shared = [point for point in positions[0] if point in positions[1]]
    out = []
    for table, position, names in zip((first, second), positions, (gone, new), strict=True):
        rows = {name: row for row, name in enumerate(table.tree.names)}
        at = [position[point] for point in shared]
        counts = [np.zeros((len(names), 0))]
        for metric in metrics:
            values = table.over_locations(metric, cast(Aggregate, before.models[metric].aggregate))
            chosen = values[[rows[name] for name in names]][:, at]
            there = np.isfinite(chosen)
            counts.append(np.where(there.any(axis=2), np.where(there, chosen, np.inf).min(axis=2, initial=np.inf), 0.0))
        numbers = np.concatenate(counts, axis=1).tolist()
        rounded = [tuple(float(f"{value:.{_DIGITS}g}") for value in row) for row in numbers]
        out.append(dict(zip(names, rounded, strict=True)))
    return out[0], out[1]
