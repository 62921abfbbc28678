"""Values of one call path or of the whole program."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from buran.campaign.mistakes import did_you_mean
from buran.errors import UsageError
from buran.modeling.pmnf.repetitions import over_repetitions
from buran.profiles.experiment.collect import split_call_path
from buran.profiles.experiment.table import Experiment
from buran.profiles.names import without_arguments


def added(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Add up a metric over the call paths that have it anywhere: what is not measured is in a caller then.

    A table with counts of all functions has call paths that timed runs, under a filter, do not.

    Parameters
    ----------
    values
        Shape (call path, ...); NaN where there is none.

    Returns
    -------
    array
        Shape (...): NaN where a call path has no value but has one elsewhere, and where none has any.
    """
    known = np.isfinite(values).any(axis=tuple(range(1, values.ndim)))
    return np.asarray(values[known].sum(axis=0) if known.any() else np.full(values.shape[1:], np.nan))


def one_call_path(experiment: Experiment, metric: str, call_path: str | None = None) -> NDArray[np.float64]:
    """Return a metric's medians over repetitions, shape (point,).

    Parameters
    ----------
    experiment
        The measurement table.
    metric
        Its name; the only one of a table that has one is taken whatever it is called.
    call_path
        Full name, or the regions a single call path ends in; None for the sum over all.

    Raises
    ------
    UsageError
        If there is no such metric or call path, or several.
    """
    if metric not in experiment.values and len(experiment.metrics) == 1:
        metric = experiment.metrics[0]
    if metric not in experiment.values:
        raise UsageError(
            f"the measurements have no metric {metric!r}", hint=f"choose from {', '.join(experiment.metrics) or 'none'}"
        )
    values = over_repetitions(experiment.over_locations(metric), "median")
    if call_path is None:
        return added(values)
    return np.asarray(values[row_of(experiment.tree.names, call_path)])


def row_of(names: Sequence[str], call_path: str) -> int:
    """Return the position of a call path: a full name, or the regions that one of them ends in.

    C++ functions may be named without the types of their arguments.

    Raises
    ------
    UsageError
        If there is none, or several end in the region.
    """
    indices = [i for i, name in enumerate(names) if name == call_path]
    regions = split_call_path(call_path)
    suffixes = [split_call_path(name)[-len(regions) :] for name in names] if not indices else []
    indices = indices or [i for i, end in enumerate(suffixes) if end == regions]
    indices = indices or [i for i, end in enumerate(suffixes) if tuple(map(without_arguments, end)) == regions]
    if len(indices) != 1:
        what = f"{len(indices)} call paths end in {call_path!r}" if indices else f"there is no call path {call_path!r}"
        several = ", ".join(names[i] for i in indices[:5])
        raise UsageError(what, hint=several or did_you_mean(call_path, names) or "see `buran model` for their names")
    return indices[0]
