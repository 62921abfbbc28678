"""Results of Ramble's experiments, as Benchpark runs them: figures of merit of whole programs."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np

from buran.errors import BuranError, FormatError
from buran.files import JsonObject
from buran.plugins.formats.run_metadata import parameters_of
from buran.profiles.experiment.collect import Collector
from buran.profiles.experiment.formats import Reader, Sample
from buran.profiles.experiment.table import Experiment

_KEYS = ("experiments", "workspace_hash", "workspace_name")
"""What the file begins with."""
_NUMBERING = re.compile(r"repeat_index|experiment_index|n_repeats|.*(seed|port|hash|timestamp)")
"""Variables that Ramble counts experiments with, and those that name no size."""
_SECONDS = {"s": 1.0, "sec": 1.0, "seconds": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}


def recognises(sample: Sample) -> bool:
    """Tell whether a file is ``results.latest.json``."""
    return sample.first_key in _KEYS


def read_ramble(path: Path, problems: list[BuranError] | None = None) -> Experiment:
    """Read experiments that succeeded; parameters are their variables with whole numbers that differ.

    A figure of merit is a metric of the whole program, named ``context_figure`` where it has a context; those in
    units of time become seconds. Repeats are repetitions, and Ramble's summaries of them are left out.

    Raises
    ------
    FormatError
        It is no such file, no experiment succeeded, a figure is no number, has other units in another experiment, or is
        there twice.
    """
    try:
        experiments = json.loads(path.read_bytes())["experiments"]
        done = [each for each in experiments if not int(each.get("N_REPEATS") or 0)]
        succeeded = [each for each in done if each["RAMBLE_STATUS"] == "SUCCESS"]
        variables = [_variables(each) for each in succeeded]
        figures = [_figures(each, path) for each in succeeded]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        why = f"{type(error).__name__}: {error}"
        hint = "make it again: ramble workspace analyze --formats json"
        raise FormatError("the results of Ramble cannot be read", where=path, why=why, hint=hint) from error
    if not succeeded:
        raise FormatError("no experiment of Ramble succeeded", where=path, why=f"it has {len(done)} experiments")
    for each in done:
        if each not in succeeded and problems is not None:
            problems.append(FormatError("an experiment failed", where=f"{path}, {each['name']}"))
    names = parameters_of(variables, [path] * len(variables))
    table = Collector(tuple(names))
    program = table.call_path("program")
    units: dict[str, str] = {}
    for variable, values in zip(variables, figures, strict=True):
        point = table.point([float(variable[name]) for name in names])
        for metric, (value, unit) in values.items():
            if units.setdefault(metric, unit) != unit:
                why = f"{units[metric]!r} and {unit!r}"
                raise FormatError(f"experiments have {metric} in different units", where=path, why=why)
            table.set_unit(metric, unit)
            table.add_value(program, metric, point, value)
    return table.finish(path)


def _variables(experiment: JsonObject) -> dict[str, str]:
    """Return the variables; sizes that the experiment sets come before those of its ranks and nodes."""
    written = {name: str(value) for name, value in experiment["RAMBLE_VARIABLES"].items()}
    counted = {name: str(experiment[name]) for name in ("n_ranks", "n_threads", "n_nodes") if name in experiment}
    both = {**written, **counted}
    names = sorted((name for name in both if not _NUMBERING.fullmatch(name)), key=lambda name: name in counted)
    return {name: both[name] for name in names}


def _figures(experiment: JsonObject, path: Path) -> dict[str, tuple[float, str]]:
    """Return value and unit of each figure that is a number."""
    figures: dict[str, tuple[float, str]] = {}
    for context in experiment["CONTEXTS"]:
        above = "" if context["name"] in ("null", "") else f"{context['name']} "
        for figure in context["foms"]:
            try:
                value, unit = float(figure["value"]), str(figure.get("units") or "")
            except ValueError:
                continue  # versions, names of machines
            name = re.sub(r"\W+", "_", f"{above}{figure['name']}").strip("_")
            where = f"{path}, {experiment['name']}"
            if not np.isfinite(value):
                raise FormatError(f"the figure of merit {name} is no number", where=where, why=f"it is {value}")
            if name in figures:
                raise FormatError(f"the figure of merit {name} is there twice", where=where)
            scale = _SECONDS.get(unit)
            figures[name] = (value, unit) if scale is None else (value * scale, "sec")
    return figures


READER = Reader("results.latest.json of Ramble", recognises, read_ramble)
