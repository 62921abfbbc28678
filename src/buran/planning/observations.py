"""What has been measured, as arrays that strategies work on, and the run times that it predicts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from buran.errors import UsageError
from buran.modeling.fit import Fit, fit_models
from buran.modeling.functions.terms import ModelFunction, predict
from buran.modeling.numerics.least_squares import SINGULAR, exponents, span
from buran.modeling.numerics.tuning import FEW, FLOOR, NOISE, WORTH
from buran.modeling.pmnf import SearchOptions
from buran.modeling.pmnf.repetitions import PointNoise, noise_level, over_repetitions, scatter_of
from buran.modeling.priors.prior import Prior, price_alone
from buran.modeling.priors.resilient import fit_priors
from buran.planning.space import Array, Ids, Mask, Space
from buran.profiles.experiment.table import Aggregate, Experiment

OPTIONS = SearchOptions(alternatives=64)


@dataclass(frozen=True, eq=False)
class Observations:
    """Observations times; models of them are made on first use and kept.

    Attributes
    ----------
    points
        Shape (point, parameter), distinct; may lie outside the search space.
    values
        Shape (call path, point, repetition); NaN where there is none.
    program_s
        Shape (point, repetition): run time of the whole program; None where the single call path is the program.
    priors
        For each call path what its time is made of, where counts say so, otherwise None; empty where nothing is known.
    groups
        For each call path the number of its metric: shares are those within a metric, and all metrics count alike;
        None for a single metric.
    names
        For each call path its metric and its name; empty where they have none.
    waits
        For each call path, whether it is the first metric, time, of an operation of MPI, which waits for other ranks;
        empty where that is not known.
    work
        For each call path its counted operations, otherwise None; empty where nothing is known.
    """

    points: Array
    values: Array
    program_s: Array | None = None
    priors: Sequence[Prior | None] = ()
    groups: Ids | None = None
    names: tuple[tuple[str, str], ...] = ()
    waits: Sequence[bool] = ()
    work: Sequence[ModelFunction | None] = ()

    @classmethod
    def nothing(cls, parameters: int) -> Observations:
        """Return what is known before the first run."""
        return cls(np.zeros((0, parameters)), np.zeros((1, 0, 1)))

    @classmethod
    def of(cls, experiment: Experiment, metrics: Sequence[str], aggregate: Aggregate = "mean") -> Observations:
        """Take metrics of a table; the program's time is the sum of the first one over call paths.

        Raises
        ------
        UsageError
            The table has no such metric, or no value of the first one.
        """
        for metric in metrics:
            if metric not in experiment.values:
                raise UsageError(
                    f"the measurements have no metric {metric!r}",
                    hint=f"choose from {', '.join(experiment.metrics) or 'none: there are no metrics'}",
                )
        tables = [experiment.over_locations(metric, aggregate) for metric in metrics]
        measured_rows = [np.isfinite(values).any(axis=(1, 2)) for values in tables]
        if not metrics or not measured_rows[0].any():
            raise UsageError(f"nothing was measured for {', '.join(metrics) or 'any metric'}")
        first = tables[0][measured_rows[0]]
        program = np.where(np.isnan(first).all(axis=0), np.nan, np.nansum(first, axis=0))
        values = np.concatenate([table[measured] for table, measured in zip(tables, measured_rows, strict=True)])
        groups = np.repeat(np.arange(len(tables)), [int(measured.sum()) for measured in measured_rows])
        tree = experiment.tree
        rows = [
            (metric, path)
            for metric, measured in zip(metrics, measured_rows, strict=True)
            for path in np.flatnonzero(measured).tolist()
        ]
        names = tuple((metric, tree.names[path]) for metric, path in rows)
        waits = tuple(
            metric == metrics[0] and tree.regions[tree.region[path]].paradigm == "mpi" for metric, path in rows
        )
        return cls(experiment.points, values, program, groups=groups, names=names, waits=waits)

    @cached_property
    def counts(self) -> Ids:
        """Shape (point,): runs of each point."""
        return np.asarray(np.isfinite(self.values).any(axis=0).sum(axis=1), dtype=np.int64)

    @cached_property
    def runs(self) -> Ids:
        """Shape (call path, point): values of each point."""
        return np.asarray(np.isfinite(self.values).sum(axis=2), dtype=np.int64)

    @cached_property
    def means(self) -> Array:
        """Shape (call path, point); NaN where nothing was measured."""
        return over_repetitions(self.values, "mean")

    @cached_property
    def program_means_s(self) -> Array:
        """Shape (point,)."""
        if self.program_s is None:
            return np.asarray(self.means.sum(axis=0))
        return over_repetitions(self.program_s, "mean")

    @cached_property
    def is_timed(self) -> Mask:
        """Shape (point,): whether a run time of the program is known."""
        return np.asarray(np.isfinite(self.program_means_s) & (self.counts > 0))

    def prior_of(self, call: int) -> Prior | None:
        """Return what the model of a call path is fitted with; None where counts do not say what its time is made of.

        Points that do not determine all of its coefficients tell the price of all its work, as in the product's models.
        """
        return self._fitted_priors.get(call)

    @cached_property
    def _fitted_priors(self) -> dict[int, Prior | None]:
        def fitted(call: int, prior: Prior) -> Prior | None:
            if self._determined(call, prior):
                return prior
            known = self.runs[call].any() and any(column.effort for column in prior.columns)
            return price_alone(prior) if known else None

        return {call: fitted(call, prior) for call, prior in enumerate(self.priors) if prior is not None}

    @cached_property
    def fit(self) -> Fit:
        """Models of all call paths, by the estimators of the product."""
        known = list(self._fitted_priors)
        others = np.setdiff1d(np.arange(len(self.values)), known).tolist()
        models = dict(zip(others, _fit(self.points, self.values[others]).models, strict=True))
        fitted = fit_priors(
            self.points,
            self.means[known],
            list(self._fitted_priors.values()),
            noise=PointNoise.of(self.values[known], "mean"),
        )
        models |= {k: None if one is None else one.model for k, one in zip(known, fitted, strict=True)}
        return Fit(tuple(models[k] for k in range(len(self.values))))

    def _determined(self, call: int, prior: Prior) -> bool:
        """Whether the points of a call path determine all coefficients that nothing but times can tell."""
        present = (self.runs[call] > 0) & (np.nan_to_num(self.means[call]) != 0)
        if present.sum() < prior.fitted_count:
            return False
        open_: Mask = np.array([column.cost is None for column in prior.columns])
        design = prior.design(self.points[present])[:, open_] / np.abs(self.means[call, present])[:, None]
        return bool(span(design, SINGULAR).shape[1] == design.shape[1])

    @cached_property
    def program_fit(self) -> Fit:
        """Model of the program's run time."""
        if self.program_s is None:
            return self.fit if len(self.values) == 1 else _fit(self.points, self.values.sum(axis=0, keepdims=True))
        return _fit(self.points, self.program_s[None])

    @cached_property
    def noise_percent(self) -> float:
        """Mean deviation of repetitions from their mean over call paths and points; NaN without repetitions."""
        levels = noise_level(self.values)
        return float(np.nanmean(levels)) if np.isfinite(levels).any() else float("nan")

    @cached_property
    def noise(self) -> Array:
        """Shape (call path,): relative standard deviation of one run.

        From the scatter of repetitions and the residuals of the model together, drawn towards 3 % as if two
        further repetitions had shown that: a few equal values are no proof of silence.
        """
        means, runs = self.means, self.runs
        present = (runs > 0) & (means != 0)
        safe = np.where(present, means, 1.0)
        gaps = np.where(np.isfinite(self.values), self.values - means[..., None], 0.0) / safe[..., None]
        squares = np.where(present, (gaps**2).sum(axis=2), 0.0).sum(axis=1)
        degrees = np.where(present, runs - 1, 0).sum(axis=1).astype(np.float64)
        predicted = self.fit.predict(self.points)
        rest = np.where(present, runs * (1 - predicted / safe) ** 2, 0.0).sum(axis=1)
        found = [0 if model is None else len(model.function.terms) for model in self.fit.models]
        known = [self.prior_of(k) for k in range(len(runs))]
        # each term of a function that was searched for has chosen exponents, too
        used = [2 * n if prior is None else prior.fitted_count - 1 for n, prior in zip(found, known, strict=True)]
        free = present.sum(axis=1) - 1 - np.array(used)
        squares += np.where((free > 0) & np.isfinite(rest), rest, 0.0)
        degrees += np.maximum(free, 0)
        total = squares + WORTH * NOISE**2
        return np.asarray(np.sqrt(total / (degrees + WORTH)))


