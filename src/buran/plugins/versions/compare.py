"""Comparing two campaigns: at the target, at the largest point both measured, in growth, and in exact counts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from buran.errors import UsageError
from buran.modeling.numerics.tuning import FEW, MATTERS, NEARLY
from buran.modeling.pmnf.model import Model
from buran.modeling.pmnf.model_set import ModelSet
from buran.modeling.pmnf.text import format_function, format_leading, growth_class
from buran.plugins.versions.counts import (
    CALLS,
    Counted,
    common_call_paths,
    common_points,
    count_in_both,
    fold_models,
    mpi_operations,
    operations_of_one,
    shares_of,
    unsteady_rows,
)
from buran.plugins.versions.difference import LEVEL, Change, Comparison, Difference, OneSided, Verdict
from buran.plugins.versions.pairing import pair_call_paths
from buran.plugins.versions.side import RUNTIME, Side
from buran.profiles.metrics import metric_of
from buran.reporting.headline import leads_of
from buran.wording import named

Array = NDArray[np.float64]


def compare_sides(before: Side, after: Side, level: float = LEVEL, share: float = MATTERS) -> Comparison:
    """Compare an earlier campaign with a later one, at the target of the later.

    Raises
    ------
    UsageError
        One has no models, or they have other parameters, no metric or no call path in common.
    """
    _check(before, after)
    pairs = () if after.counts is None else pair_call_paths(before, after.counts)
    before = before.renamed({pair.before: pair.after for pair in pairs})
    target = tuple(float(after.target[name]) for name in after.parameters)
    differences: list[Difference] = []
    gone: list[OneSided] = []
    new: list[OneSided] = []
    for metric in (name for name in after.models if name in before.models):
        pair = before.models[metric], after.models[metric]
        common = common_call_paths(pair[0].call_paths, pair[1].call_paths)
        if common:
            differences += _Metric(before, after, metric, common, target, level, share).differences()
            gone += _one_sided(pair[0], common, target)
            new += _one_sided(pair[1], common, target)
    if not any(difference.metric != RUNTIME for difference in differences):
        raise UsageError(
            "the two campaigns have no call path in common",
            where=f"{before.name} and {after.name}",
            why=f"the first is {_first(before)!r} there and {_first(after)!r} here",
            hint="compare two versions of one program, measured with the same metrics",
        )
    return Comparison(
        before.name, after.name, after.parameters, target, level, share, tuple(differences), tuple(gone), tuple(new),
        tuple(_notes(before, after)), pairs, operations_of_one(before, after), after.better,
    )  # fmt: skip


def _first(side: Side) -> str:
    return next(models.call_paths[0] for name, models in side.models.items() if name != RUNTIME and models.call_paths)


def _check(before: Side, after: Side) -> None:
    where = f"{before.name} and {after.name}"
    for side in (before, after):
        if not any(name != RUNTIME and models.call_paths for name, models in side.models.items()):
            raise UsageError(
                "a campaign without models cannot be compared",
                where=side.name,
                why="no run succeeded, or its runs only found functions",
                hint="measure more of it",
            )
    if before.parameters != after.parameters:
        raise UsageError(
            "the two campaigns have other parameters",
            where=where,
            why=f"{', '.join(before.parameters)} there, {', '.join(after.parameters)} here",
            hint="compare campaigns that vary the same, named in the same order",
        )
    lists = [[name for name in side.models if name != RUNTIME] for side in (before, after)]
    if not set(lists[0]) & set(lists[1]):
        raise UsageError(
            "the two campaigns have no metric in common",
            where=where,
            why=f"{', '.join(lists[0])} there, {', '.join(lists[1])} here",
            hint="compare campaigns that measured the same",
        )


def _notes(before: Side, after: Side) -> list[str]:
    notes = []
    if before.simulated_on or after.simulated_on:
        sides = (f"on {side.simulated_on}" if side.simulated_on else "measured" for side in (before, after))
        notes.append("Times are simulated. Before: {}. After: {}.".format(*sides))
    for one, other, word in ((before, after, "before"), (after, before, "after")):
        only = [name for name in one.models if name not in other.models]
        if only:
            notes.append(f"Measured only {word}: {', '.join(only)}.")
    if before.target and dict(before.target) != dict(after.target):
        target = named({name: before.target[name] for name in after.parameters})
        notes.append(f"The earlier campaign had another target, {target}; both are compared at the later one's.")
    for name in (name for name in after.models if name in before.models):
        pair = before.models[name], after.models[name]
        for what in ("aggregate", "repetition", "unit"):
            values = [getattr(side, what) for side in pair]
            if values[0] != values[1]:
                notes.append(f"{name}: the {what} is {values[0]} before and {values[1]} after; that alone differs.")
    if before.overhead is not None and after.overhead is not None and abs(before.overhead - after.overhead) > MATTERS:
        shown = " and ".join(f"{100 * (ratio - 1):+.1f} %" for ratio in (before.overhead, after.overhead))
        notes.append(f"Instrumentation adds {shown} of CPU time before and after: it may cause such differences.")
    if before.counts is None or after.counts is None:
        notes.append("Counts are compared by their models alone: the measurements of one side are not at hand.")
    return notes


def _one_sided(models: ModelSet, common: Sequence[str], target: Sequence[float]) -> list[OneSided]:
    at = _values(models, np.array([target]))[:, 0]
    total = at.sum() or 1.0
    in_common = set(common)
    return [
        OneSided(models.metric, name, float(value), float(value / total))
        for name, value, model in zip(models.call_paths, at, models.models, strict=True)
        if name not in in_common and model is not None
    ]


def _values(models: ModelSet, points: Array) -> Array:
    """Return shape (call path, point): predictions, not negative; 0 without a model."""
    return np.nan_to_num(models.predict(points))


class _Metric:
    """The common call paths of one metric."""

    def __init__(
        self,
        before: Side,
        after: Side,
        metric: str,
        common: tuple[str, ...],
        target: tuple[float, ...],
        level: float,
        share: float,
    ) -> None:
        self.names = common
        self.first, self.second = (fold_models(side.models[metric], common) for side in (before, after))
        self.points = [target]
        shared = common_points(self.first.points, self.second.points)
        if shared:  # the largest one
            at = np.array(shared, dtype=np.float64)
            self.points.append(shared[int(_values(self.second, at).sum(axis=0).argmax())])
        at = np.array(self.points, dtype=np.float64)
        self.values = _values(self.first, at), _values(self.second, at)
        self.shares = [shares_of(values) for values in self.values]
        self.matters: NDArray[np.bool_] = np.any(np.maximum(*self.shares) >= share, axis=1)
        # All that matter are to be right together, by predictions at these points and by mean ratios (Bonferroni).
        single = 1 - (1 - level) / max(int(self.matters.sum()) * (len(self.points) + 1), 1)
        bounds = [side.predict_interval(at, single) for side in (self.first, self.second)]
        lower, upper = of_ratio(self.values[0], bounds[0], self.values[1], bounds[1])
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where(self.values[0] > 0, self.values[1] / self.values[0], np.nan)
        modelled = np.array([None not in pair for pair in zip(self.first.models, self.second.models, strict=True)])
        self.intervals = np.where(modelled[:, None], np.stack([ratio, lower, upper]), np.nan)
        self.counted: Counted | None = None
        self.exact = np.zeros(len(common), dtype=bool)
        if any(side.counts is None or metric not in side.counts.values for side in (before, after)):
            return
        counted, both = count_in_both(before, after, self.second, common)
        if shared:
            means, predicted = np.stack(both.ratios(single)), self.intervals[:, :, 1]
            better = np.isfinite(means[0]) & (_decided(means) | ~_decided(predicted))
            self.intervals[:, :, 1] = np.where(better, means, predicted)
        if metric_of(metric).noise_resilient or metric == CALLS:
            self.counted, self.exact = counted, counted.comparable
            if metric == CALLS and after.counts is not None:  # those of functions depend on the filter
                self.exact &= np.isin(common, list(mpi_operations(after.counts)))
            for side in (before, after):
                self.exact[unsteady_rows(side.unsteady.get(metric, ()), common)] = False
            self.matters |= self.exact & (counted.differs != 0).any(axis=1)  # however small: it may grow

    def differences(self) -> list[Difference]:
        """Return all of them, the largest first."""
        order = np.argsort(-np.maximum(self.values[0][:, 0], self.values[1][:, 0]), kind="stable")
        return [self._difference(row) for row in order.tolist()]

    def _difference(self, row: int) -> Difference:
        models, parameters = (self.first.models[row], self.second.models[row]), self.second.parameters
        target, *at_common = (self._change(row, position) for position in range(len(self.points)))
        measured, through = at_common[0] if at_common else None, tuple[str, ...]()
        exact = self.counted is not None and bool(self.exact[row])
        if self.counted is not None and exact:
            measured, through = self.counted.change(row), self.counted.through.get(row, ())
        functions = [None if model is None else model.function for model in models]
        growth, written, leading = (
            [as_text(function, parameters) if function else "" for function in functions]
            for as_text in (growth_class, format_function, format_leading)
        )
        verdict = self._verdict(exact, target, measured)
        faster = tuple[int, ...]()
        if verdict == "grown" == target.verdict and models[0] is not None and models[1] is not None:
            faster = faster_in(models[0], models[1], len(parameters))
        return Difference(
            metric=self.second.metric,
            unit=self.second.unit,
            call_path=self.names[row],
            exact=exact,
            share_before=float(self.shares[0][row, 0]),
            share_after=float(self.shares[1][row, 0]),
            matters=bool(self.matters[row]),
            target=target,
            measured=measured,
            growth_before=growth[0],
            growth_after=growth[1],
            model_before=written[0],
            model_after=written[1],
            faster_in=tuple(parameters[number] for number in faster),
            verdict=verdict,
            through=through,
            leading_before=leading[0],
            leading_after=leading[1],
        )

    def _change(self, row: int, position: int) -> Change:
        before, after = (
            float(values[row, position]) if models.models[row] is not None else np.nan
            for values, models in zip(self.values, (self.first, self.second), strict=True)
        )
        return Change(self.points[position], before, after, *self.intervals[:, row, position].tolist())

    def _verdict(self, exact: bool, target: Change, measured: Change | None) -> Verdict:
        if measured is None:
            return target.verdict
        alike = self.counted is not None and len(self.counted.points) >= FEW
        if exact and (measured.verdict != "same" or alike):
            return measured.verdict
        verdicts = [target.verdict, measured.verdict]
        for verdict in ("grown", "shrunk"):
            if verdict in verdicts:
                return verdict
        return verdicts[0] if len(set(verdicts)) == 1 else "no difference seen"


def _decided(intervals: Array) -> NDArray[np.bool_]:
    """Return whether ratios with their bounds, shape (3, call path), lie to one side of no change."""
    return np.asarray((intervals[1] > 1) | (intervals[2] < 1))


def of_ratio(
    first: Array, first_bounds: tuple[Array, Array], second: Array, second_bounds: tuple[Array, Array]
) -> tuple[Array, Array]:
    """Return the ends of intervals for ``second / first``, all arrays of one shape.

    The interval has the level of the ones it is made from, and takes the two numbers as independent: an end is the
    ratio r at which ``second - r * first`` lies as far from zero as the distances of both numbers from their ends,
    added in quadrature (the MOVER method of Donner and Zou for ratios).

    Parameters
    ----------
    first, second
        Not negative; NaN where there is no number.
    first_bounds, second_bounds
        Lower and upper ends; those below zero count as zero, for nothing measured is negative.

    Returns
    -------
    lower, upper
        0 and infinite where nothing can be said; NaN where a number is missing, or both are 0.
    """
    low_1, low_2 = (np.maximum(bounds[0], 0.0) for bounds in (first_bounds, second_bounds))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        lower = _end(first, second, first_bounds[1] - first, second - low_2, -1.0)
        upper = _end(first, second, first - low_1, second_bounds[1] - second, 1.0)
        missing = ~(np.isfinite(first) & np.isfinite(second)) | ((first == 0) & (second == 0))
        lower = np.where(np.isfinite(first_bounds[1]), lower, 0.0)
        upper = np.where(np.isfinite(second_bounds[1]) & (low_1 > 0), upper, np.inf)
    return np.where(missing, np.nan, lower), np.where(missing, np.nan, upper)


def _end(first: Array, second: Array, first_reach: Array, second_reach: Array, side: float) -> Array:
    product = first * second
    root = np.sqrt(
        np.maximum((first * second_reach) ** 2 + (second * first_reach) ** 2 - (first_reach * second_reach) ** 2, 0.0)
    )
    if side > 0:
        return np.asarray((product + root) / (first**2 - first_reach**2))
    return np.asarray((second**2 - second_reach**2) / (product + root))


def faster_in(first: Model, second: Model, parameters: int) -> tuple[int, ...]:
    """Return the parameters with which the second model grows faster, by at least `NEARLY` of the hypotheses.

    Every hypothesis of the one meets every hypothesis of the other, with the product of their weights. Sums have none
    but themselves.
    """
    return tuple(parameter for parameter in range(parameters) if _chance(first, second, parameter) >= NEARLY)


def _chance(first: Model, second: Model, parameter: int) -> float:
    one, other = leads_of(first, parameter), leads_of(second, parameter)
    return sum(a * b for earlier, a in one.items() for later, b in other.items() if later > earlier)
