"""The fastest configuration under given inputs, as a model predicts it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from buran.errors import UsageError
from buran.modeling.numerics.intervals import of_logarithm
from buran.modeling.tensor.axes import columns_of
from buran.modeling.tensor.blend import CHUNK
from buran.modeling.tensor.model import TensorModel
from buran.modeling.tensor.tuning import FEW_NODES

Value = float | str


@dataclass(frozen=True)
class Configuration:
    """A predicted configuration.

    Attributes
    ----------
    values
        Values of all parameters.
    time, lower, upper
        Prediction and the ends of its interval, in the unit of the measurements.
    """

    values: Mapping[str, Value]
    time: float
    lower: float
    upper: float


def find_fastest(
    model: TensorModel,
    given: Mapping[str, Value],
    count: int = 5,
    level: float = 0.9,
) -> tuple[list[Configuration], bool]:
    """Return the fastest predicted configurations, the fastest first, and whether all were looked at.

    Parameters
    ----------
    given
        Values that are fixed, such as the inputs; the other parameters are free. Free categories and parameters with
        few values take all measured values, others as many steps over their range.
    count
        How many to return.
    level
        Level of the intervals.

    Raises
    ------
    UsageError
        A name is unknown.
    """
    for name in given:
        if name not in model.names:
            raise UsageError(f"the model has no parameter {name!r}", hint=f"choose from {', '.join(model.names)}")
    choices: list[Sequence[Value]] = []
    for axis in model.axes:
        if axis.name in given:
            choices.append([given[axis.name]])
        elif axis.is_categorical:
            choices.append(axis.categories)
        elif len(axis.values):
            choices.append(axis.values.tolist())
        else:
            bounds = axis.position(np.array([axis.low, axis.high]))
            steps = np.linspace(bounds[0], bounds[1], FEW_NODES)
            steps = np.clip(np.exp(steps) if axis.scale == "log" else steps, axis.low, axis.high)
            choices.append(np.unique(np.rint(steps) if axis.whole else steps).tolist())
    total = int(np.prod([float(len(c)) for c in choices]))
    complete = total <= CHUNK
    random = np.random.default_rng(0)
    if complete:
        cells = np.stack([p.ravel() for p in np.indices([len(c) for c in choices])], axis=1)
    else:
        cells = np.stack([random.integers(len(c), size=CHUNK) for c in choices], axis=1)
    table = np.empty(cells.shape, dtype=object)
    for j, choice in enumerate(choices):
        table[:, j] = np.asarray(choice, dtype=object)[cells[:, j]]
    times, spread = model.predict(columns_of(table))
    best = np.argsort(times, kind="stable")[:count]
    interval = of_logarithm(times[best], model.error(columns_of(table[best]), level), spread[best])
    rows = zip(best, *(column.tolist() for column in (times[best], *interval)), strict=True)
    return [Configuration(dict(zip(model.names, table[i], strict=True)), *figures) for i, *figures in rows], complete
