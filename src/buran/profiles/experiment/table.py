"""The measurement table in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from buran.profiles.profile import CallTree
from buran.wording import table_html

Aggregate = Literal["mean", "median", "min", "max", "sum"]
AGGREGATES: tuple[Aggregate, ...] = ("mean", "median", "min", "max", "sum")


@dataclass(frozen=True, eq=False)
class Experiment:
    """Call path x metric x point x repetition, each value an aggregate set over locations.

    Attributes
    ----------
    parameters
        Names, in the order of the columns of `points`.
    points
        Shape (point, parameter); rows are unique and sorted lexicographically.
    tree
        The call paths, a union over all points.
    values
        By metric name, shape (call path, point, repetition, aggregate); exclusive values; NaN where
        nothing was measured. A call path that a run did not visit is 0, not NaN. Input that carries no
        per-location values has the same number in mean, median, min, max and NaN in sum.
    units
        By metric name.
    notes
        What is missing in profiles of single runs, in sentences.
    """

    parameters: tuple[str, ...]
    points: NDArray[np.float64]
    tree: CallTree
    values: Mapping[str, NDArray[np.float64]]
    units: Mapping[str, str]
    notes: tuple[str, ...] = ()

    @property
    def metrics(self) -> tuple[str, ...]:
        """Names of the metrics."""
        return tuple(self.values)

    def points_in(self, parameters: Sequence[str]) -> NDArray[np.float64]:
        """Return the points, shape (point, parameter), with the parameters in this order."""
        return self.points[:, [self.parameters.index(name) for name in parameters]]

    def over_locations(self, metric: str, aggregate: Aggregate = "mean") -> NDArray[np.float64]:
        """Return shape (call path, point, repetition) of one aggregate over locations."""
        return self.values[metric][..., AGGREGATES.index(aggregate)]

    def _repr_html_(self) -> str:
        rows = [
            (name, self.units[name], values.shape[2], f"{np.isfinite(values[..., 0]).mean():.0%}")
            for name, values in self.values.items()
        ]
        title = f"{len(self.tree)} call paths at {len(self.points)} points of {', '.join(self.parameters)}"
        return table_html(title, ("metric", "unit", "repetitions", "measured"), rows)
