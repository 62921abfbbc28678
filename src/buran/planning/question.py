"""What plans are made from: the question that a campaign asks, and what is known so far."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from buran.campaign.plan import BuildSpec, Mode, Plan, Purpose
from buran.campaign.point import Point
from buran.campaign.records import BundleOutcome, Status, core_hours
from buran.campaign.sections import BudgetKeys
from buran.campaign.strategies import MOST_REPETITIONS
from buran.planning.base import smallest
from buran.planning.observations import Observations
from buran.planning.space import Array, Space
from buran.planning.strategies import ValidatedStrategy, base_of, strategy_of
from buran.profiles.metrics import counted

# Times a plain run, that one takes that samples accesses to memory, until one was seen. Tuned: between the least and
# the most of evidence/caches.md.
SAMPLED_RATIO = 3.0

RunTimes = Mapping[Point, float]
"""Wall times of runs in seconds, by point; points are missing where nothing is known."""


@dataclass(frozen=True)
class Candidate:
    """A row of the table that plans are made from: what a run at a point needs.

    Attributes
    ----------
    build
        The build without hooks.
    cores
        Cores that a run is charged for.
    expected_s
        The user's estimate of a run's wall time; None without one.
    """

    build: BuildSpec
    cores: float
    expected_s: float | None = None


@dataclass(frozen=True)
class Question:
    """The part of a campaign that plans depend on.

    Attributes
    ----------
    table
        What runs need at all points that may be planned, and at those of the full matrix.
    points, evaluation_points
        Cheapest first.
    full_matrix
        Those of the points that the cost of the full matrix is of; all by default.
    filters
        Filters of the iterations before this one, in order.
    rebuild_every
        After how many filters the program is built anew; the others are applied when it runs. 0: never.
    ranks_parameter
        The parameter that is the number of ranks, if one is.
    pilot
        Whether functions are chosen by a few small runs before everything is measured.
    models
        Whether models are wanted; without, only small runs are made until the filter has settled.
    paired
        Whether strategies that adapt need a baseline run for each timed one, as they choose by it; else the first
        timed run of a point under a filter has one next to it.
    pooled
        Whether times under earlier filters are used.
    counts_only
        Whether nothing is measured but counts.
    counts_with_times
        Whether timed runs tell the counts, too, and what the program takes without hooks.
    counting_tells_times
        Whether times of counting runs are used, corrected, where they prove to agree with those of timed runs.
    memory_points
        Where the user wants accesses to memory sampled; None where the points are the strategy's to choose.
    foreign
        Points whose times were measured elsewhere: none is timed here.
    """

    table: Mapping[Point, Candidate]
    points: tuple[Point, ...]
    evaluation_points: tuple[Point, ...]
    metrics: frozenset[str]
    repetitions: int
    effort_repetitions: int
    warmup: bool
    strategy: str
    max_iterations: int
    refine: bool
    seed: int
    ranks_parameter: str | None
    budget: BudgetKeys
    filters: tuple[str, ...] = ()
    rebuild_every: int = 1
    full_matrix: tuple[Point, ...] = ()
    target: Point | None = None
    base: str | None = None
    choices: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()
    base_repetitions: int | None = None
    batch: int | None = None
    accuracy: float | None = None
    patience: int | None = None
    most_repetitions: int = MOST_REPETITIONS
    retry_failed: bool = False
    pilot: bool = False
    models: bool = True
    paired: bool = False
    pooled: bool = False
    counts_with_times: bool = False
    counts_only: bool = False
    counting_tells_times: bool = False
    memory_points: frozenset[Point] | None = frozenset()
    foreign: frozenset[Point] = frozenset()

    @cached_property
    def chooser(self) -> ValidatedStrategy:
        """The strategy."""
        base = base_of(self.strategy, self.base, self.base_repetitions)
        return strategy_of(
            self.strategy, base=base, repetitions=self.repetitions, patience=self.patience, accuracy=self.accuracy
        )

    @cached_property
    def space(self) -> Space:
        """The modelling points as the strategy sees them.

        All that was said beforehand; `Knowledge` may say more of what runs cost.
        """
        names = tuple(self.points[0])
        guess = [self.table[point].expected_s for point in self.points]
        target = self.target or Point.of({name: max(point[name] for point in self.points) for name in names})
        most = self.most_repetitions if self.adaptive else self.repetitions
        return Space(
            names,
            np.array([[point[name] for name in names] for point in self.points], dtype=np.float64),
            np.array([self.table[point].cores for point in self.points], dtype=np.float64),
            np.array([target[name] for name in names], dtype=np.float64),
            most_repetitions=most,
            expected_s=None if None in guess else np.array(guess, dtype=np.float64),
            ranks=self.ranks_parameter,
            choices=self.choices,
            steps=self.steps,
        )

    def build(self, mode: Mode, filter_text: str, point: Point) -> BuildSpec:
        """Return the build for a filter: its own, or an earlier one with this filter applied when it runs."""
        plain = self.table[point].build
        if mode is Mode.VANILLA:
            return plain
        hooks = None
        if mode is Mode.TIME and self.rebuild_every != 1:
            texts = list(dict.fromkeys([*self.filters, filter_text]))
            number = texts.index(filter_text)
            hooks = texts[number - number % self.rebuild_every if self.rebuild_every else 0]
        return replace(plain, mode=mode, filter_text=filter_text, hooks=None if hooks == filter_text else hooks)

    def work(self, points: Sequence[Point]) -> Array:
        """Shape (point,): how much longer a run takes than at the first point, if all that grows is proportional."""
        names = [name for name in self.points[0] if name != self.ranks_parameter and name not in self.choices]
        sizes = np.array([[point[name] for name in names] for point in (self.points[0], *points)], dtype=np.float64)
        product = sizes.prod(axis=1)
        return np.asarray(product[1:] / product[0], dtype=np.float64)

    @property
    def weighs_runs(self) -> bool:
        """Whether the strategy decides of each single run."""
        return self.chooser.abilities.weighs_runs

    @property
    def effort_runs(self) -> int:
        """Counting runs of each point."""
        return self.effort_repetitions if counted(self.metrics) and not self.counts_with_times else 0

    @cached_property
    def sampled_points(self) -> frozenset[Point]:
        """Where accesses to memory are sampled: all points, or the cheap ones that tell growth where points are chosen.

        Distances grow long before a cache is left, so expensive points add no information.
        """
        if self.memory_points is not None:
            return self.memory_points
        if not self.adaptive:
            return frozenset(self.points)
        return frozenset(self.points[index] for index in smallest(self.space))

    @property
    def memory_runs(self) -> float:
        """Runs of a point, in the mean, that sample accesses to memory."""
        return len(self.sampled_points) / len(self.points)

    @property
    def adaptive(self) -> bool:
        """Whether points are chosen by what was measured at others."""
        return not self.chooser.abilities.all_at_once

    def full_matrix_core_hours(self, seconds: RunTimes) -> float | None:
        """Return what measuring every point would cost; None where the run time of some point is unknown."""
        timed = 0 if self.counts_only else (2 - self.counts_with_times) * self.repetitions + self.warmup
        runs = timed + self.effort_runs + SAMPLED_RATIO * self.memory_runs
        total = 0.0
        for point in self.full_matrix or self.points:
            if point not in seconds:
                return None
            total += seconds[point] * self.table[point].cores * runs / 3600.0
        return total


@dataclass(frozen=True)
class Knowledge:
    """What the iterations so far have taught.

    Attributes
    ----------
    plans
        All earlier plans.
    outcomes
        What became of their bundles, as the bundle pointers say.
    predicted_s
        Wall times of runs from models.
    filter_text
        Filter that the models suggest for the next iteration.
    measured
        Times of the call paths, and of the whole program, at the modelling points, their parameters in the order of
        a point's names; None before the first run.
    errors
        SMAPE of the program's model after each iteration.
    build_core_hours
        What builds were charged.
    unsteady
        Call paths whose counts differ between runs of a point, by metric.
    ratios
        Run time over that of the baseline, by mode, where it was seen.
    pilot_s
        Longest baseline run of pilots; None without.
    counts_settled
        Whether the counts so far tell how the effort of all call paths that matter grows.
    missed_limit
        That the filter in force costs more than is allowed, as text; empty where it does not.
    counting_proven
        Share of the time whose values of counting runs agree with those of timed runs; None before both were made.
    start_s
        Seconds that a run was charged beyond its own, the median: what starting a job takes.
    choice
        How the filter for the next iteration differs from the last one, as text.
    """

    plans: tuple[Plan, ...] = ()
    outcomes: tuple[BundleOutcome, ...] = ()
    predicted_s: RunTimes = field(default_factory=dict)
    filter_text: str = ""
    measured: Observations | None = None
    errors: tuple[float, ...] = ()
    build_core_hours: float = 0.0
    unsteady: Mapping[str, Sequence[str]] = field(default_factory=dict)
    ratios: Mapping[Mode, float] = field(default_factory=dict)
    pilot_s: float | None = None
    counts_settled: bool = False
    missed_limit: str = ""
    counting_proven: float | None = None
    start_s: float = 0.0
    choice: str = "the models chose other functions"

    @property
    def spent_core_hours(self) -> float:
        """Charged so far; a run that several bundles share counts once."""
        return self.build_core_hours + core_hours(self.outcomes)

    @cached_property
    def rounds(self) -> tuple[Plan, ...]:
        """The plans that measure, without pilot runs."""
        return tuple(plan for plan in self.plans if not plan.pilot)

    @property
    def complete(self) -> bool:
        """Whether all runs that were planned were started."""
        return all(outcome.complete for outcome in self.outcomes)

    @cached_property
    def dropped(self) -> frozenset[tuple[str, Point, int]]:
        """Runs that were planned and not started for want of budget, as build, point and repetition."""
        return frozenset(
            (run.build, outcome.point, run.repetition)
            for outcome in self.outcomes
            for run in outcome.runs
            if run.status is Status.OVER_BUDGET
        )

    @property
    def any_measured(self) -> bool:
        """Whether a run succeeded."""
        return any(outcome.has(Status.MEASURED) for outcome in self.outcomes)

    @property
    def all_measured(self) -> bool:
        """Whether all runs succeeded."""
        return all(run.status is Status.MEASURED for outcome in self.outcomes for run in outcome.runs)

    @property
    def failed(self) -> frozenset[Point]:
        """Points at which a run failed; not counting runs with hooks in too many functions."""
        return frozenset(
            outcome.point
            for outcome in self.outcomes
            if outcome.purpose is not Purpose.PILOT and outcome.has(Status.FAILED)
        )

    def planned(self, purpose: Purpose) -> list[Point]:
        """Return the points planned so far, in the order of planning."""
        bundles = (bundle for plan in self.plans for bundle in plan.bundles if bundle.purpose == purpose)
        return list(dict.fromkeys(bundle.point for bundle in bundles))
