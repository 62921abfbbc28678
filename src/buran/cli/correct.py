"""``buran correct``: an analytical model, corrected by measurements."""

from __future__ import annotations

import argparse
import json
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from buran.cli.arguments import add_loudness
from buran.cli.terminal import ProgressLine, is_quiet, table
from buran.errors import Exit, UsageError

if TYPE_CHECKING:
    import numpy as np

    from buran.modeling.correction import BaseModel, Corrected

HELP = "correct an analytical model by measurements"
_FORMATS = ("text", "latex", "json")
_CASES: dict[str, Literal["terms", 1, 2, 3, 4]] = {"terms": "terms", "1": 1, "2": 2, "3": 3, "4": 4}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "model", metavar="MODEL", help="base model: a YAML file, the name of a bundled one, or a models file"
    )
    parser.add_argument(
        "data", metavar="DATA", type=Path, help="measurements: CSV, or any format `buran convert` reads"
    )
    parser.add_argument(
        "--case",
        choices=_CASES,
        help="terms: only a formula (default: the best of terms, a Gaussian process and their average); 1 to 4: those "
        "of the published procedure (default: 4)",
    )
    parser.add_argument(
        "--preset",
        metavar="robust|published",
        default="robust",
        help="published: the paper's procedure (MECP, genetic programming and a genetic algorithm)",
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of random numbers (default 0)")
    parser.add_argument("--trials", type=int, help="of the published procedure (default 30)")
    parser.add_argument("--value", metavar="COLUMN", help="column of the times in a CSV file")
    parser.add_argument("--metric", metavar="M", default="time", help="metric (default: time)")
    parser.add_argument("--call-path", metavar="PATH", help="call path (default: the whole program)")
    parser.add_argument("--format", choices=_FORMATS, default="text", help="of the output (default: text)")
    parser.add_argument("-o", "--output", metavar="FILE", type=Path, help="write the corrected model as JSON")
    parser.add_argument("--json", action="store_true", help="same as --format json")
    add_loudness(parser)


def run(arguments: argparse.Namespace) -> int:
    """Correct the model, print it, write it."""
    from buran.modeling.correction import correct, write_corrected
    from buran.modeling.correction.mecp.trials import TRIALS

    published = arguments.preset == "published"
    if arguments.trials is not None and not published:
        raise UsageError("--trials is of the preset published", hint="leave it out, or add --preset published")
    trials = TRIALS if arguments.trials is None else arguments.trials
    if arguments.seed < 0:
        raise UsageError("a seed is 0 or more", why=f"it is {arguments.seed}")
    style: Literal["text", "latex", "json"] = "json" if arguments.json else arguments.format
    base = _base_model(arguments)
    points, values = _measurements(arguments, base)
    line = ProgressLine(sys.stderr)
    try:
        corrected = correct(
            base,
            points,
            values,
            preset=arguments.preset,
            case=_CASES.get(arguments.case),
            seed=arguments.seed,
            trials=trials,
            progress=lambda done: line.show(f"trial {done} of {trials}"),
        )
    finally:
        line.close()
    if arguments.output is not None:
        write_corrected(arguments.output, corrected)
    if style == "json":
        print(json.dumps(corrected.to_json(), indent=2, allow_nan=False))
    elif style == "text":
        print(_text(corrected))
    else:
        from buran.modeling.correction.corrected import render

        print(render(corrected, style))
    return int(Exit.DONE)


def _base_model(arguments: argparse.Namespace) -> BaseModel:
    """Read a base model, or make one of a model in normal form."""
    from buran.cli.model import is_models_file, read_model_sets
    from buran.modeling.correction import load_base

    if not is_models_file(Path(arguments.model)):
        return load_base(arguments.model)
    from buran.modeling.correction.base import base_of_function
    from buran.modeling.experiments import row_of

    models = read_model_sets(Path(arguments.model), [arguments.metric])[arguments.metric]
    if arguments.call_path is None and len(models.call_paths) != 1:
        hint = "name one with --call-path; `buran model --over program` adds them up"
        raise UsageError("a base model is one model", where=arguments.model, why="there are several", hint=hint)
    position = 0 if arguments.call_path is None else row_of(models.call_paths, arguments.call_path)
    model = models.models[position]
    if model is None:
        raise UsageError("there is no model of this call path", where=models.call_paths[position])
    return base_of_function(model.function, models.parameters, models.call_paths[position], models.unit or "s")


def _measurements(arguments: argparse.Namespace, base: BaseModel) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Return columns by name and times."""
    from buran.cli.tables import read_times

    if arguments.data.suffix.lower() == ".csv":
        return read_times(arguments.data, list(base.variables), arguments.value)
    from buran.modeling.experiments import one_call_path
    from buran.profiles.experiment.read import read_experiment

    if arguments.value is not None:
        raise UsageError("--value names a column of a CSV file", hint="use --metric and --call-path here")
    experiment = read_experiment(arguments.data)
    values = one_call_path(experiment, arguments.metric, arguments.call_path)
    return dict(zip(experiment.parameters, experiment.points.T, strict=True)), values


def _text(corrected: Corrected) -> str:
    """Return the report for people."""
    from buran.modeling.correction.corrected import render

    report = corrected.report
    head = "not corrected" if report.refused else f"corrected by {corrected.method}"
    lines = [f"{corrected.base.name}: {head}", f"  {report.reason}", "", render(corrected), ""]
    lines += [f"  {name} = {value:.4g}" for name, value in zip(corrected.base.parameters, corrected.theta, strict=True)]
    if corrected.terms is not None:
        pairs = zip(corrected.base.parameters, corrected.terms.best.theta, strict=True)
        lines.append("  with the terms: " + ", ".join(f"{name} = {value:.4g}" for name, value in pairs))
    lines += [f"  {threshold}" for threshold in report.thresholds]
    if report.errors:
        rows = [
            (name, f"{100 * error:.3g}", f"{100 * report.forward[name]:.3g}") for name, error in report.errors.items()
        ]
        lines += ["", table(("candidate", "error % left out", "largest runs"), rows, right=(1, 2))]
    if report.trials:
        trials = [
            (i, len(each.program), *map(_number, (each.train_rmse, each.test_rmse, each.test_mlogq)), each.invalid)
            for i, each in enumerate(report.trials)
        ]
        header = ("trial", "size", "train RMSE", "test RMSE", "test MLogQ", "invalid")
        lines += ["", table(header, trials, right=range(6))]
    lines += ["", *(f"note: {note}" for note in report.notes)] if report.notes and not is_quiet() else []
    return "\n".join(lines)


def _number(value: float) -> str:
    return f"{value:.4g}" if math.isfinite(value) else "none"
