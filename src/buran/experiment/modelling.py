"""From the measurement table to models."""

from __future__ import annotations

from collections.abc import Iterable

from buran.errors import UsageError
from buran.experiment.table import Aggregate, Experiment
from buran.model import HypothesisSpace, ModelSet, fit_models
from buran.model.repetitions import Repetition, over_repetitions


def model_experiment(
    experiment: Experiment,
    metrics: Iterable[str] | None = None,
    aggregate: Aggregate = "mean",
    repetition: Repetition = "median",
    space: HypothesisSpace | None = None,
) -> dict[str, ModelSet]:
    """Fit a model for each call path and metric.

    Parameters
    ----------
    experiment
        The measurement table; its values are exclusive, and so are the models.
    metrics
        Names; all of the table by default.
    aggregate
        Over locations.
    repetition
        Over repetitions.
    space
        Exponents to try; the full space by default.

    Returns
    -------
    dict
        By metric name. Call paths without any value have None for a model.

    Raises
    ------
    UsageError
        If the table has no such metric, or values cannot be modelled.
    """
    wanted = experiment.metrics if metrics is None else tuple(dict.fromkeys(metrics))
    for name in wanted:
        if name not in experiment.values:
            raise UsageError(
                f"the measurements have no metric {name!r}",
                hint=f"choose from {', '.join(experiment.metrics) or 'none: there are no metrics'}",
            )
    points = tuple(tuple(map(float, row)) for row in experiment.points)
    out = {}
    for name in wanted:
        values = over_repetitions(experiment.over_locations(name, aggregate), repetition)
        try:
            fit = fit_models(experiment.points, values, space=space)
        except UsageError as error:
            raise UsageError(
                error.what, where=error.where or f"metric {name}", why=error.why, hint=error.hint
            ) from error
        out[name] = ModelSet(
            experiment.parameters,
            name,
            experiment.units.get(name, ""),
            experiment.tree.names,
            fit.models,
            aggregate,
            repetition,
            points,
        )
    return out
