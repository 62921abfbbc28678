"""Advice on what to measure next, outside of campaigns: from a measurement table to a list of runs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from buran.campaign.mistakes import did_you_mean
from buran.campaign.space import MOST_POINTS
from buran.errors import UsageError, check_coordinates
from buran.planning.observations import Observations
from buran.planning.protocol import Advice, PlanningState
from buran.planning.space import Array, Space, cheapest_first
from buran.planning.strategies import ValidatedStrategy
from buran.planning.unguided import FULL


@dataclass(frozen=True)
class Recommendation:
    """Advice with what it was made from.

    Attributes
    ----------
    full_core_hours
        Predicted cost of all points, five times each; None where nothing is known.
    """

    advice: Advice
    state: PlanningState
    full_core_hours: float | None
    notes: tuple[str, ...]


def parse_budget(text: str) -> tuple[float, bool]:
    """Read ``10%`` of the full matrix, or ``2.5`` core hours; also return whether it is a share.

    Raises
    ------
    UsageError
        It is neither.
    """
    share = text.strip().endswith("%")
    try:
        value = float(text.strip().removesuffix("%"))
    except ValueError:
        value = -1.0
    if not 0 < value < float("inf"):
        raise UsageError(
            f"{text!r} is no budget", where="--budget", hint="write core hours, as in 2.5, or a share, as in 10%"
        )
    return value, share


def candidate_space(
    points: Array,
    parameters: Sequence[str],
    processes: str | None,
    target: Mapping[str, float] | None,
    values: Mapping[str, Sequence[float]],
) -> Space:
    """Make the space of all combinations of `values` by parameter, where these lack one of those that were measured.

    Raises
    ------
    UsageError
        There are too many, the target is no point, or a parameter does not exist.
    """
    for name in values:
        _check_parameter(name, parameters, "--values")
    measured = zip(parameters, points.T, strict=True)
    axes = [np.unique(np.array(values[name]) if name in values else column) for name, column in measured]
    if math.prod(map(len, axes)) > MOST_POINTS:
        raise UsageError("the values have too many combinations", hint="name fewer: --values P=V,...")
    every = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))
    if target is not None:
        check_coordinates(target, parameters, "--at")
    at = every.max(axis=0) if target is None else np.array([target[name] for name in parameters], dtype=np.float64)
    cores = core_counts(every, parameters, processes)
    order = cheapest_first(every, cores)
    return Space(tuple(parameters), every[order], cores[order], np.asarray(at), ranks=processes)


def core_counts(points: Array, parameters: Sequence[str], processes: str | None) -> Array:
    """Return the cores of runs at `points` (point, parameter): the parameter that counts processes, or one."""
    if processes is None:
        return np.ones(len(points))
    _check_parameter(processes, parameters, "--processes")
    cores: Array = points[:, list(parameters).index(processes)].copy()
    if not (cores > 0).all():
        raise UsageError("a run takes at least a part of a core", why=f"a point has {cores.min():g}", where="cores")
    return cores


def _check_parameter(name: str, parameters: Sequence[str], where: str) -> None:
    if name not in parameters:
        hint = did_you_mean(name, parameters) or f"choose from {', '.join(parameters)}"
        raise UsageError(f"there is no parameter {name!r}", where=where, hint=hint)


def advise(
    state: PlanningState, measured_cores: Array, strategy: ValidatedStrategy, budget_text: str | None = None
) -> Recommendation:
    """Ask a strategy what to measure next.

    Parameters
    ----------
    state
        Without a budget, which `budget_text` says, and without what was spent.
    measured_cores
        Shape (point,): cores of the runs at the measured points, which are charged to the budget.
    budget_text
        See `parse_budget`; None for no limit.

    Raises
    ------
    UsageError
        The budget is a share, and nothing is known of run times.
    """
    measured, space = state.measured, state.space
    full = None
    if state.predicted_s is not None:
        full = FULL.repetitions * float(space.core_hours(state.predicted_s).sum())
    times = measured.values[0] if measured.program_s is None else measured.program_s
    run_s = np.maximum(np.nan_to_num(times) * space.overhead, 0.0)
    spent = float((run_s.sum(axis=1) * measured_cores).sum() / 3600) if len(measured.points) else 0.0
    limit = None
    if budget_text is not None:
        limit, share = parse_budget(budget_text)
        if share:
            if full is None:
                raise UsageError("a share of the full matrix needs a run time", why="nothing was measured yet")
            limit *= full / 100
    state = replace(state, budget=limit, spent=spent)
    advice = strategy.suggest(state)
    return Recommendation(advice, state, full, (*advice.notes, *space.notes(), *_notes(measured, space)))


def _notes(measured: Observations, space: Space) -> Sequence[str]:
    """Say what is unusual about the measurements."""
    out = []
    outside = int((space.indices(measured.points) < 0).sum())
    if outside:
        out.append(f"{outside} measured points lie outside the space: models use them, they are not asked for again")
    if len(measured.points) and not (measured.counts > 1).any():
        out.append("no point was measured twice: the noise is estimated from what models leave unexplained, and 3 %")
    elif measured.noise_percent == 0:
        out.append("all repetitions are equal: noise counts as 3 % worth two repetitions, no less")
    if measured.program_fit.models and (model := measured.program_fit.models[0]) is not None:
        if model.function.is_constant:
            out.append("the run time does not depend on any parameter as far as can be seen")
        elif (model.predict(space.points) <= 0).any():
            out.append("the model predicts run times of 0 and less at some points: the shortest measured one is taken")
    return out
