"""From the measurement table to models."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from buran.errors import UsageError
from buran.modeling.pmnf import ModelSet, SearchOptions, fit_models
from buran.modeling.pmnf.derived import variables_of
from buran.modeling.pmnf.model import add_models
from buran.modeling.pmnf.powers import Spaces
from buran.modeling.pmnf.repetitions import Repetition, over_repetitions, scatter_of
from buran.modeling.values import added
from buran.profiles.experiment.table import Aggregate, Experiment
from buran.profiles.metrics import metric_of

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
