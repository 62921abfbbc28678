"""What runs that are planned and not made yet will take, by a model of those that were made."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from statistics import median_low

import numpy as np

from buran.campaign.plan import Bundle, Mode, Plan
from buran.campaign.point import Point
from buran.campaign.records import Status
from buran.loop.session import Session
from buran.measure.store.ledger import Entry
from buran.select.space import Array
from buran.select.tuning import RUN_TIMES

Kind = tuple[Mode, str]
"""Runs of one mode under one filter: what hooks cost is a factor for each kind."""


@dataclass(frozen=True, eq=False)
class RunTimes:
    """Predicts wall times of runs.

    A power law in the parameters with a factor for each kind of run, fitted to the logarithms of the times, held near
    what was planned with (or near proportional to the sizes) while there are few; at measured points with what these
    departed from it.

    Attributes
    ----------
    guess_s
        Expected wall time of a run without hooks, up to a factor.
    factors
        Logarithms, by kind; a kind that never ran counts as the one without hooks: a new filter leaves few of them.
    exponents
        Shape (parameter,).
    departures
        Logarithms, by point.
    """

    guess_s: Callable[[Point], float]
    factors: Mapping[Kind, float] = field(default_factory=dict)
    exponents: Array = field(default_factory=lambda: np.zeros(0))
    departures: Mapping[Point, float] = field(default_factory=dict)

    def seconds(self, point: Point, kind: Kind) -> float:
        """Predict the wall time of a run of a kind."""
        if not self.factors:
            return self.guess_s(point)
        plain = self.factors.get((Mode.VANILLA, ""), min(self.factors.values()))
        factor = self.factors.get(kind, plain)
        power = float(np.array(_logs(point)) @ self.exponents)
        return float(self.guess_s(point) * np.exp(factor + power + self.departures.get(point, 0.0)))


def run_times(
    plans: Sequence[Plan], entries: Iterable[Entry], cores: Callable[[Point], int], ranks: str | None
) -> RunTimes | None:
    """Fit the runs that plans name and the ledger has; None where neither runs nor plans tell a time.

    Parameters
    ----------
    ranks
        The parameter that is the number of ranks: it is not taken for a size.
    """
    planned = [bundle for plan in plans for bundle in plan.bundles]
    guess_s, is_planned = _guess(planned, ranks)
    kinds = kinds_of(plans)
    named = {(run.build, bundle.point.key, run.name): bundle.point for bundle in planned for run in bundle.runs}
    made = [
        (named[entry.key.question], kinds[entry.key.build], entry.cost_core_hours)
        for entry in entries
        if entry.status == Status.MEASURED and entry.cost_core_hours > 0 and entry.key.question in named
    ]
    if not made:
        return RunTimes(guess_s) if is_planned else None
    points, kinds_made, costs = zip(*made, strict=True)
    guess_s, cores, logs_of = cache(guess_s), cache(cores), cache(_logs)  # a point has many runs
    left = np.log([3600.0 * cost / cores(point) / guess_s(point) for point, cost in zip(points, costs, strict=True)])
    present = list(dict.fromkeys(kinds_made))
    logs = np.array([logs_of(point) for point in points])
    mean, centre = float(left.mean()), logs.mean(axis=0)
    design = np.hstack([np.eye(len(present))[[present.index(kind) for kind in kinds_made]], logs - centre])
    held = np.sqrt(RUN_TIMES.shrinkage) * np.eye(design.shape[1])
    wanted = np.concatenate([left - mean, np.zeros(len(held))])
    solved = np.linalg.lstsq(np.vstack([design, held]), wanted, rcond=None)[0]
    exponents = solved[len(present) :]
    factors = mean + solved[: len(present)] - centre @ exponents
    departures: dict[Point, list[float]] = {}
    for point, value in zip(points, (left - mean - design @ solved).tolist(), strict=True):
        departures.setdefault(point, []).append(value)
    return RunTimes(
        guess_s,
        dict(zip(present, factors.tolist(), strict=True)),
        exponents,
        {point: float(np.mean(values)) for point, values in departures.items()},
    )


def kinds_of(plans: Iterable[Plan]) -> dict[str, Kind]:
    """Return the kind of run that each build is for."""
    return {build.hash: (build.mode, build.filter_text) for plan in plans for build in plan.builds}


def seconds_between(session: Session, plans: Sequence[Plan], entries: Iterable[Entry]) -> float:
    """Return what passes between the end of a run and the start of the next one, in seconds, as a median."""
    points = {bundle.point.key: bundle.point for plan in plans for bundle in plan.bundles}
    measured = [entry for entry in entries if entry.status == Status.MEASURED and entry.key.point in points]
    ends = []
    for entry in measured[-RUN_TIMES.newest :]:
        folder = session.layout.store / entry.run
        if folder.is_dir():
            cores = session.campaign.charged_cores(points[entry.key.point])
            ends.append((folder.stat().st_mtime, 3600.0 * entry.cost_core_hours / cores))
    gaps = [end - before - seconds for (before, _), (end, seconds) in pairwise(sorted(ends))]
    return max(median_low(gaps), 0.0) if len(gaps) > 2 else 0.0  # between two sessions more passes


def _guess(planned: Sequence[Bundle], ranks: str | None) -> tuple[Callable[[Point], float], bool]:
    """Return what a run is expected to take, and whether plans say so: without them, in proportion to all sizes."""
    predicted = {bundle.point: bundle.predicted_s for bundle in planned if bundle.predicted_s}
    if planned and all(bundle.point in predicted for bundle in planned):
        return lambda point: predicted.get(point) or max(predicted.values()), True
    return lambda point: float(np.prod([size for name, size in _sizes(point).items() if name != ranks])), False


def _sizes(point: Point) -> dict[str, float]:
    return {name: float(value) if value > 0 else 1.0 for name, value in point.items()}


def _logs(point: Point) -> list[float]:
    return [math.log(size) for size in _sizes(point).values()]
