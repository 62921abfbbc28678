"""The search space: which points may be measured, and what a run at each of them is charged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from buran.campaign.strategies import MOST_REPETITIONS
from buran.errors import UsageError
from buran.wording import shown_value

Array = NDArray[np.float64]
Ids = NDArray[np.int64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Space:
    """Candidate points, Eq. 2 of the paper on cost-effective modelling, with what they are charged.

    Attributes
    ----------
    parameters
        Names, in the order of the columns.
    points
        Shape (point, parameter), distinct, cheapest first as far as one can tell before anything ran.
    cores
        Shape (point,): cores that a run is charged for; whole nodes where the queue gives only those.
    target
        Shape (parameter,): the point that the models are for.
    most_repetitions
        So many runs of one point at most.
    overhead
        Factor of a run's cost: its instrumentation, and the runs that are made next to it, such as a baseline.
    first_runs
        So many further runs are made when a point is measured for the first time, a warm-up for example.
    start_s
        Time that it is charged beyond its own: the start of a job.
    expected_s
        Shape (point,): a guess of the run time before there are models.
    known_s
        Shape (point,): run times that are known beforehand, as only evaluations of published protocols have them.
    ranks
        The parameter that counts MPI ranks, if one does.
    choices
        Parameters whose numbers stand for choices without an order.
    steps
        Parameters that count repetitions of the same work.
    """

    parameters: tuple[str, ...]
    points: Array
    cores: Array
    target: Array
    most_repetitions: int = MOST_REPETITIONS
    overhead: float = 1.0
    first_runs: float = 0.0
    start_s: float = 0.0
    expected_s: Array | None = None
    known_s: Array | None = None
    ranks: str | None = None
    choices: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not len(self.points):
            raise UsageError(
                "the search space has no points",
                why="constraints and evaluation points left none",
                hint="relax a constraint, or add values",
            )
        if not (self.cores > 0).all() or self.most_repetitions < 1:
            raise UsageError("a run takes at least one core, and a point at least one repetition")

    @cached_property
    def _index(self) -> Mapping[tuple[float, ...], int]:
        return {tuple(point): index for index, point in enumerate(self.points.tolist())}

    def indices(self, points: Array) -> Ids:
        """Return the indices of `points` (point, parameter); -1 for those outside the space."""
        return np.array([self._index.get(tuple(point), -1) for point in points.tolist()], dtype=np.int64)

    def core_hours(self, seconds: Array) -> Array:
        """Return what runs of (point,) seconds without instrumentation are charged."""
        return np.asarray(np.maximum(seconds * self.overhead + self.start_s, 0.0) * self.cores / 3600.0)

    def spelled(self, index: int) -> str:
        """Return a point for people."""
        point = zip(self.parameters, self.points[index].tolist(), strict=True)
        return ", ".join(f"{name} = {shown_value(value)}" for name, value in point)

    def notes(self) -> tuple[str, ...]:
        """Return what the space makes of models, as text: parameters with few values."""
        out = []
        for column, name in enumerate(self.parameters):
            count = len(np.unique(self.points[:, column]))
            if count < 5:
                allowed = {1: "no influence can be seen", 2: "only straight lines can be distinguished"}
                what = allowed.get(count, "similar exponents cannot be distinguished")
                out.append(f"{name} has {count} value{'s' if count > 1 else ''}: {what}")
        return tuple(out)


def cheapest_first(points: Array, cores: Array) -> Ids:
    """Return the order by cores, then by the values of the parameters."""
    return np.lexsort((*points.T[::-1], cores))
