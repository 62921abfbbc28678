"""``buran predict``: what a tensor or corrected model says about points."""

from __future__ import annotations

import argparse
import csv
import json
import math
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from buran.cli.arguments import add_loudness, named_values
from buran.cli.terminal import table
from buran.errors import Exit, FormatError, UsageError, check_coordinates

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from buran.modeling.pmnf.model_set import ModelSet
    from buran.modeling.tensor import TensorModel

HELP = "predict run times with a tensor or corrected model"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "model",
        metavar="MODEL",
        type=Path,
        help="file of `buran model --kind cpr -o` or `buran correct -o`, or a campaign's latest/run-time.json or "
        "latest/figures.json",
    )
    parser.add_argument("points", metavar="CSV", type=Path, nargs="?", help="points; the first row names parameters")
    parser.add_argument("--at", metavar="P=V,...", action="append", default=[], help="a point (repeatable)")
    parser.add_argument("--level", metavar="SHARE", type=float, default=0.9, help="of the intervals (default: 0.9)")
    parser.add_argument(
        "--outside",
        choices=("error", "clamp", "nan"),
        default="error",
        help="points outside the measured range (default: error)",
    )
    parser.add_argument(
        "--unseen",
        choices=("error", "mean"),
        default="error",
        help="categories that were not measured: an error (default) or the mean of all",
    )
    parser.add_argument("--csv", action="store_true", help="write CSV")
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_loudness(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print predictions."""
    from buran.cli.correct import is_corrected
    from buran.cli.correct import predictions as corrected_predictions
    from buran.cli.model import is_models_file
    from buran.modeling.tensor import load_model

    check_level(arguments.level)
    corrected = is_corrected(arguments.model)
    notes: dict[str, str] = {}
    if corrected or is_models_file(arguments.model):
        of_kind = corrected_predictions if corrected else partial(of_models, level=arguments.level)
        header, rows = of_kind(arguments.model, given_points(arguments))
        notes = {} if corrected else {"metric": "run time", "unit": "s"}
        notes = {"metric": "figures of merit"} if header[-1] == "unit" else notes
    else:
        model, notes = load_model(arguments.model)
        header, rows = _predictions(model, arguments)
    if arguments.json:
        print(
            json.dumps({"notes": notes, "predictions": [dict(zip(header, row, strict=True)) for row in rows]}, indent=2)
        )
    elif arguments.csv:
        csv.writer(sys.stdout, lineterminator="\n").writerows([header, *rows])
    else:
        unit = notes.get("unit", "")
        intervals = "" if corrected else f", intervals of {100 * arguments.level:g} %"
        print(f"{notes.get('metric', 'time')}{f' in {unit}' if unit else ''}{intervals}")
        print(table(header, [[f"{v:.4g}" if isinstance(v, float) else v for v in row] for row in rows]))
    return int(Exit.DONE)


def _predictions(model: TensorModel, arguments: argparse.Namespace) -> tuple[list[str], list[list[Any]]]:
    import numpy as np

    from buran.modeling.numerics.intervals import of_logarithm
    from buran.modeling.tensor.axes import columns_of

    points = given_points(arguments)
    if not points:
        raise UsageError("there are no points to predict", hint="give --at P=V,... or a CSV file")
    for point in points:
        check_coordinates(point, model.names)
    values = np.empty((len(points), len(model.names)), dtype=object)
    for i, point in enumerate(points):
        values[i] = [point[name] for name in model.names]
    times, spread = model.predict(columns_of(values), arguments.outside, arguments.unseen)
    error = model.error(columns_of(values), arguments.level, arguments.unseen)
    bounds = of_logarithm(times, error, spread)
    columns = zip(values.tolist(), times, *bounds, strict=True)
    rows = [[*row, *(_finite(number) for number in numbers)] for row, *numbers in columns]
    return [*model.names, "predicted", "lower", "upper"], rows


def check_level(level: float) -> None:
    """Raise `UsageError` where an interval cannot have such a level."""
    if not 0 < level < 1:
        raise UsageError(f"an interval's level lies between 0 and 1, not at {level:g}")


def given_points(arguments: argparse.Namespace) -> list[dict[str, float | str]]:
    """Return the points that are named with --at, then those of the CSV file."""
    points = [_point(text) for text in arguments.at]
    return points if arguments.points is None else [*points, *_read_points(arguments.points)]


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _point(text: str) -> dict[str, float | str]:
    """Read ``p=4096,solver=amg``."""
    return {name: _value(value) for name, value in named_values(text, "p=64,solver=cg").items()}


def _value(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def _read_points(path: Path) -> list[dict[str, float | str]]:
    from buran.cli.tables import read_table

    header, rows = read_table(path)
    return [{name: _value(text) for name, text in zip(header, row, strict=True)} for row in rows]


def of_models(
    path: Path, points: Sequence[Mapping[str, float | str]], level: float = 0.9
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
    from buran.modeling.pmnf.model_set import read_models

    everything = read_models(path)
    sets = [models for models in everything if models.metric == "runtime"]
    if len(sets) == 2:
        other = read_models(path.with_name("models.json"))
        times = [models for models in other if models.metric == "time"][:1]
        return _run_times(sets[0], sets[1], times, _points_of([*sets, *times], points), level)
    if not everything or any(len(models.models) != 1 for models in everything):
        hint = "name latest/run-time.json or latest/figures.json; `buran model FILE --at P=V,...` takes other models"
        raise FormatError("these models are not of a whole program", where=path, hint=hint)
    at = _points_of(everything, points)
    rows: list[list[Any]] = []
    for models in everything:
        bounds = models.predict_interval(at, level)
        columns = zip(at.tolist(), models.predict(at)[0], *(end[0] for end in bounds), strict=True)
        rows += [[models.metric, *point, *map(_finite, numbers), models.unit] for point, *numbers in columns]
    return ["figure", *everything[0].parameters, "predicted", "lower", "upper", "unit"], rows


def _points_of(sets: Sequence[ModelSet], points: Sequence[Mapping[str, float | str]]) -> NDArray[np.float64]:
    import numpy as np

    from buran.campaign.point import canonical

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


def _run_times(
    whole: ModelSet, startup: ModelSet, times: Sequence[ModelSet], at: NDArray[np.float64], level: float
) -> tuple[list[str], list[list[Any]]]:
    import numpy as np

    from buran.workflow.run_time import with_parts

    if times:
        whole = with_parts(whole, startup, times[0])
    total, apart = whole.predict(at)[0], startup.predict(at)[0]
    low, high = (bounds[0] for bounds in whole.predict_interval(at, level))
    columns = zip(at.tolist(), total, np.maximum(low, 0.0), high, total - apart, apart, strict=True)
    rows = [[*point, *map(_finite, numbers)] for point, *numbers in columns]
    return [*whole.parameters, "predicted", "lower", "upper", "call paths", "start-up and shutdown"], rows
