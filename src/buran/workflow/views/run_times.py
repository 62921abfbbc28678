"""What runs that are planned and not made yet will take, by a model of those that were made."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median_low

import numpy as np

from buran.campaign.plan import Bundle, Mode, Plan, Question
from buran.campaign.point import Point
from buran.campaign.records import Status
from buran.measurement.store.ledger import Entry
from buran.measurement.store.store import folder_of
from buran.modeling.numerics.tuning import NOISE
from buran.planning.space import Array
from buran.workflow.session import Session

Kind = tuple[Mode, str]
"""Runs of one mode under one filter: what hooks cost is a factor for each kind."""


@dataclass(frozen=True, eq=False)
class RunTimes:
    """Predicts wall times of runs.

    A power law in the parameters with a factor for each kind of run, fitted to the logarithms of the times, kept near
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
    plans: Sequence[Plan], entries: Iterable[Entry], cores: Callable[[Point], float], ranks: str | None
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
    numbers: dict[Point, int] = {}
    named: dict[Question, int] = {}
    for bundle in planned:
        named.update(dict.fromkeys(bundle.questions, numbers.setdefault(bundle.point, len(numbers))))
    names = list(dict.fromkeys(kinds.values()))
    of_build = {build: names.index(kind) for build, kind in kinds.items()}
    made = [
        (named[entry.question], of_build[entry.question[0]], entry.cost_core_hours)
        for entry in entries
        if entry.status == Status.MEASURED and entry.cost_core_hours > 0 and entry.question in named
    ]
    if not made:
        return RunTimes(guess_s) if is_planned else None
    at, kinds_made, costs = map(np.array, zip(*made, strict=True))
    points = list(numbers)  # a point has many runs
    present, column = np.unique(kinds_made, return_inverse=True)
    expected = np.array([cores(point) * guess_s(point) for point in points])
    left = np.log(3600.0 * costs / expected[at])
    logs = np.array([_logs(point) for point in points])[at]
    mean, centre = float(left.mean()), logs.mean(axis=0)
    design = np.hstack([np.eye(len(present))[column], logs - centre])
    ridge = NOISE * np.eye(design.shape[1])  # a guess is off by a factor of e or a power, a run by its noise
    wanted = np.concatenate([left - mean, np.zeros(len(ridge))])
    solved = np.linalg.lstsq(np.vstack([design, ridge]), wanted, rcond=None)[0]
    exponents = solved[len(present) :]
    factors = mean + solved[: len(present)] - centre @ exponents
    runs = np.bincount(at, minlength=len(points))
    departures = np.bincount(at, left - mean - design @ solved, len(points)) / np.maximum(runs, 1)
    return RunTimes(
        guess_s,
        {names[kind]: factor for kind, factor in zip(present, factors.tolist(), strict=True)},
        exponents,
        {point: value for point, value, made in zip(points, departures.tolist(), runs, strict=True) if made},
    )


def kinds_of(plans: Iterable[Plan]) -> dict[str, Kind]:
    """Return the kind of run that each build is for."""
    return {build.hash: (build.mode, build.filter_text) for plan in plans for build in plan.builds}


def seconds_between(session: Session, plans: Sequence[Plan], entries: Sequence[Entry]) -> float:
    """Return what passes between the end of a run and the start of the next one, in seconds, as a median."""
    points = {bundle.point.key: bundle.point for plan in plans for bundle in plan.bundles}
    measured = (entry for entry in entries if entry.status == Status.MEASURED and entry.question[1] in points)
    bounds = []
    for entry in measured:
        folder = folder_of(session.layout.store, entry.key)
        if folder.is_dir():
            cores = session.campaign.charged_cores(points[entry.question[1]])
            bounds.append((folder.stat().st_mtime, 3600.0 * entry.cost_core_hours / cores))
    gaps = [end - before - seconds for (before, _), (end, seconds) in pairwise(sorted(bounds))]
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
