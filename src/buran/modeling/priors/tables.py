"""Noise-resilient models of measurement tables: times under one filter, counts under another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from buran.errors import UsageError
from buran.modeling.numerics.tuning import MATTERS
from buran.modeling.pmnf.model import Model
from buran.modeling.pmnf.repetitions import Repetition, over_repetitions
from buran.modeling.pmnf.terms import Array, ModelFunction, Term
from buran.modeling.price.noise import PointNoise
from buran.modeling.priors.absorbed import split
from buran.modeling.priors.account import Account, with_accounts
from buran.modeling.priors.algorithms import with_algorithms
from buran.modeling.priors.paths import TIMES_ALONE, PathPriors, Source, has_effort, priors_of
from buran.modeling.priors.prior import KnownMpi, Prior, one_cost, price_alone, startup_prior
from buran.modeling.priors.resilient import FitOptions, Resilient, fit_priors
from buran.modeling.priors.steps import Repeats
from buran.modeling.priors.tuning import SLOWEST_S
from buran.modeling.priors.waiting import Verdict, Waiting, diagnose, ranks_above_one, with_waiting
from buran.profiles.experiment.table import Aggregate, Experiment
from buran.profiles.startup import is_startup_or_shutdown
from buran.wording import counted as in_words


@dataclass(frozen=True)
class PathModel:
    """The model of one call path.

    Attributes
    ----------
    source
        What its prior is from.
    notes
        Why there is no prior, or what to know of it; sentences.
    resilient
        None without a prior.
    waiting
        What time has beyond the prior; None without a prior.
    whole
        Effort part and waiting part together, where waiting was found; else the noise-resilient model. None without a
        prior.
    effort
        Effort model of a computation, bytes of a communication; None if not known.
    settled
        Whether counting at more points would tell nothing more of it.
    absorbed
        Models of the counted call paths that it takes up, itself first, which add up to `final`; empty where there are
        none.
    repeats
        For each parameter that may only repeat work what counts say of that.
    """

    source: Source
    notes: tuple[str, ...]
    resilient: Resilient | None = None
    waiting: Waiting | None = None
    whole: Resilient | None = None
    effort: ModelFunction | None = None
    settled: bool = True
    absorbed: Mapping[str, Model] = field(default_factory=dict)
    repeats: Mapping[str, Repeats] = field(default_factory=dict)

    @property
    def final(self) -> Model | None:
        """The model of `whole`."""
        return None if self.whole is None else self.whole.model


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
    calls = len(timed.tree)
    if counted is None and has_effort(timed):
        counted = timed
    if counted is None or aggregate == "sum":
        why = "no effort was measured" if counted is None else "priors describe the mean rank, not sums over ranks"
        return (PathModel(Source.TIMES, (f"{why}: {TIMES_ALONE}",)),) * calls
    if counted.parameters != timed.parameters:
        raise UsageError(
            "times and counts have different parameters",
            why=f"{', '.join(timed.parameters)}; {', '.join(counted.parameters)}",
        )
    repetitions = timed.over_locations(metric, aggregate)
    values, noise = over_repetitions(repetitions, repetition), PointNoise.of(repetitions, repetition)
    found = priors_of(timed.tree, counted, timed.points, mpi, processes=processes, steps=steps, derived=derived)
    column = None if processes is None else timed.parameters.index(processes)
    times = _Times(timed.points, values, noise, counted.points, column, options)
    draft = _Draft(list(found.sources), list(found.notes), list(found.priors), list(found.settled))
    found_first = draft.priors, draft.sources, draft.notes
    draft.priors = with_accounts(times.points, values, accounts, *found_first, found.can_wait)
    _keep_determined(draft, values, options is None or options.price)
    for row in np.flatnonzero(_done_elsewhere(times, found.efforts, draft)).tolist():
        draft.drop(row, "its time is spent outside of the code whose effort was counted, in libraries or the system")
        draft.settled[row] = True
    draft.priors = with_algorithms(times.points, values, draft.priors)
    starting = is_startup_or_shutdown(timed.tree.names)
    _enter_startup(draft, times, found, starting, tuple(timed.parameters.index(name) for name in steps or ()))
    fitted = times.fit(draft.priors)
    waiting = _beyond_priors(times, draft.priors, found, starting)
    wholes = _wholes(times, draft.priors, fitted, waiting)
    return tuple(
        PathModel(
            draft.sources[row] if fitted[row] is not None else Source.TIMES,
            draft.notes[row],
            fitted[row],
            waiting[row],
            wholes[row],
            found.efforts[row],
            draft.settled[row],
            _absorbed(wholes[row], found.efforts[row], found.absorbed[row], timed.tree.names[row]),
            found.repeats[row],
        )
        for row in range(calls)
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


@dataclass(eq=False)
class _Draft:
    """Sources, notes, priors and whether counts are settled, one of each call path, until times are seen."""

    sources: list[Source]
    notes: list[tuple[str, ...]]
    priors: list[Prior | None]
    settled: list[bool]

    def drop(self, row: int, why: str) -> None:
        """Leave a call path to its times."""
        self.priors[row], self.sources[row] = None, Source.TIMES
        self.notes[row] = (*self.notes[row], f"{why}: {TIMES_ALONE}")


def _keep_determined(draft: _Draft, values: Array, priced: bool) -> None:
    """Fit one cost, or the price alone, where values (call path, point) are too few for a prior's coefficients."""
    for row, prior in enumerate(draft.priors):
        measured = int(np.isfinite(values[row]).sum())
        if prior is None or measured > prior.fitted_count:
            continue
        computes = draft.sources[row] is Source.COMPUTATION
        if computes and measured > 2:
            draft.priors[row] = one_cost(prior)
        elif computes and measured and priced and any(c.effort for c in prior.columns):
            draft.priors[row] = price_alone(prior)
            draft.notes[row] = (
                *draft.notes[row],
                f"only {in_words(measured, 'point')} {'has' if measured == 1 else 'have'} times: one cost of its "
                "counted work was fitted; more points distinguish its parts",
            )
        else:
            draft.drop(row, f"{measured} points do not determine the {prior.fitted_count} coefficients of its prior")


