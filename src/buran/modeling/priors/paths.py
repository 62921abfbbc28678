"""Priors of the call paths of measurement tables: counts under one filter, call paths of another."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from types import MappingProxyType

import numpy as np

from buran.errors import UsageError
from buran.modeling.functions.derived import DerivedValue, variables_of
from buran.modeling.functions.powers import Spaces, full_spaces
from buran.modeling.functions.terms import Array, ModelFunction
from buran.modeling.numerics.least_squares import Ids, Mask
from buran.modeling.numerics.tuning import MATTERS
from buran.modeling.pmnf.model import Model
from buran.modeling.pmnf.repetitions import over_repetitions
from buran.modeling.priors.communication import POLLS, operation_of
from buran.modeling.priors.effort import OPEN, Effort, Steadiness, bytes_of, effort_of, power_law, with_sums
from buran.modeling.priors.prior import Column, KnownMpi, Prior, communication_prior, computation_prior
from buran.modeling.priors.resilient import Resilient
from buran.modeling.priors.steps import Repeats, repeats, that_repeat
from buran.modeling.priors.waiting import Waiting
from buran.profiles.experiment.table import Experiment
from buran.profiles.metrics import MINOR_FAULTS, WORKING_THREADS, metric_of, stands_for
from buran.profiles.profile import CallTree, Region
from buran.profiles.regroup import TreeUnion, fold

TIMES_ALONE = "the model is made of times alone"
_NONE = ModelFunction(0.0)
_OPENMP_WAITS = ("barrier", "critical", "lock", "ordered", "taskwait")
_LOCKS = frozenset((
    "pthread_mutex_lock", "pthread_rwlock_rdlock", "pthread_rwlock_wrlock", "pthread_spin_lock", "pthread_cond_wait",
    "pthread_barrier_wait", "pthread_join", "sem_wait", "omp_set_lock", "omp_set_nest_lock", "std::mutex::lock",
    "std::recursive_mutex::lock", "std::shared_mutex::lock", "std::condition_variable::wait", "std::thread::join",
))  # fmt: skip


class Source(StrEnum):
    """Where a model of time is from."""

    COMPUTATION = "computation"
    COMMUNICATION = "communication"
    TIMES = "times alone"


@dataclass(frozen=True)
class PathModel:
    """What counts show of one call path, and the models of its time.

    Attributes
    ----------
    source
        What its prior is from.
    notes
        Why there is no prior, or what to know of it; sentences.
    prior
        None where the model is made of times alone.
    effort
        Effort model of a computation, bytes of a communication; None if not known.
    settled
        Whether counting at more points would tell nothing more of it.
    proven
        Whether its effort gives all counts, but for a hundredth.
    can_wait
        Whether it can wait for others: MPI, locks and barriers of threads, and what polls.
    repeats
        For each parameter that may only repeat work what counts say of that.
    resilient
        None without a prior, and before times are seen, as those below.
    waiting
        What time has beyond the prior.
    whole
        Effort part and waiting part together, where waiting was found; else the noise-resilient model.
    """

    source: Source
    notes: tuple[str, ...]
    prior: Prior | None = None
    effort: ModelFunction | None = None
    settled: bool = True
    proven: bool = False
    can_wait: bool = False
    repeats: Mapping[str, Repeats] = field(default_factory=dict)
    resilient: Resilient | None = None
    waiting: Waiting | None = None
    whole: Resilient | None = None

    @property
    def final(self) -> Model | None:
        """The model of `whole`."""
        return None if self.whole is None else self.whole.model

    @classmethod
    def of_times_alone(cls, why: str, settled: bool = True) -> PathModel:
        """Return that of a call path without a prior."""
        return cls(Source.TIMES, (f"{why}: {TIMES_ALONE}",), settled=settled)

    def left_to_times(self, why: str) -> PathModel:
        """Return it without a prior."""
        return replace(self, prior=None, source=Source.TIMES, notes=(*self.notes, f"{why}: {TIMES_ALONE}"))

    def with_price(self, work: Column, note: str) -> PathModel:
        """Return it with a price of its counted work that is expected, in place of those that times determine."""
        assert self.prior is not None
        constant, *columns = self.prior.columns
        kept = [column for column in columns if column.cost is not None]
        return replace(self, prior=replace(self.prior, columns=(constant, work, *kept)), notes=(*self.notes, note))


def has_effort(table: Experiment) -> bool:
    """Whether something was counted that can stand for the effort of computation."""
    return bool(stands_for("computation", table.values))


def priors_of(
    tree: CallTree,
    counted: Experiment,
    points: Array,
    mpi: KnownMpi | None = None,
    *,
    processes: str | None = None,
    steps: Mapping[str, float] | None = None,
    derived: Mapping[str, str] = MappingProxyType({}),
) -> tuple[PathModel, ...]:
    """Derive the priors of call paths from counts.

    Parameters
    ----------
    tree
        Call paths of the times.
    counted
        See `buran.modeling.priors.campaign.models_from_priors`.
    points
        Shape (point, parameter), of the times.
    mpi
        If it is known which one measured the times.
    processes
        Parameter that counts processes; None if there is none.
    steps
        Parameters that may only repeat work, with their numbers in the full run.
    derived
        Values that the program derives from its parameters: expressions by name.
    """
    counts = _Counts.of(counted, tree, processes, derived, steps or {})
    regions = [tree.regions[region] for region in tree.region.tolist()]
    is_mpi = np.array([region.paradigm == "mpi" for region in regions], dtype=bool)
    computing, communicating = np.flatnonzero(~is_mpi), np.flatnonzero(is_mpi)
    names = [regions[row].name for row in communicating.tolist()]
    by_row = dict(zip(computing.tolist(), _computation(computing, counts), strict=True))
    by_row |= zip(communicating.tolist(), _communication(names, communicating, counts, points, mpi), strict=True)
    waiting = _can_wait(tree, counts.polled).tolist()
    paths = [replace(by_row[row], can_wait=waits) for row, waits in enumerate(waiting)]
    return tuple(_of_repeated_work(paths, counts, steps or {}))


def _of_repeated_work(paths: list[PathModel], counts: _Counts, steps: Mapping[str, float]) -> list[PathModel]:
    """Return priors that know along which parameters their work repeats."""
    exact = [counts.values[metric] for metric in that_repeat(counts.values)]
    if not exact or not steps:
        return paths
    columns = {name: counts.wide.parameters.index(name) for name in steps}
    verdicts = [repeats(counts.wide.points, exact, columns[name], full) for name, full in steps.items()]
    out = []
    for path, row in zip(paths, zip(*verdicts, strict=True), strict=True):
        said = dict(zip(steps, row, strict=True))
        repeated = tuple(columns[name] for name, each in said.items() if each.is_repeated)
        prior = None if path.prior is None else replace(path.prior, repeated=repeated)
        out.append(replace(path, prior=prior, repeats=said))
    return out


def work_of_a_thread(counted: Experiment) -> Experiment:
    """Return counts of which those of computation, and page faults, are divided by the threads that did it.

    The time of a parallel region is that of one thread, so its effort is the work of one. Counts of a rank are sums.
    """
    if WORKING_THREADS.name not in counted.values:
        return counted
    # A thread that comes late to a dynamic loop is missing in one repetition: the team has as many as any shows.
    threads = np.nan_to_num(counted.values[WORKING_THREADS.name]).max(axis=2, keepdims=True, initial=1.0)
    values = {
        name: numbers / threads if metric_of(name).effort == "computation" or name == MINOR_FAULTS else numbers
        for name, numbers in counted.values.items()
    }
    return replace(counted, values=values)


@dataclass(frozen=True, eq=False)
class _Counts:
    """Counts of the wide instrumentation, on the call paths of the narrow one: shape (call path, point, repetition).

    Attributes
    ----------
    wide
        The counts as they were taken.
    target
        Shape (call path of `wide`,): the call path that takes it up, -1 without one.
    """

    wide: Experiment
    target: Ids
    values: dict[str, Array]
    counted_itself: Mask
    polled: Mask
    spaces: Spaces
    ranks: int | None
    variables: Sequence[Sequence[DerivedValue]]

    @classmethod
    def of(
        cls,
        counted: Experiment,
        timed: CallTree,
        processes: str | None,
        derived: Mapping[str, str],
        steps: Collection[str],
    ) -> _Counts:
        counted = work_of_a_thread(counted)
        target, itself = project(counted.tree, timed)
        counted_itself = np.isin(np.arange(len(timed)), target[itself])
        values = {}
        for metric in counted.metrics:
            known_metric = metric_of(metric)
            how = known_metric.combination
            counts = counted.over_locations(metric, "mean" if how == "add" else how)
            out = np.zeros((len(timed), *counts.shape[1:]))
            rows = target >= 0 if known_metric.effort == "computation" else itself
            if how == "add":
                np.add.at(out, target[rows], counts[rows])
            else:
                out[target[rows]] = counts[rows]
            values[metric] = out
        polled = _polled(counted.tree, target, len(timed))
        spaces = full_spaces(counted.parameters, processes, steps)
        ranks = None if processes is None else counted.parameters.index(processes)
        variables = variables_of(derived, counted.parameters, counted.points)
        return cls(counted, target, values, counted_itself, polled, spaces, ranks, variables)

    @property
    def repeated(self) -> bool:
        """Whether any point was counted twice."""
        return any(counts.shape[2] > 1 for counts in self.values.values())

    def model(self, metric: str, rows: Ids) -> Effort:
        """Return effort models of some call paths."""
        return self._effort(metric, self.values[metric][rows])

    def _effort(self, metric: str, counts: Array) -> Effort:
        exact = metric_of(metric).role == "exact"
        return effort_of(
            self.wide.points, counts, metric=metric, exact=exact, space=self.spaces, variables=self.variables
        )

    def absorbed(self, metric: str, rows: Ids) -> dict[int, list[ModelFunction]]:
        """Return, for call paths that take up others, the efforts that theirs is the sum of.

        A loop that only one of them has is seen there, where a sum of many hides it. Those of which a part has no
        effort model are left out.
        """
        counts = self.wide.over_locations(metric, "mean")
        taken = np.isin(self.target, rows) & (np.nan_to_num(counts).max(axis=(1, 2), initial=0.0) > 0)
        number = np.bincount(self.target[taken], minlength=len(self.counted_itself))
        parts = np.flatnonzero(taken & (number[self.target] > 1))
        efforts = self._effort(metric, counts[parts])
        known = np.isin(efforts.steadiness, (Steadiness.EXACT, Steadiness.DATA_DEPENDENT))
        out: dict[int, list[ModelFunction]] = {row: [] for row in set(self.target[parts].tolist())}
        for row, function, is_known in zip(self.target[parts].tolist(), efforts.functions, known, strict=True):
            if row in out and function is not None and is_known:
                out[row].append(function)
            else:
                out.pop(row, None)
        return out


def _polled(counted: CallTree, target: Ids, count: int) -> Mask:
    """Return shape (timed call path,): whether it polls, as far as counts show."""
    polls = np.array([counted.regions[r].name in POLLS for r in counted.region.tolist()], dtype=bool)
    parents = target[counted.parent[polls & (counted.parent >= 0)]]
    return np.bincount(parents[parents >= 0], minlength=count) > 0


def waiting_rows(timed: CallTree, counted: CallTree | None) -> Mask:
    """Return shape (timed call path,): whether it can wait for others, as `PathModel.can_wait`."""
    count = len(timed)
    polled = np.zeros(count, bool) if counted is None else _polled(counted, project(counted, timed)[0], count)
    return _can_wait(timed, polled)


def _can_wait(timed: CallTree, polled: Mask) -> Mask:
    """Return shape (call path,): whether it is of MPI, a lock or a barrier of threads, or polls."""
    return np.array([waits(timed.regions[region]) for region in timed.region.tolist()], dtype=bool) | polled


def waits(region: Region) -> bool:
    """Whether a region can wait for other processes or threads."""
    name = region.name.partition("(")[0].removesuffix("_")
    threads = region.paradigm == "openmp" and any(word in f"{region.role} {name}" for word in _OPENMP_WAITS)
    return region.paradigm == "mpi" or threads or name in _LOCKS


def _computation(rows: Ids, counts: _Counts) -> list[PathModel]:
    metric = next(iter(stands_for("computation", counts.values)), None)
    if metric is None:
        return [PathModel.of_times_alone("no effort was counted")] * len(rows)
    absorbed = counts.absorbed(metric, rows)
    parts = {index: absorbed[row] for index, row in enumerate(rows.tolist()) if row in absorbed}
    effort = with_sums(counts.model(metric, rows), parts, counts.wide.points, counts.values[metric][rows])
    return [_one_computation(effort, index, counts, row) for index, row in enumerate(rows.tolist())]


def _one_computation(effort: Effort, index: int, counts: _Counts, row: int) -> PathModel:
    name = effort.metric.replace("_", " ")
    function, steadiness, gap = effort.functions[index], effort.steadiness[index], float(effort.residual[index])
    settled, counted = steadiness not in OPEN, bool(counts.counted_itself[row])
    unchecked = bool(counts.polled[row]) and not counts.repeated
    if steadiness is Steadiness.UNEXPLAINED and counted and not unchecked:
        measured = over_repetitions(counts.values[effort.metric][row], "median")
        approximate = power_law(counts.wide.points, measured)
        if approximate is not None:
            note = f"no formula gives its counts: times are extrapolated by a power law of its {name}"
            prior = computation_prior(approximate, effort.metric, counts.ranks)
            return PathModel(Source.COMPUTATION, (note,), prior, settled=settled)
    why = _first(
        {
            f"its {name} were not counted": not counted or steadiness is Steadiness.MISSING,
            f"its {name} differ between runs, as those of busy waiting do": steadiness is Steadiness.UNSTEADY,
            f"its {name} {_unexplained(counts)}": steadiness is Steadiness.UNEXPLAINED,
            f"it polls, and one run of each point does not show whether its {name} depend on that": unchecked,
            f"it executes no {name}": function is None or function.is_zero,
        }
    )
    if why or function is None:
        return PathModel.of_times_alone(why, settled)
    notes = () if effort.metric == "basic_blocks" else (f"effort is counted in {name}",)
    if steadiness is Steadiness.DATA_DEPENDENT:
        notes = (*notes, f"no formula gives its counts at all points: up to {100 * gap:.2g} % off")
    prior = computation_prior(function, effort.metric, counts.ranks)
    return PathModel(Source.COMPUTATION, notes, prior, function, settled, proven=gap <= MATTERS)


def _first(reasons: Mapping[str, bool]) -> str:
    """Return the first reason that holds; empty without one."""
    return next((why for why, holds in reasons.items() if holds), "")


def _unexplained(counts: _Counts) -> str:
    return f"differ from point to point, and {len(counts.wide.points)} points do not show how they grow"


def _communication(
    names: Sequence[str], rows: Ids, counts: _Counts, points: Array, mpi: KnownMpi | None
) -> list[PathModel]:
    metrics = ("visits", "bytes_sent", "bytes_received")
    if not len(rows) or any(name not in counts.values for name in metrics):
        return [PathModel.of_times_alone("visits and bytes were not recorded")] * len(rows)
    visits = counts.model("visits", rows)
    sizes, size_notes = _communicators(counts, rows)
    modelled = partial(bytes_of, counts.wide.points, space=counts.spaces, variables=counts.variables)
    called = counts.values["visits"][rows]
    sent, received = (
        modelled(counts.values[name][rows], called, visits.functions, sizes, metric=name) for name in metrics[1:]
    )
    out: list[PathModel] = []
    for index, (name, row) in enumerate(zip(names, rows.tolist(), strict=True)):
        operation = operation_of(name)
        steadiness = {effort.steadiness[index] for effort in (visits, sent, received)}
        settled = not steadiness & set(OPEN)
        missing = not counts.counted_itself[row] or Steadiness.MISSING in steadiness
        why = _first(
            {
                f"{name} polls: how often it is called depends on how long something takes": name in POLLS,
                f"there is no cost model of {name}": operation is None,
                "its bytes were not recorded": missing,
                "its calls or bytes differ between runs": Steadiness.UNSTEADY in steadiness,
                f"its calls or bytes {_unexplained(counts)}": Steadiness.UNEXPLAINED in steadiness,
            }
        )
        if why or operation is None:
            out.append(PathModel.of_times_alone(why, operation is None or settled))
            continue
        calls, outwards, inwards = (effort.functions[index] or _NONE for effort in (visits, sent, received))
        make = partial(communication_prior, operation, name=name, size=sizes[index], mpi=mpi)
        try:
            prior = make(visits=calls, sent=outwards, received=inwards, parameters=counts.wide.parameters)
        except UsageError as error:
            out.append(PathModel.of_times_alone(size_notes[index] or error.what, settled))
            continue
        prior, volume = prior.that_matters_at(points), inwards if outwards == _NONE else outwards
        out.append(PathModel(Source.COMMUNICATION, prior.notes, prior, volume, settled))
    return out


def _communicators(counts: _Counts, rows: Ids) -> tuple[list[ModelFunction | None], list[str]]:
    """Return models of the communicators' sizes, and why there is none."""
    metrics = ("communicator_size_sum", "communicator_size_max")
    sizes: list[ModelFunction | None] = [None] * len(rows)
    notes = ["the sizes of communicators were not recorded"] * len(rows)
    if any(name not in counts.values for name in metrics):
        return sizes, notes
    total, visits = (over_repetitions(counts.values[name][rows], "median") for name in (metrics[0], "visits"))
    largest = over_repetitions(counts.values[metrics[1]][rows], "max")
    mean = np.divide(total, visits, out=np.full(total.shape, np.nan), where=visits > 0)
    for index in range(len(rows)):
        present = np.isfinite(mean[index])
        if not present.any() or not largest[index][present].any():
            notes[index] = "it names no communicator"
        elif not np.allclose(mean[index][present], largest[index][present], rtol=1e-9, atol=0):
            notes[index] = "its communicators have different sizes within one run"
        else:
            effort = effort_of(counts.wide.points[present], mean[index][None, present], metric="communicator size")
            sizes[index] = effort.functions[0]
            notes[index] = "the size of its communicator is no single power of the parameters"
    return sizes, notes


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
    functions, rows = _without_openmp(timed)
    same = dict(zip(union.add(functions).tolist(), rows.tolist(), strict=True))
    target = np.full(len(counted), -1, dtype=np.int64)
    itself = np.zeros(len(counted), dtype=bool)
    regions = [union.region_number(*region_key) for region_key in zip(counted.regions, counted.identities, strict=True)]
    numbers = [-1] * len(counted)
    for row, (region, parent) in enumerate(zip(counted.region.tolist(), counted.parent.tolist(), strict=True)):
        above = numbers[parent] if parent >= 0 else -1
        number = union.node(above, regions[region])
        itself[row] = number is not None
        numbers[row] = above if number is None else number
        target[row] = same.get(numbers[row], -1)
    itself &= target >= 0
    return target, itself


