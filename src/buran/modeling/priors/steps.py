"""Repeated work: whether counts grow linearly with a number of steps.

Where they do, each step executes the same, so that a run of few steps shows what a step of the full run costs. Three
numbers of steps at the same values of all other parameters prove it, the full number among them: two always lie on a
line, and what happens every so many steps, or ends early, shows at the full number only. The work of a step may drift a
little, as atoms move between cells: counts that the line of the fewest steps meets within a hundredth are nearly
linear, which is less than repetitions of a time differ by.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum

import numpy as np

from buran.modeling.functions.terms import Array
from buran.modeling.numerics.intervals import ROUNDING
from buran.modeling.numerics.least_squares import Mask
from buran.modeling.numerics.tuning import MATTERS
from buran.modeling.pmnf.repetitions import over_repetitions
from buran.profiles.experiment.table import Experiment
from buran.profiles.metrics import stands_for, work_metrics

_FEWEST = 3
_NAMED = 5


class Repeats(StrEnum):
    """What counts say of a call path and a number of steps."""

    PROVEN = "proven"
    NEARLY = "nearly linear"
    REFUTED = "not linear"
    OPEN = "not shown"

    @property
    def is_repeated(self) -> bool:
        """Whether runs of few steps tell what a step of the full run costs."""
        return self in (Repeats.PROVEN, Repeats.NEARLY)


def repeats(points: Array, counts: Sequence[Array], column: int, full: float) -> tuple[Repeats, ...]:
    """Judge for each call path whether its counts are linear in a number of steps.

    Parameters
    ----------
    points
        Shape (point, parameter).
    counts
        One array for each metric, shape (call path, point, repetition); NaN where nothing was counted. All have to be
        linear; counts that differ between the repetitions of a point are not.
    column
        Column of the points: the number of steps.
    full
        Number of steps of the full run.
    """
    rows = len(counts[0]) if counts else 0
    off, complete, counted = np.zeros(rows), np.zeros(rows, bool), np.zeros(rows, bool)
    for values in counts:
        gaps, whole, seen = _judged(points, values, column, full)
        off = np.maximum(off, gaps)
        complete |= whole
        counted |= seen
    linear = np.where(off <= ROUNDING, Repeats.PROVEN, Repeats.NEARLY)
    shown = np.where(complete & counted, linear, Repeats.OPEN)
    return tuple(map(Repeats, np.where(off <= MATTERS, shown, Repeats.REFUTED).tolist()))


def that_repeat(metrics: Iterable[str]) -> tuple[str, ...]:
    """Return the counts of which costs are multiples: kinds of operations, as stores, may drift with the data."""
    names = tuple(metrics)
    return tuple(name for name in names if name == "visits" or name in work_metrics(names))


def not_repeated(counted: Experiment, steps: Mapping[str, float]) -> dict[str, tuple[str, ...]]:
    """Return the parameters along which counts refute that work repeats, for more than a hundredth of a full run's.

    Each with the call paths that show it, those with most work first, `_NAMED` at most. What a run does once, as output
    at its end, is a larger part of few steps than of all, and predictions are for all.

    Parameters
    ----------
    counted
        Counts, by call path.
    steps
        Parameters, with their numbers in the full run.
    """
    exact = {name: counted.over_locations(name) for name in that_repeat(counted.metrics)}
    metric = next(iter((*stands_for("computation", exact), *exact)), None)
    if metric is None:
        return {}
    whole = np.all([counted.points[:, counted.parameters.index(name)] >= full for name, full in steps.items()], axis=0)
    work = np.nansum(exact[metric][:, whole if whole.any() else ~whole], axis=(1, 2))
    out = {}
    for name, full in steps.items():
        verdicts = repeats(counted.points, list(exact.values()), counted.parameters.index(name), full)
        refuted = np.array([verdict is Repeats.REFUTED for verdict in verdicts], dtype=bool)
        if work[refuted].sum() > MATTERS * work.sum():
            rows = sorted(np.flatnonzero(refuted).tolist(), key=lambda row: -work[row])
            out[name] = tuple(counted.tree.names[row] for row in rows[:_NAMED])
    return out


def _judged(points: Array, values: Array, column: int, full: float) -> tuple[Array, Mask, Mask]:
    """Return, for each call path, the largest relative gap to a line, whether it reaches the full number, any counts.

    Counts of the same point that differ are a gap, too.
    """
    means = over_repetitions(values, "mean")
    present = np.isfinite(means)
    scale = np.nanmax(np.where(present, means, 0.0), axis=1, initial=0.0)
    spread = np.nanmax(np.where(np.isfinite(values), np.abs(values - means[..., None]), 0.0), axis=2, initial=0.0)
    off = np.divide(spread, means, out=np.zeros_like(means), where=present & (means > 0)).max(axis=1, initial=0.0)
    complete = np.zeros(len(values), dtype=bool)
    groups, group = np.unique(np.delete(points, column, axis=1), axis=0, return_inverse=True)
    for number in range(len(groups)):
        members = np.flatnonzero(group.reshape(-1) == number)
        if len(members) < _FEWEST:
            continue
        members = members[np.argsort(points[members, column])]
        steps = points[members, column]
        whole: Mask = np.all(present[:, members], axis=1)
        # from the two fewest steps to all others: N(s) = N(s1) + (s - s1) (N(s2) - N(s1)) / (s2 - s1)
        counts = np.where(whole[:, None], means[:, members], 0.0)
        line = counts[:, :1] + (counts[:, 1:2] - counts[:, :1]) * ((steps - steps[0]) / (steps[1] - steps[0]))
        largest = np.maximum(np.maximum(counts, line), 1.0)
        off = np.maximum(off, (np.abs(counts - line) / largest).max(axis=1))
        if steps[-1] >= full:
            complete |= whole
    return off, complete, scale > 0
