"""``buran model``: models of measurements."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from buran.cli.arguments import add_aggregate, add_loudness, check_level, named_numbers
from buran.cli.terminal import ProgressLine, note, table
from buran.errors import Exit, UsageError, check_coordinates
from buran.files import finite_or_none, indented, write_text

if TYPE_CHECKING:
    from buran.modeling.pmnf import ModelSet

HELP = "fit performance models to measurements, and show them"
_LONGEST = 64  # characters of a name in a table
_REPETITIONS = ("median", "mean", "min", "max")
_OVER = ("exclusive", "inclusive", "region", "program")
_CRITERIA = ("error", "smape")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "input",
        metavar="INPUT",
        type=Path,
        help="measurements in any format `buran convert` reads, or a models file",
    )
    parser.add_argument("--metric", metavar="M", action="append", help="metric to model (repeatable; default: all)")
    add_aggregate(parser)
    parser.add_argument(
        "--repetition", choices=_REPETITIONS, default="median", help="over repetitions (default: median)"
    )
    parser.add_argument(
        "--over",
        choices=_OVER,
        default="exclusive",
        help="sum models over nothing, subtrees, the call paths of a region, or all call paths",
    )
    parser.add_argument(
        "--space",
        metavar="FILE",
        type=Path,
        help="exponents to try; lines of FILE have a power and powers of its logarithm, such as `1/2 0 1`",
    )
    parser.add_argument(
        "--criterion",
        choices=_CRITERIA,
        default="error",
        help="how hypotheses compete: error at omitted points plus a cost of complexity (default), or SMAPE there",
    )
    parser.add_argument(
        "--terms-per-parameter",
        metavar="N",
        type=int,
        help="most factors of one parameter in a model (default: any number)",
    )
    parser.add_argument("--at", metavar="P=V,...", help="predict there, with intervals; sort call paths by share")
    parser.add_argument("--level", metavar="SHARE", type=float, default=0.9, help="of the intervals (default: 0.9)")
    parser.add_argument(
        "--kind",
        choices=("pmnf", "cpr"),
        default="pmnf",
        help="cpr: a tensor model of the whole program, for many or categorical parameters, also from CSV",
    )
    parser.add_argument(
        "--preset",
        metavar="default|published",
        help="with cpr: published is the method of the CPR paper",
    )
    parser.add_argument("--scale", metavar="P=SCALE,...", help="with cpr: log, linear or categorical")
    parser.add_argument("--extrapolate", metavar="P,...", help="with cpr: parameters that may leave the measured range")
    parser.add_argument("-o", "--output", metavar="FILE", type=Path, help="write there instead of printing")
    parser.add_argument("--json", action="store_true", help="write a models file")
    add_loudness(parser)


def run(arguments: argparse.Namespace) -> int:
    """Fit or read models and write them."""
    if arguments.kind == "cpr":
        return _fit_tensor(arguments)
    for option in ("preset", "scale", "extrapolate"):
        if getattr(arguments, option) is not None:
            raise UsageError(f"--{option} is of tensor models", hint="leave it out, or add --kind cpr")
    check_level(arguments.level)
    sets = _models(arguments, arguments.input)
    at = _point(arguments.at, sets) if arguments.at else None
    text = (as_json if arguments.json else as_text)(sets, at, arguments.level)
    if arguments.output is None:
        print(text)
    else:
        write_text(arguments.output, text + "\n")
    return int(Exit.DONE)


def _models(arguments: argparse.Namespace, path: Path) -> dict[str, ModelSet]:
    """Fit models to measurements, or read them."""
    if not is_models_file(path):
        return _fit(arguments, path)
    if arguments.over != "exclusive":
        raise UsageError(
            "models that are fitted already cannot be added up", where=path, hint="give the measurements instead"
        )
    return read_model_sets(path, arguments.metric)


def read_model_sets(path: Path, metrics: Sequence[str] | None = None) -> dict[str, ModelSet]:
    """Read the models of metrics, by default of all.

    Raises
    ------
    UsageError
        There are none of a metric.
    """
    from buran.modeling.pmnf import read_models

    sets = {models.metric: models for models in read_models(path)}
    for name in metrics or ():
        if name not in sets:
            raise UsageError(
                f"the models file has no metric {name!r}",
                where=path,
                hint=f"choose from {', '.join(sets) or 'none: it has no metrics'}",
            )
    return {name: sets[name] for name in metrics or sets}


def _fit(arguments: argparse.Namespace, path: Path) -> dict[str, ModelSet]:
    from buran.modeling.experiments import model_experiment
    from buran.modeling.functions.powers import read_space
    from buran.modeling.pmnf import SearchOptions
    from buran.modeling.pmnf.structures import undecided
    from buran.profiles.experiment.read import read_experiment

    options = SearchOptions(terms_per_parameter=arguments.terms_per_parameter, criterion=arguments.criterion)
    experiment = read_experiment(path)
    unknown = undecided(experiment.points, experiment.parameters)
    for text in filter(None, (unknown, *experiment.notes)):
        note(text)
    metrics = arguments.metric or list(experiment.metrics)
    line = ProgressLine(sys.stderr)
    total, done = len(metrics) * len(experiment.tree), 0

    def progress(count: int) -> None:
        nonlocal done
        done += count
        line.show(f"modelled {done} of {total}")

    try:
        return model_experiment(
            experiment,
            arguments.metric,
            arguments.aggregate,
            arguments.repetition,
            None if arguments.space is None else read_space(arguments.space),
            over=arguments.over,
            options=options,
            progress=progress,
        )
    finally:
        line.close()


def _point(text: str, sets: Mapping[str, ModelSet]) -> dict[str, float]:
    """Read ``p=4096,n=48000``."""
    known = {value for models in sets.values() for point in models.points for value in point}
    out = named_numbers(text, "p=4096,n=48000", known=known)
    for models in sets.values():
        check_coordinates(out, models.parameters, "--at")
    return out


def holds(path: Path, schema: str) -> bool:
    """Tell from its first bytes whether a file names a schema, or any version of a kind."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return f'"{schema}'.encode() in file.read(200)


