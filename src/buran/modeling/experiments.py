"""From the measurement table to models, and to the values of one call path or of the whole program."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from buran.campaign.mistakes import did_you_mean
from buran.errors import UsageError
from buran.modeling.fit import fit_models
from buran.modeling.functions.derived import variables_of
from buran.modeling.functions.powers import Spaces
from buran.modeling.pmnf import ModelSet, SearchOptions
from buran.modeling.pmnf.model import add_models
from buran.modeling.pmnf.repetitions import Repetition, over_repetitions, scatter_of
from buran.profiles.experiment.collect import split_call_path
from buran.profiles.experiment.table import Aggregate, Experiment
from buran.profiles.metrics import metric_of
from buran.profiles.names import without_arguments

Over = Literal["exclusive", "inclusive", "region", "program"]


def exact_rows(metric: str, repetitions: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Tell which call paths have values without noise, shape (call path,).

    Those of a metric that is exact by its nature, and those of others that were measured at least twice at each point;
    in either case without any difference between repetitions.

    Parameters
    ----------
    metric
        Its name.
    repetitions
        Shape (call path, point, repetition); NaN where there is none.
    """
    present = np.isfinite(repetitions)
    lowest = np.where(present, repetitions, np.inf).min(axis=2, initial=np.inf)
    highest = np.where(present, repetitions, -np.inf).max(axis=2, initial=-np.inf)
    number = present.sum(axis=2)
    steady = ((number == 0) | (lowest == highest)).all(axis=1)
    if metric_of(metric).role == "exact":
        return np.asarray(steady)
    return np.asarray(steady & ((number == 0) | (number > 1)).all(axis=1))


def model_experiment(
    experiment: Experiment,
    metrics: Iterable[str] | None = None,
    aggregate: Aggregate = "mean",
    repetition: Repetition = "median",
    space: Spaces | None = None,
    *,
    over: Over = "exclusive",
    options: SearchOptions | None = None,
    progress: Callable[[int], None] | None = None,
    derived: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, ModelSet]:
    """Fit a model for each call path and metric.

    Parameters
    ----------
    experiment
        The measurement table; its values are exclusive.
    metrics
        Names; all of the table by default.
    aggregate
        Over locations.
    repetition
        Over repetitions.
    space
        Exponents to try; the full space by default.
    over
        ``exclusive``: each call path alone. The others add up the models of call paths: of the whole subtree
        (``inclusive``), of all call paths that end in a region (``region``), of all (``program``).
    options, progress
        See `fit_models`.
    derived
        Values that the program derives from its parameters: expressions by name, which formulas of counts may have.

    Returns
    -------
    dict
        By metric name. Call paths without any value have None for a model.

    Raises
    ------
    UsageError
        If the table has no parameter or no such metric, or values cannot be modelled.
    """
    if not experiment.parameters:
        hint = "name a folder for each run after its parameters, as in sweep.p4n100.r1"
        raise UsageError("a model needs runs with different parameters", why="the file is that of one run", hint=hint)
    names = experiment.metrics if metrics is None else tuple(dict.fromkeys(metrics))
    for name in names:
        if name not in experiment.values:
            raise UsageError(
                f"the measurements have no metric {name!r}",
                hint=f"choose from {', '.join(experiment.metrics) or 'none: there are no metrics'}",
            )
    points = tuple(tuple(map(float, row)) for row in experiment.points)
    variables = variables_of(derived, experiment.parameters, experiment.points)
    out = {}
    for name in names:
        repetitions = experiment.over_locations(name, aggregate)
        values = over_repetitions(repetitions, repetition)
        scatter = scatter_of(repetitions, repetition)
        unit = experiment.units.get(name, "")
        try:
            fit = fit_models(
                experiment.points,
                values,
                space=space,
                scatter=scatter,
                options=options,
                progress=progress,
                exact=exact_rows(name, repetitions),
                variables=variables,
            )
        except UsageError as error:
            raise UsageError(
                error.what, where=error.where or f"metric {name}", why=error.why, hint=error.hint
            ) from error
        exclusive = ModelSet(
            experiment.parameters, name, unit, experiment.tree.names, fit.models, aggregate, repetition, points
        )
        out[name] = exclusive if over == "exclusive" else _added(exclusive, experiment, values, over)
    return out


def _added(exclusive: ModelSet, experiment: Experiment, values: NDArray[np.float64], over: Over) -> ModelSet:
    """Add up models and measured values over the call tree."""
    tree = experiment.tree
    if over == "inclusive":
        members: list[list[int]] = [[i] for i in range(len(tree))]
        for i in range(len(tree) - 1, -1, -1):  # children stand behind their parents
            if tree.parent[i] >= 0:
                members[int(tree.parent[i])] += members[i]
        groups = list(zip(tree.names, members, strict=True))
    elif over == "region":
        by_region: dict[str, list[int]] = {}
        for i, region in enumerate(tree.region.tolist()):
            by_region.setdefault(tree.regions[region].name, []).append(i)
        groups = list(by_region.items())
    else:
        groups = [("whole program", list(range(len(tree))))]
    models = tuple(
        add_models([exclusive.models[i] for i in group], experiment.points, added(values[group])) for _, group in groups
    )
    return replace(exclusive, call_paths=tuple(name for name, _ in groups), models=models)


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
