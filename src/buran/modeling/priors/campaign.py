"""Noise-resilient models of measurement tables, times under one filter and counts under another, and what they say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import PlainValidator

from buran.errors import UsageError
from buran.files import finite_or_none
from buran.modeling.functions.terms import Array, ModelFunction, Term, added, predict, scaled
from buran.modeling.numerics.tuning import MATTERS
from buran.modeling.pmnf.model import Model, predict_models
from buran.modeling.pmnf.model_set import ModelSet
from buran.modeling.pmnf.repetitions import PointNoise, Repetition, over_repetitions
from buran.modeling.pmnf.text import format_function, format_largest
from buran.modeling.priors.paths import TIMES_ALONE, PathModel, Source, has_effort, priors_of
from buran.modeling.priors.prior import (
    ONE,
    SLOWEST_S,
    Account,
    Column,
    KnownMpi,
    Prior,
    one_cost,
    price_alone,
    startup_prior,
)
from buran.modeling.priors.resilient import COST_SPREAD, FitOptions, Resilient, fit_priors
from buran.modeling.priors.waiting import Verdict, Waiting, diagnose, ranks_above_one, with_algorithms, with_waiting
from buran.profiles.experiment.table import Aggregate, Experiment
from buran.profiles.startup import is_startup_or_shutdown
from buran.wording import counted as in_words


def models_from_priors(
    timed: Experiment,
    counted: Experiment | None,
    *,
    processes: str | None,
    metric: str = "time",
    aggregate: Aggregate = "mean",
    repetition: Repetition = "median",
    options: FitOptions | None = None,
    accounts: Sequence[Account] = (),
    mpi: KnownMpi | None = None,
    steps: Mapping[str, float] | None = None,
    derived: Mapping[str, str] = MappingProxyType({}),
) -> tuple[PathModel, ...]:
    """Make a noise-resilient model of each call path for which effort was counted.

    Parameters
    ----------
    timed
        The noisy measurements.
    counted
        Counts, at the same or at fewer points and under the same or a wider selection of functions; None if there are
        none. Then those that were measured with the times, such as instructions, stand in for them.
    processes
        Parameter that counts processes; None if there is none.
    metric
        What is modelled.
    aggregate, repetition
        Over locations and over repetitions of `timed`.
    options
        Options of the fit.
    accounts
        What is known of times beside counts.
    mpi
        If it is known which one measured the times.
    steps
        Parameters that may only repeat work, with their numbers in the full run.
    derived
        Values that the program derives from its parameters: expressions by name.

    Returns
    -------
    tuple
        One for each call path of `timed`.

    Raises
    ------
    UsageError
        If both tables have different parameters, or `timed` has no such metric.
    """
    if metric not in timed.values:
        raise UsageError(f"the measurements have no metric {metric!r}", hint=f"choose from {', '.join(timed.metrics)}")
    if counted is None and has_effort(timed):
        counted = timed
    if counted is None or aggregate == "sum":
        why = "no effort was measured" if counted is None else "priors describe the mean rank, not sums over ranks"
        return (PathModel.of_times_alone(why),) * len(timed.tree)
    if counted.parameters != timed.parameters:
        raise UsageError(
            "times and counts have different parameters",
            why=f"{', '.join(timed.parameters)}; {', '.join(counted.parameters)}",
        )
    # t(x): times of each call path, and the noise that their repetitions show
    repetitions = timed.over_locations(metric, aggregate)
    values, noise = over_repetitions(repetitions, repetition), PointNoise.of(repetitions, repetition)
    column = None if processes is None else timed.parameters.index(processes)
    times = _Times(timed.points, values, noise, counted.points, column, options)
    # the prior: columns of effort and communication, scaled by non-negative costs
    counts = priors_of(timed.tree, counted, timed.points, mpi, processes=processes, steps=steps, derived=derived)
    starting = is_startup_or_shutdown(timed.tree.names).tolist()
    paths = times.with_accounts(list(counts), accounts)
    paths = [times.usable(path, row) for path, row in zip(paths, values, strict=True)]
    paths = times.with_price_of_others(paths)
    paths = _with(paths, with_algorithms(times.points, values, [path.prior for path in paths]))
    repeated = tuple(timed.parameters.index(name) for name in steps or ())
    paths = times.with_startup(paths, [path.prior is None for path in counts], repeated, starting)
    # the costs, and what they leave over: is it waiting, which no count shows?
    fitted = times.fit([path.prior for path in paths])
    waiting = times.beyond_priors(paths, starting)
    wider = [
        with_waiting(path.prior, finding.term, column)
        if path.prior is not None and finding is not None and finding.term is not None
        else None
        for path, finding in zip(paths, waiting, strict=True)
    ]
    return tuple(
        replace(path, source=path.source if own else Source.TIMES, resilient=own, waiting=found, whole=second or own)
        for path, own, found, second in zip(paths, fitted, waiting, times.fit(wider), strict=True)
    )


@dataclass(frozen=True, eq=False)
class _Times:
    """What priors are fitted to.

    Attributes
    ----------
    points, counted
        Shape (point, parameter): of the times and of the counts.
    values
        Shape (call path, point); NaN where nothing was measured.
    noise
        Of the values.
    column
        Parameter that counts processes; None if there is none.
    options
        Of the fit.
    """

    points: Array
    values: Array
    noise: PointNoise
    counted: Array
    column: int | None
    options: FitOptions | None

    def fit(self, priors: Sequence[Prior | None]) -> tuple[Resilient | None, ...]:
        """Fit one prior of each call path."""
        return fit_priors(self.points, self.values, priors, self.options, self.noise, self.counted)

    def with_accounts(self, paths: list[PathModel], accounts: Sequence[Account]) -> list[PathModel]:
        """Return priors with what accounts know; one may be all that is known of a call path."""
        for account in accounts:
            for row in np.flatnonzero(account.explains(self.points, self.values)).tolist():
                path = paths[row]
                if path.prior is None and not path.can_wait:
                    notes = tuple(note.removesuffix(f": {TIMES_ALONE}") for note in path.notes)
                    prior = Prior((Column("constant", ONE),), account.name)
                    paths[row] = replace(path, prior=prior, source=Source.COMPUTATION, notes=notes)
        computing = [path.source is Source.COMPUTATION for path in paths]
        for account in accounts:
            before = [path.prior for path in paths]
            paths = _with(paths, account.added_to(before, computing, self.points, self.values))
            for row, (old, path) in enumerate(zip(before, paths, strict=True)):
                if account.remark and old is not None and path.prior and len(path.prior.columns) > len(old.columns):
                    paths[row] = replace(path, notes=(*path.notes, account.remark))
        return paths

    def usable(self, path: PathModel, values: Array) -> PathModel:
        """Return one cost, or the price alone, where values, shape (point,), are too few for a prior's coefficients.

        Computation that takes longer than its counted effort can, and its memory, is left without a prior. A function
        that fills large arrays by calls of the C library executes the same few basic blocks for any size: as a prior
        they would make a constant of a time that grows. Most points must agree.
        """
        prior, present = path.prior, np.isfinite(values)
        if prior is None:
            return path
        measured, computes = int(present.sum()), path.source is Source.COMPUTATION
        if measured <= prior.fitted_count:
            priced = self.options is None or self.options.price
            if computes and measured > 2:
                path = replace(path, prior=one_cost(prior))
            elif computes and measured and priced and any(column.effort for column in prior.columns):
                note = (
                    f"only {in_words(measured, 'point')} {'has' if measured == 1 else 'have'} times: one cost of its "
                    "counted work was fitted; more points distinguish its parts"
                )
                path = replace(path, prior=price_alone(prior), notes=(*path.notes, note))
            else:
                why = f"{measured} points do not determine the {prior.fitted_count} coefficients of its prior"
                return path.left_to_times(why)
        if not computes or path.effort is None or path.prior is None or not measured:
            return path
        # most points take longer than e(x) visits of the slowest code and what memory costs, sum_k c_k e_k(x)
        known = SLOWEST_S * np.maximum(path.effort.evaluate(self.points[present]), 1.0)
        for column in (column for column in path.prior.columns if column.cost is not None):
            known += sum(column.cost or ()) * np.maximum(column.function.evaluate(self.points[present]), 0.0)
        if np.median(values[present] - known) <= 0:
            return path
        why = "its time is spent outside of the code whose effort was counted, in libraries or the system"
        return replace(path.left_to_times(why), settled=True)

    def with_price_of_others(self, paths: Sequence[PathModel]) -> list[PathModel]:
        """Expect the price of the program's other work where no point with a time has work of a call path that grows.

        What exchanges something with other ranks returns at once where there is one: such times tell no price.
        """
        if self.options is not None and not self.options.price:
            return list(paths)
        efforts = {
            row: path.effort
            for row, path in enumerate(paths)
            if path.source is Source.COMPUTATION and path.effort and path.prior and path.prior.has_open_work
        }
        if not efforts:
            return list(paths)
        rows, functions = list(efforts), list(efforts.values())
        # e(x) at the points with a time, and what of it grows
        present, constant = np.isfinite(self.values[rows]), np.array([[each.constant] for each in functions])
        counts = np.where(present, predict(functions, self.points), 0.0)
        idle = ((counts <= constant) | ~present).all(axis=1) & present.any(axis=1)
        idle &= constant[:, 0] <= MATTERS * (predict(functions, self.counted) - constant).max(axis=1)
        # price = sum of t / sum of e(x), over the call paths that work
        count = float(counts[~idle].sum())
        price = float(np.nansum(self.values[rows][~idle])) / count if count > 0 else 0.0
        out = list(paths)
        for row in np.array(rows)[idle].tolist() if price > 0 else ():
            grows = replace(efforts[row], constant=0.0)
            out[row] = out[row].with_price(Column("effort", grows, 1.0, (price, COST_SPREAD * price)), PRICE_OF_OTHERS)
        return out

    def with_startup(
        self, paths: list[PathModel], uncounted: Sequence[bool], repeated: tuple[int, ...], starting: Sequence[bool]
    ) -> list[PathModel]:
        """Enter the prior of start-up where it is one, and for what waits, if all points have one number of ranks.

        Times of a single number of ranks tell nothing of their growth with it; what others wait for does.
        """
        several = self.column is not None and self.points[:, self.column].max() > 1
        startup = replace(startup_prior(self.column if several else None), repeated=repeated)
        alone = self.column is not None and ranks_above_one(self.points, self.column) == 1
        for row, path in enumerate(paths):
            if starting[row]:
                paths[row] = replace(path, prior=startup, source=Source.COMMUNICATION, notes=())
            elif alone and path.can_wait and uncounted[row]:
                enough = np.isfinite(self.values[row]).sum() > startup.fitted_count
                paths[row] = replace(path, prior=startup) if enough else path
        return paths

    def beyond_priors(self, paths: Sequence[PathModel], starting: Sequence[bool]) -> Sequence[Waiting | None]:
        """Find what times have beyond their priors, but for start-up.

        Where an account has columns of its own, what work beyond its blocks costs is no finding any more.
        """
        tested = [
            None if start or path.prior is None or path.prior.fitted_count < len(path.prior.columns) else path.prior
            for path, start in zip(paths, starting, strict=True)
        ]
        return diagnose(
            self.points,
            self.values,
            tested,
            self.column,
            companions=_work(paths, self.points),
            noise=self.noise,
            can_wait=[path.can_wait for path in paths],
        )


def _with(paths: Sequence[PathModel], priors: Sequence[Prior | None]) -> list[PathModel]:
    return [replace(path, prior=prior) for path, prior in zip(paths, priors, strict=True)]


def _work(paths: Sequence[PathModel], points: Array) -> list[Term]:
    """List the leading terms that make up the computation that counts prove: what other ranks may be waiting for.

    Nobody waits for what is a small part of the work at every point.
    """
    work: dict[Term, Array] = {}
    for effort in (path.effort for path in paths if path.proven and path.effort is not None):
        sizes = dict(zip(effort.terms, effort.coefficients, strict=True))
        for term in effort.dominating_terms():
            work[term] = work.get(term, 0.0) + np.maximum(sizes[term] * term.evaluate(points), 0.0)
    whole = sum(work.values(), np.zeros(len(points)))
    return [term for term, part in work.items() if (part >= MATTERS * whole).any()]


PRICE_OF_OTHERS = "its counted work has a time at no point: the price of the program's other work is expected"
OTHERS_FOLLOW = (
    "beyond the measured ranks or bytes MPI may choose another algorithm: intervals do not cover that choice"
)

_Function = Annotated[ModelFunction, PlainValidator(ModelFunction.from_json)]


@dataclass(frozen=True)
class LevelMisses:
    """Misses of a cache: the model of their number, and what one costs in seconds, with its standard deviation."""

    level: int
    misses: _Function
    cost: tuple[float, float]


@dataclass(frozen=True)
class PathPrior:
    """What the model of a call path's time is made from.

    Attributes
    ----------
    source
        As of `buran.modeling.priors.paths.Source`.
    prior, resilient, times_alone
        The prior, the model with it and the one without, as text; empty where there is none.
    waiting, waiting_share
        What a test for waiting found, as text, and its share of the time at the largest point.
    settled
        Whether counting at more points would say nothing new.
    repeats
        By parameters of the role steps, whether counts prove that work repeats.
    at_target_s
        By the model in use.
    work, misses
        Counted operations as a function, None where none were counted; misses of caches where the prior has some.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "ignore"}  # files of earlier versions have more

    call_path: str
    source: str
    notes: tuple[str, ...] = ()
    prior: str = ""
    resilient: str = ""
    times_alone: str = ""
    waiting: str = ""
    waiting_share: float | None = None
    settled: bool = False
    repeats: Mapping[str, str] = field(default_factory=dict)
    at_target_s: float | None = None
    work: _Function | None = None
    misses: tuple[LevelMisses, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        work = None if self.work is None else self.work.to_json()
        misses = [{**vars(each), "misses": each.misses.to_json()} for each in self.misses]
        return {**vars(self), "work": work, "misses": misses}


def noise_resilient(
    path_models: Sequence[PathModel], alone: ModelSet, target: Sequence[float]
) -> tuple[ModelSet, tuple[PathPrior, ...]]:
    """Replace models of time by noise-resilient ones where there is a prior.

    Parameters
    ----------
    path_models
        Of `models_from_priors`, for the call paths of `alone`.
    alone
        Models from times alone.
    target
        Point that times are stated at.

    Returns
    -------
    models, statements
        Models of the same call paths, and for each what it is made from.
    """
    pairs = list(zip(path_models, alone.models, strict=True))
    models = tuple(plain if made.final is None else made.final for made, plain in pairs)
    at = np.array([target], dtype=np.float64)
    largest = np.array(alone.points).max(axis=0, initial=0.0)
    statements = tuple(
        _path_prior(path, *pair, alone.parameters, at, largest, value)
        for path, pair, value in zip(alone.call_paths, pairs, predict_models(models, at)[:, 0].tolist(), strict=True)
    )
    return replace(alone, models=models), statements


def _path_prior(
    path: str,
    made: PathModel,
    plain: Model | None,
    parameters: tuple[str, ...],
    at: Array,
    largest: Array,
    predicted: float,
) -> PathPrior:
    point = dict(zip(parameters, at[0].tolist(), strict=True))
    found = PathPrior(
        path,
        str(made.source),
        made.notes,
        times_alone="" if plain is None else format_largest(plain.function, parameters, point),
        settled=made.settled,
        repeats=dict(made.repeats),
        at_target_s=finite_or_none(predicted),
    )
    if made.resilient is None or made.final is None:
        return found
    prior, columns = made.resilient.prior, made.resilient.prior.columns
    if not prior.known and any(at[0, parameter] > largest[parameter] for parameter, _ in prior.switches):
        found = replace(found, notes=(*found.notes, OTHERS_FOLLOW))
    work = [scaled(column.function, column.effort) for column in columns if column.effort and not column.level]
    return replace(
        found,
        prior=prior.text(parameters),
        resilient=format_largest(made.resilient.model.function, parameters, point),
        waiting="" if made.waiting is None else waiting_text(made.waiting, parameters),
        waiting_share=None if made.waiting is None else finite_or_none(made.waiting.share),
        work=added(work) if work else None,
        misses=tuple(
            LevelMisses(column.level, column.function, column.cost)
            for column in columns
            if column.level and column.cost is not None
        ),
    )


def waiting_text(waiting: Waiting, parameters: tuple[str, ...]) -> str:
    """Say what a test for waiting found, as text."""
    if waiting.verdict is Verdict.NONE:
        return "nothing"
    if waiting.verdict is Verdict.UNKNOWN:
        return "too few points to decide"
    part = format_function(waiting.waiting_part, parameters)
    return f"{waiting.verdict}: {part}, {100 * waiting.share:.0f} % at the largest point (p = {waiting.p_value:.2g})"
