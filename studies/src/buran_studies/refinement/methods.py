"""The refinements that are compared: each from its first filter to its last."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from buran.campaign.plan import Mode
from buran.instrumentation.callgraph import CallGraph
from buran.instrumentation.filter_file import format_filter, only, parse
from buran.instrumentation.graph_sources import graph_of_features, with_measured
from buran.instrumentation.measured import extremes_s, imbalance_s
from buran.instrumentation.pira import filter_and_expand, filter_only, hotspots, initial_selection
from buran.instrumentation.prediction import ModelledProgram, predict_regions
from buran.instrumentation.refine import Explored, refine
from buran.instrumentation.refinement import FunctionVerdict, Refinement, Wishes
from buran.instrumentation.start import EVERYTHING, guard, guarded, longest, stretch
from buran.measurement.backends.embedded import cost_of_hooks
from buran.measurement.toolchain.static_features import StaticFeatures
from buran.modeling.experiments import model_experiment
from buran.modeling.pmnf import ModelSet, SearchOptions
from buran.planning.base import pilot_indices
from buran.profiles.experiment.table import Experiment
from buran_studies.extrap import times_by_extrap
from buran_studies.refinement.lab import Lab, Program, target_of

SHARE = 0.01
PUBLISHED_ITERATIONS = 3
"""PIRA's users give a number, three by default."""
BRIEF = 0.1
"""Of a function's time in hooks, its own and those of what it calls: beyond this, the fully instrumented run does not
tell its time from theirs."""
MOST_ITERATIONS = 6
"""Ours ends by itself and is stopped only if it does not."""


@dataclass(frozen=True)
class Rules:
    """What methods of others are given.

    Attributes
    ----------
    target
        Where models are evaluated.
    threshold_s
        Above which a function is relevant, in s; None for `SHARE` of the whole time there.
    options
        Of the modeller.
    extrap
        A Python with Extra-P, whose models of times are taken.
    """

    target: Callable[[Program], NDArray[np.float64]] = target_of
    threshold_s: float | None = None
    options: SearchOptions | None = None
    extrap: str | None = None


@dataclass(frozen=True)
class Trail:
    """What became of a method.

    Attributes
    ----------
    filters
        Of all iterations in order, the final one last.
    iterations
        That were measured.
    converged
        Whether the last filter was the one that it was decided with.
    spent_s
        CPU time of all instrumented runs of all iterations.
    finding_s
        Of all but the last pass over the whole matrix, which is the measurement that was wanted.
    coverage
        Share of the extrapolated time in kernels and MPI; None if nothing was modelled.
    executed
        Functions visited in the last iteration.
    functions
        In the code base, defined in its own files.
    kernels
        Symbols of functions whose models grow and are above the share at the target; for ours those it kept.
    constants
        Constant functions that were kept for themselves.
    throttled
        Functions that the first small run took out.
    brief
        Those of `kernels` whose time is in good part that of hooks.
    again
        Whether one more pass leaves the last filter as it is; None where nobody looked.
    """

    filters: tuple[str, ...]
    iterations: int
    converged: bool
    spent_s: float
    finding_s: float
    coverage: float | None
    executed: int
    functions: int
    kernels: tuple[str, ...]
    constants: tuple[str, ...]
    throttled: int = 0
    brief: tuple[str, ...] = ()
    again: bool | None = None


def follow(lab: Lab, method: str, repetitions: int, rules: Rules | None = None) -> Trail:
    """Run a method to its end.

    ``everything``: hooks in all functions; ``inline-filtered``: in all that are not declared inline; ``PIRA I``: hot
    spots of one run; ``filter-only`` and ``filter-and-expand`` of PIRA II; ``ours``: relevance within an overhead.
    """
    rules = rules or Rules()
    if method in ("everything", "inline-filtered"):
        return _once(lab, method, repetitions, rules)
    if method == "ours":
        return _ours(lab, repetitions)
    return _published(lab, method, repetitions, rules)


