"""``buran predict``: what a tensor or corrected model says about points."""

from __future__ import annotations

import argparse
import csv
import json
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from buran.cli.arguments import add_loudness
from buran.cli.points import named_values
from buran.cli.terminal import table
from buran.errors import Exit, UsageError, check_coordinates

if TYPE_CHECKING:
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
    from buran.cli.predict_corrected import is_corrected
    from buran.cli.predict_corrected import predictions as corrected_predictions
    from buran.cli.predict_sum import is_models, predictions
    from buran.modeling.tensor import load_model

    check_level(arguments.level)
    corrected = is_corrected(arguments.model)
    notes: dict[str, str] = {}
    if corrected or is_models(arguments.model):
        of_kind = corrected_predictions if corrected else partial(predictions, level=arguments.level)
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
    return float(value) if value == value else None


def _point(text: str) -> dict[str, float | str]:
    """Read ``p=4096,solver=amg``."""
    return {name: _value(value) for name, value in named_values(text, "p=64,solver=cg").items()}


def _value(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def _read_points(path: Path) -> list[dict[str, float | str]]:
    from buran.modeling.table import read_table

    header, rows = read_table(path)
    return [{name: _value(text) for name, text in zip(header, row, strict=True)} for row in rows]
