"""Models by Extra-P itself, which lives in a Python of its own."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from buran.errors import ToolError
from buran.modeling.functions.powers import PowerLog
from buran.modeling.functions.terms import Factor, ModelFunction, Term
from buran.modeling.pmnf import ModelSet
from buran.profiles.experiment.collect import export_names
from buran.profiles.experiment.extrap_files import write_extrap_json
from buran.profiles.experiment.table import Experiment

Array = NDArray[np.float64]
_DENOMINATOR = 60  # of exponents, which Extra-P has as fractions
VARIABLE = "BURAN_EXTRAP_PYTHON"
"""Names a Python with Extra-P in the environment."""
_SCRIPT = """
import json, sys, warnings
warnings.simplefilter("ignore")
from extrap.fileio.file_reader.json_file_reader import JsonFileReader
from extrap.modelers.model_generator import ModelGenerator
experiment = JsonFileReader().read_experiment(sys.argv[1])
ModelGenerator(experiment, use_median=True).model_all()
target = json.loads(sys.argv[2])
at = tuple(target[parameter.name] for parameter in experiment.parameters)
found = {
    path.name: float(model.hypothesis.function.evaluate(at))
    for (path, _), model in experiment.modelers[0].models.items()
}
print("RESULT" + json.dumps(found))
"""


_MANY = r"""
import json, sys, time, warnings
warnings.simplefilter("ignore")
import numpy as np
import extrap
from extrap.entities.callpath import Callpath
from extrap.entities.coordinate import Coordinate
from extrap.entities.experiment import Experiment
from extrap.entities.measurement import Measurement
from extrap.entities.metric import Metric
from extrap.entities.parameter import Parameter
from extrap.modelers.model_generator import ModelGenerator
from extrap.util.progress_bar import DUMMY_PROGRESS

def lead(function, parameter):
    best = 0.0
    for term in getattr(function, "compound_terms", []):
        pairs = getattr(term, "parameter_term_pairs", None)
        if pairs is not None:
            own = [t for k, single in pairs if k == parameter for t in single.simple_terms]
        else:
            own = term.simple_terms
        best = max([best] + [float(t.exponent) for t in own if t.term_type == "polynomial"])
    return best

def written(function):
    terms = []
    for term in getattr(function, "compound_terms", []):
        coefficient, factors = float(term.coefficient), []
        pairs = getattr(term, "parameter_term_pairs", None)
        for k, single in pairs if pairs is not None else [(0, term)]:
            coefficient *= float(single.coefficient) if pairs is not None else 1.0
            powers = {"polynomial": 0.0, "logarithm": 0.0}
            for simple in single.simple_terms:
                powers[simple.term_type] += float(simple.exponent)
            factors.append([k, powers["polynomial"], int(powers["logarithm"])])
        terms.append([coefficient, factors])
    return {"constant": float(function.constant_coefficient), "terms": terms}

def answer(task):
    metric = Metric("time")
    experiment = Experiment()
    for k in range(len(task["points"][0])):
        experiment.add_parameter(Parameter("abcd"[k]))
    experiment.add_metric(metric)
    coordinates = [Coordinate(*point) for point in task["points"]]
    for coordinate in coordinates:
        experiment.add_coordinate(coordinate)
    paths = [Callpath("f%d" % k) for k in range(len(task["values"]))]
    for path, row in zip(paths, task["values"]):
        experiment.add_callpath(path)
        for coordinate, value in zip(coordinates, row):
            experiment.add_measurement(Measurement(coordinate, path, metric, np.array([x for x in value if x == x])))
    generator = ModelGenerator(experiment)
    begin = time.process_time()
    generator.model_all(DUMMY_PROGRESS)
    cpu_s = time.process_time() - begin
    at = task["at"] if len(task["at"]) > 1 else task["at"][0]
    functions = [generator.models[(path, metric)].hypothesis.function for path in paths]
    return {
        "cpu_s": cpu_s,
        "predicted": [float(function.evaluate(at)) for function in functions],
        "leads": [[lead(function, k) for k in range(len(task["at"]))] for function in functions],
        "functions": [written(function) for function in functions],
    }

answers = [answer(task) for task in json.load(sys.stdin)]
print("RESULT" + json.dumps({"version": extrap.__version__, "answers": answers}))
"""
"""Runs in Extra-P's environment: reads points, values and where to predict; returns time, predictions and exponents."""


@dataclass(frozen=True, eq=False)
class Task:
    """Measurements that Extra-P makes models of.

    Attributes
    ----------
    points
        Shape (point, parameter).
    values
        Shape (call path, point, repetition); NaN where there is none.
    at
        Shape (parameter,): where the models predict.
    """

    points: Array
    values: Array
    at: Array


