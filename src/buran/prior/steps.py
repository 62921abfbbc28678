"""Repeated work: whether counts grow exactly linearly with a number of steps.

Where they do, each step executes the same, so that a run of few steps shows what a step of the full run costs. Three
numbers of steps at the same values of all other parameters prove it, the full number among them: two always lie on a
line, and what happens every so many steps, or ends early, shows at the full number only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum

import numpy as np

from buran.experiment.table import Experiment
from buran.model.candidates import Mask
from buran.model.repetitions import over_repetitions
from buran.model.terms import Array
from buran.prior.tuning import COUNTS
from buran.profile.metrics import metric_of, stands_for

_ROUNDING = 1e-9
"""Relative: counts are means over ranks, so that whole numbers are not whole any more."""
_FEWEST = 3
_NAMED = 5


class Repeats(StrEnum):
    """What counts say of a call path and a number of steps."""

    PROVEN = "proven"
    REFUTED = "not linear"
    OPEN = "not shown"


def repeats(points: Array, counts: Sequence[Array], column: int, full: float) -> tuple[Repeats, ...]:
    """Judge for each call path whether its counts are exactly linear in a number of steps.

    Parameters
    ----------
    points
        Shape (point, parameter).
    counts
        One array for each metric, shape (call path, point, repetition); NaN where nothing was counted. All have to be
        linear; counts that differ between the repetitions of a point are not.
    column
        Of the points: the number of steps.
    full
        Number of steps of the full run.
    """
    rows = len(counts[0]) if counts else 0
    refuted, proven, counted = np.zeros(rows, bool), np.zeros(rows, bool), np.zeros(rows, bool)
    for values in counts:
        linear, bent, seen = _judged(points, values, column, full)
        refuted |= bent
        proven |= linear
        counted |= seen
    out = np.where(refuted, Repeats.REFUTED, np.where(proven & counted, Repeats.PROVEN, Repeats.OPEN))
    return tuple(map(Repeats, out.tolist()))


def not_repeated(counted: Experiment, steps: Mapping[str, float]) -> dict[str, tuple[str, ...]]:
    """Return the parameters along which counts refute that work repeats, for more than a hundredth of it.

    Each with the call paths that show it, those with most work first, `_NAMED` at most.

    Parameters
    ----------
    counted
        Counts, by call path.
    steps
        Parameters, with their numbers in the full run.
    """
    exact = {name: counted.over_locations(name) for name in counted.metrics if metric_of(name).role == "exact"}
    metric = next(iter((*stands_for("computation", exact), *exact)), None)
    if metric is None:
        return {}
    work = np.nansum(exact[metric], axis=(1, 2))
    out = {}
    for name, full in steps.items():
        verdicts = repeats(counted.points, list(exact.values()), counted.parameters.index(name), full)
        refuted = np.array([verdict is Repeats.REFUTED for verdict in verdicts], dtype=bool)
        if work[refuted].sum() > COUNTS.loose * work.sum():
            rows = sorted(np.flatnonzero(refuted).tolist(), key=lambda row: -work[row])
            out[name] = tuple(counted.tree.names[row] for row in rows[:_NAMED])
    return out


def _judged(points: Array, values: Array, column: int, full: float) -> tuple[Mask, Mask, Mask]:
    """Return shapes (call path,): counts on a line up to the full number, counts off one, and any counts at all."""
    means = over_repetitions(values, "mean")
    here = np.isfinite(means)
    scale = np.nanmax(np.where(here, means, 0.0), axis=1, initial=0.0)
    near = _ROUNDING * np.maximum(scale, 1.0)
    spread = np.nanmax(np.where(np.isfinite(values), np.abs(values - means[..., None]), 0.0), axis=(1, 2), initial=0.0)
    bent, linear = spread > near, np.zeros(len(values), dtype=bool)
    groups, group = np.unique(np.delete(points, column, axis=1), axis=0, return_inverse=True)
    for number in range(len(groups)):
        members = np.flatnonzero(group.reshape(-1) == number)
        if len(members) < _FEWEST:
            continue
        members = members[np.argsort(points[members, column])]
        steps, known = points[members, column], here[:, members]
        # the line through the first and the last count: N(s) = N(s1) + (s - s1) (N(sm) - N(s1)) / (sm - s1)
        counts = means[:, members]
        slope = (counts[:, -1:] - counts[:, :1]) / (steps[-1] - steps[0])
        off = np.abs(counts - counts[:, :1] - slope * (steps - steps[0])).max(axis=1)
        whole = known.all(axis=1)
        bent |= whole & ~(off <= near)
        linear |= whole & (off <= near) & (steps[-1] >= full)
    return linear, bent, scale > 0
