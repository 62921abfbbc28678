"""Predictions of a program's run time as the sum of its call paths, for ``buran predict``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from buran.errors import FormatError, UsageError, check_coordinates
from buran.model.model_set import read_models


def is_models(path: Path) -> bool:
    """Tell from its first bytes whether a file holds models in normal form."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return b'"buran-models/' in file.read(200)


def run_times(
    path: Path, points: Sequence[Mapping[str, Any]], *, level: float = 0.9
) -> tuple[list[str], list[list[Any]]]:
    """Return header and rows: parameters, run time with its interval, and how it is made up, in seconds.

    Parameters
    ----------
    path
        ``run-time.json`` of a campaign's results, with its ``models.json`` next to it.
    points
        Values by the parameters' names.
    level
        Of the intervals.

    Raises
    ------
    FormatError, UsageError
        For a file without a run time, no points, missing parameters and values that are no numbers.
    """
    from buran.loop.run_time import with_parts

    sets = [models for models in read_models(path) if models.metric == "runtime"]
    if len(sets) != 2:
        hint = "name latest/run-time.json; `buran model FILE --predict` takes other models"
        raise FormatError("these models have no run time of a program", where=path, hint=hint)
    whole, ends = sets
    if not points:
        raise UsageError("there are no points to predict", hint="give --at P=V,... or a CSV file")
    for point in points:
        check_coordinates(point, whole.parameters)
    try:
        at = np.array([[float(point[name]) for name in whole.parameters] for point in points])
    except (TypeError, ValueError):
        raise UsageError("the values of parameters are numbers", why="some are not") from None
    times = next((models for models in read_models(path.with_name("models.json")) if models.metric == "time"), None)
    if times is not None:
        whole = with_parts(whole, ends, times)
    total, apart = whole.predict(at)[0], ends.predict(at)[0]
    low, high = (bounds[0] for bounds in whole.predict_interval(at, level))
    columns = zip(at.tolist(), total, np.maximum(low, 0.0), high, total - apart, apart, strict=True)
    rows = [[*point, *(float(x) if np.isfinite(x) else None for x in numbers)] for point, *numbers in columns]
    return [*whole.parameters, "predicted", "lower", "upper", "call paths", "start and end"], rows
