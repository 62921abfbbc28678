"""What the hooks of a campaign's filters were allowed to cost, and what they did."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from buran.campaign.config import Campaign
from buran.instrumentation.filter_file import parse
from buran.instrumentation.measured import (
    FilterOverhead,
    MeasuredOverhead,
    Overhead,
    beyond_startup,
    times_as_expensive,
)
from buran.instrumentation.prediction import RegionPrediction
from buran.instrumentation.start import EVERY
from buran.modeling.pmnf.model_set import ModelSet
from buran.workflow.history import History, timed_filters


def allowed_overhead(campaign: Campaign) -> float | None:
    """Return the share of the time without hooks that these may take; None where nothing limits them."""
    refinement = campaign.config.refinement
    limited = refinement.enabled and campaign.config.goal != "models" and refinement.strategy == "relevance"
    return refinement.overhead_percent / 100 if limited and refinement.overhead_percent is not None else None


def overheads_by_filter(history: History, iteration: int) -> dict[str, list[Overhead]]:
    """Return what was measured up to an iteration, by filter, in the order in which these were timed."""
    modelled = history.plans[iteration].modelled
    runs = history.runs_of(history.plans[: iteration + 1])
    filters = timed_filters(run for run in runs if run.purpose is modelled)
    out: dict[str, list[Overhead]] = {}
    for overhead in history.findings(iteration).overhead:
        out.setdefault(filters[overhead.filter_number], []).append(overhead)
    return out


def without_startup(
    campaign: Campaign, points: Sequence[Overhead], prediction: RegionPrediction | None = None
) -> MeasuredOverhead | None:
    """Return what a filter cost beyond what no list shortens: start-up, and hooks of OpenMP where predicted."""
    timed = [point for point in points if point.time_ratio is not None and point.vanilla_cpu_s > 0]
    gain = np.array([point.time_ratio for point in timed], dtype=np.float64) - 1
    gain -= [_openmp(campaign, point, prediction) for point in timed]
    plain_s = np.array([point.vanilla_cpu_s for point in timed])
    ranks = np.array([campaign.ranks(point.point) for point in timed], dtype=np.float64)
    return beyond_startup(gain, plain_s, ranks)[0]


def _openmp(campaign: Campaign, overhead: Overhead, prediction: RegionPrediction | None) -> float:
    """Return the predicted overhead of OpenMP's constructs at a point; 0 where nothing is predicted."""
    key = [float(overhead.point[name]) for name in campaign.parameters]
    if prediction is None or key not in (points := prediction.points.tolist()):
        return 0.0
    return float(prediction.openmp_overhead[1 + points.index(key)])


def excessive(history: History, iteration: int, prediction: RegionPrediction | None = None) -> MeasuredOverhead | None:
    """Return the overhead under the filter of an iteration if its whole interval is above what is allowed; else None.

    What no list shortens is not counted, see `without_startup`.
    """
    allowed = allowed_overhead(history.session.campaign)
    if allowed is None:
        return None
    points = overheads_by_filter(history, iteration).get(history.findings(iteration).filter_text, ())
    measured = without_startup(history.session.campaign, points, prediction)
    return measured if measured is not None and measured.exceeds(allowed) else None


def cost_factor(history: History, iteration: int, prediction: RegionPrediction, time: ModelSet) -> float:
    """Return how many times the calibrated cost a visit has in the program, by the filter of an iteration; at least 1.

    It counts only where hooks, not starting and ending the measurement, explain that they cost more than is allowed.
    """
    campaign = history.session.campaign
    allowed = allowed_overhead(campaign)
    _, *predicted = prediction.overhead(np.ones(len(prediction.tree.regions), dtype=bool)).tolist()
    points = map(tuple, prediction.points.tolist())
    at = {point: share for point, share in zip(points, predicted, strict=True) if np.isfinite(share)}
    rows = [
        (at[point], overhead.time_ratio - 1 - _openmp(campaign, overhead, prediction), overhead.vanilla_cpu_s)
        for overhead in overheads_by_filter(history, iteration).get(history.findings(iteration).filter_text, ())
        if (point := tuple(overhead.point[name] for name in time.parameters)) in at and overhead.time_ratio is not None
    ]
    if not rows or allowed is None:
        return 1.0
    shares, gain, plain_s = np.array(rows).T
    factor = times_as_expensive(shares, gain, plain_s)
    return factor if factor * float(np.median(shares)) > allowed else 1.0


def missed_limit(history: History, iteration: int) -> str:
    """Say that the filter of an iteration costs more than is allowed; empty where it does not."""
    measured, allowed = excessive(history, iteration), allowed_overhead(history.session.campaign)
    if measured is None or allowed is None:
        return ""
    return f"the measured overhead of the filter, {measured}, is above the {100 * allowed:.3g} % allowed"


def instrumentation(history: History, iteration: int, predicted: Callable[[str], float | None]) -> list[FilterOverhead]:
    """Return, for each filter, what it instruments, what it was predicted to cost, and what it did.

    Parameters
    ----------
    predicted
        Largest overhead at a measured point, from the text of a filter.
    """
    allowed = allowed_overhead(history.session.campaign)
    out = []
    for text, points in overheads_by_filter(history, iteration).items():
        hooks = without_startup(history.session.campaign, points)
        out.append(
            FilterOverhead(
                points[0].filter_number,
                *instrumented(text),
                points=len(points),
                predicted=predicted(text),
                time=MeasuredOverhead.of(point.time_ratio for point in points),
                without_startup=hooks,
                counts=MeasuredOverhead.of(point.effort_ratio for point in points),
                allowed=allowed,
                within=None if hooks is None or allowed is None else not hooks.exceeds(allowed),
            )
        )
    return out


def instrumented(filter_text: str) -> tuple[int | None, int | None]:
    """Count the functions that a filter names and those that it excludes, as `FilterOverhead` has them."""
    rules = parse(filter_text)
    named, left_out = rules.functions(True), rules.functions(False)
    everything = named.intersection(EVERY)
    if not everything and (named or "*" in left_out):
        return len(named), None
    return None, len(left_out) if left_out or everything else None
