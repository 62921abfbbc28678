"""From finished runs to the measurement tables that models are made from.

Times of other runs are among them: under earlier filters, of runs that counted, and measured elsewhere.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median

import numpy as np
from numpy.typing import NDArray

from buran.campaign.config import Campaign
from buran.campaign.plan import COUNTING, Mode, Purpose
from buran.campaign.point import Point, has_all_steps
from buran.features import FEATURES, sampled_metrics
from buran.instrumentation.filter_file import Filter, parse
from buran.instrumentation.pooling import EarlierRuns, HookCost, Pooled, hook_cost, pool
from buran.instrumentation.prediction import FILTERABLE, reached_by_filters, symbol_of
from buran.measurement.attempt import PROFILE
from buran.modeling.functions.terms import Array, predict
from buran.modeling.priors.effort import effort_of
from buran.modeling.priors.paths import taken_up, waiting_rows
from buran.modeling.priors.steps import not_repeated
from buran.profiles.cubex_read import read_profile
from buran.profiles.experiment.build import Run, experiment_from_profiles, unique_points
from buran.profiles.experiment.merge import add_points, project
from buran.profiles.experiment.table import AGGREGATES, Experiment
from buran.profiles.metrics import counted as counted_metrics
from buran.profiles.metrics import uncounted
from buran.profiles.profile import CallTree, Region
from buran.workflow.history import FinishedRun, History, as_array, in_store
from buran.workflow.notes import crowded_points
from buran.workflow.refine import visit_cost_s


def experiment_of(runs: Sequence[FinishedRun], parameters: Sequence[str]) -> Experiment | None:
    """Read the profiles of some runs, one after the other, into one table; None without runs."""
    return experiment_from_profiles(profiles_of(runs, parameters)) if runs else None


def counts_of(runs: Sequence[FinishedRun], parameters: Sequence[str]) -> Experiment | None:
    """Read the profiles of runs that count into one table, whatever they tell beside; None without runs."""
    met: Counter[Point] = Counter()
    sampled = sampled_metrics()

    def numbered() -> Iterator[Run]:
        for run, (point, _, profile) in zip(runs, profiles_of(runs, parameters), strict=True):
            yield point, met[run.point], profile.without(sampled)
            met[run.point] += 1

    return experiment_from_profiles(numbered()) if runs else None


def profiles_of(runs: Iterable[FinishedRun], parameters: Sequence[str]) -> Iterator[Run]:
    """Read the profiles of some runs, one after the other."""
    for run in runs:
        yield {name: run.point[name] for name in parameters}, run.repetition, read_profile(run.folder / PROFILE)


def only(experiment: Experiment, metrics: Iterable[str]) -> Experiment:
    """Return the table with some of its metrics."""
    names = [name for name in metrics if name in experiment.values]
    return replace(
        experiment,
        values={name: experiment.values[name] for name in names},
        units={name: experiment.units[name] for name in names},
    )


def unsteady_call_paths(experiment: Experiment, metrics: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return, by metric, the call paths whose counts are not the same in all repetitions of a point."""
    unsteady: dict[str, tuple[str, ...]] = {}
    for metric in (name for name in metrics if name in experiment.values):
        rows = np.flatnonzero(differing(experiment, metric))
        if len(rows):
            unsteady[metric] = tuple(experiment.tree.names[row] for row in rows.tolist())
    return unsteady


def differing(experiment: Experiment, metric: str, factor: float = 1.0) -> NDArray[np.bool_]:
    """Return shape (call path,): whether repetitions of a point differ by more than a factor, on any location."""
    values = experiment.values[metric]
    # A call path that no repetition of a point has is NaN throughout, which is no difference.
    lowest = np.nanmin(np.where(np.isnan(values), np.inf, values), axis=2)
    highest = np.nanmax(np.where(np.isnan(values), -np.inf, values), axis=2)
    differs = ((highest > factor * lowest) & np.isfinite(lowest)).any(axis=(1, 2))
    return np.asarray(differs, dtype=np.bool_)


def of_whole_program(
    numbers: Mapping[str, Mapping[Point, Sequence[float]]],
    units: Mapping[str, str],
    parameters: Sequence[str],
    tree: CallTree | None,
) -> Experiment:
    """Return a table of numbers of the whole program, by metric, point and repetition.

    Parameters
    ----------
    tree
        Tree of the other metrics: the whole program is its root, if there is one root.
    """
    everywhere = list(dict.fromkeys(point for by_point in numbers.values() for point in by_point))
    points, at = unique_points(as_array(everywhere, parameters))
    column = dict(zip(everywhere, at.tolist(), strict=True))
    most = max(len(repeated) for by_point in numbers.values() for repeated in by_point.values())
    values = {name: np.full((1, len(points), most, len(AGGREGATES)), np.nan) for name in numbers}
    for name, by_point in numbers.items():
        for point, repeated in by_point.items():
            values[name][0, column[point], : len(repeated)] = np.array(repeated)[:, None]
    root = Region("program", paradigm="measurement", role="artificial")
    if tree is not None and np.count_nonzero(tree.parent < 0) == 1:
        root = tree.regions[tree.region[0]]
    whole = CallTree((root,), region=np.zeros(1, dtype=np.int64), parent=np.full(1, -1, dtype=np.int64))
    return Experiment(tuple(parameters), points, whole, values, dict(units))


