"""What models predict for every call path, and which of them a page has room for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from buran.modeling.pmnf.model_set import ModelSet
from buran.profiles.profile import SEPARATOR
from buran.reporting.content import LEVEL, Report, start_and_end, target_values, unknown_rows

Array = NDArray[np.float64]
Indices = NDArray[np.int64]

MOST_CALL_PATHS = 2000
"""Call paths with a row of their own: those with the largest predictions, and their callers."""

MOST_CALLERS = 1000
"""Callers that get a row for the sake of what they call; beyond, a call path stands at the root of the table."""

MOST_PLOTTED = 300
"""Call paths whose measurements and curves are in the page: the largest ones."""


@dataclass(frozen=True)
class CallPaths:
    """Predictions of all call paths, at the largest measured point and at the target.

    Attributes
    ----------
    models
        Of time, or of the first metric there is.
    parent
        Shape (call path,): the caller; -1 where there is none.
    at_target, lower, upper
        Shape (call path,): prediction and the bounds of its interval, which are not negative, as nothing measured
        is; NaN without a model, and for call paths that get no row: intervals of 100,000 would take minutes. All are
        NaN where they are not known.
    largest
        The measured point with the largest predictions in all.
    now
        Shape (call path,): prediction there.
    """

    models: ModelSet
    parent: Indices
    at_target: Array
    lower: Array
    upper: Array
    largest: tuple[float, ...]
    now: Array

    @property
    def size(self) -> Array:
        """Shape (call path,): what distinguishes large ones from small ones."""
        return np.nan_to_num(self.at_target) + self.now

    @property
    def shares(self) -> tuple[Array, Array]:
        """Shape (call path,) each: of the whole prediction at the target, and at the largest measured point.

        NaN for start-up and shutdown of MPI, which is no part of the whole.
        """
        apart = start_and_end(self.models)
        parts = [np.where(apart, np.nan, seconds) for seconds in (self.at_target, self.now)]
        at_target, now = (part / (np.nansum(part) or 1.0) for part in parts)
        return at_target, now

    @property
    def unit(self) -> str:
        """Unit of the predictions, as printed."""
        return "s" if self.models.unit == "sec" else self.models.unit

    def region_name(self, row: int) -> str:
        """Return the last part of a call path's name: its region, or all of it without a caller."""
        name, parent = self.models.call_paths[row], int(self.parent[row])
        return name if parent < 0 else name[len(self.models.call_paths[parent]) + len(SEPARATOR) :]

    def only(self, rows: Indices) -> ModelSet:
        """Return the models of some call paths."""
        return replace(
            self.models,
            call_paths=tuple(self.models.call_paths[row] for row in rows.tolist()),
            models=tuple(self.models.models[row] for row in rows.tolist()),
        )


def predict_call_paths(report: Report) -> CallPaths | None:
    """Predict all call paths at the target and at the largest measured point; None without models."""
    if not report.models:
        return None
    models = report.models.get("time") or next(iter(report.models.values()))
    points = np.array(models.points, dtype=np.float64).reshape(-1, len(models.parameters))
    predicted = np.nan_to_num(models.predict(points))
    largest = int(predicted.sum(axis=0).argmax())
    target = np.array([[report.target[name] for name in models.parameters]], dtype=np.float64)
    without = np.full(len(models.call_paths), np.nan)
    parent, unknown = _parents(models.call_paths), unknown_rows(report, models)
    at_target = np.where(unknown, np.nan, target_values(models, report.target))
    call_paths = CallPaths(models, parent, at_target, without, without, models.points[largest], predicted[:, largest])
    rows = with_rows(call_paths)
    bounds = []
    for end in call_paths.only(rows).predict_interval(target, LEVEL):
        bounds.append(without.copy())
        bounds[-1][rows] = np.where(unknown[rows], np.nan, np.maximum(end[:, 0], 0.0))
    return replace(call_paths, lower=bounds[0], upper=bounds[1])


def _parents(names: Sequence[str]) -> Indices:
    """Return the nearest caller that is itself a call path; names are compared, as parsing long ones takes minutes."""
    positions = {name: position for position, name in enumerate(names)}
    return np.array([_caller(name, positions) for name in names], dtype=np.int64)


def _caller(name: str, positions: Mapping[str, int]) -> int:
    end = name.rfind(SEPARATOR)
    while end >= 0:
        if (position := positions.get(name[:end])) is not None:
            return position
        end = name.rfind(SEPARATOR, 0, end)
    return -1


def with_rows(call_paths: CallPaths) -> Indices:
    """Return the call paths that get a row, callers first: the largest ones and their callers, as far as they fit."""
    keep = np.zeros(len(call_paths.parent), dtype=bool)
    chosen = np.argsort(-call_paths.size, kind="stable")[:MOST_CALL_PATHS]
    keep[chosen] = True
    room = MOST_CALLERS
    for position in chosen.tolist():
        while room and (position := int(call_paths.parent[position])) >= 0 and not keep[position]:
            keep[position] = True
            room -= 1
    return np.flatnonzero(keep)
