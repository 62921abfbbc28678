"""Counts of a campaign's runs, modelled: what is counted at any point."""

from __future__ import annotations

from collections.abc import Sequence

from buran.modeling.exact.effort import effort_of
from buran.modeling.pmnf.terms import Array, predict
from buran.modeling.priors.paths import taken_up
from buran.profiles.experiment.build import Run, experiment_from_profiles
from buran.profiles.profile import CallTree
from buran.workflow.collect import only


def counts_at(counted: Sequence[Run], metric: str, tree: CallTree, points: Array) -> Array | None:
    """Return a count, mean over ranks, shape (call path of `tree`, point); None where it was not counted."""
    runs = [run for run in counted if metric in run[2].metrics]
    if not runs:
        return None
    table = only(experiment_from_profiles(runs), [metric])
    counts = taken_up(table.over_locations(metric, "mean"), table.tree, tree)
    return predict(effort_of(table.points, counts, metric=metric, exact=True).functions, points)
