"""Models of time with priors, and what a report says of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import ndtr

from buran.files import finite_or_none
from buran.model.model import Model, predict_models, prediction_interval
from buran.model.model_set import ModelSet
from buran.model.terms import Array
from buran.model.text import format_function, format_largest
from buran.prior.algebra import added
from buran.prior.tables import PathModel
from buran.prior.waiting import Verdict, Waiting

OTHERS_FOLLOW = (
    "beyond the measured ranks or bytes MPI may choose another algorithm: intervals do not cover that choice"
)


def noise_resilient(
    path_models: Sequence[PathModel], alone: ModelSet, target: Sequence[float]
) -> tuple[ModelSet, ModelSet, tuple[dict[str, Any], ...]]:
    """Replace models of time by noise-resilient ones where there is a prior.

    Parameters
    ----------
    path_models
        Of `models_from_priors`, for the call paths of `alone`.
    alone
        Models from times alone.
    target
        Point that models with and without prior are compared at.

    Returns
    -------
    models, absorbed, statements
        Models of the same call paths; models of the counted call paths that some of them take up, which add up to
        theirs; and for each, as JSON values, what its model is made from.
    """
    pairs = list(zip(path_models, alone.models, strict=True))
    models = tuple(plain if made.final is None else made.final for made, plain in pairs)
    at = np.array([target], dtype=np.float64)
    predicted = predict_models([*alone.models, *models], at)[:, 0].reshape(2, -1).T.tolist()
    errors = _errors_of_differences(pairs, at).tolist()
    largest = np.array(alone.points).max(axis=0, initial=0.0)
    statements = tuple(
        _statement(path, *pair, alone.parameters, at, largest, values, error)
        for path, pair, values, error in zip(alone.call_paths, pairs, predicted, errors, strict=True)
    )
    absorbed = {name: model for made in path_models for name, model in made.absorbed.items()}
    return (
        replace(alone, models=models),
        replace(alone, call_paths=tuple(absorbed), models=tuple(absorbed.values())),
        statements,
    )


def _errors_of_differences(pairs: Sequence[tuple[PathModel, Model | None]], at: Array) -> Array:
    """Return the standard errors (call path,) of differences between models with and without prior; NaN without."""
    some = {
        row: (plain, made.resilient.model)
        for row, (made, plain) in enumerate(pairs)
        if plain is not None and made.resilient is not None
    }
    # half the width of an interval with the probability of one standard deviation to each side
    models = [*(plain for plain, _ in some.values()), *(own for _, own in some.values())]
    lower, upper = prediction_interval(models, at, 1 - 2 * float(ndtr(-1.0)), "mean")
    out = np.full(len(pairs), np.nan)
    out[list(some)] = np.linalg.norm(((upper - lower) / 2)[:, 0].reshape(2, -1), axis=0)
    return out


def _statement(
    path: str,
    made: PathModel,
    plain: Model | None,
    parameters: tuple[str, ...],
    at: Array,
    largest: Array,
    predicted: Sequence[float],
    error: float,
) -> dict[str, Any]:
    there = dict(zip(parameters, at[0].tolist(), strict=True))
    out: dict[str, Any] = {
        "call_path": path,
        "source": str(made.source),
        "notes": list(made.notes),
        "prior": "",
        "resilient": "",
        "times_alone": "" if plain is None else format_largest(plain.function, parameters, there),
        "waiting": "",
        "waiting_share": None,
        "settled": made.settled,
        "repeats": dict(made.repeats),
        "at_target_s": finite_or_none(predicted[1]),
        "difference_s": None,
        "difference_error_s": None,
        "work": None,
        "misses": [],
    }
    if made.resilient is None or made.final is None:
        return out
    prior = made.resilient.prior
    if not prior.known and any(at[0, parameter] > largest[parameter] for parameter, _ in prior.switches):
        out["notes"].append(OTHERS_FOLLOW)
    resilient = made.resilient.model
    out["prior"] = prior.text(parameters)
    columns = prior.columns
    if any(column.level for column in columns):
        out["work"] = added(column.function for column in columns if not column.level).to_json()
    out["misses"] = [
        {"level": column.level, "misses": column.function.to_json(), "cost": list(column.cost)}
        for column in columns
        if column.level and column.cost is not None
    ]
    out["resilient"] = format_largest(resilient.function, parameters, there)
    out["waiting"] = "" if made.waiting is None else waiting_text(made.waiting, parameters)
    out["waiting_share"] = None if made.waiting is None else finite_or_none(made.waiting.share)
    if plain is not None:
        out["difference_s"] = finite_or_none(predicted[0] - predicted[1])
        out["difference_error_s"] = finite_or_none(error)
    return out


def waiting_text(waiting: Waiting, parameters: tuple[str, ...]) -> str:
    """Say what a test for waiting found, as text."""
    if waiting.verdict is Verdict.NONE:
        return "nothing"
    if waiting.verdict is Verdict.UNKNOWN:
        return "too few points to decide"
    part = format_function(waiting.waiting_part, parameters)
    return f"{waiting.verdict}: {part}, {100 * waiting.share:.0f} % at the largest point (p = {waiting.p_value:.2g})"
