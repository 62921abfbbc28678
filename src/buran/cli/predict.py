"""``buran predict``: what a tensor or corrected model says about points."""

from __future__ import annotations

import argparse
import csv
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from buran.cli.arguments import add_loudness, check_level, named_values
from buran.cli.terminal import table
from buran.errors import Exit, FormatError, UsageError, check_coordinates
from buran.files import finite_or_none

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
    from buran.cli.model import holds, is_models_file
    from buran.modeling.tensor import load_model

    check_level(arguments.level)
    points, corrected = given_points(arguments), holds(arguments.model, "buran-corrected/")
    notes: dict[str, str] = {}
    if corrected:
        header, rows = of_corrected(arguments.model, points)
    elif is_models_file(arguments.model):
        header, rows = of_models(arguments.model, points, arguments.level)
        notes = {"metric": "figures of merit"} if header[-1] == "unit" else {"metric": "run time", "unit": "s"}
    else:
        model, notes = load_model(arguments.model)
        header, rows = _of_tensor(model, points, arguments)
    if arguments.json:
        predictions = [dict(zip(header, row, strict=True)) for row in rows]
        print(json.dumps({"notes": notes, "predictions": predictions}, indent=2))
    elif arguments.csv:
        csv.writer(sys.stdout, lineterminator="\n").writerows([header, *rows])
    else:
        unit = notes.get("unit", "")
        intervals = "" if corrected else f", intervals of {100 * arguments.level:g} %"
        print(f"{notes.get('metric', 'time')}{f' in {unit}' if unit else ''}{intervals}")
        print(table(header, [[f"{v:.4g}" if isinstance(v, float) else v for v in row] for row in rows]))
    return int(Exit.DONE)


def _of_tensor(
    model: TensorModel, points: Sequence[Mapping[str, float | str]], arguments: argparse.Namespace
) -> tuple[list[str], list[list[Any]]]:
    import numpy as np

    from buran.modeling.numerics.intervals import of_logarithm
    from buran.modeling.tensor.axes import columns_of

    _check_points(points, model.names)
    values = np.empty((len(points), len(model.names)), dtype=object)
    for i, point in enumerate(points):
        values[i] = [point[name] for name in model.names]
    times, spread = model.predict(columns_of(values), arguments.outside, arguments.unseen)
    error = model.error(columns_of(values), arguments.level, arguments.unseen)
    bounds = of_logarithm(times, error, spread)
    columns = zip(values.tolist(), times, *bounds, strict=True)
    rows = [[*row, *(finite_or_none(number) for number in numbers)] for row, *numbers in columns]
    return [*model.names, "predicted", "lower", "upper"], rows


def of_corrected(path: Path, points: Sequence[Mapping[str, float | str]]) -> tuple[list[str], list[list[Any]]]:
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
    _check_points(points, names)
    try:
        found = model.predict([[float(point[name]) for name in names] for point in points])
    except (TypeError, ValueError):
        raise UsageError("the values of variables are numbers", why="some are not") from None
    columns = (found.value, found.lower, found.upper, found.factor, found.in_domain)
    rows = [
        [*(point[name] for name in names), *map(finite_or_none, numbers), inside]
        for point, *numbers, inside in zip(points, *(column.tolist() for column in columns), strict=True)
    ]
    return [*names, "predicted", "lower", "upper", "correction", "within twice the measured values"], rows


def _check_points(points: Sequence[Mapping[str, float | str]], names: Sequence[str]) -> None:
    """Raise `UsageError` unless there are points, each with these parameters."""
    if not points:
        raise UsageError("there are no points to predict", hint="give --at P=V,... or a CSV file")
    for point in points:
        check_coordinates(point, names)


def given_points(arguments: argparse.Namespace) -> list[dict[str, float | str]]:
    """Return the points that are named with --at, then those of the CSV file."""
    from buran.cli.tables import read_table

    points = [
        {name: _value(value) for name, value in named_values(text, "p=64,solver=cg").items()} for text in arguments.at
    ]
    if arguments.points is not None:
        header, rows = read_table(arguments.points)
        points += [{name: _value(text) for name, text in zip(header, row, strict=True)} for row in rows]
    return points


def _value(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


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
        rows += [[models.metric, *point, *map(finite_or_none, numbers), models.unit] for point, *numbers in columns]
    return ["figure", *everything[0].parameters, "predicted", "lower", "upper", "unit"], rows


def _points_of(sets: Sequence[ModelSet], points: Sequence[Mapping[str, float | str]]) -> NDArray[np.float64]:
    import numpy as np

    from buran.campaign.point import canonical

    whole = sets[0]
    _check_points(points, whole.parameters)
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

    from buran.workflow.program import with_parts

    if times:
        whole = with_parts(whole, startup, times[0])
    total, apart = whole.predict(at)[0], startup.predict(at)[0]
    low, high = (bounds[0] for bounds in whole.predict_interval(at, level))
    columns = zip(at.tolist(), total, np.maximum(low, 0.0), high, total - apart, apart, strict=True)
    rows = [[*point, *map(finite_or_none, numbers)] for point, *numbers in columns]
    return [*whole.parameters, "predicted", "lower", "upper", "call paths", "start-up and shutdown"], rows