def _fit(points: Array, values: Array) -> Fit:
    """Model means of repetitions, shape (call path, point, repetition)."""
    present = np.isfinite(values).any(axis=(0, 2))
    if not present.any():
        return Fit((None,) * len(values))
    seen = values[:, present]
    return fit_models(points[present], over_repetitions(seen, "mean"), scatter=scatter_of(seen), options=OPTIONS)


def predicted_s(measured: Observations, space: Space) -> Array | None:
    """Predict the run time at each point (point,); None where nothing is known.

    From the models of call paths, or of the whole program; at measured points their mean. A prediction below the
    shortest run that was seen, a negative one among them, is none: powers of the parameters take its place. Before
    three points ran, the longest run so far counts for all, unless counts say how the times of call paths grow.
    """
    if space.known_s is not None:
        return space.known_s
    measured_before = measured.is_timed
    if not measured_before.any():
        return space.expected_s
    seen = measured.program_means_s[measured_before]
    known = measured_before.sum() >= FEW or known_share(measured) > 1 / 2
    out = _modelled_s(measured, space, measured_before) if known else None
    if out is None:
        out = np.full(len(space.points), seen.max()) if space.expected_s is None else space.expected_s.copy()
    else:
        out = np.maximum(np.where(out >= seen.min(), out, by_powers_s(measured, space)), seen.min())
    at = space.indices(measured.points[measured_before])
    out[at[at >= 0]] = seen[at >= 0]
    return np.asarray(out)


