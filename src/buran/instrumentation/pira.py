"""The published refinement of instrumentation: PIRA I and both modes of PIRA II.

Jan-Patrick Lehr, Alexandru Calotoiu, Christian Bischof and Felix Wolf: "Automatic Instrumentation Refinement for
Empirical Performance Modeling". International Workshop on Programming and Performance Visualization Tools (ProTools),
pages 40 to 47, IEEE, 2019.

======================================================  ==============================================
in the paper                                            here
======================================================  ==============================================
V-B, initial selection by aggregated statements         `initial_selection`
V, threshold by a statistic of statements               `threshold`
V-B2, evaluation at p_ext = p_n + d                     `buran.campaign.space.extrapolated`
V-B3, Fig. 3, filter-only                               `filter_only`
V-B4, Fig. 4, filter-and-expand                         `filter_and_expand`
V, PIRA I: run-time hot spots                           `hotspots`
repetitions, iterations, thresholds                     `config/examples/pira.yaml`
======================================================  ==============================================

Where ours differs: models are Buran's, with one term a parameter and SMAPE as in `pira.yaml`; statements are source
lines with code; times are exclusive to a function, all call paths together. Thresholds are absolute, in seconds, and
overhead plays no part, as published: predictions are made with visits that cost nothing.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from buran.errors import UsageError
from buran.instrumentation.callgraph import CallGraph, Ids, Mask
from buran.instrumentation.prediction import Floats, RegionPrediction, symbol_of
from buran.instrumentation.refinement import Refinement

Size = Literal["statements", "instructions", "branches", "loops"]
Cut = Literal["unique_median", "median", "half_of_largest"]


def initial_selection(graph: CallGraph, by: Size = "statements", cut: Cut | int = "unique_median") -> Mask:
    """Return shape (function,): functions below ``main`` whose aggregated size reaches the threshold.

    The more statements lie below a function, each counted once, the likelier it matters. Callers of a selected
    function are selected too: what they reach is never smaller.

    Raises
    ------
    UsageError
        The sizes are not known, or there is no single main function.
    """
    if not (graph.features[by] >= 0).any():
        raise UsageError(
            f"the call graph has no {by} of any function",
            hint="compile with line tables (-g), or choose another size" if by == "statements" else "choose another",
        )
    below = graph.reached([graph.main])
    sizes = graph.inclusive[by]
    return below & (sizes >= threshold(sizes[below], cut)) & (graph.has_body | (sizes > 0))


def threshold(sizes: Ids, cut: Cut | int) -> int:
    """Return the least aggregated size that is worth a measurement.

    Parameters
    ----------
    sizes
        Aggregated sizes of the functions in question.
    cut
        ``unique_median``: upper median of the distinct sizes. ``median``: upper median of all. ``half_of_largest``.
        Or the threshold itself.
    """
    if isinstance(cut, int):
        return cut
    if not len(sizes):
        return 0
    if cut == "half_of_largest":
        return int(sizes.max()) // 2
    ordered = np.unique(sizes) if cut == "unique_median" else np.sort(sizes)
    return int(ordered[len(ordered) // 2])


def filter_only(prediction: RegionPrediction, graph: CallGraph, threshold_s: float) -> Refinement:
    """Keep functions whose model is above a threshold at the target, and every path of the call graph to them.

    Parameters
    ----------
    threshold_s
        Threshold of the exclusive time at the target, all call paths of a function together.
    """
    return _with_paths(prediction, graph, threshold_s, np.zeros(len(graph), dtype=bool))


def filter_and_expand(prediction: RegionPrediction, graph: CallGraph, threshold_s: float) -> Refinement:
    """Like `filter_only`; and of the functions these call, take those without a model that reach enough statements.

    Enough is the upper median of the distinct numbers among the functions in question.
    """
    numbers = graph.numbers(prediction.tree.regions)
    relevant = graph.marked(numbers[_relevant(prediction, threshold_s)])
    modelled = graph.marked(numbers[~np.isnan(prediction.share)])
    children = graph.callees(relevant) & ~modelled & graph.has_body
    sizes = graph.inclusive["statements"]
    enough = sizes >= threshold(sizes[children], "unique_median")
    return _with_paths(prediction, graph, threshold_s, children & enough)


def hotspots(prediction: RegionPrediction, graph: CallGraph, seconds: Floats) -> Refinement:
    """Keep functions with half of the largest inclusive time of one run, and of each the callee that takes most.

    Parameters
    ----------
    seconds
        Shape (call path,): exclusive time at one point.
    """
    tree, compiled = prediction.tree, prediction.filterable
    by_region = np.zeros(len(tree.regions))
    np.maximum.at(by_region, tree.region, tree.inclusive(np.nan_to_num(seconds)))
    least = float(by_region[compiled].max(initial=0.0)) / 2
    above = compiled & (by_region >= least)
    numbers = graph.numbers(tree.regions)
    sizes, values = graph.inclusive["statements"], np.zeros(len(graph))
    values[numbers[numbers >= 0]] = by_region[numbers >= 0]
    extra = np.zeros(len(graph), dtype=bool)
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
    why = f"{least:.3g} s inclusive"
    return _refinement(prediction, graph, above | prediction.main, extra & graph.has_body, why)


def _relevant(prediction: RegionPrediction, threshold_s: float) -> Mask:
    with np.errstate(invalid="ignore"):
        above: Mask = prediction.filterable & (prediction.own_s > threshold_s)
    return above


def _with_paths(prediction: RegionPrediction, graph: CallGraph, threshold_s: float, extra: Mask) -> Refinement:
    """Keep relevant functions, and everything on a path of the call graph from main to one of them or of `extra`."""
    numbers, relevant = graph.numbers(prediction.tree.regions), _relevant(prediction, threshold_s)
    leading = graph.leading_to(graph.marked(numbers[relevant]) | extra) & graph.has_body
    on_path = np.append(leading, False)[numbers]  # -1, of what the graph does not know, is the last
    return _refinement(prediction, graph, relevant | on_path, leading | extra, f"above {threshold_s:.3g} s", relevant)


def _refinement(
    prediction: RegionPrediction, graph: CallGraph, keep: Mask, chosen: Mask, why: str, kernels: Mask | None = None
) -> Refinement:
    instrumented = prediction.filterable & (keep | prediction.main)
    measured = {symbol_of(region) for region in prediction.tree.regions}
    added = {graph.symbols[i]: "by the call graph" for i in np.flatnonzero(chosen) if graph.symbols[i] not in measured}
    chosen_itself = (instrumented if kernels is None else kernels) & instrumented
    reasons = np.select(
        (chosen_itself, prediction.main, instrumented),
        (why, "begin of the program", f"on a way to what is {why}"),
        f"not {why}, nor on a way to what is",
    )
    return Refinement(prediction, instrumented, chosen_itself, tuple(reasons.tolist()), added)
