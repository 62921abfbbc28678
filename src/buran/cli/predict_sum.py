"""Predictions of a program's run time as the sum of its call paths, and of its figures, for ``buran predict``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from buran.campaign.point import canonical
from buran.errors import FormatError, UsageError, check_coordinates
from buran.modeling.pmnf.model_set import ModelSet, read_models


def is_models(path: Path) -> bool:
    """Tell from its first bytes whether a file holds models in normal form."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return b'"buran-models/' in file.read(200)


def predictions(
    path: Path, points: Sequence[Mapping[str, float | str]], *, level: float = 0.9
) -> tuple[list[str], list[list[Any]]]:
    """Return header and rows: parameters, run time with its interval, and how it is made up, in seconds; or figures.

    Parameters
    ----------
    path
        ``run-time.json`` of a campaign's results, with its ``models.json`` next to it, or ``figures.json``.
    points
        Values by the parameters' names.
    level
        Level of the intervals.

    Raises
    ------
    FormatError, UsageError
        For other models, no points, missing parameters and values that are no numbers.
    """
    everything = read_models(path)
    sets = [models for models in everything if models.metric == "runtime"]
    if len(sets) == 2:
        other = read_models(path.with_name("models.json"))
        times = [models for models in other if models.metric == "time"][:1]
        return _run_times(sets[0], sets[1], times, _points_of([*sets, *times], points), level)
    if not everything or any(len(models.models) != 1 for models in everything):
        hint = "name latest/run-time.json or latest/figures.json; `buran model FILE --predict` takes other models"
        raise FormatError("these models are not of a whole program", where=path, hint=hint)
    at = _points_of(everything, points)
    rows: list[list[Any]] = []
    for models in everything:
        bounds = models.predict_interval(at, level)
        columns = zip(at.tolist(), models.predict(at)[0], *(end[0] for end in bounds), strict=True)
        rows += [[models.metric, *point, *map(_finite, numbers), models.unit] for point, *numbers in columns]
    return ["figure", *everything[0].parameters, "predicted", "lower", "upper", "unit"], rows


def _points_of(sets: Sequence[ModelSet], points: Sequence[Mapping[str, float | str]]) -> NDArray[np.float64]:
    whole = sets[0]
    if not points:
        raise UsageError("there are no points to predict", hint="give --at P=V,... or a CSV file")
    for point in points:
        check_coordinates(point, whole.parameters)
    try:
        at = np.array([[float(canonical(point[name])) for name in whole.parameters] for point in points])
    except (TypeError, ValueError):
        raise UsageError("the values of parameters are numbers", why="some are not") from None
    measured = np.array([point for models in sets for point in models.points]).reshape(-1, len(whole.parameters))
    for column, name in enumerate(whole.parameters):
        known = set(measured[:, column].tolist())
        for point, value in zip(points, at[:, column].tolist(), strict=True):
            is_word = isinstance(point[name], str)
            if value not in known and (is_word or len(known) == 1):
                why = "a word is no number" if len(known) > 1 else "all runs had another value: that of the target"
                raise UsageError(f"these models are not for {name}={point[name]}", why=why)
    return at


def _finite(number: float) -> float | None:
    return float(number) if np.isfinite(number) else None


def _run_times(
    whole: ModelSet, startup: ModelSet, times: Sequence[ModelSet], at: NDArray[np.float64], level: float
) -> tuple[list[str], list[list[Any]]]:
    from buran.workflow.run_time import with_parts

    if times:
        whole = with_parts(whole, startup, times[0])
    total, apart = whole.predict(at)[0], startup.predict(at)[0]
    low, high = (bounds[0] for bounds in whole.predict_interval(at, level))
    columns = zip(at.tolist(), total, np.maximum(low, 0.0), high, total - apart, apart, strict=True)
    rows = [[*point, *map(_finite, numbers)] for point, *numbers in columns]
    return [*whole.parameters, "predicted", "lower", "upper", "call paths", "start-up and shutdown"], rows
