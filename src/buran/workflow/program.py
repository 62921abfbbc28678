"""Models of the whole program's run time: a tensor model, or the sum of its call paths and of start-up and shutdown."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from buran.campaign.point import Point
from buran.modeling.fit import fit_models
from buran.modeling.numerics.tuning import FEW
from buran.modeling.pmnf.model import Model, add_models
from buran.modeling.pmnf.model_set import ModelSet
from buran.modeling.priors.prior import startup_prior
from buran.modeling.priors.resilient import fit_priors
from buran.planning.question import RunTimes
from buran.profiles.startup import is_startup_or_shutdown
from buran.wording import word_of
from buran.workflow.findings import Findings
from buran.workflow.history import History, as_array

if TYPE_CHECKING:
    from buran.modeling.tensor import CPRegressor

Kind = Literal["auto", "pmnf", "cpr"]
Array = NDArray[np.float64]
FILE = "runtime.npz"
"""Name of the tensor model's file, next to the other models of an iteration."""
_FEW_PARAMETERS, _MANY_PARAMETERS = 2, 4  # up to and from where a kind of model is taken without a comparison
_LEAST_POINTS = 20  # measured, for a tensor model
_FOLDS = 4  # of the comparison of both kinds
_CLEARLY = 0.75  # of the normal form's error: it explains, and grows more safely


def choose_kind(
    kind: Kind,
    parameters: int,
    points: int,
    choices: int = 0,
    errors: Callable[[], tuple[float, float]] | None = None,
) -> tuple[Literal["pmnf", "cpr"], str]:
    """Choose between performance models in normal form and a tensor model, and say why.

    Parameters
    ----------
    parameters, points
        Numbers of them.
    choices
        Number of parameters without an order.
    errors
        Returns the cross-validated errors of normal form and tensor model; asked where numbers do not decide.
    """
    if kind != "auto":
        return kind, "the campaign file asks for it"
    if choices:
        return "cpr", f"{choices} of {parameters} parameters are choices without an order"
    if parameters <= _FEW_PARAMETERS:
        return "pmnf", f"there are no more than {_FEW_PARAMETERS} parameters"
    if points < _LEAST_POINTS:
        return "pmnf", f"a tensor model needs {_LEAST_POINTS} measured points"
    if parameters > _MANY_PARAMETERS or errors is None:
        return "cpr", f"there are more than {_MANY_PARAMETERS} parameters"
    normal, tensor = errors()
    both = f"left-out points are missed by {100 * np.expm1(tensor):.3g} % with it and {100 * np.expm1(normal):.3g} %"
    if tensor < _CLEARLY * normal:
        return "cpr", f"{both} with a normal form"
    return "pmnf", f"a tensor model is not clearly better: {both} without"


def cross_validated(points: Array, times: Array, names: tuple[str, ...]) -> tuple[float, float]:
    """Return the mean absolute errors of log times at left-out points, of a normal form and of a tensor model.

    Points are left out in four parts. A prediction that is not above zero counts as a thousandfold one.

    Parameters
    ----------
    points
        Shape (point, parameter).
    times
        Shape (point,): in seconds.
    """
    from buran.modeling.tensor import CPRegressor

    part = np.random.default_rng(0).permutation(len(times)) % _FOLDS
    gaps: list[list[float]] = [[], []]
    for fold in range(_FOLDS):
        inside, outside = part != fold, part == fold
        model = fit_models(points[inside], times[None, inside]).models[0]
        normal = np.full(int(outside.sum()), np.nan) if model is None else model.predict(points[outside])
        tensor = CPRegressor(names=names, outside="clamp", trees=0).fit(points[inside], times[inside])
        for log_errors, predicted in zip(gaps, (normal, tensor.predict(points[outside])), strict=True):
            logs = np.abs(np.log(np.where(predicted > 0, predicted, np.nan) / times[outside]))
            log_errors += np.where(np.isfinite(logs), logs, np.log(1e3)).tolist()
    return float(np.mean(gaps[0])), float(np.mean(gaps[1]))


def fit_program(points: Array, times: Array, names: tuple[str, ...], choices: Sequence[str] = ()) -> CPRegressor:
    """Fit a tensor model that may leave the measured range in every parameter that is no choice.

    Parameters
    ----------
    points
        Shape (point, parameter).
    times
        Shape (point,): in seconds.
    choices
        Names of the parameters whose numbers stand for choices; one that was not measured is predicted as their mean.
    """
    from buran.modeling.tensor import CPRegressor

    scale = ["categorical" if name in choices else "auto" for name in names]
    free = [name for name in names if name not in choices]
    model = CPRegressor(scale=scale, names=names, extrapolate=free, unseen="mean", random_state=0)
    return model.fit(in_words(points), times)


def in_words(points: Array) -> NDArray[Any]:
    """Return points, shape (point, parameter), with words in place of the numbers that stand for them."""
    if not any(map(word_of, points.flat)):
        return points
    rows = [[str(word) if (word := word_of(value)) else value for value in point] for point in points.tolist()]
    return np.array(rows, dtype=object)


