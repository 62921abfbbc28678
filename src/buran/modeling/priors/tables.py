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
from buran.modeling.priors.paths import TIMES_ALONE, Source, has_effort, priors_of
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
    sources, notes, priors, efforts = list(found.sources), list(found.notes), list(found.priors), found.efforts
    settled = list(found.settled)

    def drop_prior(row: int, why: str) -> None:
        priors[row], sources[row] = None, Source.TIMES
        notes[row] = (*notes[row], f"{why}: {TIMES_ALONE}")

    priors = with_accounts(timed.points, values, accounts, priors, sources, notes, found.can_wait)
    for row, prior in enumerate(priors):
        measured = int(np.isfinite(values[row]).sum())
        if prior is None or measured > prior.fitted_count:
            continue
        priced = options is None or options.price
        if sources[row] is Source.COMPUTATION and measured > 2:
            priors[row] = one_cost(prior)
        elif sources[row] is Source.COMPUTATION and measured and priced and any(c.effort for c in prior.columns):
            priors[row] = price_alone(prior)
            notes[row] = (
                *notes[row],
                f"only {in_words(measured, 'point')} {'has' if measured == 1 else 'have'} times: one cost of its "
                "counted work was fitted; more points distinguish its parts",
            )
        else:
            drop_prior(row, f"{measured} points do not determine the {prior.fitted_count} coefficients of its prior")
    for row in np.flatnonzero(_done_elsewhere(timed.points, values, efforts, priors, sources)).tolist():
        drop_prior(row, "its time is spent outside of the code whose effort was counted, in libraries or the system")
        settled[row] = True
    priors = with_algorithms(timed.points, values, priors)
    column = None if processes is None else timed.parameters.index(processes)
    startup = startup_prior(column if column is not None and timed.points[:, column].max() > 1 else None)
    startup = replace(startup, repeated=tuple(timed.parameters.index(name) for name in steps or ()))
    # Times of a single number of ranks tell nothing of their growth with it; what others wait for does.
    if column is not None and ranks_above_one(timed.points, column) == 1:
        for row in np.flatnonzero(found.can_wait).tolist():
            if found.priors[row] is None and np.isfinite(values[row]).sum() > startup.fitted_count:
                priors[row] = startup
    starting = is_startup_or_shutdown(timed.tree.names)
    for row in np.flatnonzero(starting).tolist():
        priors[row], sources[row], notes[row] = startup, Source.COMMUNICATION, ()
    fitted = fit_priors(timed.points, values, priors, options, noise, counted.points)
    companions = _work(efforts, found.proven, timed.points)
    # Where an account has columns of its own, what work beyond its blocks costs is no finding any more.
    tested = [
        None if start or (prior is not None and prior.fitted_count < len(prior.columns)) else prior
        for prior, start in zip(priors, starting.tolist(), strict=True)
    ]
    waiting = diagnose(
        timed.points,
        values,
        tested,
        column,
        companions=companions,
        noise=noise,
        can_wait=found.can_wait,
    )
    wholes = _wholes(timed.points, values, priors, fitted, waiting, options, noise, column, counted.points)
    return tuple(
        PathModel(
            sources[row] if fitted[row] is not None else Source.TIMES,
            notes[row],
            fitted[row],
            waiting[row],
            wholes[row],
            efforts[row],
            settled[row],
            _absorbed(wholes[row], efforts[row], found.absorbed[row], timed.tree.names[row]),
            found.repeats[row],
        )
        for row in range(calls)
    )


def _absorbed(
    whole: Resilient | None, effort: ModelFunction | None, absorbed: Mapping[str, ModelFunction], name: str
) -> Mapping[str, Model]:
    return {} if whole is None or effort is None or not absorbed else split(whole.model, effort, absorbed, name)


def _done_elsewhere(
    points: Array,
    values: Array,
    efforts: Sequence[ModelFunction | None],
    priors: Sequence[Prior | None],
    sources: Sequence[Source],
) -> NDArray[np.bool_]:
    """Return shape (call path,): whether computation takes longer than its counted effort can, and its memory.

    A function that fills large arrays by calls of the C library executes the same few basic blocks for any size: as a
    prior they would make a constant of a time that grows. Most points must agree.
    """
    out = np.zeros(len(values), dtype=np.bool_)
    for row, (effort, prior, source) in enumerate(zip(efforts, priors, sources, strict=True)):
        if source is Source.COMPUTATION and effort is not None and prior is not None:
            present = np.isfinite(values[row])
            known = SLOWEST_S * np.maximum(effort.evaluate(points[present]), 1.0)
            for column in (column for column in prior.columns if column.cost is not None):
                known += sum(column.cost or ()) * np.maximum(column.function.evaluate(points[present]), 0.0)
            out[row] = present.any() and np.median(values[row][present] - known) > 0
    return out


def _wholes(
    points: Array,
    values: Array,
    priors: Sequence[Prior | None],
    fitted: Sequence[Resilient | None],
    waiting: Sequence[Waiting | None],
    options: FitOptions | None,
    noise: PointNoise,
    column: int | None,
    counted: Array,
) -> list[Resilient | None]:
    wider: list[Prior | None] = [
        with_waiting(prior, finding.term, column)
        if prior is not None
        and finding is not None
        and finding.verdict is not Verdict.NONE
        and finding.term is not None
        else None
        for prior, finding in zip(priors, waiting, strict=True)
    ]
    again = fit_priors(points, values, wider, options, noise, counted)
    return [second or first for first, second in zip(fitted, again, strict=True)]


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
