"""A few runs of a program compared with what an earlier version counted, and with what its models predict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray

from buran.compare.counts import count_measured, unsteady_rows
from buran.compare.difference import Change
from buran.compare.fold import common_call_paths, fold, fold_models
from buran.compare.measured import folded_values, measured_in_both, shares_of
from buran.compare.side import RUNTIME, Side
from buran.compare.tuning import COMPARED
from buran.experiment.table import Aggregate, Experiment
from buran.model.model_set import ModelSet
from buran.model.repetitions import Repetition, over_repetitions
from buran.profile.metrics import noise_resilient

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Checked:
    """A call path that matters at a point: `change` from what the earlier version says to what was measured.

    Attributes
    ----------
    share
        Of the metric there, before or after, whichever is larger.
    """

    metric: str
    call_path: str
    change: Change
    share: float

    @property
    def changed(self) -> bool:
        """Whether the difference is larger than what is uncertain."""
        return self.change.verdict in ("grown", "shrunk")

    @property
    def within(self) -> float:
        """Share by which the number may have changed at most; infinite where the interval has no end."""
        ends = (self.change.lower, self.change.upper)
        if np.isnan(ends).any():
            return 0.0 if self.change.before == self.change.after else float("inf")
        return max(abs(each - 1) for each in ends)


def check_counts(before: Side, table: Experiment, share: float = COMPARED.share) -> tuple[list[Checked], int]:
    """Compare counts with those of the earlier version; they are exact, if they do not depend on the run.

    Returns
    -------
    list of Checked
        One for each metric and call path that matters, at the point that says most.
    int
        Number of points at which counts were compared; 0 if there were none to compare.
    """
    checked: list[Checked] = []
    points = 0
    if before.counts is None:
        return checked, points
    for metric in (name for name in noise_resilient(before.models) if name in before.counts.values):
        if metric not in table.values:
            continue
        models = before.models[metric]
        common = common_call_paths(models.call_paths, table.tree.names)
        counted = count_measured(measured_in_both((before.counts, table), (models, models), common))
        usable = counted.known
        usable[unsteady_rows(before.unsteady.get(metric, ()), common)] = False
        shares = np.maximum(*(shares_of(np.nan_to_num(each)) for each in (counted.first, counted.second)))
        for row in np.flatnonzero(usable & (shares >= share).any(axis=1)).tolist():
            checked.append(Checked(metric, common[row], counted.change(row), float(shares[row].max())))
        if usable.any():
            points = max(points, len(counted.points))
    return sorted(checked, key=lambda each: -each.share), points


def check_times(
    before: Side,
    table: Experiment,
    run_times: Mapping[tuple[float, ...], Sequence[float]],
    level: float = COMPARED.level,
    share: float = COMPARED.share,
) -> list[Checked]:
    """Compare times with the prediction intervals of the earlier version's models.

    All of them hold together with the wanted probability, if nothing changed (Bonferroni).

    Parameters
    ----------
    run_times
        In seconds, of the program without instrumentation, by point.

    Returns
    -------
    list of Checked
        One for each call path that matters and each point, the whole program first.
    """
    points = table.points[:, [table.parameters.index(name) for name in before.parameters]]
    models = before.models["time"]
    common = common_call_paths(models.call_paths, table.tree.names)
    values = table.over_locations("time", cast(Aggregate, models.aggregate))
    summed = folded_values(values, fold(table.tree.names, common), len(common))
    measured = over_repetitions(summed, cast(Repetition, models.repetition))
    folded = fold_models(models, fold(models.call_paths, common), common)
    predicted = folded.predict(points)
    shares = np.maximum(*(shares_of(np.maximum(np.nan_to_num(each), 0.0)) for each in (predicted, measured)))
    matter = np.flatnonzero((shares >= share).any(axis=1))
    whole = before.models.get(RUNTIME)
    single = 1 - (1 - level) / ((len(matter) + (whole is not None)) * len(points))
    checked: list[Checked] = []
    if whole is not None:
        walls = [float(np.median(run_times.get(tuple(each), [np.nan]))) for each in points.tolist()]
        (changes,) = _changes(whole, points, np.array([walls]), single)
        checked += [Checked(RUNTIME, whole.call_paths[0], each, 1.0) for each in changes]
    for row, changes in zip(
        matter.tolist(), _changes(_only(folded, matter), points, measured[matter], single), strict=True
    ):
        checked += [Checked("time", common[row], each, float(shares[row, k])) for k, each in enumerate(changes)]
    return checked


def _only(models: ModelSet, rows: NDArray[np.int64]) -> ModelSet:
    return ModelSet(
        models.parameters, models.metric, models.unit, tuple(models.call_paths[row] for row in rows),
        tuple(models.models[row] for row in rows), models.aggregate, models.repetition, models.points,
    )  # fmt: skip


def _changes(models: ModelSet, points: Array, measured: Array, level: float) -> list[list[Change]]:
    """Return for each model and point the change from its prediction to what was measured, of one value each."""
    predicted = models.predict(points)
    low, high = models.predict_interval(points, level)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio, lower = measured / predicted, measured / high
        upper = np.where(low > 0, measured / low, np.where(np.isnan(predicted), np.nan, np.inf))
    at = [tuple(point) for point in points.tolist()]
    rows = np.stack([predicted, measured, ratio, lower, upper], axis=-1).tolist()
    return [[Change(point, *numbers) for point, numbers in zip(at, row, strict=True)] for row in rows]
