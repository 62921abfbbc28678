"""What models predict for every call path, and which of them a page has room for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from buran.experiment.collect import split_call_path
from buran.model.model_set import ModelSet
from buran.profile.profile import SEPARATOR
from buran.report.text import Report, target_values

Array = NDArray[np.float64]
Places = NDArray[np.int64]

MOST_CALL_PATHS = 2000
"""Call paths with a row of their own: those with the largest predictions, and their callers."""

MOST_CALLERS = 1000
"""Callers that get a row for the sake of what they call; beyond, a call path stands at the root of the table."""

MOST_PLOTTED = 300
"""Call paths whose measurements and curves are in the page: the largest ones."""

LEVEL = 0.9


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
        Shape (call path,): prediction and the ends of its interval, which are not negative, as nothing measured
        is; NaN ends without a model.
    largest
        The measured point with the largest predictions in all.
    now
        Shape (call path,): prediction there.
    """

    models: ModelSet
    parent: Places
    at_target: Array
    lower: Array
    upper: Array
    largest: tuple[float, ...]
    now: Array

    @property
    def size(self) -> Array:
        """Shape (call path,): by what the large ones are told from the small ones."""
        return self.at_target + self.now

    @property
    def shares(self) -> tuple[Array, Array]:
        """Shape (call path,) each: of the whole prediction at the target, and at the largest measured point."""
        return self.at_target / (self.at_target.sum() or 1.0), self.now / (self.now.sum() or 1.0)

    def only(self, rows: Places) -> ModelSet:
        """Return the models of some call paths."""
        return with_models(self.models, rows)


def with_models(models: ModelSet, rows: Places) -> ModelSet:
    """Return the models of some call paths."""
    from dataclasses import replace

    return replace(
        models,
        call_paths=tuple(models.call_paths[row] for row in rows.tolist()),
        models=tuple(models.models[row] for row in rows.tolist()),
    )


def predict_call_paths(report: Report) -> CallPaths | None:
    """Predict all call paths at the target and at the largest measured point; None without models."""
    if not report.models:
        return None
    models = report.models.get("time") or next(iter(report.models.values()))
    points = np.array(models.points, dtype=np.float64).reshape(-1, len(models.parameters))
    predicted = np.maximum(np.nan_to_num(models.predict(points)), 0.0)
    largest = int(predicted.sum(axis=0).argmax())
    target = np.array([[report.target[name] for name in models.parameters]], dtype=np.float64)
    lower, upper = models.predict_interval(target, LEVEL)
    return CallPaths(
        models,
        _parents(models.call_paths),
        target_values(models, report.target),
        np.maximum(lower[:, 0], 0.0),
        np.maximum(upper[:, 0], 0.0),
        models.points[largest],
        predicted[:, largest],
    )


def _parents(names: Sequence[str]) -> Places:
    places = {name: place for place, name in enumerate(names)}
    return np.array([places.get(SEPARATOR.join(split_call_path(name)[:-1]), -1) for name in names], dtype=np.int64)


def with_rows(found: CallPaths) -> Places:
    """Return the call paths that get a row, callers first: the largest ones and their callers, as far as they fit."""
    keep = np.zeros(len(found.parent), dtype=bool)
    chosen = np.argsort(-found.size, kind="stable")[:MOST_CALL_PATHS]
    keep[chosen] = True
    room = MOST_CALLERS
    for place in chosen.tolist():
        while room and (place := int(found.parent[place])) >= 0 and not keep[place]:
            keep[place] = True
            room -= 1
    return np.flatnonzero(keep)