def _ours(lab: Lab, repetitions: int) -> Trail:
    """Begin with everything at the smallest point, then at a few, then at all until nothing changes."""
    program = lab.program
    graph = _graph(lab)
    pilots = [program.points[i] for i in pilot_indices(np.array(program.points, dtype=np.float64))]
    effort, _, counted_s = lab.experiment("", pilots, 1, Mode.EFFORT)
    used = [name for name in ("basic_blocks", "bytes_sent", "bytes_received") if name in effort.values]
    work = list(model_experiment(effort, used).values())
    spent_s, text, known = counted_s, EVERYTHING, dict[str, FunctionVerdict]()
    for points in (program.points[:1], pilots):
        text, found, own_s = _guarded(lab, text, points)
        spent_s += own_s
        known |= found
    filters, throttled, iterations = [text], dict(known), 2
    while iterations < MOST_ITERATIONS:
        experiment, built, last_s = lab.experiment(text, program.points, repetitions)
        chosen = _refined(lab, experiment, built, with_measured(graph, experiment.tree), known, work)
        spent_s += last_s
        iterations += 1
        known |= chosen.verdicts
        new = format_filter(only(chosen.names))
        converged = new == text or chosen.settled
        if new != text and not (converged and parse(text).named):
            text = new  # if it settled: the list without what costs and says little, which needs no new measurement
            filters.append(text)
        if converged:
            break
    experiment, built, _ = lab.experiment(text, program.points, 1, fresh=True)
    more = _refined(lab, experiment, built, with_measured(graph, experiment.tree), known, work)
    constant = chosen.prediction.constant if chosen.steady is None else chosen.steady
    steady = constant & chosen.kernels & chosen.keep & ~chosen.prediction.main
    return Trail(
        filters=tuple(filters),
        iterations=iterations,
        converged=converged,
        spent_s=spent_s,
        finding_s=spent_s - last_s,
        coverage=chosen.coverage,
        executed=_executed(experiment),
        functions=_own_functions(graph),
        kernels=_symbols(chosen, chosen.kernels & chosen.prediction.filterable),
        constants=_symbols(chosen, steady),
        throttled=len(throttled),
        again=more.settled or format_filter(only(more.names)) == text,
    )


def _guarded(lab: Lab, text: str, points: Sequence[Sequence[int]]) -> tuple[str, Mapping[str, FunctionVerdict], float]:
    """Run some points once; return the filter that is left, what went, and the CPU time of the runs with hooks."""
    experiment, _, spent_s = lab.experiment(text, points, 1)
    at = [int(value) for value in experiment.points[longest(experiment)]]
    plain_s = lab.run(lab.build(None)[0], at, Mode.VANILLA)[0]
    found = guard(experiment, lab.cpu_s[text, tuple(at)], plain_s, cost_of_hooks(lab.toolchain).seconds)
    return guarded(text, found), found.verdicts, spent_s


def _published(lab: Lab, method: str, repetitions: int, rules: Rules) -> Trail:
    program, graph = lab.program, _graph(lab)
    text = _listed(graph, initial_selection(graph))
    filters, spent_s = [text], 0.0
    converged = False
    for _ in range(PUBLISHED_ITERATIONS):
        experiment, _, last_s = lab.experiment(text, program.points, repetitions)
        spent_s += last_s
        chosen = _by_rule(lab, method, experiment, with_measured(graph, experiment.tree), rules)
        new = format_filter(only(chosen.names))
        converged = new == text
        if converged:
            break
        text = new
        filters.append(text)
    return Trail(
        filters=tuple(filters),
        iterations=len(filters) - (0 if converged else 1),
        converged=converged,
        spent_s=spent_s,
        finding_s=spent_s - last_s,
        coverage=chosen.coverage,
        executed=_executed(experiment),
        functions=_own_functions(graph),
        kernels=_symbols(chosen, chosen.kernels & chosen.prediction.filterable),
        constants=(),
    )


def _once(lab: Lab, method: str, repetitions: int, rules: Rules) -> Trail:
    text = EVERYTHING
    if method == "inline-filtered":
        graph = _graph(lab)
        text = _listed(graph, graph.which(lambda each: each.has_body and not each.inline and not each.system))
    experiment, built, spent_s = lab.experiment(text, lab.program.points, repetitions)
    graph = graph_of_features(built)
    plain, _ = lab.build(None)
    bare_s = repetitions * sum(lab.run(plain, point, Mode.VANILLA)[0] for point in lab.program.points)
    time, visits = _models(experiment, rules)
    number = float(np.nansum(experiment.over_locations("visits", "sum")))
    cost_s = cost_of_hooks(lab.toolchain).seconds
    cost_s = max((spent_s - bare_s) / number, cost_s) if number else cost_s  # of these very runs
    program = ModelledProgram(
        experiment.tree,
        time,
        visits,
        cost_s * stretch(experiment, spent_s / repetitions),
        extremes_s=extremes_s(experiment),
    )
    chosen = refine(program, rules.target(lab.program), Wishes(share=SHARE, overhead=None, coverage=0.0))
    found = chosen.prediction
    with np.errstate(invalid="ignore"):
        kernels = (found.bare_share >= SHARE) & ~found.constant & found.filterable & ~found.mostly_hooks(0.5)
        brief = kernels & _brief(experiment, cost_of_hooks(lab.toolchain).seconds)
    return Trail(
        filters=(text,),
        iterations=1,
        converged=True,
        spent_s=spent_s,
        finding_s=0.0,
        coverage=chosen.coverage,
        executed=_executed(experiment),
        functions=_own_functions(graph),
        kernels=_symbols(chosen, kernels),
        constants=(),
        brief=_symbols(chosen, brief),
    )


