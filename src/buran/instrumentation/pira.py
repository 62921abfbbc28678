"""The published refinement of instrumentation: PIRA I and both modes of PIRA II.

Jan-Patrick Lehr, Alexandru Calotoiu, Christian Bischof and Felix Wolf: "Automatic Instrumentation Refinement for
Empirical Performance Modeling". International Workshop on Programming and Performance Visualization Tools (ProTools),
pages 40 to 47, IEEE, 2019.

======================================================  ==============================================
in the paper                                            here
======================================================  ==============================================
V-B, initial selection by aggregated statements         `buran.instrumentation.aggregation.initial_selection`
V, threshold by a statistic of statements               `buran.instrumentation.aggregation.threshold`
V-B2, evaluation at p_ext = p_n + d                     `buran.campaign.space.extrapolated`
V-B3, Fig. 3, filter-only                               `filter_only`
V-B4, Fig. 4, filter-and-expand                         `filter_and_expand`
V, PIRA I: run-time hot spots                           `hotspots`
repetitions, iterations, thresholds                     `config/examples/pira.yaml`
======================================================  ==============================================

Where ours differs: models are Buran's, with one term a parameter and SMAPE as in `pira.yaml`; statements are source
lines with code; times are exclusive to a function, all call paths together. Thresholds are absolute, in seconds, and
overhead plays no part, as published.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from buran.instrumentation.aggregation import threshold
from buran.instrumentation.callgraph import CallGraph, Ids
from buran.instrumentation.prediction import Floats, Mask, ModelledProgram, RegionPrediction, predict_regions, symbol_of
from buran.instrumentation.refinement import Refinement
from buran.modeling.pmnf import ModelSet
from buran.profiles.profile import CallTree


def filter_only(
    tree: CallTree, time: ModelSet, visits: ModelSet | None, target: ArrayLike, graph: CallGraph, threshold_s: float
) -> Refinement:
    """Keep functions whose model is above a threshold at the target, and every path of the call graph to them.

    Parameters
    ----------
    threshold_s
        Threshold of the exclusive time at the target, all call paths of a function together.
    """
    prediction, above = _above(tree, time, visits, target, threshold_s)
    return _closed(tree, prediction, above, graph, np.zeros(len(graph), dtype=bool), threshold_s)


def filter_and_expand(
    tree: CallTree,
    time: ModelSet,
    visits: ModelSet | None,
    target: ArrayLike,
    graph: CallGraph,
    threshold_s: float,
) -> Refinement:
    """Like `filter_only`; and of the functions these call, take those without a model that reach enough statements.

    Enough is the upper median of the distinct numbers among the functions in question.
    """
    prediction, above = _above(tree, time, visits, target, threshold_s)
    numbers = _numbers(graph, tree)
    kept = np.zeros(len(graph), dtype=bool)
    kept[numbers[above & (numbers >= 0)]] = True
    modelled = np.zeros(len(graph), dtype=bool)
    modelled[numbers[(numbers >= 0) & ~np.isnan(prediction.share)]] = True
    children = graph.callees(kept) & ~modelled & graph.has_body
    sizes: Ids = graph.inclusive["statements"]
    enough = sizes >= threshold(sizes[children], "unique_median")
    return _closed(tree, prediction, above, graph, children & enough, threshold_s)


def hotspots(tree: CallTree, seconds: Floats, time: ModelSet, graph: CallGraph) -> Refinement:
    """Keep functions with half of the largest inclusive time of one run, and of each the callee that takes most.

    Parameters
    ----------
    seconds
        Shape (call path,): exclusive time at one point.
    """
    prediction = predict_regions(ModelledProgram(tree, time, visit_cost_s=0.0), np.array(time.points[-1]))
    inclusive = tree.inclusive(np.nan_to_num(seconds))
    by_region = np.zeros(len(tree.regions))
    np.maximum.at(by_region, tree.region, inclusive)
    compiled = prediction.filterable
    least = float(by_region[compiled].max(initial=0.0)) / 2
    above = compiled & (by_region >= least)
    numbers = _numbers(graph, tree)
    extra = np.zeros(len(graph), dtype=bool)
    sizes = graph.inclusive["statements"]
    values = np.zeros(len(graph))
    values[numbers[numbers >= 0]] = by_region[numbers >= 0]
    for at in numbers[above & (numbers >= 0)].tolist():
        callees = graph.callee[graph.caller == at]
        if not len(callees):
            continue
        best = int(callees[np.argmax(values[callees])])
        if values[best] > least:
            extra[best] = True
        elif (sizes[callees] > 0).any():
            cut = 0.3 * sizes[callees].max() / int((sizes[callees] > 0).sum())
            extra[callees[sizes[callees] > cut]] = True
    reason = f"{least:.3g} s inclusive"
    return _refinement(tree, prediction, above | prediction.main, graph, extra & graph.has_body, reason)


def _above(
    tree: CallTree, time: ModelSet, visits: ModelSet | None, target: ArrayLike, threshold_s: float
) -> tuple[RegionPrediction, Mask]:
    prediction = predict_regions(ModelledProgram(tree, time, visits, 0.0), target)
    with np.errstate(invalid="ignore"):
        return prediction, prediction.filterable & (prediction.own_s > threshold_s)


def _numbers(graph: CallGraph, tree: CallTree) -> Ids:
    numbers = (graph.find(symbol_of(region), region.name, region.file) for region in tree.regions)
    return np.array([-1 if at is None else at for at in numbers], dtype=np.int64)


def _closed(
    tree: CallTree, prediction: RegionPrediction, above: Mask, graph: CallGraph, extra: Mask, threshold_s: float
) -> Refinement:
    """Add everything on a path of the call graph from main to what was chosen."""
    numbers = _numbers(graph, tree)
    targets = [*numbers[above & (numbers >= 0)].tolist(), *np.flatnonzero(extra).tolist()]
    leading = graph.on_paths([graph.main], targets) & graph.has_body
    in_graph = np.array([at >= 0 and bool(leading[at]) for at in numbers], dtype=bool)
    return _refinement(tree, prediction, above | in_graph, graph, leading | extra, f"above {threshold_s:.3g} s", above)


def _refinement(
    tree: CallTree,
    prediction: RegionPrediction,
    keep: Mask,
    graph: CallGraph,
    chosen: Mask,
    why: str,
    kernels: Mask | None = None,
) -> Refinement:
    instrumented = prediction.filterable & (keep | prediction.main)
    measured = {symbol_of(region) for region in tree.regions}
    added = {graph.symbols[i]: "by the call graph" for i in np.flatnonzero(chosen) if graph.symbols[i] not in measured}
    chosen_itself = (instrumented if kernels is None else kernels) & instrumented
    said = (why, "begin of the program", f"on a way to what is {why}")
    reasons = np.select(
        (chosen_itself, prediction.main, instrumented), said, f"not {why}, nor on a way to what is"
    ).tolist()
    return Refinement(prediction, instrumented, chosen_itself, tuple(reasons), added)