def is_models_file(path: Path) -> bool:
    """Tell whether a file holds models."""
    from buran.modeling.pmnf.model_set import SCHEMA

    return holds(path, SCHEMA)


def as_text(sets: Mapping[str, ModelSet], at: Mapping[str, float] | None = None, level: float = 0.9) -> str:
    """Return one table for each metric, the call path with the largest value at the point first.

    Without a point, the measured one with the largest total counts.
    """
    from buran.modeling.pmnf import format_function
    from buran.modeling.pmnf.model_set import at_the_end
    from buran.reporting.tables import brief
    from buran.wording import distinct, shown_value

    blocks = []
    for models in sets.values():
        order, shares = _by_share(models, at)
        paths = [models.call_paths[i] for i in order]
        short = [path if len(path) <= _LONGEST else brief(path, _LONGEST) for path in paths]
        names = dict(zip(order, distinct(short, paths, _LONGEST), strict=True))
        predictions = _predictions(models, at, level) if at else []
        rows = []
        for i in order:
            model = models.models[i]
            last = [f"{value:.4g}" for value in predictions[i]] if predictions else []
            if model is None:
                rows.append((names[i], "no value", "", *([""] * len(last)), ""))
                continue
            function = format_function(model.function, models.parameters)
            share = f"{100 * shares[i]:.1f} %"
            rows.append((names[i], function, f"{model.quality.smape:.2f}", *last, share))
        unit = f" in {models.unit}" if models.unit else ""
        title = f"{models.metric}{unit} ({models.aggregate} over ranks, {models.repetition} of repetitions)"
        extra = (("prediction", f"{100 * level:g} % from", "to") if at else ()) if order else ()
        header = ("call path", "model", "SMAPE %", *extra, "share")
        if at:
            title += " at " + ", ".join(f"{name} = {shown_value(value)}" for name, value in at.items())
        blocks.append(title + "\n" + table(header, rows, right=tuple(range(2, len(header)))))
        blocks += [f"note: {sentence}" for sentence in at_the_end([models])]
    return "\n\n".join(blocks)


def _predictions(models: ModelSet, at: Mapping[str, float], level: float) -> list[tuple[float, float, float]]:
    """Return prediction and interval of each call path."""
    import numpy as np

    point = np.array([[at[name] for name in models.parameters]])
    columns = (models.predict(point), *models.predict_interval(point, level))
    return list(zip(*(column[:, 0].tolist() for column in columns), strict=True))


def _by_share(models: ModelSet, at: Mapping[str, float] | None = None) -> tuple[list[int], list[float]]:
    """Order call paths by their predicted share at a point; the measured point with the largest total by default."""
    import numpy as np

    if not models.call_paths or (at is None and not models.points):
        return [], []
    if at is not None:
        values = models.predict(np.array([[at[name] for name in models.parameters]]))[:, 0]
    else:
        everywhere = models.predict(np.array(models.points))
        values = everywhere[:, int(np.argmax(np.maximum(np.nan_to_num(everywhere), 0.0).sum(axis=0)))]
    values = np.maximum(np.nan_to_num(values), 0.0)
    return np.argsort(-values, kind="stable").tolist(), (values / (values.sum() or 1.0)).tolist()