def taken_up(values: Array, counted: CallTree, timed: CallTree) -> Array:
    """Add values, shape (counted call path, ...), to the call paths that take up theirs under a narrow filter."""
    target, _ = project(counted, timed)
    out = np.zeros((len(timed), *values.shape[1:]))
    np.add.at(out, target[target >= 0], values[target >= 0])
    return out


def _without_openmp(timed: CallTree) -> tuple[CallTree, Ids]:
    """Return the call paths of functions alone, as the build that counts has them, and the timed one of each.

    Score-P has regions of OpenMP between a function and what it calls there. What such a region does itself is counted
    with the function around it, whose time does not hold it: this function has no timed call path, -1; nor has one
    that is called in several regions, among which its counts cannot be divided.
    """
    inside = np.array([region.paradigm == "openmp" for region in timed.regions], dtype=bool)
    if not inside.any():
        return timed, np.arange(len(timed))
    folding = fold(timed, ~inside)
    stays = np.flatnonzero(folding.stays)
    rows = np.full(len(folding.tree), -1, dtype=np.int64)
    rows[folding.target[stays]] = stays
    rows[np.bincount(folding.target[stays], minlength=len(rows)) > 1] = -1
    rows[np.isin(rows, timed.parent[~folding.stays])] = -1
    return folding.tree, rows