def _brief(experiment: Experiment, visit_cost_s: float) -> NDArray[np.bool_]:
    """Mark regions whose hooks, and those of what they call directly, are a good part of their time.

    At the point where a visit took least: elsewhere others may have had the processor meanwhile.
    """
    tree = experiment.tree
    seconds, visits = (np.nanmean(experiment.over_locations(name), axis=2) for name in ("time", "visits"))
    hooks = visits.copy()
    np.add.at(hooks, tree.parent[tree.parent >= 0], visits[tree.parent >= 0])
    own_s, number = (np.zeros((len(tree.regions), seconds.shape[1])) for _ in range(2))
    np.add.at(own_s, tree.region, seconds)
    np.add.at(number, tree.region, hooks)
    each_s = np.divide(own_s, number, out=np.full_like(own_s, np.inf), where=number > 0)
    brief: NDArray[np.bool_] = each_s.min(axis=1) * BRIEF < visit_cost_s
    return brief


def _refined(
    lab: Lab,
    experiment: Experiment,
    built: StaticFeatures,
    graph: CallGraph,
    known: dict[str, FunctionVerdict],
    work: list[ModelSet],
) -> Refinement:
    time, visits = _models(experiment, Rules())
    program = ModelledProgram(
        experiment.tree,
        time,
        visits,
        cost_of_hooks(lab.toolchain).seconds,
        work,
        imbalance=imbalance_s(experiment),
        extremes_s=extremes_s(experiment),
    )
    explored = Explored(graph, known, [function.mangled for function in built.functions if function.hooked])
    return refine(program, target_of(lab.program), Wishes(share=SHARE), explored)


def _by_rule(lab: Lab, method: str, experiment: Experiment, graph: CallGraph, rules: Rules) -> Refinement:
    time, visits = _models(experiment, rules)
    tree, target = experiment.tree, rules.target(lab.program)
    if method == "PIRA I":
        seconds = np.nanmean(experiment.over_locations("time")[:, -1], axis=1)
        return hotspots(predict_regions(ModelledProgram(tree, time, visit_cost_s=0.0), time.points[-1]), graph, seconds)
    threshold_s = rules.threshold_s
    if threshold_s is None:
        threshold_s = SHARE * float(np.nansum(np.maximum(time.predict(target[None]), 0.0)))
    chosen = filter_only if method == "filter-only" else filter_and_expand
    return chosen(predict_regions(ModelledProgram(tree, time, visits, 0.0), target), graph, threshold_s)


def _models(experiment: Experiment, rules: Rules) -> tuple[ModelSet, ModelSet]:
    sets = model_experiment(experiment, ["time", "visits"], options=rules.options)
    if rules.extrap is not None:
        sets["time"] = times_by_extrap(rules.extrap, experiment, sets["time"])
    return sets["time"], sets["visits"]


def _graph(lab: Lab) -> CallGraph:
    _, features = lab.build("", Mode.EFFORT)
    assert features is not None
    return graph_of_features(features)


def _listed(graph: CallGraph, chosen: Any) -> str:
    symbols = {graph.symbols[i] for i in np.flatnonzero(chosen & graph.has_body).tolist()} | {"main"}
    return format_filter(only(symbols))


def _symbols(chosen: Refinement, which: Any) -> tuple[str, ...]:
    regions = chosen.regions
    return tuple(sorted(regions[i].mangled or regions[i].name for i in np.flatnonzero(which).tolist()))


def _executed(experiment: Experiment) -> int:
    return sum(region.paradigm == "compiler" for region in experiment.tree.regions)


def _own_functions(graph: CallGraph) -> int:
    return sum(each.has_body and not each.system for each in graph.functions)
