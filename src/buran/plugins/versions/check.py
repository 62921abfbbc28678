"""A few runs of a program compared with what an earlier version counted, and with what its models predict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray

from buran.files import finite_or_none
from buran.modeling.numerics.tuning import FEW, MATTERS
from buran.modeling.pmnf import fit_models
from buran.modeling.pmnf.model_set import ModelSet
from buran.modeling.pmnf.repetitions import Repetition, over_repetitions
from buran.modeling.pmnf.text import growth_class
from buran.plugins.versions.counts import (
    CALLS,
    Counted,
    count_in_both,
    mpi_operations,
    operations_of_one,
    unsteady_rows,
)
from buran.plugins.versions.difference import Change, Verdict
from buran.plugins.versions.fold import common_call_paths, fold, fold_models
from buran.plugins.versions.measured import folded_values, shares_of
from buran.plugins.versions.pairing import Pair, pair_call_paths
from buran.plugins.versions.side import RUNTIME, Side
from buran.plugins.versions.tuning import LEVEL
from buran.profiles.experiment.table import Aggregate, Experiment
from buran.profiles.metrics import noise_resilient

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Checked:
    """A call path that matters at a point: `change` from what the earlier version says to what was measured.

    Attributes
    ----------
    share
        Of the metric, before or after, whichever is larger: of times there, of counts at the earlier version's target.
    growth_before, growth_after
        Growth classes of counts that differ; the second one by the few points. Empty where they are not known.
    through
        See `Difference.through`.
    """

    metric: str
    call_path: str
    change: Change
    share: float
    growth_before: str = ""
    growth_after: str = ""
    through: tuple[str, ...] = ()

    @property
    def changed(self) -> bool:
        """Whether the difference is larger than what is uncertain."""
        return self.change.verdict in ("grown", "shrunk")

    @property
    def within(self) -> float:
        """Share by which the number may have changed at most; infinite where the interval has no end."""
        bounds = (self.change.lower, self.change.upper)
        if np.isnan(bounds).any():
            return 0.0 if self.change.before == self.change.after else float("inf")
        return max(abs(end - 1) for end in bounds)


@dataclass(frozen=True)
class CheckedRow:
    """What files hold of a `Checked` one; None for numbers that are not finite."""

    metric: str
    call_path: str
    point: tuple[float, ...]
    share: float
    verdict: Verdict
    within: float | None
    growth: tuple[str, str]
    through: tuple[str, ...]
    before: float | None
    after: float | None
    ratio: float | None
    lower: float | None
    upper: float | None

    @classmethod
    def of(cls, row: Checked) -> CheckedRow:
        """Return what files hold of it."""
        change, growth = row.change, (row.growth_before, row.growth_after)
        numbers = map(finite_or_none, (change.before, change.after, change.ratio, change.lower, change.upper))
        within, verdict = finite_or_none(row.within), change.verdict
        return cls(row.metric, row.call_path, change.point, row.share, verdict, within, growth, row.through, *numbers)


@dataclass(frozen=True)
class ComparedRuns:
    """What the runs of an iteration that are compared with an earlier version show.

    Attributes
    ----------
    counted, call_paths, unsteady
        Points and call paths whose counts are compared, and of how many these differ between repetitions.
    moved
        Call paths before and after, where a function came between callers and callees.
    timed
        At how many points times are compared.
    open
        Why times are not; empty where they are.
    """

    mode: str
    rows: tuple[CheckedRow, ...] = ()
    counted: int = 0
    call_paths: int = 0
    unsteady: int = 0
    moved: tuple[tuple[str, str], ...] = ()
    timed: int = 0
    open: str = ""


@dataclass(frozen=True)
class CheckedCounts:
    """Counts compared with those of the earlier version.

    Attributes
    ----------
    rows
        All that differ, and those that are the same and matter at the target, the largest there first; at last the
        operations of MPI that only one version calls, as visits.
    points
        At how many points counts were compared; 0 if there were none to compare.
    call_paths
        How many call paths have a count that was compared.
    unsteady
        How many have one that depends on the run, or is not known on one side, and was not.
    moved
        See `Comparison.moved`.
    """

    rows: tuple[Checked, ...] = ()
    points: int = 0
    call_paths: int = 0
    unsteady: int = 0
    moved: tuple[Pair, ...] = ()


def check_counts(before: Side, table: Experiment, share: float = MATTERS) -> CheckedCounts:
    """Compare all counts with those of the earlier version; they are exact, if they do not depend on the run."""
    earlier = before.counts
    if earlier is None:
        return CheckedCounts()
    pairs = pair_call_paths(before, table)
    before = before.renamed({pair.before: pair.after for pair in pairs})
    after = Side("", before.parameters, before.target, {}, table)
    rows: list[Checked] = []
    points, compared, unsteady = 0, set[str](), set[str]()
    mpi = set(mpi_operations(table))
    for metric in (*noise_resilient(before.models), *({CALLS} & set(before.models))):
        if metric not in table.values or metric not in earlier.values:
            continue
        common = common_call_paths(before.models[metric].call_paths, table.tree.names)
        counted, _ = count_in_both(before, after, before.models[metric], common)
        usable = counted.comparable
        usable[unsteady_rows(before.unsteady.get(metric, ()), common)] = False
        if metric == CALLS:  # those of functions depend on the filter
            usable &= np.array([name in mpi for name in common], dtype=bool)
        compared |= {common[row] for row in np.flatnonzero(usable).tolist()}
        unsteady |= set() if metric == CALLS else {common[row] for row in np.flatnonzero(~usable).tolist()}
        if usable.any():
            points = max(points, len(counted.points))
            rows += _checked(before, metric, common, counted, usable, share)
    rows += [Checked(CALLS, name, change, 0.0) for name, change in operations_of_one(before, after)]
    rows.sort(key=lambda row: (not row.changed, -row.share))
    return CheckedCounts(tuple(rows), points, len(compared), len(unsteady - compared), pairs)


def _checked(
    before: Side, metric: str, common: tuple[str, ...], counted: Counted, usable: NDArray[np.bool_], share: float
) -> list[Checked]:
    """Return the counts of a metric that differ or matter, with their shares at the target."""
    models = before.models[metric]
    folded = fold_models(models, fold(models.call_paths, common), common)
    points = np.array(counted.points, dtype=np.float64)
    at = np.array([[before.target[name] for name in before.parameters]]) if before.target else points[-1:]
    first = np.nan_to_num(folded.predict(at))[:, 0]
    differs = usable & (counted.differs != 0).any(axis=1)
    changes = {row: counted.change(row) for row in np.flatnonzero(usable).tolist()}
    second = first.copy()
    growth: dict[int, tuple[str, str]] = {}
    changed = np.flatnonzero(differs)
    fitted = fit_models(points, counted.second[changed]).models if len(points) >= FEW else [None] * len(changed)
    for row, model in zip(changed.tolist(), fitted, strict=True):
        change, earlier = changes[row], folded.models[row]
        if model is None:
            second[row] = first[row] * change.ratio if np.isfinite(change.ratio) else change.after
        else:
            second[row] = float(model.predict(at)[0])
            growth[row] = (
                growth_class(earlier.function, before.parameters) if earlier else "",
                growth_class(model.function, before.parameters),
            )
    shares = np.maximum(first, second) / (max(first.sum(), second.sum()) or 1.0)
    return [
        Checked(
            metric, common[row], change, float(shares[row]), *growth.get(row, ("", "")), counted.through.get(row, ())
        )
        for row, change in changes.items()
        if differs[row] or shares[row] >= share
    ]


def check_times(
    before: Side,
    table: Experiment,
    run_times: Mapping[tuple[float, ...], Sequence[float]],
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
    points = table.points_in(before.parameters)
    models = before.models["time"]
    common = common_call_paths(models.call_paths, table.tree.names)
    values = table.over_locations("time", cast(Aggregate, models.aggregate))
    summed = folded_values(values, fold(table.tree.names, common), len(common))
    measured = over_repetitions(summed, cast(Repetition, models.repetition))
    folded = fold_models(models, fold(models.call_paths, common), common)
    predicted = folded.predict(points)
    shares = np.maximum(*(shares_of(np.maximum(np.nan_to_num(values), 0.0)) for values in (predicted, measured)))
    matter = np.flatnonzero((shares >= MATTERS).any(axis=1))
    whole = before.models.get(RUNTIME)
    single = 1 - (1 - LEVEL) / ((len(matter) + (whole is not None)) * len(points))
    checked: list[Checked] = []
    if whole is not None:
        walls = [float(np.median(run_times.get(tuple(point), [np.nan]))) for point in points.tolist()]
        (changes,) = _changes(whole, points, np.array([walls]), single)
        checked += [Checked(RUNTIME, whole.call_paths[0], change, 1.0) for change in changes]
    for row, changes in zip(
        matter.tolist(), _changes(_only(folded, matter), points, measured[matter], single), strict=True
    ):
        checked += [Checked("time", common[row], change, float(shares[row, k])) for k, change in enumerate(changes)]
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
