"""The refinements that are compared: each from its first filter to its last."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from buran.campaign.plan import Mode
from buran.evaluate.refinement_lab import Lab, target_of
from buran.experiment.modelling import model_experiment
from buran.experiment.table import Experiment
from buran.instrument.aggregation import initial_selection
from buran.instrument.callgraph import CallGraph
from buran.instrument.filter_file import format_filter, only
from buran.instrument.graph_sources import graph_of_features, with_measured
from buran.instrument.measured import ends_s, imbalance_s
from buran.instrument.published import filter_and_expand, filter_only, hotspots
from buran.instrument.refine import Refinement, Wishes, refine
from buran.instrument.verdicts import Verdict
from buran.measure.hook_cost import hook_cost_s
from buran.measure.static_features import StaticFeatures
from buran.model import ModelSet

EVERYTHING = "SCOREP_REGION_NAMES_BEGIN\nINCLUDE *\nSCOREP_REGION_NAMES_END\n"
METHODS: Mapping[str, str] = {
    "everything": "all functions have hooks",
    "inline-filtered": "all functions not declared inline",
    "PIRA I": "hot spots of one run",
    "filter-only": "PIRA II, filter",
    "filter-and-expand": "PIRA II, filter and expand",
    "ours": "relevance within an overhead",
}
SHARE = 0.01
MOST_ITERATIONS = {"PIRA I": 3, "filter-only": 3, "filter-and-expand": 3, "ours": 6}
"""PIRA's users give a number, three by default; ours ends by itself and is stopped only if it does not."""


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
    coverage
        Share of the extrapolated time in kernels and MPI; None if nothing was modelled.
    executed
        Functions visited in the last iteration.
    functions
        In the code base, defined in its own files.
    kernels
        Symbols of growing functions above the share, for the reference.
    constants
        Constant functions that were kept for themselves.
    """

    filters: tuple[str, ...]
    iterations: int
    converged: bool
    spent_s: float
    coverage: float | None
    executed: int
    functions: int
    kernels: tuple[str, ...]
    constants: tuple[str, ...]


def follow(lab: Lab, method: str, repetitions: int) -> Trail:
    """Run a method to its end."""
    if method in ("everything", "inline-filtered"):
        return _once(lab, method, repetitions)
    program = lab.program
    _, features = lab.build("")
    assert features is not None
    graph = graph_of_features(features)
    text = "" if method == "ours" else _listed(graph, initial_selection(graph))
    filters, known = [text], dict[str, Verdict]()
    chosen: Refinement | None = None
    converged, executed = False, 0
    work = _effort(lab) if method == "ours" else []
    for _ in range(MOST_ITERATIONS[method]):
        experiment, built, _ = lab.experiment(text, program.points, repetitions)
        assert built is not None
        executed = _executed(experiment)
        chosen = _decide(lab, method, experiment, built, with_measured(graph, experiment.tree), known, work)
        known |= chosen.verdicts
        new = format_filter(only(chosen.names))
        converged = new == text
        if converged:
            break
        text = new
        filters.append(text)
    assert chosen is not None
    constant = chosen.prediction.constant if chosen.steady is None else chosen.steady
    steady = constant & chosen.kernels & chosen.keep & ~chosen.prediction.main
    return Trail(
        tuple(filters),
        len(filters) - (0 if converged else 1),
        converged,
        lab.spent_s,
        chosen.coverage,
        executed,
        _own_functions(graph),
        _symbols(chosen, chosen.kernels & chosen.prediction.filterable),
        _symbols(chosen, steady),
    )


def _once(lab: Lab, method: str, repetitions: int) -> Trail:
    text = EVERYTHING
    if method == "inline-filtered":
        _, features = lab.build("")
        assert features is not None
        graph = graph_of_features(features)
        text = _listed(graph, graph.has_body & ~graph.inline & ~graph.system)
    experiment, built, spent_s = lab.experiment(text, lab.program.points, repetitions)
    assert built is not None
    graph = graph_of_features(built)
    plain, _ = lab.build(None)
    bare_s = repetitions * sum(lab.run(plain, point, Mode.VANILLA)[0] for point in lab.program.points)
    time, visits = _models(experiment)
    number = float(np.nansum(experiment.over_locations("visits", "sum")))
    cost_s = max((spent_s - bare_s) / number, 0.0) if number else 0.0  # of these very runs
    chosen = refine(
        experiment.tree,
        time,
        visits,
        target_of(lab.program),
        Wishes(share=SHARE, overhead=None, coverage=0.0),
        visit_cost_s=cost_s,
        ends_s=ends_s(experiment),
    )
    distorted = chosen.prediction.mostly_hooks(0.5)
    kernels = chosen.kernels & chosen.prediction.filterable & ~distorted
    return Trail(
        (text,),
        1,
        True,
        spent_s,
        chosen.coverage,
        _executed(experiment),
        _own_functions(graph),
        _symbols(chosen, kernels),
        (),
    )


def _decide(
    lab: Lab,
    method: str,
    experiment: Experiment,
    built: StaticFeatures,
    graph: CallGraph,
    known: dict[str, Verdict],
    work: list[ModelSet],
) -> Refinement:
    time, visits = _models(experiment)
    tree, target = experiment.tree, target_of(lab.program)
    if method == "ours":
        hooked = [function.mangled for function in built.functions if function.hooked]
        cost_s = hook_cost_s(lab.toolchain)
        return refine(
            tree,
            time,
            visits,
            target,
            Wishes(share=SHARE),
            visit_cost_s=cost_s,
            work=work,
            imbalance=imbalance_s(experiment),
            ends_s=ends_s(experiment),
            graph=graph,
            known=known,
            hooked=hooked,
        )
    if method == "PIRA I":
        seconds = np.nanmean(experiment.over_locations("time")[:, -1], axis=1)
        return hotspots(tree, seconds, time, graph)
    threshold_s = SHARE * float(np.nansum(np.maximum(time.predict(target[None]), 0.0)))
    chosen = filter_only if method == "filter-only" else filter_and_expand
    return chosen(tree, time, visits, target, graph, threshold_s)


def _models(experiment: Experiment) -> tuple[ModelSet, ModelSet]:
    sets = model_experiment(experiment, ["time", "visits"])
    return sets["time"], sets["visits"]


def _effort(lab: Lab) -> list[ModelSet]:
    """Count basic blocks and bytes once, as campaigns do: they do not depend on the run."""
    experiment, _, _ = lab.experiment("", lab.program.points, 1, Mode.EFFORT)
    used = [name for name in ("basic_blocks", "bytes_sent", "bytes_received") if name in experiment.values]
    return list(model_experiment(experiment, used).values())


def _listed(graph: CallGraph, chosen: Any) -> str:
    symbols = {graph.symbols[i] for i in np.flatnonzero(chosen & graph.has_body).tolist()} | {"main"}
    return format_filter(only(symbols))


def _symbols(chosen: Refinement, which: Any) -> tuple[str, ...]:
    regions = chosen.regions
    return tuple(sorted(regions[i].mangled or regions[i].name for i in np.flatnonzero(which).tolist()))


def _executed(experiment: Experiment) -> int:
    return sum(region.paradigm == "compiler" for region in experiment.tree.regions)


def _own_functions(graph: CallGraph) -> int:
    return int((graph.has_body & ~graph.system).sum())