def counts_at(counted: Sequence[Run], metric: str, tree: CallTree, points: Array) -> Array | None:
    """Return a count, mean over ranks, shape (call path of `tree`, point); None where it was not counted."""
    runs = [run for run in counted if metric in run[2].metrics]
    if not runs:
        return None
    table = only(experiment_from_profiles(runs), [metric])
    counts = taken_up(table.over_locations(metric, "mean"), table.tree, tree)
    return predict(effort_of(table.points, counts, metric=metric, exact=True).functions, points)


_MOST_PAIRS = 32  # of a filter, whose visits are looked up


@dataclass(frozen=True)
class Hooks:
    """Which regions have hooks under a filter: as the compiler noted, else as the filter's rules say."""

    noted: dict[str, bool]
    rules: Filter

    def __call__(self, region: Region) -> bool:
        """Tell whether a region has hooks."""
        noted = self.noted.get(symbol_of(region))
        return self.rules.matches(region.name, region.mangled, region.file) if noted is None else noted


def hooks_of(history: History, runs: Iterable[FinishedRun]) -> Hooks:
    """Return the hooks of runs under one filter."""
    noted: dict[str, bool] = {}
    text = ""
    for build in {run.build.hash: run.build for run in runs}.values():
        text, features = build.filter_text, history.features(build.hash)
        for function in () if features is None else features.functions:
            noted[function.mangled] = noted.get(function.mangled, False) or function.hooked
    return Hooks(noted, parse(text) if text else Filter())


def pooled_times(
    history: History, runs: Sequence[FinishedRun], parameters: Sequence[str], filter_text: str
) -> Pooled | None:
    """Bring times under a filter and corrected ones, under earlier filters and of runs that count, into one table.

    Where filters are applied when the program runs, hooks that are switched off still cost something, in the runs that
    would be corrected as in the others: they are not mixed.

    Parameters
    ----------
    runs
        All finished runs that are modelled.

    Returns
    -------
    Pooled
        None without a run under the filter.
    """
    kinds: dict[tuple[bool, str], list[FinishedRun]] = {}  # by whether they count, and filter
    for run in runs:
        if run.mode in (Mode.TIME, Mode.EFFORT):
            kinds.setdefault((run.mode is Mode.EFFORT, run.filter_text), []).append(run)
    current = kinds.pop((False, filter_text), [])
    if not current:
        return None
    groups = {
        kind: members
        for kind, members in kinds.items()
        if all(run.build.hooks is None for run in (*current, *members)) and (not kind[0] or _has_times(members[0]))
    }
    keeps = hooks_of(history, current)
    earlier = [
        EarlierRuns(profiles_of(members, parameters), hooks_of(history, members), keeps, counting)
        for (counting, _), members in groups.items()
    ]
    timed = [members for (counting, _), members in groups.items() if not counting]
    return pool(profiles_of(current, parameters), earlier, _cost(visit_cost_s(history), runs, timed, parameters))


def _has_times(run: FinishedRun) -> bool:
    """Tell whether a run that counts has what its times are corrected by."""
    return {"time", "visits", "basic_blocks"} <= read_profile(run.folder / PROFILE).metrics.keys()