def as_json(sets: Mapping[str, ModelSet], at: Mapping[str, float] | None = None, level: float = 0.9) -> str:
    """Return a models file; with a point, it holds the predictions as well."""
    from buran.modeling.pmnf.model_set import models_to_json

    data = models_to_json(tuple(sets.values()))
    if at is not None:
        predictions = {}
        for models in sets.values():
            order, shares = _by_share(models, at)
            values = _predictions(models, at, level)
            predictions[models.metric] = [
                {
                    "call_path": models.call_paths[i],
                    **dict(zip(("value", "lower", "upper"), map(finite_or_none, values[i]), strict=True)),
                    "share": shares[i],
                }
                for i in order
            ]
        data["predictions"] = {"at": dict(at), "level": level, "metrics": predictions}
    return indented(data, 4)


def _fit_tensor(arguments: argparse.Namespace) -> int:
    """Fit a tensor model, write it, and say what it is worth."""
    from buran.modeling.tensor import CPRegressor
    from buran.modeling.tensor.model import save_model, to_bytes

    if arguments.output is None:
        raise UsageError("a tensor model is written to a file", hint="add -o MODEL.npz")
    names, X, y, metric, unit = _observations(arguments)
    scale = None
    if arguments.scale:
        scales = dict(part.partition("=")[::2] for part in arguments.scale.split(","))
        for name in scales:
            if name not in names:
                raise UsageError(f"--scale: there is no parameter {name!r}", hint=f"choose from {', '.join(names)}")
        scale = [scales.get(name, "auto") for name in names]
    free = arguments.extrapolate.split(",") if arguments.extrapolate else []
    model = CPRegressor(arguments.preset or "default", scale=scale, names=names, extrapolate=free, random_state=0).fit(
        X, y
    )
    save_model(arguments.output, model.model_, {"metric": metric, "unit": unit})
    error = model.model_.error_quantile(0.5)
    print(f"{len(y)} observations of {metric} over {', '.join(names)}")
    print("scales: " + ", ".join(f"{axis.name} {axis.scale}" for axis in model.model_.axes))
    if error == error:
        print(f"half of the observations that were left out are predicted within a factor of {2.718281828**error:.3f}")
    else:
        print("how wrong it may be is not known: too few observations to leave some out")
    if model.model_.growth is not None:
        print(f"beyond the measured range: {model.model_.growth.reason}")
        if not len(model.model_.growth.errors):
            print("how wrong that may be is not known: too few observations to predict the largest from smaller ones")
    print(f"written to {arguments.output}, {len(to_bytes(model.model_)) / 1000:.1f} kB")
    return int(Exit.DONE)


def _observations(arguments: argparse.Namespace) -> tuple[list[str], Any, Any, str, str]:
    """Return parameters, points, times, the metric and its unit."""
    import numpy as np

    from buran.cli.tables import read_table
    from buran.modeling.experiments import added
    from buran.profiles.experiment.read import read_experiment

    metrics = arguments.metric or []
    if len(metrics) > 1:
        raise UsageError("a tensor model is of one metric", hint="name it once with --metric")
    if arguments.input.suffix in (".csv", ".tsv"):
        header, rows = read_table(arguments.input)
        metric = metrics[0] if metrics else header[-1]
        if metric not in header:
            raise UsageError(f"the table has no column {metric!r}", hint=f"choose from {', '.join(header)}")
        position = header.index(metric)
        names = [name for name in header if name != metric]
        X = np.array([[text for j, text in enumerate(row) if j != position] for row in rows], dtype=object)
        try:
            y = np.array([float(row[position]) for row in rows])
        except ValueError as error:
            raise UsageError("a time is no number", where=arguments.input, why=str(error)) from error
        return names, X, y, metric, ""
    experiment = read_experiment(arguments.input)
    metric = metrics[0] if metrics else experiment.metrics[0]
    if metric not in experiment.values:
        raise UsageError(
            f"the measurements have no metric {metric!r}", hint=f"choose from {', '.join(experiment.metrics)}"
        )
    program = added(experiment.over_locations(metric, arguments.aggregate))  # (point, repetition)
    point, repetition = np.nonzero(np.isfinite(program))
    X = experiment.points[point]
    return list(experiment.parameters), X, program[point, repetition], metric, experiment.units.get(metric, "")
