"""What runs will cost, as plans and strategies see it alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from buran.campaign.plan import COUNTING, POINTS_OF_BOTH, Bundle, Mode, Plan
from buran.campaign.point import Point
from buran.campaign.records import Status
from buran.modeling.numerics.tuning import FEW, NEARLY, OVERHEAD
from buran.planning.base import covered
from buran.planning.observations import predicted_s
from buran.planning.protocol import CAREFUL
from buran.planning.question import SAMPLED_RATIO, Knowledge, Question, RunTimes
from buran.planning.space import Space


@dataclass(frozen=True)
class RunCosts:
    """What a campaign's runs are expected to cost."""

    question: Question
    knowledge: Knowledge

    @cached_property
    def _timed_space(self) -> Space:
        """The modelling points with what timed runs were seen to cost."""
        question, knowledge = self.question, self.knowledge
        expected = question.space.expected_s
        if expected is None and knowledge.pilot_s is not None and not knowledge.rounds:
            expected = knowledge.pilot_s * question.work(question.points)
        with_each = question.paired and not question.counts_with_times
        start_s = (1 + with_each) * knowledge.start_s
        overhead = self.ratio(Mode.TIME) + with_each
        return replace(question.space, overhead=overhead, start_s=start_s, expected_s=expected)

    @cached_property
    def space(self) -> Space:
        """The modelling points as the strategy sees them, with what all runs were seen to cost."""
        question, knowledge = self.question, self.knowledge
        counting = 0 if self.counts_settled else self.counting_runs
        warmup = question.warmup and not (question.weighs_runs and counting)
        newest = knowledge.plans[-1].filter_text if knowledge.plans else knowledge.filter_text
        baselines = 0.0 if self.is_compared(self.compared(newest)) else 1.0
        # what the strategy chooses to sample are few cheap points, for which a budget is looked at apart
        sampling = self.ratio(Mode.MEMORY) * question.memory_runs if question.memory_points else 0.0
        once = 0.0 if question.paired else baselines
        first_runs = warmup + self.ratio(Mode.EFFORT) * counting + sampling + once
        if counting and (self.points_of_both or 0) >= POINTS_OF_BOTH:
            first_runs = max(first_runs - self._timed_space.overhead, 0.0)  # the counting run tells the time
        return replace(self._timed_space, first_runs=first_runs)

    @cached_property
    def points_of_both(self) -> int | None:
        """At how many points timed runs and counting ones were planned.

        None where counting runs tell no times: nobody may use them, or those made so far do not prove to agree.
        """
        question, proven = self.question, self.knowledge.counting_proven
        usable = question.counting_tells_times and question.weighs_runs and not question.paired
        if not usable or (self.knowledge.rounds and (proven or 0.0) < NEARLY):
            return None
        modes: dict[Point, set[Mode]] = {}
        for _, bundle in self._bundles:
            modes.setdefault(bundle.point, set()).update(run.mode for run in bundle.runs)
        return sum({Mode.TIME, Mode.EFFORT} <= each for each in modes.values())

    @property
    def counting_runs(self) -> int:
        """Counting runs of a further point: one where runs are weighed, unless counts depend on the run."""
        question = self.question
        sparing = question.weighs_runs and not self.knowledge.unsteady
        return min(question.effort_runs, 1) if sparing else question.effort_runs

    @cached_property
    def counts_checked(self) -> bool:
        """Whether counting runs of a point that can show that counts depend on the run were compared."""
        counting = {
            (run.build, bundle.point, run.repetition)
            for _, bundle in self._bundles
            for run in bundle.runs
            if run.mode in COUNTING and bundle.point in self.checking
        }
        return max(Counter(point for _, point, _ in counting & self.made).values(), default=0) > 1

    @cached_property
    def checking(self) -> frozenset[Point]:
        """The points that show whether counts depend on the run: those with several cores, where there are any."""
        points = self.question.points
        return frozenset(point for point in points if self.question.table[point].cores > 1) or frozenset(points)

    @cached_property
    def counts_settled(self) -> bool:
        """Whether effort at further points is known from the counts so far; they must distinguish all parameters."""
        question, knowledge = self.question, self.knowledge
        if not (question.weighs_runs and knowledge.counts_settled):
            return False
        counted = {bundle.point for _, bundle in self._bundles if any(run.mode in COUNTING for run in bundle.runs)}
        indices = [index for index, point in enumerate(question.points) if point in counted]
        return covered(question.space, indices)

    def compared(self, filter_text: str) -> int:
        """Return the number of points at which runs under a filter were planned next to the baseline's."""
        both = {Mode.VANILLA, Mode.TIME}
        points = {
            bundle.point
            for plan, bundle in self._bundles
            if plan.filter_text == filter_text and both <= {run.mode for run in bundle.runs}
        }
        return len(points)

    def is_compared(self, points: int) -> bool:
        """Tell whether so many points show what hooks cost: further ones are timed without the baseline next to them.

        Strategies that do not weigh each run keep it at every point. Where hooks cost nothing there is nothing to show.
        """
        question = self.question
        sparing = question.weighs_runs and not question.paired
        return question.counts_with_times or (sparing and points >= self.enough_compared)

    @cached_property
    def enough_compared(self) -> int:
        """At how many points the baseline is measured: at fewer where a budget is few runs of the cheapest point."""
        first = self.question.points[0]
        budget, seconds = self.question.budget.in_force(None), self.run_s.get(first)
        if budget is None or not seconds:
            return FEW
        affordable = OVERHEAD * budget * 3600.0 / (seconds * self.question.table[first].cores)
        return max(min(int(affordable), FEW), 1)

    @property
    def _bundles(self) -> Iterator[tuple[Plan, Bundle]]:
        return ((plan, bundle) for plan in self.knowledge.rounds for bundle in plan.bundles)

    def ratio(self, mode: Mode) -> float:
        """Return what a run costs, over the baseline's."""
        return self.knowledge.ratios.get(mode, SAMPLED_RATIO if mode is Mode.MEMORY else 1.0)

    @cached_property
    def run_s(self) -> RunTimes:
        """What runs of the baseline are expected to take: as pilots, the user, models, or at last a strategy foresees.

        A strategy that adapts has its own models of the points that it chooses from: plans and budget must agree.
        """
        question, knowledge = self.question, self.knowledge
        points = tuple(question.table)
        seconds: dict[Point, float] = {}
        if knowledge.pilot_s is not None and not knowledge.rounds:
            seconds |= zip(points, (knowledge.pilot_s * question.work(points)).tolist(), strict=True)
        seconds |= {point: s for point, row in question.table.items() if (s := row.expected_s) is not None}
        seconds |= knowledge.predicted_s
        foreseen = None if knowledge.measured is None else predicted_s(knowledge.measured, self._timed_space)
        return seconds if foreseen is None else seconds | dict(zip(question.points, foreseen.tolist(), strict=True))

    def cost(self, bundle: Bundle, filter_text: str) -> float | None:
        """Predicted core hours of the runs of a bundle that are not made yet; None where nothing is known.

        Parameters
        ----------
        filter_text
            Of its timed runs. What the hooks of one that was not measured yet cost is not known: few are left of them.
        """
        seconds = self.run_s.get(bundle.point)
        if seconds is None:
            return None
        timed = self.ratio(Mode.TIME)
        if filter_text not in self._filters:
            timed = min(timed, CAREFUL)
        new = [run.mode for run in bundle.runs if (run.build, bundle.point, run.repetition) not in self.made]
        baselines = sum(timed if mode is Mode.TIME else self.ratio(mode) for mode in new)
        charged_s = seconds * baselines + self.knowledge.start_s * len(new)
        return charged_s * self.question.table[bundle.point].cores / 3600.0

    @cached_property
    def made(self) -> frozenset[tuple[str, Point, int]]:
        """Runs that were measured, as build, point and repetition."""
        return frozenset(
            (run.build, outcome.point, run.repetition)
            for outcome in self.knowledge.outcomes
            for run in outcome.runs
            if run.status is Status.MEASURED
        )

    @cached_property
    def _filters(self) -> frozenset[str]:
        plans = self.knowledge.plans
        return frozenset({plan.filter_text for plan in plans} or {self.knowledge.filter_text})
