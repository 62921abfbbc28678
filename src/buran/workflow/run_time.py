"""The run time of the program as the sum of its call paths and of start-up and shutdown."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from buran.modeling.pmnf.model import Model, add_models
from buran.modeling.pmnf.model_set import ModelSet
from buran.modeling.priors.prior import startup_prior
from buran.modeling.priors.resilient import fit_priors
from buran.profiles.startup import is_startup_or_shutdown

RUN_TIME = "run-time.json"
"""File with the models of the program's run time, next to those of its call paths."""


@dataclass(frozen=True)
class RunTime:
    """Models of what a run takes.

    Attributes
    ----------
    whole
        One row: wall time of a run without hooks. Its function is the sum of those of the call paths and of `startup`.
    startup
        One row: start-up and shutdown, from the launcher to the first line of the program and back, with MPI's share.
    """

    whole: ModelSet
    startup: ModelSet


def add_up(
    times: ModelSet,
    points: NDArray[np.float64],
    walls_s: NDArray[np.float64],
    ranks_parameter: str | None,
    steps: Collection[str] = (),
) -> RunTime | None:
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
    RunTime or None
        None where models of call paths do not add up to seconds of the program.
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
    return RunTime(replace(startup, call_paths=("whole program, not instrumented",), models=(whole,)), startup)


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
