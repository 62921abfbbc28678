"""Predictions of corrected models, for ``buran predict``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from buran.errors import UsageError, check_coordinates


def is_corrected(path: Path) -> bool:
    """Tell from its first bytes whether a file is a corrected model of any version."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return b'"buran-corrected/' in file.read(200)


def predictions(path: Path, points: Sequence[Mapping[str, float | str]]) -> tuple[list[str], list[list[Any]]]:
    """Return header and rows: variables, prediction, the correction's factor, and whether it is trusted there.

    Parameters
    ----------
    path
        A file that `buran correct -o` wrote.
    points
        Values by the variables' names.

    Raises
    ------
    FormatError, UsageError
        For a damaged file, no points, missing variables and values that are no positive numbers.
    """
    from buran.modeling.correction import load_corrected

    model = load_corrected(path)
    names = list(model.base.variables)
    if not points:
        raise UsageError("there are no points to predict", hint="give --at P=V,... or a CSV file")
    for point in points:
        check_coordinates(point, names)
    try:
        prediction = model.predict([[float(point[name]) for name in names] for point in points])
    except (TypeError, ValueError):
        raise UsageError("the values of variables are numbers", why="some are not") from None
    rows = [
        [
            *(point[name] for name in names),
            *(None if number != number else number for number in (value, lower, upper, factor)),
            inside,
        ]
        for point, value, lower, upper, factor, inside in zip(
            points,
            prediction.value.tolist(),
            prediction.lower.tolist(),
            prediction.upper.tolist(),
            prediction.factor.tolist(),
            prediction.in_domain.tolist(),
            strict=True,
        )
    ]
    return [*names, "predicted", "lower", "upper", "correction", "within twice the measured values"], rows