def _enter_startup(
    draft: _Draft, times: _Times, found: PathPriors, starting: NDArray[np.bool_], repeated: tuple[int, ...]
) -> None:
    """Enter the prior of start-up where it is one, and for what waits, if all points have one number of ranks.

    Times of a single number of ranks tell nothing of their growth with it; what others wait for does.
    """
    column = times.column
    startup = startup_prior(column if column is not None and times.points[:, column].max() > 1 else None)
    startup = replace(startup, repeated=repeated)
    if column is not None and ranks_above_one(times.points, column) == 1:
        for row in np.flatnonzero(found.can_wait).tolist():
            if found.priors[row] is None and np.isfinite(times.values[row]).sum() > startup.fitted_count:
                draft.priors[row] = startup
    for row in np.flatnonzero(starting).tolist():
        draft.priors[row], draft.sources[row], draft.notes[row] = startup, Source.COMMUNICATION, ()


def _beyond_priors(
    times: _Times, priors: Sequence[Prior | None], found: PathPriors, starting: NDArray[np.bool_]
) -> Sequence[Waiting | None]:
    """Find what times have beyond their priors, but for start-up.

    Where an account has columns of its own, what work beyond its blocks costs is no finding any more.
    """
    tested = [
        None if start or (prior is not None and prior.fitted_count < len(prior.columns)) else prior
        for prior, start in zip(priors, starting.tolist(), strict=True)
    ]
    return diagnose(
        times.points,
        times.values,
        tested,
        times.column,
        companions=_work(found.efforts, found.proven, times.points),
        noise=times.noise,
        can_wait=found.can_wait,
    )


def _absorbed(
    whole: Resilient | None, effort: ModelFunction | None, absorbed: Mapping[str, ModelFunction], name: str
) -> Mapping[str, Model]:
    return {} if whole is None or effort is None or not absorbed else split(whole.model, effort, absorbed, name)


def _done_elsewhere(times: _Times, efforts: Sequence[ModelFunction | None], draft: _Draft) -> NDArray[np.bool_]:
    """Return shape (call path,): whether computation takes longer than its counted effort can, and its memory.

    A function that fills large arrays by calls of the C library executes the same few basic blocks for any size: as a
    prior they would make a constant of a time that grows. Most points must agree.
    """
    points, values = times.points, times.values
    out = np.zeros(len(values), dtype=np.bool_)
    for row, (effort, prior, source) in enumerate(zip(efforts, draft.priors, draft.sources, strict=True)):
        if source is Source.COMPUTATION and effort is not None and prior is not None:
            present = np.isfinite(values[row])
            # most points take longer than e(x) visits of the slowest code and what memory costs, sum_k c_k e_k(x)
            known = SLOWEST_S * np.maximum(effort.evaluate(points[present]), 1.0)
            for column in (column for column in prior.columns if column.cost is not None):
                known += sum(column.cost or ()) * np.maximum(column.function.evaluate(points[present]), 0.0)
            out[row] = present.any() and np.median(values[row][present] - known) > 0
    return out


def _wholes(
    times: _Times, priors: Sequence[Prior | None], fitted: Sequence[Resilient | None], waiting: Sequence[Waiting | None]
) -> list[Resilient | None]:
    wider: list[Prior | None] = [
        with_waiting(prior, finding.term, times.column)
        if prior is not None
        and finding is not None
        and finding.verdict is not Verdict.NONE
        and finding.term is not None
        else None
        for prior, finding in zip(priors, waiting, strict=True)
    ]
    return [second or first for first, second in zip(fitted, times.fit(wider), strict=True)]


def _work(efforts: Sequence[ModelFunction | None], proven: Sequence[bool], points: Array) -> list[Term]:
    """List the leading terms that make up the computation that counts prove: what other ranks may be waiting for.

    Nobody waits for what is a small part of the work at every point.
    """
    computations = (effort for effort, sure in zip(efforts, proven, strict=True) if sure and effort is not None)
    work: dict[Term, Array] = {}
    for effort in computations:
        sizes = dict(zip(effort.terms, effort.coefficients, strict=True))
        for term in effort.dominating_terms():
            work[term] = work.get(term, 0.0) + np.maximum(sizes[term] * term.evaluate(points), 0.0)
    whole = sum(work.values(), np.zeros(len(points)))
    return [term for term, part in work.items() if (part >= MATTERS * whole).any()]