def known_share(measured: Observations) -> float:
    """Return the share of the time that is in call paths whose growth counts show; 1 for all before any is timed.

    At the point that took longest: short runs are mostly start-up.
    """
    if not measured.priors:
        return 0.0
    times = np.ones(len(measured.priors)) if measured.groups is None else measured.groups == 0
    means = times[:, None] * np.nan_to_num(measured.means)
    seconds = means[:, means.sum(axis=0).argmax()] if means.size else times
    known = np.array([prior is not None for prior in measured.priors])
    total = float(seconds.sum())
    return float(seconds[known].sum()) / total if total > 0 else float(known.all())


def by_powers_s(measured: Observations, space: Space) -> Array:
    """Return the run time at each point (point,) by powers; zero where too few points ran, or run times are known."""
    present = measured.is_timed
    if space.known_s is not None or present.sum() < FEW:
        return np.zeros(len(space.points))
    return np.asarray(by_powers(measured.points[present], measured.program_means_s[None, present], space.points)[0])


def by_powers(points: Array, values: Array, at: Array) -> Array:
    """Predict by products of powers of the parameters, which have no outliers.

    Sums of terms with coefficients from few points may come to anything far from these.

    Parameters
    ----------
    points
        Shape (point, parameter).
    values
        Shape (call path, point); what is missing, or less than a thousandth of the largest, counts as that.
    at
        Shape (target, parameter).

    Returns
    -------
    array
        Shape (call path, target).
    """
    tiny = np.finfo(np.float64).tiny
    largest = np.nanmax(np.abs(values), axis=1, initial=tiny, keepdims=True)
    known = np.fmax(values, FLOOR * largest)
    there, sample = np.maximum(at, tiny), np.maximum(points, tiny)
    growth = (np.log(there) - np.log(sample).mean(axis=0)) @ exponents(sample, known).T
    return np.asarray(np.exp(np.log(known).mean(axis=1, keepdims=True) + growth.T))


def _modelled_s(measured: Observations, space: Space, measured_before: Mask) -> Array | None:
    """Predict by models: shape (point,), None without one.

    Start and end of a program hide in its wall time how the rest of it grows. Where the terms of call paths are known
    from counts, their models are added up, and what wall times have beyond them is taken to stay. No cost counts on
    work that gets cheaper than it was seen: where a larger size was the faster one, trends make still larger ones free.
    """
    if measured.program_s is None or not any(prior is not None for prior in measured.priors):
        model = measured.program_fit.models[0]
        return None if model is None else model.predict(space.points)
    times = slice(None) if measured.groups is None else measured.groups == 0
    at = np.vstack([space.points, measured.points[measured_before]])
    seconds = measured.fit.predict(at)
    counted = [call for call, work in enumerate(measured.work) if work is not None]
    least = _at_cheapest(measured, counted, at)
    seconds[counted] = np.fmax(seconds[counted], least) * _repeated(measured, space, at)
    total = np.nansum(seconds[times], axis=0)
    remainder = measured.program_means_s[measured_before] - total[len(space.points) :]
    return np.asarray(total[: len(space.points)] + np.median(remainder))


def _at_cheapest(measured: Observations, calls: Sequence[int], at: Array) -> Array:
    """Return counted work of call paths times the least that a unit of it took, shape (call path, target)."""
    work, beyond = (predict([measured.work[call] for call in calls], points) for points in (measured.points, at))
    seen = (work > 0) & (measured.runs[calls] > 0)
    price = np.divide(measured.means[calls], work, out=np.full(work.shape, np.inf), where=seen).min(axis=1)
    return np.asarray(np.where(np.isfinite(price), price, np.nan)[:, None] * beyond)


def _repeated(measured: Observations, space: Space, at: Array) -> Array:
    """Return the factor of the work at points (point, parameter) by steps of which one number alone was measured.

    No count shows yet that they repeat work, but users say so.
    """
    out = np.ones(len(at))
    for column, name in enumerate(space.parameters):
        seen = np.unique(measured.points[measured.is_timed, column])
        if name in space.steps and len(seen) == 1 and seen[0] > 0:
            out *= np.maximum(at[:, column] / seen[0], 1.0)
    return out
