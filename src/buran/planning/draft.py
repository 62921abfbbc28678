"""Making a plan: its bundles and builds, within the budget."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from buran.campaign.plan import COUNTING, POINTS_OF_BOTH, BuildSpec, Bundle, Mode, Plan, Purpose, randomised_blocks
from buran.campaign.point import Point
from buran.campaign.records import core_hours
from buran.modeling.numerics.tuning import HALF
from buran.planning.base import covered
from buran.planning.costs import RunCosts
from buran.planning.protocol import CAREFUL


@dataclass(frozen=True)
class Draft(RunCosts):
    """The next plan, as far as it follows from the question and what is known: phases fill it."""

    @property
    def iteration(self) -> int:
        """Number of the plan."""
        return len(self.knowledge.plans)

    def plan(self, points: Mapping[Point, int], purpose: Purpose, reason: str, filter_text: str) -> Plan:
        """Plan so many timed runs of each point as the budget reaches for, with what goes with them."""
        bundles = self.bundles(points, purpose, filter_text)
        builds: dict[str, BuildSpec] = {}
        for point in points:
            for mode, text in self.variants(filter_text, purpose):
                spec = self.question.build(mode, text, point)
                builds[spec.hash] = spec
        budget = self.budget(purpose)
        limit, spent = self.limit(purpose), self.knowledge.spent_core_hours
        reached, predicted = False, None
        costs = [self.cost(bundle, filter_text) for bundle in bundles]
        if limit is not None and self.question.models and (purpose is Purpose.PILOT or None in costs):
            limit = spent + HALF * max(limit - spent, 0.0)
        if all(cost is not None for cost in costs):
            affordable: list[Bundle] = []
            careful = 1.0 if self.question.adaptive or purpose is not Purpose.MODEL else CAREFUL
            predicted = later = 0.0
            for bundle, cost in zip(bundles, costs, strict=True):
                assert cost is not None
                again = self.again_core_hours(bundle)
                if limit is not None and spent + careful * (predicted + cost + later + again) > limit * (1 + 1e-9):
                    reached = True
                    continue
                affordable.append(bundle)
                predicted += cost
                later += again
            bundles = affordable
            limit = None if limit is None else max(limit - careful * later, spent)
        needed = {run.build for bundle in bundles for run in bundle.runs}
        return Plan(
            iteration=self.iteration,
            done=False,
            reason=reason,
            builds=tuple(spec for name, spec in builds.items() if name in needed),
            bundles=tuple(bundles),
            filter_text=filter_text,
            spent_core_hours=spent,
            predicted_core_hours=predicted,
            budget_core_hours=budget,
            limit_core_hours=limit,
            budget_reached=reached,
        )

    def done(self, reason: str, budget_reached: bool = False) -> Plan:
        """Plan the end."""
        knowledge = self.knowledge
        return Plan(
            iteration=self.iteration,
            done=True,
            reason=reason,
            filter_text=knowledge.plans[-1].filter_text if knowledge.plans else "",
            spent_core_hours=knowledge.spent_core_hours,
            budget_core_hours=self.budget(Purpose.MODEL),
            budget_reached=budget_reached,
        )

    def ending(self, reason: str, budget_reached: bool = False) -> Plan:
        """Plan the evaluation points where there are some to measure, else the end; `reason` says why no other points.

        Where they do not fit into the budget the campaign ends without them.
        """
        question, knowledge = self.question, self.knowledge
        if not question.evaluation_points or knowledge.planned(Purpose.EVALUATION):
            return self.done(reason, budget_reached)
        points = dict.fromkeys(question.evaluation_points, question.repetitions)
        why = f"{reason}; evaluation points last, to compare with the models' predictions"
        plan = self.plan(points, Purpose.EVALUATION, why, knowledge.plans[-1].filter_text)
        if plan.bundles:
            return replace(plan, ended=reason, budget_reached=plan.budget_reached or budget_reached)
        return self.done(f"{reason}; the evaluation points do not fit into the budget", budget_reached=True)

    def variants(self, filter_text: str, purpose: Purpose) -> list[tuple[Mode, str]]:
        """Return the builds of an iteration; counts and samples are always those of the widest instrumentation."""
        if self.question.counts_only:
            return [(Mode.EFFORT, "")]
        variants = [(Mode.VANILLA, ""), (Mode.TIME, filter_text)][self.question.counts_with_times :]
        guard = purpose is Purpose.PILOT and self.question.pilot and not self.knowledge.plans
        if self.question.effort_runs and not guard:
            variants.append((Mode.EFFORT, ""))
        if purpose is Purpose.MODEL and self._unsampled:
            variants.append((Mode.MEMORY, ""))
        return variants

    @cached_property
    def to_sample(self) -> tuple[Point, ...]:
        """Where accesses to memory are sampled next, even if nothing else is wanted there.

        Points that nobody requested wait until times tell how each parameter acts, if there is a budget.
        """
        timed = [index for index, point in enumerate(self.question.points) if point in self.runs_before]
        if self._sampling_is_wanted or (self._unsampled and covered(self.question.space, timed)):
            return tuple(point for point in self._unsampled if self.samples(point))
        return ()

    def samples(self, point: Point) -> bool:
        """Tell whether accesses are sampled with the next runs of a point.

        Where nobody requested it, these runs take a part of the budget only.
        """
        if point not in self._unsampled or self._sampling_is_wanted:
            return point in self._unsampled
        return self._sampling_is_affordable

    @cached_property
    def _sampling_is_affordable(self) -> bool:
        """Whether the budget reaches for all points that are to be sampled: some of them tell no growth."""
        left, core_s = self.limit(Purpose.MODEL), 0.0
        for point in self._unsampled:
            seconds = self.run_s.get(point)
            if seconds is None or left is None:
                return False
            core_s += self.ratio(Mode.MEMORY) * seconds * self.question.table[point].cores
        return left is not None and core_s / 3600 <= HALF * (left - self.knowledge.spent_core_hours)

    @cached_property
    def _unsampled(self) -> dict[Point, None]:
        """Points to sample at, in the order of the table: no plan may depend on the order of a set."""
        question, before = self.question, self.runs_before
        sampled = (point for point in question.table if point in question.sampled_points)
        unsampled = (p for p in sampled if question.build(Mode.MEMORY, "", p).hash not in before.get(p, {}))
        return dict.fromkeys(unsampled)

    @cached_property
    def _sampling_is_wanted(self) -> bool:
        question = self.question
        given = not question.adaptive or question.memory_points is not None
        return bool(self._unsampled) and (given or self.limit(Purpose.MODEL) is None)

    def bundles(self, points: Mapping[Point, int], purpose: Purpose, filter_text: str) -> list[Bundle]:
        """Return the bundles of some points: the first ones next to the baseline, until enough have shown its cost."""
        compared, both = self.compared(filter_text), self.points_of_both
        bundles = []
        counting = self.counting(points)
        for point, count in points.items():
            with_baseline = purpose is not Purpose.MODEL or not self.is_compared(compared)
            counts_now = self._new_counting_runs(point, purpose, counting[point]) > 0
            # where enough points have shown that the counting run provides the time, it is one of the timed runs
            shown = purpose is Purpose.MODEL and (both or 0) >= POINTS_OF_BOTH
            timed = count - (shown and counts_now and count > 0)
            bundles.append(self.bundle(point, purpose, filter_text, timed, with_baseline, counting[point]))
            compared += any(run.mode is Mode.VANILLA for run in bundles[-1].runs)
            if both is not None:
                both += (counts_now or self._is_counted(point)) and timed > 0
        return bundles

    def counting(self, points: Iterable[Point]) -> dict[Point, int]:
        """Return how many counting runs the points of a plan get where they have none.

        Where a strategy weighs each run, the first point that shows whether counts depend on the run has them all, and
        the others one.
        """
        runs = dict.fromkeys(points, self.counting_runs)
        if not self.counts_checked:
            fresh = (point for point in self.checking & runs.keys() if not self._is_counted(point))
            order = {point: index for index, point in enumerate(self.question.points)}
            first = sorted(fresh, key=lambda point: (self.question.table[point].cores, order[point]))[:1]
            runs |= dict.fromkeys(first, self.question.effort_runs)
        return runs

    def _is_counted(self, point: Point) -> bool:
        return self.question.build(Mode.EFFORT, "", point).hash in self.runs_before.get(point, {})

    def _new_counting_runs(self, point: Point, purpose: Purpose, counting: int) -> int:
        """Return how many of the counting runs of a point are made now; runs that sample accesses count, too."""
        if self._is_counted(point) or self.counts_settled:
            return 0
        sampling = self.question.build(Mode.MEMORY, "", point).hash in self.runs_before.get(point, {})
        sampling |= purpose is Purpose.MODEL and self.samples(point)
        return max(counting - sampling, 0)

    def bundle(
        self, point: Point, purpose: Purpose, filter_text: str, count: int, with_baseline: bool, counting: int
    ) -> Bundle:
        """Return `count` more timed runs of a point, `counting` runs and, `with_baseline`, runs of that."""
        question = self.question
        earlier = self.runs_before.get(point, {})
        baseline = earlier.get(question.build(Mode.VANILLA, "", point).hash, 0)
        repetitions: dict[tuple[str, Mode], range] = {}
        for mode, text in self.variants(filter_text, purpose):
            name = question.build(mode, text, point).hash
            if mode is Mode.VANILLA:
                # A new filter is compared with baseline runs made next to it, not with those of another day.
                timed = earlier.get(question.build(Mode.TIME, filter_text, point).hash, 0)
                fresh = self.baselines(count, baseline, timed) if with_baseline else 0
                repetitions[name, mode] = range(baseline, baseline + fresh)
            elif mode is Mode.TIME:
                first = earlier.get(name, 0)
                repetitions[name, mode] = range(first, first + count)
            elif mode is Mode.MEMORY:
                repetitions[name, mode] = range(int(self.samples(point)))
            else:
                repetitions[name, mode] = range(self._new_counting_runs(point, purpose, counting))
        timed = count > 0 and any(mode in (Mode.VANILLA, Mode.TIME) for _, mode in repetitions)
        # where each run is weighed, those that count go first and warm up
        warm = question.weighs_runs and any(made for (_, mode), made in repetitions.items() if mode in COUNTING)
        warmup = question.warmup and timed and not earlier and not warm and purpose is not Purpose.PILOT
        runs = randomised_blocks(repetitions, warmup, f"{question.seed} {self.iteration} {point.key}")
        if warm:
            runs = tuple(sorted(runs, key=lambda run: run.mode not in COUNTING))
        return Bundle(point, purpose, runs, self.run_s.get(point))

    def baselines(self, count: int, baseline: int, timed: int) -> int:
        """Return how many runs of the baseline go with `count` timed ones, after so many of either."""
        if not self.question.adaptive:
            return count if baseline == 0 else 1
        if self.question.paired:
            return count
        return min(count, 1) if timed == 0 else 0

    @cached_property
    def runs_before(self) -> dict[Point, dict[str, int]]:
        """Number of repetitions so far, by point and build; what pilots measured is found in the store.

        Runs that were planned and not started, for want of budget, do not count.
        """
        counts: dict[Point, dict[str, int]] = {}
        dropped = self.knowledge.dropped
        for plan in self.knowledge.rounds:
            for bundle in plan.bundles:
                of_point = counts.setdefault(bundle.point, {})
                for run in bundle.runs:
                    if (run.build, bundle.point, run.repetition) not in dropped:
                        of_point[run.build] = max(of_point.get(run.build, 0), run.repetition + 1)
        return {point: builds for point, builds in counts.items() if builds}

    def budget(self, purpose: Purpose) -> float | None:
        """Return the budget in force; a share of the full matrix needs a prediction of its cost.

        Core hours are for everything. A share of the full matrix, which has no evaluation points, is for models alone
        and does not limit them.
        """
        if purpose is Purpose.EVALUATION:
            return self.question.budget.in_force(None)
        budget = self.question.budget.in_force(self.question.full_matrix_core_hours(self.run_s))
        if budget is None or not self.knowledge.planned(Purpose.EVALUATION):
            return budget
        evaluation = core_hours(o for o in self.knowledge.outcomes if o.purpose is Purpose.EVALUATION)
        models = max(budget, self.knowledge.spent_core_hours - evaluation)  # runs may have cost more than predicted
        whole = self.question.budget.in_force(None)
        return models + evaluation if whole is None else min(models + evaluation, whole)

    def limit(self, purpose: Purpose) -> float | None:
        """Return what may be spent before what is kept for evaluation; None without a budget."""
        budget, whole = self.budget(purpose), self.question.budget.in_force(None)
        if budget is None or whole is None or purpose is Purpose.EVALUATION:
            return budget
        return min(budget, max(whole - self.kept_for_evaluation, 0.0))

    @cached_property
    def kept_for_evaluation(self) -> float:
        """Core hours that evaluation points will take: the cheapest of them, up to a share of the budget."""
        question, knowledge = self.question, self.knowledge
        whole = question.budget.in_force(None)
        if whole is None or knowledge.planned(Purpose.EVALUATION):
            return 0.0
        points = dict.fromkeys(question.evaluation_points, question.repetitions)
        bundles = self.bundles(points, Purpose.EVALUATION, knowledge.filter_text)
        kept = np.cumsum(sorted(CAREFUL * (self.cost(bundle, knowledge.filter_text) or 0.0) for bundle in bundles))
        return float(max(kept[kept <= HALF * whole], default=0.0))

    def again_core_hours(self, bundle: Bundle) -> float:
        """Return what measuring a point of the first round again will cost, under the filter that its models choose."""
        seconds = self.run_s.get(bundle.point, 0.0)
        return self.again_runs(bundle) * seconds * self.question.table[bundle.point].cores / 3600.0

    def again_runs(self, bundle: Bundle) -> int:
        """Return how many runs that are.

        Strategies that adapt spend a part of the budget in each round, which leaves enough by itself.
        """
        question = self.question
        refined = question.refine and not question.adaptive and question.max_iterations > 1
        if not refined or bundle.purpose is not Purpose.MODEL or self.knowledge.rounds:
            return 0
        timed = sum(run.mode is Mode.TIME for run in bundle.runs)
        return timed + self.baselines(timed, timed, 0)
