"""Runs that are planned and not made yet: what they are predicted to take, by a model of those that were made."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from statistics import median_low
from typing import Literal

import numpy as np

from buran.campaign.plan import Bundle, Mode, Plan, Question, Run, planned_runs
from buran.campaign.point import Point
from buran.campaign.records import Status
from buran.campaign.resources import JOB_S
from buran.measurement.store import ledger
from buran.measurement.store.ledger import Entry
from buran.measurement.store.store import folder_of
from buran.modeling.numerics.tuning import NOISE
from buran.planning.space import Array
from buran.workflow.history import read_plans
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


@dataclass(frozen=True)
class PredictedRuns:
    """Predicts runs of some plans by those that the ledger has; it is fitted when it is first needed."""

    session: Session
    plans: Sequence[Plan]
    entries: Sequence[Entry]

    @cached_property
    def times(self) -> RunTimes | None:
        """Predicts the time of a run; None where nothing is known."""
        campaign = self.session.campaign
        return run_times(self.plans, self.entries, campaign.charged_cores, campaign.ranks_parameter)

    @property
    def has_runs(self) -> bool:
        """Whether runs that were made tell these times."""
        return self.times is not None and bool(self.times.factors)

    @cached_property
    def between_s(self) -> float:
        """What passes between two runs."""
        return seconds_between(self.session, self.plans, self.entries)

    @cached_property
    def kinds(self) -> Mapping[str, Kind]:
        """The kind of run that each build is for."""
        return kinds_of(self.plans)


@dataclass
class Remaining:
    """Runs that are still to be made.

    Attributes
    ----------
    seconds
        Predicted wall time by bundle, with what passes between two runs.
    unknown
        Whether nothing is known of some run's time.
    """

    predicted: PredictedRuns
    runs: int = 0
    seconds: dict[str, float] = field(default_factory=dict)
    core_hours: float = 0.0
    unknown: bool = False

    def add(self, bundle: Bundle, run: Run) -> float:
        """Add a run; return its predicted core hours, 0 where they are not known."""
        self.runs += 1
        if self.predicted.times is None:
            self.unknown = True
            return 0.0
        campaign = self.predicted.session.campaign
        seconds = self.predicted.times.seconds(bundle.point, self.predicted.kinds[run.build])
        self.seconds[bundle.id] = self.seconds.get(bundle.id, 0.0) + seconds + self.predicted.between_s
        core_hours = seconds * campaign.charged_cores(bundle.point) / 3600.0
        self.core_hours += core_hours
        return core_hours

    @property
    def known_core_hours(self) -> float | None:
        """What they are predicted to cost; None where nothing is known of some run."""
        return None if self.unknown else self.core_hours

    def eta_s(self, at_once: int | None, median_wait_s: float, points_per_job: int | Literal["auto"]) -> float | None:
        """Return the time left: one after the other here, or so many jobs `at_once` as run now in a queue."""
        if self.unknown:
            return None
        total = sum(self.seconds.values())
        if at_once is None or not self.seconds:
            return total
        jobs = len(self.seconds) / points_per_job if isinstance(points_per_job, int) else total / JOB_S
        waves = math.ceil(jobs / at_once)
        return max(total / at_once, max(self.seconds.values())) + waves * median_wait_s


class QuickCount:
    """Counts the runs that are settled from the ledger alone, again and again; what was read stays known.

    Attributes
    ----------
    planned_entries, failed
        Of runs that the plans so far ask for, and those of them that failed.
    """

    def __init__(self, session: Session) -> None:
        self.plans: tuple[Plan, ...] = ()
        self.spent_core_hours = 0.0
        self.failed: list[Entry] = []
        self._session = session
        self._ledger = ledger.LedgerReader(session.layout.store)
        self.planned_entries: list[Entry] = []
        self._planned: set[Question] = set()
        self._settled: set[Question] = set()

    def look(self) -> int:
        """Return the number of finished or failed runs that the plans so far ask for.

        What is spent is what this campaign's builds and other versions of the campaign have cost: as everywhere, the
        budget pays for all.
        """
        session = self._session
        if session.layout.plan(session.id, len(self.plans)).is_file():
            self.plans = read_plans(session.layout, session.id)
            self._planned = {question for question, _, _ in planned_runs(self.plans)}
        entries = self._ledger.read()
        self.spent_core_hours = ledger.spent_core_hours(entries, session.target.id)
        self.planned_entries = [entry for entry in entries if entry.question in self._planned]
        self.failed = [entry for entry in self.planned_entries if entry.status == Status.FAILED]
        self._settled = {entry.question for entry in self.planned_entries if entry.status != Status.INTERRUPTED}
        return len(self._settled)

    @property
    def runs(self) -> int:
        """Runs that are settled or that the newest plan asks for: what earlier plans left out is not made."""
        return len(self._settled) + len({question for question, _, _ in planned_runs(self.plans[-1:])} - self._settled)

    def ahead(self) -> tuple[float, float] | None:
        """Return the core hours and the seconds that the rest of the newest plan is predicted to take.

        None where nothing is known.
        """
        rest = Remaining(PredictedRuns(self._session, self.plans, self.planned_entries))
        for question, bundle, run in planned_runs(self.plans[-1:]):
            if question not in self._settled:
                rest.add(bundle, run)
        return None if rest.predicted.times is None else (rest.core_hours, sum(rest.seconds.values()))
