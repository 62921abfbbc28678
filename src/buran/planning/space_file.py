"""Search spaces outside of campaigns: a YAML file, or the values that were measured."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import Field, ValidationError

from buran.campaign.expressions import Expression, ExpressionError, compile_expression
from buran.campaign.identity import Keys
from buran.campaign.mistakes import CampaignError, Mistake, TextError, did_you_mean
from buran.campaign.sections import Range
from buran.campaign.space import MOST_POINTS, Constraint, product, satisfying
from buran.campaign.strategies import MOST_REPETITIONS
from buran.campaign.values import Formula, Number, PointMapping, Text
from buran.campaign.yaml_document import YamlDocument, read_yaml
from buran.errors import UsageError
from buran.planning.space import Array, Space, cheapest_first


class ParameterValues(Keys):
    """Values of a parameter: `values` or `range`."""

    values: Annotated[tuple[Number, ...], Field(min_length=1)] | None = None
    range: Range | None = None


class Charge(Keys):
    """What a run is charged in addition to its time on its cores."""

    cores_per_node: Annotated[int, Field(ge=1)] | None = None
    least_s: Annotated[float, Field(ge=0)] = 0.0
    overhead: Annotated[float, Field(ge=1)] = 1.0


class SpaceFile(Keys):
    """A search space."""

    parameters: Annotated[dict[Text, ParameterValues], Field(min_length=1)]
    constraints: tuple[Text, ...] = ()
    points: Annotated[tuple[PointMapping, ...], Field(min_length=1)] | None = None
    cores: Formula | None = None
    charge: Charge = Charge()
    repetitions: Annotated[int, Field(ge=1, le=1000)] = MOST_REPETITIONS
    target: PointMapping | None = None


def read_space(path: Path, parameters: Sequence[str], processes: str | None, at: Mapping[str, float] | None) -> Space:
    """Read a search space.

    Parameters
    ----------
    parameters
        Those of the measurements, in the order of their columns.
    processes
        Parameter that counts the processes, where the file gives no cores.
    at
        Target, instead of the file's.

    Raises
    ------
    CampaignError
        The file has mistakes, or constraints leave no point.
    """
    document = read_yaml(path)
    try:
        file = SpaceFile.model_validate(document.data)
    except ValidationError as error:
        mistakes = [
            Mistake(
                tuple(part for part in detail["loc"] if part != "[key]"), detail["msg"].removeprefix("Value error, ")
            )
            for detail in error.errors(include_url=False)
        ]
        raise CampaignError([document.located(mistake) for mistake in mistakes]) from None
    if set(file.parameters) != set(parameters):
        what = f"the space's parameters are {', '.join(file.parameters)}, the measurements' {', '.join(parameters)}"
        raise CampaignError([document.located(Mistake(("parameters",), what, hint="give both the same names"))])
    points = _points(file, document, parameters)
    cores = core_counts(points, parameters, processes, file.cores, document)
    if file.charge.cores_per_node is not None:
        cores = np.ceil(cores / file.charge.cores_per_node) * file.charge.cores_per_node
    order = cheapest_first(points, cores)
    target = _target(at or file.target, parameters, points)
    return Space(
        tuple(parameters),
        points[order],
        cores[order],
        target,
        most_repetitions=file.repetitions,
        overhead=file.charge.overhead,
        least_s=file.charge.least_s,
        ranks=processes,
    )


def measured_space(
    points: Array, parameters: Sequence[str], processes: str | None, at: Mapping[str, float] | None
) -> Space:
    """Make the space of all combinations of the values that were measured."""
    values = [np.unique(column) for column in points.T]
    if math.prod(map(len, values)) > MOST_POINTS:
        raise UsageError("the measured values have too many combinations", hint="give the space in a file: --space")
    every = np.stack(np.meshgrid(*values, indexing="ij"), axis=-1).reshape(-1, len(values))
    cores = core_counts(every, parameters, processes)
    order = cheapest_first(every, cores)
    return Space(tuple(parameters), every[order], cores[order], _target(at, parameters, every), ranks=processes)


def core_counts(
    points: Array,
    parameters: Sequence[str],
    processes: str | None,
    formula: float | str | None = None,
    document: YamlDocument | None = None,
) -> Array:
    """Return the cores of runs at `points` (point, parameter): a formula, a parameter, or one.

    Raises
    ------
    UsageError
        The parameter does not exist, or a number of cores is not positive.
    """
    if formula is not None:
        expression = _compiled(str(formula), parameters, ("cores",), document)
        try:
            out = np.array([float(expression(dict(zip(parameters, row, strict=True)))) for row in points.tolist()])
        except ExpressionError as error:
            raise UsageError(error.what, where="cores") from None
    elif processes is None:
        out = np.ones(len(points))
    elif processes in parameters:
        out = points[:, list(parameters).index(processes)].copy()
    else:
        raise UsageError(
            f"there is no parameter {processes!r}",
            where="--processes",
            hint=did_you_mean(processes, parameters) or f"choose from {', '.join(parameters)}",
        )
    if not (out > 0).all():
        raise UsageError("a run takes at least a part of a core", why=f"a point has {out.min():g}", where="cores")
    return out


def _compiled(text: str, names: Sequence[str], key: tuple[str, ...], document: YamlDocument | None) -> Expression:
    try:
        return compile_expression(text, names, "condition" if key[0] == "constraints" else "number")
    except TextError as error:
        mistake = Mistake(key, error.what, hint=error.hint)
        raise CampaignError([document.located(mistake) if document else mistake]) from None


def _points(file: SpaceFile, document: YamlDocument, parameters: Sequence[str]) -> Array:
    if file.points is not None:
        listed = [dict(point) for point in file.points]
        for number, point in enumerate(listed):
            if set(point) != set(parameters):
                what = f"the point has not just the parameters {', '.join(parameters)}"
                raise CampaignError([document.located(Mistake(("points", number), what))])
    else:
        values = {}
        for name, axis in file.parameters.items():
            if (axis.values is None) == (axis.range is None):
                what = f"{name} needs either values or a range"
                raise CampaignError([document.located(Mistake(("parameters", name), what))])
            values[name] = axis.values if axis.range is None else axis.range.listed
            assert values[name] is not None
        listed = list(product({name: allowed for name, allowed in values.items() if allowed is not None}))
    constraints = [
        Constraint(_compiled(text, parameters, ("constraints",), document), ("constraints", number))
        for number, text in enumerate(file.constraints)
    ]
    kept, _, mistakes = satisfying(listed, constraints)
    if mistakes:
        raise CampaignError([document.located(mistake) for mistake in mistakes])
    return np.unique(np.array([[point[name] for name in parameters] for point in kept], dtype=np.float64), axis=0)


def _target(at: Mapping[str, float] | None, parameters: Sequence[str], points: Array) -> Array:
    if at is None:
        return np.asarray(points.max(axis=0))
    if set(at) != set(parameters):
        raise UsageError(
            "the target is no point of the space",
            why=f"the parameters are {', '.join(parameters)}",
            hint="write it as --at p=1024,n=6000",
        )
    return np.array([at[name] for name in parameters], dtype=np.float64)
