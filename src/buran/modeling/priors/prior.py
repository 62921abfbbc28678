"""Priors: what a call path's run time is made of, its coefficients left open."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Protocol

import numpy as np

from buran.errors import UsageError
from buran.modeling.functions.powers import PowerLog
from buran.modeling.functions.terms import (
    Array,
    ModelFunction,
    Part,
    Term,
    added,
    multiplied,
    parts_of,
    power,
    scaled,
    single,
    summed,
)
from buran.modeling.numerics.least_squares import Mask
from buran.modeling.pmnf.text import format_function
from buran.modeling.price.discrepancy import Along
from buran.modeling.priors.communication import CostPart, Operation, Volume

ONE = ModelFunction(1.0)

# Seconds of one counted unit of effort, and of what a call takes beside: what takes longer is not done by the code
# that was counted. Tuned: judgement.
SLOWEST_S = 1e-5
ALONE = "with one process at every point nothing is known about messages between processes"
_SMALL, _DIGITS = 1e-9, 9  # smaller differences are rounding


class KnownMpi(Protocol):
    """An MPI of which it is known where it switches between algorithms."""

    @property
    def source(self) -> str:
        """Where that is from."""

    def parts(
        self,
        operation: str,
        visits: ModelFunction,
        volume: ModelFunction | None,
        size: ModelFunction | None,
        parameters: Sequence[str],
    ) -> Mapping[str, ModelFunction]:
        """Return messages and bytes that pass one after the other, of all calls; empty where that is not known.

        Parameters
        ----------
        visits, volume, size
            Calls, bytes of the cost model, and ranks of the communicator.
        parameters
            Names, by column of the points.
        """


Cost = tuple[float, float]
"""Mean and standard deviation of a coefficient that is expected before any time is seen."""


@dataclass(frozen=True)
class Column:
    """A summand of a prior, without its coefficient.

    Attributes
    ----------
    name
        What the coefficient means: ``constant``, ``effort``, or a part of an MPI operation's cost model.
    function
        How it grows; never negative where effort is not.
    effort
        What a unit of `function` is in counts of the effort model; 0 where that is unknown.
    cost
        What the machine lets expect of the coefficient; None where only times tell it.
    parts
        What may be expected of it where times tell little, all as likely: parts of what `cost` says as a whole.
    level
        Level of the cache whose misses it has, from 1; 0 for all else.
    """

    name: str
    function: ModelFunction
    effort: float = 0.0
    cost: Cost | None = None
    parts: tuple[Cost, ...] = ()
    level: int = 0


@dataclass(frozen=True)
class Prior:
    """The skeleton of a model.

    Attributes
    ----------
    columns
        The constant first.
    source
        Where it is from: the metric of an effort model, or the cost model of an MPI operation.
    notes
        What a user should know of it, in sentences.
    others
        Columns that other algorithms of an MPI operation have; see `buran.modeling.priors.resilient`.
    switches
        Parameters that ranks of the communicator or bytes of a message grow with, and by which power: beyond those
        measured, MPIs may change the algorithm.
    known
        Whether it is known which algorithm the MPI takes there.
    repeated
        Parameters along which its work is proven to repeat: a unit of it has the same price at all of their values.
    level
        Parameters along which the price of its work has no trend: ranks that its counts do not depend on. Ranks that
        share a node raise the price until the node is full, and no farther.
    """

    columns: tuple[Column, ...]
    source: str
    notes: tuple[str, ...] = ()
    others: tuple[Column, ...] = ()
    switches: tuple[tuple[int, float], ...] = ()
    known: bool = False
    repeated: tuple[int, ...] = ()
    level: tuple[int, ...] = ()

    @property
    def functions(self) -> tuple[ModelFunction, ...]:
        """The columns without what they are called."""
        return tuple(column.function for column in self.columns)

    @property
    def fitted_count(self) -> int:
        """How many coefficients only times determine."""
        return sum(column.cost is None for column in self.columns)

    @property
    def has_open_work(self) -> bool:
        """Whether it has counted work whose price only times determine."""
        return any(column.effort and column.cost is None for column in self.columns[1:])

    @property
    def widened(self) -> Prior:
        """The prior with the columns of other algorithms."""
        return replace(self, columns=(*self.columns, *self.others), others=())

    def that_matters_at(self, points: Array) -> Prior:
        """Return it without the columns that are 0 at all points, shape (point, parameter), with one process."""
        columns, others = (
            tuple(column for column in some if np.abs(column.function.evaluate(points)).max(initial=0.0) > 0)
            for some in (self.columns, self.others)
        )
        alone = (ALONE,) if len(columns) < len(self.columns) and ALONE not in self.notes else ()
        return replace(self, columns=columns, others=others, notes=(*self.notes, *alone))

    def along(self, parameters: int) -> tuple[Along, ...]:
        """Return how the price of its work depends on each parameter."""
        kinds = {**dict.fromkeys(self.level, Along.LEVEL), **dict.fromkeys(self.repeated, Along.NOTHING)}
        return tuple(kinds.get(column, Along.TREND) for column in range(parameters))

    def with_parts(self, untold: Sequence[bool]) -> tuple[Prior, ...]:
        """Return the prior with each part of what may be expected of some columns, one after the other."""
        count = max((len(column.parts) for column, some in zip(self.columns, untold, strict=True) if some), default=0)
        return tuple(
            replace(
                self,
                columns=tuple(
                    replace(column, cost=column.parts[k]) if some and column.parts else column
                    for column, some in zip(self.columns, untold, strict=True)
                ),
            )
            for k in range(count)
        )

    def design(self, points: Array) -> Array:
        """Return shape (point, column)."""
        return np.stack([column.function.evaluate(points) for column in self.columns], axis=1)

    def text(self, parameters: tuple[str, ...]) -> str:
        """Return it as ``c0 + c1 n + c2 n * p``; misses of caches are named, they have dozens of terms."""
        parts = ["c0"]
        for number, column in enumerate(self.columns[1:], start=1):
            text = column.name if column.level else format_function(column.function, parameters)
            parts.append(f"c{number} ({text})" if " + " in text or " - " in text else f"c{number} {text}")
        return " + ".join(parts)

    def function(self, coefficients: Array) -> ModelFunction:
        """Return the model with these coefficients of the columns, shape (column,)."""
        return added(scaled(column.function, float(c)) for column, c in zip(self.columns, coefficients, strict=True))


class Account(Protocol):
    """An account of times, such as cache misses: columns of priors with costs that are known beforehand."""

    @property
    def name(self) -> str:
        """What it accounts for."""

    @property
    def remark(self) -> str:
        """What is noted of call paths whose times have it; empty for nothing."""

    def explains(self, points: Array, values: Array) -> Mask:
        """Return shape (call path,): of which times it may be most, so that it is a prior without counted effort."""

    def added_to(
        self, priors: Sequence[Prior | None], computing: Sequence[bool], points: Array, values: Array
    ) -> list[Prior | None]:
        """Return priors with its columns, which have a cost, where these matter.

        Parameters
        ----------
        priors, computing
            One for each call path, and whether it is of computation: only those get columns.
        points, values
            Of the times, shapes (point, parameter) and (call path, point).
        """


def computation_prior(effort: ModelFunction, metric: str = "basic_blocks", ranks: int | None = None) -> Prior:
    """Take an effort model's terms without their coefficients (section 3.2 of the noise-resilient priors paper).

    Terms that are subtracted, as in ``n^2 - n``, keep their sign; their columns count the other way.

    Parameters
    ----------
    ranks
        Column of the points that counts ranks: work that does not depend on it has a price without a trend along it.
    """
    columns = [Column("constant", ONE, max(effort.constant, 0.0))]
    columns += [
        Column("effort", ModelFunction(0.0, (math.copysign(1.0, coefficient),), (term,)), abs(coefficient))
        for coefficient, term in zip(effort.coefficients, effort.terms, strict=True)
    ]
    level = () if ranks is None or any(ranks in f.columns for term in effort.terms for f in term.factors) else (ranks,)
    return Prior(tuple(columns), metric, level=level)


def one_cost(prior: Prior) -> Prior:
    """Return a prior of computation in which each unit of work costs the same, for points too few to tell more."""
    constant, *columns = (column for column in prior.columns if column.cost is None)
    given = tuple(column for column in prior.columns if column.cost is not None)
    work = added(scaled(column.function, column.effort) for column in columns)
    return replace(prior, columns=(constant, Column("effort", work, 1.0), *given))


def price_alone(prior: Prior) -> Prior:
    """Return a prior of computation whose one open coefficient is the price of all counted work, for one or two points.

    What does not grow is work, too; next to it a call has no constant of more than `SLOWEST_S`.
    """
    priced = one_cost(prior)
    constant, work, *given = priced.columns
    whole = added((work.function, ModelFunction(constant.effort)))
    columns = (replace(constant, cost=(0.0, SLOWEST_S)), replace(work, function=whole), *given)
    return replace(priced, columns=columns)


def communication_prior(
    operation: Operation,
    *,
    name: str,
    visits: ModelFunction,
    size: ModelFunction | None,
    sent: ModelFunction,
    received: ModelFunction,
    mpi: KnownMpi | None = None,
    parameters: Sequence[str] = (),
) -> Prior:
    """Put effort models into the cost model of an MPI operation (Table 1 of the noise-resilient priors paper).

    Parameters
    ----------
    operation
        Its cost model.
    name
        Name of the operation.
    visits
        Model of the calls.
    size
        Model of the communicator's size: a number or one term, such as ``p`` or ``1/4 p^(1/2)``. None if the operation
        names no communicator.
    sent, received
        Models of the bytes, means over ranks, all calls together.
    mpi
        If it is known: then its algorithm at each point says what the operation costs, and the usual parts are those
        of others.
    parameters
        Names, by column of the points.

    Raises
    ------
    UsageError
        If the cost model needs a communicator's size and there is none, or it is no single term.
    """
    volume = _volumes(sent, received, size)[operation.volume]
    notes = []
    if volume is not None and volume.is_zero:
        notes.append(f"{name} moves no bytes: latency alone is in its prior")
        volume = None
    if size == ONE and CostPart.STEPS in operation.parts:
        notes.append(ALONE)
    parts = _parts(visits, volume, size)
    if any(parts[part] is None and (volume is not None or "B" not in part.value) for part in operation.parts):
        raise UsageError(
            f"the cost model of {name} needs the size of its communicator",
            why="it is not known" if size is None else "it is no single power of the parameters",
            hint="the model of its time is made without a prior",
        )
    source, constant = operation.source, [Column("constant", ONE)]
    columns = _with_others(constant, ((part.value, parts[part]) for part in operation.parts))
    further = [(part.value, parts[part]) for part in operation.others]
    known = {} if mpi is None else mpi.parts(name.removesuffix("_c"), visits, volume, size, parameters)
    if known and mpi is not None:
        source = mpi.source
        notes.append(f"which algorithm runs is known: {source}")
        further = [*((column.name, column.function) for column in columns[1:]), *further]
        columns = [*constant, *(Column(part, function) for part, function in known.items())]
    others = _with_others(columns, further)[len(columns) :]
    switches = _switches(visits, volume, size) if CostPart.STEPS in operation.parts else ()
    return Prior(tuple(columns), f"{name}: {source}", tuple(notes), tuple(others), switches, bool(known))


def _with_others(columns: Sequence[Column], further: Iterable[tuple[str, ModelFunction | None]]) -> list[Column]:
    """Return columns, and further ones that are neither 0 nor multiples of those before."""
    out = list(columns)
    for title, function in further:
        if function is not None and not function.is_zero and _shape(function) not in [_shape(c.function) for c in out]:
            out.append(Column(title, function))
    return out


def _switches(
    visits: ModelFunction, volume: ModelFunction | None, size: ModelFunction | None
) -> tuple[tuple[int, float], ...]:
    """Return by which power the communicator, or a message, grows with each parameter."""
    parts = None if size is None else single(size)
    factors = () if parts is None or parts[1] is None else parts[1].factors
    powers = {factor.parameter: abs(float(factor.basis.power or 0)) for factor in factors}
    moved = () if volume is None else volume.terms
    for parameter in sorted({column for term in moved for factor in term.factors for column in factor.columns}):
        assert volume is not None
        grows = float(volume.lead(parameter)[0] - visits.lead(parameter)[0])
        if grows > 0:
            powers.setdefault(parameter, grows)
    return tuple(powers.items())


def startup_prior(processes: int | None) -> Prior:
    """Return what start-up and shutdown take: a constant and a step for each level of a tree over the processes.

    More growth cannot be told from runs that are short and share their cores.

    Parameters
    ----------
    processes
        Column of the points that counts processes; None if none does, or there is always one.
    """
    columns = [Column("constant", ONE)]
    if processes is not None:
        columns.append(Column(CostPart.STEPS.value, power(processes, 0, 1)))
    return Prior(tuple(columns), "start-up and shutdown: a tree over the processes")


def _parts(
    visits: ModelFunction, volume: ModelFunction | None, size: ModelFunction | None
) -> Mapping[CostPart, ModelFunction | None]:
    """Return the parts of cost models for these calls and bytes; None where a size is not known, or no bytes move."""
    inverse, logs = _inverse_and_log2(size)
    peers = None if size is None else added((size, ModelFunction(-1.0)))
    stays = _product(volume, inverse)
    return {
        CostPart.CALL: visits,
        CostPart.STEPS: _product(visits, logs),
        CostPart.PEERS: _product(visits, peers),
        CostPart.BYTES: volume,
        CostPart.SHARED_BYTES: None if volume is None or stays is None else added((volume, scaled(stays, -1.0))),
        CostPart.STEP_BYTES: _product(volume, logs),
        CostPart.PEER_BYTES: _product(volume, peers),
        CostPart.OWN_BYTES: stays,
    }


def _volumes(
    sent: ModelFunction, received: ModelFunction, size: ModelFunction | None
) -> Mapping[Volume, ModelFunction | None]:
    """Return the messages of cost models; None where the size is not known, or there are none."""
    both, inverse = added((sent, received)), _inverse_and_log2(size)[0]
    return {
        Volume.NONE: None,
        Volume.SENT: sent,
        Volume.RECEIVED: received,
        Volume.BOTH: both,
        Volume.SENT_SHARE: _product(sent, inverse),
        Volume.BOTH_SHARE: _product(both, inverse),
        Volume.ROOT_SENT: _product(sent, size),
        Volume.ROOT_RECEIVED: _product(received, size),
    }


def _product(one: ModelFunction | None, other: ModelFunction | None) -> ModelFunction | None:
    return None if one is None or other is None else multiplied(one, other)


def _inverse_and_log2(size: ModelFunction | None) -> tuple[ModelFunction | None, ModelFunction | None]:
    """Return 1 / N and log2(N) of a size that is a number or one product of powers; None for any other."""
    part = None if size is None else single(size)
    factors = () if part is None or part[1] is None else part[1].factors
    powers = [power for factor in factors if (power := factor.basis.power) is not None]
    if part is None or part[0] <= 0 or len(powers) < len(factors):
        return None, None
    turned, logs = (
        [replace(factor, basis=basis) for factor, basis in zip(factors, bases, strict=True)]
        for bases in ([PowerLog(-power) for power in powers], [PowerLog(Fraction(0), 1)] * len(powers))
    )
    constant = math.log2(part[0])
    summands: list[Part] = [(constant if abs(constant) >= _SMALL else 0.0, None)]
    summands += [(float(power), Term((log,))) for power, log in zip(powers, logs, strict=True)]
    return summed([(1.0 / part[0], Term(tuple(turned)) if turned else None)]), summed(summands)


def _shape(function: ModelFunction) -> list[Part]:
    """Return a function that is not 0 without its size: that of its multiples is the same but for rounding."""
    parts = [part for part in parts_of(function) if part[0]]
    return [(round(coefficient / parts[0][0], _DIGITS), term) for coefficient, term in parts]
