"""Where a known MPI switches between algorithms of collective operations, and what each costs the mean rank."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from buran.modeling.functions.powers import PowerLog
from buran.modeling.functions.terms import Cases, Factor, ModelFunction, Term, added, multiplied, scaled, single
from buran.modeling.pmnf.text import format_function

_TABLE = Path(__file__).with_name("thresholds.yaml")
_PER_RANK = frozenset({"MPI_Allgather", "MPI_Gather", "MPI_Scatter", "MPI_Alltoall"})  # B has a block for each rank
_OF_ALL_BLOCKS = frozenset({("mpich", "MPI_Allgather")})  # what thresholds are of

_Shape = tuple[float, float, float, float, float, float]
"""Coefficients of 1, log2(N), N, 1 / N, N log2(N) and log2(N)^2."""


@dataclass(frozen=True)
class KnownAlgorithms:
    """What is known of the MPI of a simulated machine, and of the network.

    Attributes
    ----------
    flavour
        As in the table of thresholds.
    leaf
        Ranks below a leaf switch; messages to others pass twice as many links. None where there are no such switches.
    crowding
        By what share of its time a message takes longer where all ranks of a leaf switch send to others at once.
    ranks_per_node
        The most of any run.
    """

    flavour: str
    leaf: int | None = None
    crowding: float = 0.0
    ranks_per_node: int = 1

    @property
    def source(self) -> str:
        """Where its thresholds are from."""
        return str(_thresholds()[self.flavour]["source"])

    def rows(self, operation: str) -> Mapping[float, Mapping[float, str]]:
        """Return the algorithms of an operation by ranks and bytes that they are below; empty if not known."""
        if self.flavour == "mpich" and self.ranks_per_node > 1:
            return {}
        rows: Mapping[float, Mapping[float, str]] = _thresholds().get(self.flavour, {}).get(operation, {})
        return rows

    def parts(
        self,
        operation: str,
        visits: ModelFunction,
        volume: ModelFunction | None,
        size: ModelFunction | None,
        parameters: Sequence[str],
    ) -> dict[str, ModelFunction]:
        """Return what `buran.modeling.priors.prior.KnownMpi` says, where sizes are a single power of one parameter."""
        rows, parts = self.rows(operation), None if size is None else single(size)
        if not rows or size is None or parts is None or parts[1] is None or len(parts[1].factors) > 1:
            return {}
        (factor,) = parts[1].factors
        if factor.variable is not None or not factor.basis.power or factor.basis.power < 0:
            return {}
        measures = _measures(parts[0], factor)
        moved = volume or ModelFunction(0.0)
        moved = multiplied(moved, measures[3]) if operation in _PER_RANK else moved
        message = multiplied(moved, size) if (self.flavour, operation) in _OF_ALL_BLOCKS else moved
        bounds, costs = zip(*_cases(self, rows, _COSTS[operation]), strict=True)

        def value(name: str, functions: Sequence[ModelFunction]) -> ModelFunction:
            if len(set(functions)) == 1:
                return functions[0]
            by, cases = (size, message, visits), tuple((*end, one) for end, one in zip(bounds, functions, strict=True))
            columns = sorted({c for each in by for term in each.terms for f in term.factors for c in f.columns})
            title, names = f"{name}({operation.removeprefix('MPI_')})", tuple(parameters[column] for column in columns)
            variable = Cases(title, _python(by, cases, parameters), names, tuple(columns), by, cases)
            return ModelFunction(0.0, (1.0,), (Term((Factor(factor.parameter, PowerLog(Fraction(1)), variable),)),))

        given = [(cost, ranks, self, measures) for (ranks, _), cost in zip(bounds, costs, strict=True)]
        steps = [multiplied(visits, value("steps", [_steps(*each) for each in given]))]
        if any(any(cost.segments) for cost in costs):
            more = [scaled(_of(cost.segments, measures), 1 / _SEGMENT) for cost in costs]
            steps.append(multiplied(moved, value("segments", more)))
        out = {"calls x steps": added(steps)}
        if not moved.is_zero:
            out["B x way"] = multiplied(moved, value("way", [_way(*each) for each in given]))
        return out


@dataclass(frozen=True)
class _Cost:
    """What an algorithm costs the mean rank.

    Attributes
    ----------
    steps
        Messages, one after the other.
    farther
        Those of them that pass between leaf switches, with more ranks than one has.
    way
        Bytes that pass one after the other, in units of the message, or of a rank's block.
    crowded
        Those of them that all ranks send at once to other leaf switches: with N ranks, less with those of one.
    by_leaves
        Whether N / leaf is taken for N in `farther`.
    segments
        Steps for each segment of the message after the first one.
    """

    steps: _Shape
    farther: _Shape
    way: _Shape
    crowded: _Shape = (0.0,) * 6
    by_leaves: bool = True
    segments: _Shape = (0.0,) * 6


def _shape(
    one: float = 0.0, log: float = 0.0, n: float = 0.0, inverse: float = 0.0, n_log: float = 0.0, square: float = 0.0
) -> _Shape:
    return one, log, n, inverse, n_log, square


_NOTHING, _LOG, _LESS_ONE, _SHARE = _shape(), _shape(log=1), _shape(-1, n=1), _shape(1, inverse=-1)
_HALVES = _shape(2, inverse=-2)
_TREE = _Cost(_SHARE, _NOTHING, _SHARE)  # a rank with k children waits for k of them: on average for one
_UP = {"root": _Cost(_LOG, _LOG, _LOG), "segments": _Cost(_LOG, _LOG, _LOG, segments=_shape(log=0.6))}
# Children get a message at once, and share the link of their parent.
_DOWN = {
    "binomial": _Cost(_shape(log=0.5), _shape(log=0.5), _shape(-1, 0.75, inverse=1, square=0.25)),
    "k-nomial": _Cost(_shape(log=0.39), _shape(log=0.39), _shape(-0.4, 0.8, square=0.3)),  # four branches
    "binary": _Cost(_shape(-2, 1, inverse=4.5), _LOG, _shape(-4, 2, inverse=9)),
    "chain": _Cost(_shape(-0.5, n=0.5), _shape(n=0.5), _shape(-0.5, n=0.5)),
    "scattered": _Cost(_shape(log=2), _shape(log=2), _HALVES),
}
_COSTS: Mapping[str, Mapping[str, _Cost]] = {
    "MPI_Allreduce": {
        "doubling": _Cost(_LOG, _LOG, _LOG, _LOG),
        "halving": _Cost(_shape(log=2), _shape(log=2), _HALVES),
        "ring": _Cost(_shape(-2, n=2), _shape(n=2), _HALVES),
    },
    "MPI_Bcast": _DOWN,
    "MPI_Reduce": {
        "tree": _TREE,
        "segments": replace(_TREE, segments=_shape(0.5)),
        "halving": _Cost(_shape(1, 1, inverse=-1), _LOG, _HALVES),
    },
    "MPI_Allgather": {
        "doubling": _Cost(_LOG, _LOG, _LESS_ONE, _shape(-1, n=1)),
        # ranks on both sides of two switches wait for each other every second time
        "neighbours": _Cost(_shape(n=0.5), _shape(n=0.25), _LESS_ONE, by_leaves=False),
        "ring": _Cost(_LESS_ONE, _shape(n=1), _LESS_ONE),
    },
    "MPI_Gather": {
        "binomial": _Cost(_SHARE, _NOTHING, _shape(-0.5, 0.8)),
        "linear": _Cost(_SHARE, _NOTHING, _SHARE),
    },
    "MPI_Scatter": {
        "binomial": _Cost(_shape(log=0.5), _shape(log=0.5), _LESS_ONE),
        "linear": _Cost(_SHARE, _SHARE, _LESS_ONE),
    },
    "MPI_Alltoall": {
        "Bruck": _Cost(_LOG, _LOG, _shape(n_log=0.5), by_leaves=False),
        "linear": _Cost(_shape(1), _shape(1), _LESS_ONE, _LESS_ONE, by_leaves=False),
        "fours": _Cost(_shape(n=0.25), _shape(n=0.25), _LESS_ONE, _LESS_ONE, by_leaves=False),
        "pairwise": _Cost(_LESS_ONE, _LESS_ONE, _LESS_ONE, _LESS_ONE, by_leaves=False),
    },
    "MPI_Barrier": {
        "doubling": _Cost(_LOG, _LOG, _NOTHING),
        "dissemination": _Cost(_LOG, _LOG, _NOTHING, by_leaves=False),
        "linear": _Cost(_shape(2), _NOTHING, _NOTHING),
        "tree": _Cost(_shape(log=2), _shape(log=2), _NOTHING),
    },
}
_SEGMENT = 1024.0  # bytes


def _cases(
    mpi: KnownAlgorithms, rows: Mapping[float, Mapping[float, str]], costs: Mapping[str, _Cost]
) -> Iterator[tuple[tuple[float, float], _Cost]]:
    """Give what ranks and bytes are below, and the cost there; ranks of one leaf switch are a case of their own."""
    within = math.inf if mpi.leaf is None else mpi.leaf + 1.0
    for ranks in sorted({*rows, within}):
        algorithms = rows[min(end for end in rows if end >= ranks)]
        for end, name in algorithms.items():
            yield (ranks, end), _cost(name, costs)


def _cost(name: str, costs: Mapping[str, _Cost]) -> _Cost:
    """Return what an algorithm costs; one that goes by the root reduces to it first, perhaps by segments."""
    if name in costs:
        return costs[name]
    up, _, down = name.partition(" ")
    first, then = _UP[up], _DOWN[down]
    sums = _sum(first.steps, then.steps), _sum(first.farther, then.farther), _sum(first.way, then.way)
    return _Cost(*sums, segments=first.segments)


def _sum(one: _Shape, other: _Shape) -> _Shape:
    return _shape(*(a + b for a, b in zip(one, other, strict=True)))


def _steps(cost: _Cost, below: float, mpi: KnownAlgorithms, measures: Sequence[ModelFunction]) -> ModelFunction:
    """Return messages one after the other, those between leaf switches twice."""
    steps = added((_of(cost.steps, measures), scaled(_of(cost.segments, measures), -1.0)))
    if mpi.leaf is None or below <= mpi.leaf + 1:
        return steps
    one, log, n, inverse, n_log, square = cost.farther
    if cost.by_leaves:
        one, n, inverse = one - log * math.log2(mpi.leaf), n / mpi.leaf, inverse * mpi.leaf
    return added((steps, _of((one, log, n, inverse, n_log, square), measures)))


def _way(cost: _Cost, below: float, mpi: KnownAlgorithms, measures: Sequence[ModelFunction]) -> ModelFunction:
    """Return bytes one after the other, with what crowded links between leaf switches add."""
    way = _of(cost.way, measures)
    if mpi.leaf is None or below <= mpi.leaf + 1:
        return way
    crowded = _of(cost.crowded, measures)
    one = sum(a * b for a, b in zip(cost.crowded, (1, math.log2(mpi.leaf), mpi.leaf, 1 / mpi.leaf, 0, 0), strict=True))
    return added((way, scaled(added((crowded, ModelFunction(-one))), mpi.crowding)))


def _measures(number: float, factor: Factor) -> tuple[ModelFunction, ...]:
    """Return what shapes have coefficients of, for N, a number times a power of a parameter."""
    power = factor.basis.power
    assert power is not None
    log = Term((Factor(factor.parameter, PowerLog(Fraction(0), 1)),))
    logs = ModelFunction(math.log2(number), (float(power),), (log,))
    size, inverse = (
        ModelFunction(0.0, (number**sign,), (Term((Factor(factor.parameter, PowerLog(sign * power)),)),))
        for sign in (1, -1)
    )
    return ModelFunction(1.0), logs, size, inverse, multiplied(size, logs), multiplied(logs, logs)


def _of(shape: _Shape, measures: Sequence[ModelFunction]) -> ModelFunction:
    return added(scaled(measure, number) for measure, number in zip(measures, shape, strict=True))


def _python(
    by: Sequence[ModelFunction], cases: Sequence[tuple[float, float, ModelFunction]], parameters: Sequence[str]
) -> str:
    """Return the value as Python computes it."""
    size, above, below = (f"({format_function(function, parameters, 'python')})" for function in by)
    parts = []
    for ranks, end, function in cases:
        conditions = [f"{size} < {ranks!r}"] * (ranks < math.inf) + [f"{above} < {end!r} * {below}"] * (end < math.inf)
        text = f"({format_function(function, parameters, 'python')})"
        parts.append(f"{text} if {' and '.join(conditions)} else " if conditions else text)
    return "".join(parts)


@cache
def _thresholds() -> Mapping[str, Mapping[str, Any]]:
    """Return, by flavour of MPI, the source of its thresholds, and these by operation, ranks and bytes."""
    with _TABLE.open(encoding="utf-8") as file:
        table: Mapping[str, Mapping[str, Any]] = yaml.safe_load(file)
    return table