def _cost(
    calibrated_s: float, runs: Sequence[FinishedRun], groups: Sequence[Sequence[FinishedRun]], parameters: Sequence[str]
) -> HookCost:
    """Find what a visit has cost, from runs side by side with hooks and without."""
    plain: dict[tuple[int, Point], list[float]] = {}
    for run in runs:
        if run.mode is Mode.VANILLA:
            plain.setdefault((run.iteration, run.point), []).append(run.cpu_s)
    hooked_s, plain_s, visits = list[float](), list[float](), list[float]()
    for members in groups:
        by_pair: dict[tuple[int, Point], list[FinishedRun]] = {}
        for run in members:
            by_pair.setdefault((run.iteration, run.point), []).append(run)
        pairs = sorted(by_pair.keys() & plain.keys())
        for pair in pairs[:: -(-len(pairs) // _MOST_PAIRS) or 1]:
            hooked_s.append(median(run.cpu_s for run in by_pair[pair]))
            plain_s.append(median(plain[pair]))
            visits.append(_visits(by_pair[pair][0], parameters))
    return hook_cost(calibrated_s, np.array(hooked_s), np.array(plain_s), np.array(visits))


def _visits(run: FinishedRun, parameters: Sequence[str]) -> float:
    """Return the visits of functions with hooks, of all ranks."""
    table = experiment_of([run], parameters)
    assert table is not None
    hooked = reached_by_filters(table.tree)
    return float(np.nansum(table.over_locations("visits", "sum")[hooked[table.tree.region]]))


def foreign_tables(campaign: Campaign) -> Iterator[Experiment]:
    """Yield the tables that features bring; raises `ConfigError`."""
    for feature in FEATURES:
        if feature.foreign is not None and (table := feature.foreign(campaign)) is not None:
            yield table


def foreign_points(campaign: Campaign) -> frozenset[Point]:
    """Return the points of the campaign that were timed elsewhere; raises `ConfigError`."""
    return frozenset(
        Point.of(dict(zip(table.parameters, row, strict=True)))
        for table in foreign_tables(campaign)
        for row in table.points.tolist()
    )


def with_foreign(campaign: Campaign, own: Pooled | None) -> Pooled | None:
    """Return the campaign's times with those of other points that were measured elsewhere.

    Functions that have no hooks here give their times to their callers. Where a point has times of both, those of the
    campaign count.
    """
    for table in foreign_tables(campaign):
        if own is None:
            repetitions = table.over_locations("time").shape[2]
            own = Pooled.of(table, np.ones(repetitions, dtype=bool), HookCost(0.0, 0.0))
            continue
        symbols = set(map(symbol_of, own.uncorrected.tree.regions))

        def stays(region: Region, known: set[str] = symbols) -> bool:
            return region.paradigm not in FILTERABLE or symbol_of(region) in known

        own = replace(own, table=add_points(own.table, project(table, stays)))
    return own


@dataclass(frozen=True, eq=False)
class Material:
    """What the models of an iteration are made from.

    Attributes
    ----------
    runs
        Finished runs of all iterations that models may be made from.
    modelled
        Those of call paths' models: whole, at the target's choices.
    pooled
        Times under the filter; None without any.
    timed
        Those that models are made from; None without any.
    counted
        Counts; None without any.
    further
        Tables that features bring.
    not_repeated
        Parameters of the role steps whose few steps are in none of these, as counts refute that work repeats.
    """

    filter_text: str
    runs: list[FinishedRun]
    modelled: list[FinishedRun]
    pooled: Pooled | None
    timed: Experiment | None
    counted: Experiment | None
    further: tuple[Experiment, ...]
    not_repeated: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def gather(history: History) -> Material:
    """Read what the runs so far have measured, for the models of the last plan.

    Where counts refute that work repeats along steps, only runs with the full number of these count.
    """
    session, plan = history.session, history.plans[-1]
    campaign, config = session.campaign, session.campaign.config
    parameters = campaign.parameters
    runs = [run for run in history.runs if run.purpose is plan.modelled]
    modelled, counted = _counted(campaign, runs)
    refuted = {} if counted is None else not_repeated(counted, campaign.steps)
    if refuted:
        full = {name: campaign.steps[name] for name in refuted}
        runs = [run for run in runs if has_all_steps(run.point, full)]
        modelled, counted = _counted(campaign, runs)
    earlier = config.model.pool_filters == "auto" and not plan.pilot
    poolable = [
        run for run in modelled if earlier or (run.mode is not Mode.EFFORT and run.filter_text == plan.filter_text)
    ]
    pooled = pooled_times(history, poolable, parameters, plan.filter_text)
    if plan.modelled is Purpose.MODEL:
        pooled = with_foreign(campaign, pooled)
    timed = None if pooled is None else pooled.table
    tree = None if timed is None else timed.tree
    added = (feature.table(history, modelled, tree) for feature in FEATURES if feature.table is not None)
    further = tuple(experiment for experiment in added if experiment is not None)
    if timed is not None and config.model.waiting == "auto":
        timed = without_waiting_at(as_array(crowded_points(history, modelled), parameters), timed, counted)
    return Material(plan.filter_text, runs, modelled, pooled, timed, counted, further, refuted)


def _counted(campaign: Campaign, runs: Iterable[FinishedRun]) -> tuple[list[FinishedRun], Experiment | None]:
    """Return the runs of call paths' models, and their counts.

    These have numbers only: they are made at the target's choices.
    """
    at, choices = campaign.target, campaign.choices
    modelled = in_store(run for run in runs if all(run.point[name] == at[name] for name in choices))
    counting = (Mode.TIME,) if campaign.counts_with_times else COUNTING
    wanted = [run for run in modelled if run.mode in counting] if counted_metrics(campaign.config.metrics) else []
    return modelled, counts_of(wanted, campaign.parameters)


def without_waiting_at(at: NDArray[np.float64], timed: Experiment, counted: Experiment | None) -> Experiment:
    """Return times without those of call paths that can wait, at points with more ranks and threads than cores.

    There ranks wait until others leave the core, for as long as the operating system lets them: nothing of that holds
    on a machine with a core for each rank. Computation has CPU times.

    Parameters
    ----------
    at
        Shape (point, parameter): these points.
    counted
        Counts, which show who polls.
    """
    points = are_in(timed.points, at)
    if not points.any():
        return timed
    cells = np.ix_(waiting_rows(timed.tree, None if counted is None else counted.tree), points)
    values = dict(timed.values)
    for name in uncounted(timed.metrics):
        values[name] = timed.values[name].copy()
        values[name][cells] = np.nan
    return replace(timed, values=values)


def are_in(points: NDArray[np.float64], others: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return shape (point,): whether each of `points`, shape (point, parameter), is one of `others`."""
    known = set(map(tuple, others.tolist()))
    return np.array([tuple(point) in known for point in points.tolist()], dtype=bool)
