"""The models of one metric, what they say together, and the file that holds them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from buran.extensions import from_extra
from buran.files import JsonObject, read_document, write_json
from buran.modeling.functions.powers import full_space
from buran.modeling.functions.terms import Array, ModelFunction
from buran.modeling.numerics.tuning import STEADY
from buran.modeling.pmnf.alternative import Alternative, Target, prepare
from buran.modeling.pmnf.model import Model, Quality, predict_models, prediction_interval
from buran.modeling.pmnf.text import format_function, growth_class
from buran.modeling.price.discrepancy import Discrepancy, Process
from buran.profiles.metrics import metric_of
from buran.profiles.profile import SEPARATOR
from buran.wording import table_html

SCHEMA = "buran-models/1"
_FIGURES = ("smape", "loo_smape", "error", "adjusted_r2", "rss")


@dataclass(frozen=True)
class ModelSet:
    """Models of one metric for the call paths of an experiment.

    Attributes
    ----------
    parameters
        Names, in the order of the points' columns.
    metric, unit
        What is modelled.
    call_paths
        Full names, as in ``main->solve``.
    models
        One for each call path; None where nothing was measured.
    aggregate, repetition
        How the values were reduced over locations and over repetitions.
    points
        The points the models were made from, one tuple of values each.
    """

    parameters: tuple[str, ...]
    metric: str
    unit: str
    call_paths: tuple[str, ...]
    models: tuple[Model | None, ...]
    aggregate: str
    repetition: str
    points: tuple[tuple[float, ...], ...]

    def __post_init__(self) -> None:
        if len(self.models) != len(self.call_paths):
            raise ValueError(f"{len(self.models)} models for {len(self.call_paths)} call paths")

    def predict(self, points: Array) -> Array:
        """Return shape (call path, point) at `points` (point, parameter); NaN where there is no model."""
        return predict_models(self.models, points)

    def predict_interval(self, points: Array, level: float = 0.9, of: Target = "value") -> tuple[Array, Array]:
        """Return lower and upper ends, each of shape (call path, point); see `prediction_interval`."""
        return prediction_interval(self.models, points, level, of)

    def to_dataframe(self) -> Any:
        """Return a data frame of pandas: a row for each call path with its model, growth and figures of quality.

        Raises
        ------
        ToolError
            pandas is not installed.
        """
        pandas = from_extra("pandas", "frames", "data frames")
        rows = []
        for path, model in zip(self.call_paths, self.models, strict=True):
            row: dict[str, Any] = {"call_path": path, "metric": self.metric, "unit": self.unit}
            if model is not None:
                row["model"] = format_function(model.function, self.parameters)
                row["growth"] = growth_class(model.function, self.parameters)
                row |= {"points": model.quality.points, **{name: getattr(model.quality, name) for name in _FIGURES}}
            rows.append(row)
        columns = ["call_path", "metric", "unit", "model", "growth", "points", *_FIGURES]
        return pandas.DataFrame(rows, columns=columns)

    def _repr_html_(self) -> str:
        rows = [
            (path, format_function(model.function, self.parameters), f"{model.quality.smape:.2f}")
            for path, model in zip(self.call_paths, self.models, strict=True)
            if model is not None
        ]
        return table_html(f"Models of {self.metric} in {self.unit}", ("call path", "model", "SMAPE %"), rows)

    def to_json(self) -> dict[str, Any]:
        """Return plain dictionaries, lists, texts and numbers; NaN as None."""
        prepare([model.alternatives for model in self.models if model is not None])
        processes: _Processes = {}
        call_paths = [
            {"call_path": path, "model": None if model is None else _model_to_json(model, processes)}
            for path, model in zip(self.call_paths, self.models, strict=True)
        ]
        return {
            "parameters": list(self.parameters),
            "metric": self.metric,
            "unit": self.unit,
            "aggregate": self.aggregate,
            "repetition": self.repetition,
            "points": [list(point) for point in self.points],
            "processes": [process.to_json() for _, process in processes.values()],
            "call_paths": call_paths,
        }

    @classmethod
    def from_json(cls, data: JsonObject) -> ModelSet:
        """Read what `to_json` gives.

        Raises
        ------
        KeyError, TypeError, ValueError
            Where a key is missing or a value is not what it should be.
        """
        entries = data["call_paths"]
        parameters = tuple(map(str, data["parameters"]))
        processes = [Process.from_json(process) for process in data.get("processes", ())]
        models = tuple(None if e["model"] is None else _model_from_json(e["model"], processes) for e in entries)
        for model in models:
            for term in () if model is None else model.function.terms:
                columns = [column for factor in term.factors for column in (factor.parameter, *factor.columns)]
                if not all(0 <= column < len(parameters) for column in columns):
                    raise ValueError("a factor of a parameter that does not exist")
        return cls(
            parameters,
            str(data["metric"]),
            str(data["unit"]),
            tuple(str(e["call_path"]) for e in entries),
            models,
            str(data["aggregate"]),
            str(data["repetition"]),
            tuple(tuple(map(float, point)) for point in data["points"]),
        )


def at_the_end(sets: Iterable[ModelSet]) -> list[str]:
    """Return a sentence on models with the steepest term of the full space: a steeper one may be the right one."""
    steepest = max(power for power, _ in full_space().pairs)
    counts: dict[str, Counter[str]] = {}
    for models in sets:
        for model in models.models:
            factors = [f for t in model.function.terms for f in t.factors] if model and model.quality.rss > 0 else []
            for parameter in {factor.parameter for factor in factors if factor.basis.lead[0] == steepest}:
                counts.setdefault(models.parameters[parameter], Counter())[models.metric] += 1
    return [
        f"{name}^{steepest} is the largest power of the full space, and in models of "
        f"{', '.join(f'{metric} ({number})' for metric, number in numbers.items())}: if {name} may matter more, give "
        "steeper terms (--space FILE, or model.space in a campaign file)"
        for name, numbers in counts.items()
    ]


def allowed_times(times: ModelSet, sets: Mapping[str, ModelSet], target: Array) -> Array:
    """Return the largest time at a measured point times the growth of counts from there to the target.

    The counts are basic blocks and bytes, those of callees without times included. Where a call path executes no
    blocks, as in MPI, it waits for others: their work counts too, as it does where the own counts have no good model.
    Counts that fall allow what was measured.

    Parameters
    ----------
    times
        Measured times are those that its models give at its points.
    sets
        Models by metric.
    target
        Shape (parameter,).

    Returns
    -------
    array
        Shape (call path,): in the unit of `times`; infinite where nothing is counted.
    """
    counted = [sets[name] for name in sets if metric_of(name).role == "exact" and metric_of(name).effort]
    points = np.array(times.points, dtype=np.float64).reshape(-1, len(times.parameters))
    rows = np.arange(len(times.call_paths))
    if not counted or not len(points):
        return np.full(len(rows), np.inf)
    measured = np.nan_to_num(times.predict(points))
    there = measured.argmax(axis=1)
    growth, program = np.ones(len(rows)), np.ones(len(points))
    works = np.zeros(len(rows), dtype=bool)
    positions = {name: position for position, name in enumerate(times.call_paths)}
    for counts in counted:
        # counts at the measured points and, last, at the target: by how much the whole program grows
        values = np.nan_to_num(counts.predict(np.vstack([points, target])))
        program = np.maximum(program, _ratio(values.sum(axis=0)[-1], values.sum(axis=0)[:-1]))
        row = np.array([_timed(name, positions) for name in counts.call_paths], dtype=np.int64)
        # the same of each timed call path, with the counts of those below it that have no times; only good models count
        good = [model is not None and model.quality.smape <= 100 * STEADY for model in counts.models]
        own, poor = np.zeros((len(rows), len(points) + 1)), np.zeros(len(rows), dtype=bool)
        np.add.at(own, row[row >= 0], values[row >= 0])
        poor[row[(row >= 0) & ~np.array(good, dtype=bool) & values.any(axis=1)]] = True
        growth = np.where(poor, growth, np.maximum(growth, _ratio(own[:, -1], own[rows, there])))
        if metric_of(counts.metric).effort == "computation":
            works |= own.any(axis=1) & ~poor
    # what does no counted work may grow as the program does
    growth = np.where(works, growth, np.maximum(growth, program[there]))
    allowed: Array = measured.max(axis=1) * growth
    return allowed


def _ratio(after: Array, before: Array) -> Array:
    """Return by how much counts grow; 1 where there was nothing to grow."""
    return np.divide(after, before, out=np.ones(np.broadcast(after, before).shape), where=before > 0)


def _timed(name: str, positions: Mapping[str, int]) -> int:
    """Return the call path with a time that a counted one is part of: itself, or its nearest caller; -1 without one.

    One call path alone is the whole program.
    """
    while name not in positions and SEPARATOR in name:
        name = name.rpartition(SEPARATOR)[0]
    return positions.get(name, 0 if len(positions) == 1 else -1)


def models_to_json(sets: Sequence[ModelSet]) -> dict[str, Any]:
    """Return what a models file holds: its schema and the models of each metric."""
    return {"schema": SCHEMA, "metrics": [models.to_json() for models in sets]}


def write_models(path: Path, sets: Sequence[ModelSet]) -> None:
    """Write a models file, a line for each call path; it appears at once and whole, or not at all."""
    write_json(path, models_to_json(sets), depth=4)


def read_models(path: Path) -> tuple[ModelSet, ...]:
    """Read a models file.

    Raises
    ------
    FormatError
        If it cannot be read, is no models file, of another schema or damaged.
    """
    return read_document(
        path,
        SCHEMA,
        lambda data: tuple(ModelSet.from_json(metric) for metric in data["metrics"]),
        what="file of models",
        hint="write one with: buran model INPUT --json -o FILE",
    )


_Processes = dict[int, tuple[int, Process]]
"""The processes of a file, each written once: by identity its number and itself."""


def _prediction_to_json(model: Model, processes: _Processes) -> dict[str, Any]:
    """Return what predictions need: the function, what it leaves over, and the parts of a sum."""
    left_over = model.discrepancy
    out: dict[str, Any] = {"function": model.function.to_json()}
    if left_over is not None:
        process = left_over.process
        number, _ = processes.setdefault(id(process), (len(processes), process))
        out["discrepancy"] = {"process": number, "logs": left_over.logs.tolist()}
    if model.parts:
        out["parts"] = [_prediction_to_json(part, processes) for part in model.parts]
    return out


def _prediction_from_json(data: JsonObject, processes: Sequence[Process]) -> dict[str, Any]:
    """Read what `_prediction_to_json` gives, as arguments of a model."""
    left_over = None
    if "discrepancy" in data:
        process = processes[int(data["discrepancy"]["process"])]
        left_over = Discrepancy(process, np.array(data["discrepancy"]["logs"], dtype=np.float64))
        if left_over.logs.shape != process.points.shape[:1]:
            raise ValueError("a discrepancy without a value for each of its points")
    nothing = Quality(0, *[math.nan] * len(_FIGURES))
    parts = [Model(quality=nothing, **_prediction_from_json(part, processes)) for part in data.get("parts", ())]
    return {"function": ModelFunction.from_json(data["function"]), "discrepancy": left_over, "parts": tuple(parts)}


def _model_to_json(model: Model, processes: _Processes) -> dict[str, Any]:
    return {
        **_prediction_to_json(model, processes),
        "quality": {name: value if math.isfinite(value) else None for name, value in vars(model.quality).items()},
        "alternatives": [
            {
                "function": alternative.function.to_json(),
                "weight": alternative.weight,
                "covariance": [list(row) for row in alternative.covariance],
                "noise": alternative.noise if math.isfinite(alternative.noise) else None,
                "degrees": alternative.degrees,
            }
            for alternative in model.alternatives
        ],
        **({"signed": True} if model.signed else {}),
    }


def _model_from_json(data: JsonObject, processes: Sequence[Process]) -> Model:
    quality = data["quality"]
    alternatives = tuple(
        Alternative(
            ModelFunction.from_json(alternative["function"]),
            float(alternative["weight"]),
            tuple(tuple(map(float, row)) for row in alternative["covariance"]),
            math.nan if alternative["noise"] is None else float(alternative["noise"]),
            int(alternative["degrees"]),
        )
        for alternative in data.get("alternatives", ())
    )
    figures = [math.nan if quality[name] is None else float(quality[name]) for name in _FIGURES]
    return Model(
        quality=Quality(int(quality["points"]), *figures),
        alternatives=alternatives,
        signed=bool(data.get("signed", False)),
        **_prediction_from_json(data, processes),
    )
