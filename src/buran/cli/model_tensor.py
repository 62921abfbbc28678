"""``buran model --kind cpr``: a tensor model of a table of run times, or of a program's measurements."""

from __future__ import annotations

import argparse
from typing import Any

from buran.errors import Exit, UsageError

_SUFFIXES = (".csv", ".tsv")


def fit_and_write(arguments: argparse.Namespace) -> int:
    """Fit a tensor model, write it, and say what it is worth."""
    from buran.modeling.tensor import CPRegressor
    from buran.modeling.tensor.model import save_model, to_bytes

    if arguments.output is None:
        raise UsageError("a tensor model is written to a file", hint="add -o MODEL.npz")
    if arguments.input is None:
        raise UsageError("there are no measurements", hint="buran model --kind cpr INPUT -o MODEL.npz")
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
    from buran.modeling.values import added
    from buran.profiles.experiment.read import read_experiment

    metrics = arguments.metric or []
    if len(metrics) > 1:
        raise UsageError("a tensor model is of one metric", hint="name it once with --metric")
    if arguments.input.suffix in _SUFFIXES:
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
