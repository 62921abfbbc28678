"""How large a time can be where nothing was measured, by what is counted."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from buran.modeling.pmnf.model_set import ModelSet
from buran.modeling.pmnf.tuning import STEADY
from buran.profiles.metrics import metric_of
from buran.profiles.profile import SEPARATOR

Array = NDArray[np.float64]


def allowed_times(times: ModelSet, sets: Mapping[str, ModelSet], target: Array) -> Array:
    """Return the largest time at a measured point times the growth of counts from there to the target.

    The counts are basic blocks and bytes, those of callees without times included. Where a call path executes no
    blocks, as in MPI, it waits for others: their work counts too, as it does where the own counts have no good model.
    Counts that fall allow what was measured.

    Parameters
    ----------
    times
        Measured times are those that its models give at its points.
    sets
        Models by metric.
    target
        Shape (parameter,).

    Returns
    -------
    array
        Shape (call path,): in the unit of `times`; infinite where nothing is counted.
    """
    counted = [sets[name] for name in sets if metric_of(name).role == "exact" and metric_of(name).effort]
    points = np.array(times.points, dtype=np.float64).reshape(-1, len(times.parameters))
    rows = np.arange(len(times.call_paths))
    if not counted or not len(points):
        return np.full(len(rows), np.inf)
    measured = np.nan_to_num(times.predict(points))
    there = measured.argmax(axis=1)
    growth, program = np.ones(len(rows)), np.ones(len(points))
    works = np.zeros(len(rows), dtype=bool)
    positions = {name: position for position, name in enumerate(times.call_paths)}
    for counts in counted:
        # counts at the measured points and, last, at the target: by how much the whole program grows
        values = np.nan_to_num(counts.predict(np.vstack([points, target])))
        program = np.maximum(program, _ratio(values.sum(axis=0)[-1], values.sum(axis=0)[:-1]))
        row = np.array([_timed(name, positions) for name in counts.call_paths], dtype=np.int64)
        # the same of each timed call path, with the counts of those below it that have no times; only good models count
        good = [model is not None and model.quality.smape <= 100 * STEADY for model in counts.models]
        own, poor = np.zeros((len(rows), len(points) + 1)), np.zeros(len(rows), dtype=bool)
        np.add.at(own, row[row >= 0], values[row >= 0])
        poor[row[(row >= 0) & ~np.array(good, dtype=bool) & values.any(axis=1)]] = True
        growth = np.where(poor, growth, np.maximum(growth, _ratio(own[:, -1], own[rows, there])))
        if metric_of(counts.metric).effort == "computation":
            works |= own.any(axis=1) & ~poor
    # what does no counted work may grow as the program does
    growth = np.where(works, growth, np.maximum(growth, program[there]))
    allowed: Array = measured.max(axis=1) * growth
    return allowed


def _ratio(after: Array, before: Array) -> Array:
    """Return by how much counts grow; 1 where there was nothing to grow."""
    return np.divide(after, before, out=np.ones(np.broadcast(after, before).shape), where=before > 0)


def _timed(name: str, positions: Mapping[str, int]) -> int:
    """Return the call path with a time that a counted one is part of: itself, or its nearest caller; -1 without one.

    One call path alone is the whole program.
    """
    while name not in positions and SEPARATOR in name:
        name = name.rpartition(SEPARATOR)[0]
    return positions.get(name, 0 if len(positions) == 1 else -1)