def write_program(path: Path, model: CPRegressor, reason: str) -> None:
    """Write the model."""
    from buran.modeling.tensor import save_model

    save_model(path, model.model_, {"metric": "runtime", "unit": "sec", "reason": reason})


RUN_TIME = "run-time.json"
"""File with the models of the program's run time, next to those of its call paths."""


def add_up(
    times: ModelSet,
    points: NDArray[np.float64],
    walls_s: NDArray[np.float64],
    ranks_parameter: str | None,
    steps: Collection[str] = (),
) -> tuple[ModelSet, ModelSet] | None:
    """Make the program's run time from the models of its call paths.

    What a run takes beside its call paths is start-up and shutdown. It has a constant and a part that grows with the
    depth of a tree over the ranks: more growth cannot be told from runs that are small, and share their cores.

    Parameters
    ----------
    times
        Of call paths: exclusive seconds, mean over ranks.
    points
        Shape (point, parameter), distinct rows.
    walls_s
        Shape (point,): of runs without hooks.
    ranks_parameter
        Name of the parameter that counts ranks; None if there is none.
    steps
        Names of parameters that only repeat work: start-up and shutdown does not depend on them.

    Returns
    -------
    tuple or None
        Models of a row each: the wall time of a run without hooks, whose function is the sum of those of the call paths
        and of start-up and shutdown; and these, from the launcher to the first line of the program and back, with MPI's
        share. None where models of call paths do not add up to seconds of the program.
    """
    if times.unit != "sec" or times.aggregate != "mean" or not any(times.models):
        return None
    apart = is_startup_or_shutdown(times.call_paths)
    added = np.nan_to_num(times.predict(points))[~apart].sum(axis=0)
    ranks = None if ranks_parameter is None else times.parameters.index(ranks_parameter)
    prior = startup_prior(None if ranks is None or points[:, ranks].max() <= 1 else ranks)
    prior = replace(prior, repeated=tuple(times.parameters.index(name) for name in steps))
    made = fit_priors(points, np.maximum(walls_s - added, 0.0)[None], [prior])[0]
    if made is None:
        return None
    measured = tuple(tuple(map(float, point)) for point in points)
    startup = ModelSet(
        times.parameters, "runtime", "sec", ("start-up and shutdown",), (made.model,), "wall", "median", measured
    )
    whole = add_models([*_models(times), made.model], points, walls_s)
    return replace(startup, call_paths=("whole program, not instrumented",), models=(whole,)), startup


def with_parts(whole: ModelSet, startup: ModelSet, times: ModelSet) -> ModelSet:
    """Return the model of the program with the models it is the sum of, for its intervals; files do not keep them."""
    model = whole.models[0]
    if model is None:
        return whole
    parts = [*_models(times), *(end for end in startup.models if end is not None)]
    return replace(whole, models=(replace(model, parts=tuple(parts)),))


def _models(times: ModelSet) -> list[Model]:
    """Return the models of the call paths that do not start or end MPI."""
    apart = is_startup_or_shutdown(times.call_paths).tolist()
    return [model for model, end in zip(times.models, apart, strict=True) if model is not None and not end]


def tensor_model(history: History, findings: Findings) -> Callable[[Array], Array] | None:
    """Return the tensor model that predicts run times, of shape (point,); None where the normal form does."""
    if findings.program_model[0] != "cpr":
        return None
    from buran.modeling.tensor import load_model
    from buran.modeling.tensor.axes import columns_of

    models_file = history.layout.models(history.campaign, findings.iteration)
    tensor = load_model(models_file.with_name(FILE))[0]
    return lambda points: tensor.predict(columns_of(in_words(points)), "clamp", "mean")[0]


def run_times_at(
    history: History,
    findings: Findings,
    points: Sequence[Point],
    trial: Mapping[Point, Sequence[float]] = MappingProxyType({}),
) -> RunTimes:
    """Return what models predict that runs take; never less than the shortest run that was seen.

    Parameters
    ----------
    trial
        Wall times of pilot runs, which are modelled where nothing else is.
    """
    parameters = history.session.campaign.parameters
    if findings.runtime is not None:
        model, tensor = findings.runtime, tensor_model(history, findings)
        values = one_by_one(tensor or (lambda at: model.predict(at)[0]), as_array(points, parameters))
        return dict(zip(points, np.maximum(values, findings.shortest_run_s).tolist(), strict=True))
    if len(trial) < FEW:
        return {}
    measured = {point: median(times) for point, times in trial.items()}
    fit = fit_models(as_array(measured, parameters), np.array([list(measured.values())])).models[0]
    shortest, longest = min(measured.values()), max(measured.values())
    values = np.full(len(points), longest) if fit is None else one_by_one(fit.predict, as_array(points, parameters))
    values = np.where(np.isfinite(values), np.maximum(values, shortest), longest)
    return dict(zip(points, values.tolist(), strict=True)) | measured


def one_by_one(predict: Callable[[Array], Array], points: Array) -> Array:
    """Return predictions, shape (point,), that do not depend on the other points: products of larger arrays round."""
    return np.array([predict(row[None])[0] for row in points], dtype=np.float64)
