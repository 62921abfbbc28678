"""Priors of the call paths of measurement tables: counts under one filter, call paths of another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from buran.errors import UsageError
from buran.experiment.table import Experiment
from buran.model.candidates import Ids
from buran.model.repetitions import over_repetitions
from buran.model.terms import Array, ModelFunction
from buran.prior.communication import POLLS, Operation, operation_of
from buran.prior.effort import OPEN, Effort, Steadiness, effort_of
from buran.prior.prior import ALONE, Column, Prior, communication_prior, computation_prior
from buran.prior.volume import bytes_of
from buran.profile.metrics import metric_of, stands_for
from buran.profile.profile import CallTree
from buran.profile.regroup import TreeUnion

TIMES_ALONE = "the model is made of times alone"
_NONE = ModelFunction(0.0)


class Source(StrEnum):
    """Where a model of time is from."""

    COMPUTATION = "computation"
    COMMUNICATION = "communication"
    TIMES = "times alone"


@dataclass(frozen=True)
class PathPriors:
    """What counts tell of each call path, before any time.

    Attributes
    ----------
    sources, notes, priors, efforts, settled
        One for each call path; see `buran.prior.tables.PathModel`.
    """

    sources: tuple[Source, ...]
    notes: tuple[tuple[str, ...], ...]
    priors: tuple[Prior | None, ...]
    efforts: tuple[ModelFunction | None, ...]
    settled: tuple[bool, ...]


def has_effort(table: Experiment) -> bool:
    """Whether something was counted that can stand for the effort of computation."""
    return bool(stands_for("computation", table.values))


def priors_of(tree: CallTree, counted: Experiment, points: Array) -> PathPriors:
    """Derive the priors of call paths from counts.

    Parameters
    ----------
    tree
        Call paths of the times.
    counted
        See `buran.prior.tables.models_from_priors`.
    points
        Shape (point, parameter), of the times.
    """
    return _priors(tree, _Counts.of(counted, tree), points)


def project(counted: CallTree, timed: CallTree) -> tuple[Ids, Ids]:
    """Find the call path under a narrow filter that takes up each call path under a wide one.

    A function that the narrow filter leaves out belongs to its caller, and its callees to the caller, too.

    Returns
    -------
    target
        Shape (counted call path,): index into `timed`, -1 if there is none.
    itself
        Shape (counted call path,): whether it is the same call path, not a callee that was taken up.
    """
    union = TreeUnion()
    same = dict(zip(union.add(timed).tolist(), range(len(timed)), strict=True))
    target = np.full(len(counted), -1, dtype=np.int64)
    itself = np.zeros(len(counted), dtype=bool)
    regions = [union.region_number(*each) for each in zip(counted.regions, counted.identities, strict=True)]
    numbers = [-1] * len(counted)
    for row, (region, parent) in enumerate(zip(counted.region.tolist(), counted.parent.tolist(), strict=True)):
        above = numbers[parent] if parent >= 0 else -1
        number = union.node(above, regions[region])
        itself[row] = number is not None
        numbers[row] = above if number is None else number
        target[row] = same.get(numbers[row], -1)
    return target, itself


@dataclass(frozen=True, eq=False)
class _Counts:
    """Counts of the wide instrumentation, on the call paths of the narrow one: shape (call path, point, repetition)."""

    points: Array
    values: dict[str, Array]
    known: Array
    polled: Array

    @classmethod
    def of(cls, counted: Experiment, timed: CallTree) -> _Counts:
        target, itself = project(counted.tree, timed)
        known = np.zeros(len(timed), dtype=bool)
        known[target[itself]] = True
        values = {}
        for metric in counted.metrics:
            known_metric = metric_of(metric)
            how = known_metric.combination
            own = counted.over_locations(metric, "mean" if how == "add" else how)
            out = np.zeros((len(timed), *own.shape[1:]))
            rows = target >= 0 if known_metric.effort == "computation" else itself
            if how != "add":
                out[target[rows]] = own[rows]
            else:
                np.add.at(out, target[rows], own[rows])
            values[metric] = out
        polls = np.array(
            [counted.tree.regions[r].name.removesuffix("_c") in POLLS for r in counted.tree.region.tolist()]
        )
        polled = np.zeros(len(timed), dtype=bool)
        parents = counted.tree.parent[polls & (counted.tree.parent >= 0)]
        polled[target[parents[target[parents] >= 0]]] = True
        return cls(counted.points, values, known, polled)

    @property
    def repeated(self) -> bool:
        """Whether any point was counted twice."""
        return any(own.shape[2] > 1 for own in self.values.values())

    def model(self, metric: str, rows: Ids) -> Effort:
        """Return effort models of some call paths."""
        own = self.values[metric][rows]
        return effort_of(self.points, own, metric=metric, exact=metric_of(metric).role == "exact")


def _priors(tree: CallTree, counts: _Counts, points: Array) -> PathPriors:
    sources = [Source.TIMES] * len(tree)
    notes: list[tuple[str, ...]] = [()] * len(tree)
    priors: list[Prior | None] = [None] * len(tree)
    efforts: list[ModelFunction | None] = [None] * len(tree)
    settled = [True] * len(tree)
    regions = [tree.regions[region] for region in tree.region.tolist()]
    is_mpi = np.array([region.paradigm == "mpi" for region in regions], dtype=bool)
    metric = next(iter(stands_for("computation", counts.values)), None)
    own = np.flatnonzero(~is_mpi)
    if metric is None:
        for row in own.tolist():
            notes[row] = ("no effort was counted: the model is made of times alone",)
    else:
        effort = counts.model(metric, own)
        for place, row in enumerate(own.tolist()):
            priors[row], efforts[row], notes[row] = _computation(effort, place, counts, row, metric)
            settled[row] = effort.steadiness[place] not in OPEN
            if priors[row] is not None:
                sources[row] = Source.COMPUTATION
    rows = np.flatnonzero(is_mpi)
    for row, (prior, volume, said, sure) in zip(
        rows.tolist(), _communication([regions[r].name for r in rows.tolist()], rows, counts, points), strict=True
    ):
        priors[row], efforts[row], notes[row], settled[row] = prior, volume, said, sure
        if prior is not None:
            sources[row] = Source.COMMUNICATION
    return PathPriors(tuple(sources), tuple(notes), tuple(priors), tuple(efforts), tuple(settled))


def _computation(
    effort: Effort, place: int, counts: _Counts, row: int, metric: str
) -> tuple[Prior | None, ModelFunction | None, tuple[str, ...]]:
    name = metric.replace("_", " ")
    function, steadiness = effort.functions[place], effort.steadiness[place]
    if not counts.known[row] or steadiness is Steadiness.MISSING:
        return None, None, (f"its {name} were not counted: {TIMES_ALONE}",)
    if steadiness is Steadiness.UNSTEADY:
        return None, None, (f"its {name} differ between runs, as those of busy waiting do: {TIMES_ALONE}",)
    if steadiness is Steadiness.UNEXPLAINED:
        return None, None, (f"its {name} {_unexplained(counts)}: {TIMES_ALONE}",)
    if counts.polled[row] and not counts.repeated:
        said = f"it polls, and one run of each point does not show whether its {name} depend on that: {TIMES_ALONE}"
        return None, None, (said,)
    if function is None or not (function.constant or function.terms):
        return None, None, (f"it executes no {name}: {TIMES_ALONE}",)
    notes = () if metric == "basic_blocks" else (f"effort is counted in {name}",)
    if steadiness is Steadiness.DATA_DEPENDENT:
        share = 100 * float(effort.residual[place])
        notes = (*notes, f"its effort depends on data, or on rounded numbers of rounds: {share:.2g} % off its model")
    return computation_prior(function, metric), function, notes


def _unexplained(counts: _Counts) -> str:
    return f"differ from point to point, and {len(counts.points)} points do not tell how they grow"


def _communication(
    names: Sequence[str], rows: Ids, counts: _Counts, points: Array
) -> list[tuple[Prior | None, ModelFunction | None, tuple[str, ...], bool]]:
    wanted = ("visits", "bytes_sent", "bytes_received")
    if not len(rows):
        return []
    if any(name not in counts.values for name in wanted):
        return [(None, None, (f"visits and bytes were not recorded: {TIMES_ALONE}",), True)] * len(rows)
    visits = counts.model("visits", rows)
    sizes, size_notes = _communicators(counts, rows)
    sent, received = (
        bytes_of(
            counts.points,
            counts.values[name][rows],
            counts.values["visits"][rows],
            visits.functions,
            sizes,
            metric=name,
        )
        for name in wanted[1:]
    )
    out: list[tuple[Prior | None, ModelFunction | None, tuple[str, ...], bool]] = []
    for place, (name, row) in enumerate(zip(names, rows.tolist(), strict=True)):
        operation = operation_of(name)
        own = [effort.steadiness[place] for effort in (visits, sent, received)]
        why = None
        if name.removesuffix("_c") in POLLS:
            why = f"{name} polls: how often it is called depends on how long something takes"
        elif operation is None:
            why = f"there is no cost model of {name}"
        elif not counts.known[row] or Steadiness.MISSING in own:
            why = "its bytes were not recorded"
        elif Steadiness.UNSTEADY in own:
            why = "its calls or bytes differ between runs"
        elif Steadiness.UNEXPLAINED in own:
            why = f"its calls or bytes {_unexplained(counts)}"
        sure = not set(OPEN) & set(own)
        if why is not None or operation is None:
            out.append((None, None, (f"{why}: {TIMES_ALONE}",), operation is None or sure))
            continue
        functions = [effort.functions[place] or _NONE for effort in (visits, sent, received)]
        out.append((*_one_operation(operation, name, functions, sizes[place], size_notes[place], points), sure))
    return out


def _one_operation(
    operation: Operation,
    name: str,
    functions: Sequence[ModelFunction],
    size: ModelFunction | None,
    size_note: str,
    points: Array,
) -> tuple[Prior | None, ModelFunction | None, tuple[str, ...]]:
    visits, sent, received = functions
    try:
        prior = communication_prior(operation, name=name, visits=visits, size=size, sent=sent, received=received)
    except UsageError as error:
        return None, None, (f"{size_note or error.what}: {TIMES_ALONE}",)
    columns: list[Column] = []
    for column in prior.columns:
        if np.abs(column.function.evaluate(points)).max(initial=0.0) > 0:
            columns.append(column)
    said = prior.notes
    if len(columns) < len(prior.columns) and ALONE not in said:
        said = (*said, ALONE)
    return Prior(tuple(columns), prior.source, said), received if sent == _NONE else sent, said


def _communicators(counts: _Counts, rows: Ids) -> tuple[list[ModelFunction | None], list[str]]:
    """Return models of the communicators' sizes, and why there is none."""
    wanted = ("communicator_size_sum", "communicator_size_max")
    sizes: list[ModelFunction | None] = [None] * len(rows)
    notes = ["the sizes of communicators were not recorded"] * len(rows)
    if any(name not in counts.values for name in wanted):
        return sizes, notes
    total = over_repetitions(counts.values["communicator_size_sum"][rows], "median")
    largest = over_repetitions(counts.values["communicator_size_max"][rows], "max")
    visits = over_repetitions(counts.values["visits"][rows], "median")
    mean = np.divide(total, visits, out=np.full(total.shape, np.nan), where=visits > 0)
    for place in range(len(rows)):
        here = np.isfinite(mean[place])
        if not here.any() or not largest[place][here].any():
            notes[place] = "it names no communicator"
        elif not np.allclose(mean[place][here], largest[place][here], rtol=1e-9, atol=0):
            notes[place] = "its communicators have different sizes within one run"
        else:
            own = effort_of(counts.points[here], mean[place][None, here], metric="communicator size")
            sizes[place] = own.functions[0]
            notes[place] = "the size of its communicator is no single power of the parameters"
    return sizes, notes
