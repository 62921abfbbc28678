"""What runs will cost, from models of what ran."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from buran.select.observations import Observations
from buran.select.protocol import PlanningState
from buran.select.space import Array, Ids, Mask, Space
from buran.select.tuning import PLANNING


@dataclass(frozen=True, eq=False)
class Outlook:
    """The space with what is known of it.

    Attributes
    ----------
    runs
        Shape (place,): finished runs.
    cost
        Shape (place,): predicted core hours of one run; None where nothing is known.
    free
        Shape (place,): may be asked for.
    """

    runs: Ids
    cost: Array | None
    free: Mask

    @classmethod
    def of(cls, measured: Observations, space: Space, state: PlanningState) -> Outlook:
        """Look at the space."""
        runs = np.zeros(len(space.points), dtype=np.int64)
        at = space.places(measured.points)
        inside = at >= 0
        runs[at[inside]] = measured.counts[inside]
        free = runs < space.most_repetitions
        free[[place for place in state.failed if 0 <= place < len(free)]] = False
        seconds = predicted_s(measured, space)
        if seconds is None:
            return cls(runs, None, free)
        first = np.where(runs == 0, space.first_runs * space.core_hours(seconds / space.overhead), 0.0)
        return cls(runs, space.core_hours(seconds) + first, free)


def predicted_s(measured: Observations, space: Space) -> Array | None:
    """Predict the run time at each place (place,); None where nothing is known.

    From the models of call paths, or of the whole program; at measured points their mean. A prediction below the
    shortest run that was seen, a negative one among them, is replaced by that run: costs are then over- rather than
    underestimated. Before four points ran, the longest run so far counts for all.
    """
    if space.known_s is not None:
        return space.known_s
    measured_before = np.isfinite(measured.program_means_s) & (measured.counts > 0)
    if not measured_before.any():
        return space.expected_s
    seen = measured.program_means_s[measured_before]
    out = _modelled_s(measured, space, measured_before) if measured_before.sum() >= PLANNING.enough else None
    if out is None:
        out = np.full(len(space.points), seen.max()) if space.expected_s is None else space.expected_s.copy()
    else:
        out = np.where(np.isfinite(out), np.maximum(out, seen.min()), seen.max())
    at = space.places(measured.points[measured_before])
    out[at[at >= 0]] = seen[at >= 0]
    return np.asarray(out)


def _modelled_s(measured: Observations, space: Space, measured_before: Mask) -> Array | None:
    """Predict by models: shape (place,), None without one.

    Start and end of a program hide in its wall time how the rest of it grows. Where the terms of call paths are known
    from counts, their models are added up, and what wall times have beyond them is taken to stay.
    """
    if measured.program_s is None or not any(terms is not None for terms in measured.skeletons):
        model = measured.program_fit.models[0]
        return None if model is None else model.function.evaluate(space.points)
    times = slice(None) if measured.groups is None else measured.groups == 0
    at = np.vstack([space.points, measured.points[measured_before]])
    total = np.nansum(measured.fit.predict(at)[times], axis=0)
    beside = measured.program_means_s[measured_before] - total[len(space.points) :]
    return np.asarray(total[: len(space.points)] + np.median(beside))