@dataclass(frozen=True, eq=False)
class Answer:
    """What Extra-P's models say.

    Attributes
    ----------
    cpu_s
        CPU time of modelling alone.
    predicted
        Shape (call path,).
    leads
        Shape (call path, parameter): the largest power of each parameter.
    functions
        Of each call path.
    """

    cpu_s: float
    predicted: Array
    leads: Array
    functions: tuple[ModelFunction, ...]


def answers_of_extrap(python: str, tasks: Sequence[Task]) -> list[Answer]:
    """Return what Extra-P's default modeller makes of means of repetitions, one answer for each task.

    Parameters
    ----------
    python
        See `extrap_python`.

    Raises
    ------
    ToolError
        That Python has no Extra-P, or Extra-P fails.
    """
    given = [{"points": t.points.tolist(), "values": t.values.tolist(), "at": t.at.tolist()} for t in tasks]
    out = _run(python, ["-c", _MANY], json.dumps(given))
    return [
        Answer(
            float(each["cpu_s"]),
            np.array(each["predicted"]),
            np.array(each["leads"]),
            tuple(map(_function, each["functions"])),
        )
        for each in out["answers"]
    ]


def _function(written: Mapping[str, Any]) -> ModelFunction:
    """Read a function as the script writes it."""
    terms = [
        Term(
            tuple(
                Factor(k, PowerLog(Fraction(power).limit_denominator(_DENOMINATOR), log)) for k, power, log in factors
            )
        )
        for _, factors in written["terms"]
    ]
    return ModelFunction(written["constant"], tuple(coefficient for coefficient, _ in written["terms"]), tuple(terms))


def times_by_extrap(python: str, experiment: Experiment, models: ModelSet) -> ModelSet:
    """Return models of times with Extra-P's functions, where a call path has a time at each point.

    Parameters
    ----------
    python
        See `extrap_python`.
    models
        Buran's own of the same times; they stay where a call path lacks a point.

    Raises
    ------
    ToolError
        That Python has no Extra-P, or Extra-P fails.
    """
    values = experiment.over_locations("time")
    runs = np.isfinite(values).sum(axis=2)  # call path, point
    rows = np.flatnonzero(runs.min(axis=1) > 0)
    if not len(rows):
        return models
    (answer,) = answers_of_extrap(python, [Task(experiment.points, values[rows], experiment.points[-1])])
    found = list(models.models)
    for row, function in zip(rows.tolist(), answer.functions, strict=True):
        own = found[row]
        found[row] = None if own is None else replace(own, function=function, alternatives=(), discrepancy=None)
    return replace(models, models=tuple(found))


def name_of_modeller() -> str:
    """Return what makes the models of published protocols: Extra-P with its version, or Buran's hypotheses."""
    python = extrap_python()
    if python is None:
        return f"Buran's ({VARIABLE} names no Python with Extra-P)"
    return f"Extra-P {_run(python, ['-c', _MANY], '[]')['version']}"


def extrap_python() -> str | None:
    """Return the Python that has Extra-P; None where none is named."""
    return os.environ.get(VARIABLE) or None


def predictions_by_extrap(
    python: str, table: Experiment, target: Mapping[str, float], folder: Path
) -> dict[str, float]:
    """Return what Extra-P's own models, of medians of repetitions, predict at a point, by call path.

    Parameters
    ----------
    python
        See `extrap_python`.
    table
        Exclusive values of one metric; of locations their mean is modelled.
    folder
        For the files between the two programs.

    Raises
    ------
    ToolError
        That Python has no Extra-P, or Extra-P fails.
    """
    path, script = folder / "extrap.json", folder / "extrap_models.py"
    write_extrap_json(table, path)
    script.write_text(_SCRIPT)
    found: dict[str, float] = _run(python, [str(script), str(path), json.dumps(dict(target))])
    names = dict(zip(export_names(table.tree), table.tree.names, strict=True))
    return {names[path]: value for path, value in found.items()}


def _run(python: str, arguments: Sequence[str], given: str = "") -> Any:
    """Run a script of ours in Extra-P's Python and return what it printed as JSON."""
    clean = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    try:
        done = subprocess.run([python, *arguments], input=given, capture_output=True, text=True, env=clean)
    except OSError as error:
        raise _lacks(python, str(error)) from None
    if done.returncode or "RESULT" not in done.stdout:
        raise _lacks(python, done.stderr.strip().rpartition("\n")[2])
    return json.loads(done.stdout.rpartition("RESULT")[2])


def _lacks(python: str, why: str) -> ToolError:
    hint = f"name a Python with Extra-P 4.2 in {VARIABLE}, or none, to model the manual way with Buran's hypotheses"
    return ToolError("Extra-P makes no models", where=f"{VARIABLE}={python}", why=why, hint=hint)
