"""One planner: from what was asked and what is known to the runs of the next iteration.

Planning is deterministic. It sees only results of earlier iterations, so that a plan that is made again
chooses the same runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from buran.campaign.plan import BuildSpec, Bundle, Mode, Plan, Purpose, randomised_blocks
from buran.campaign.point import Point
from buran.select.strategies import STRATEGIES

EFFORT_METRICS = frozenset({"basic_blocks", "bytes_sent", "bytes_received"})
Runtime = Callable[[Point], float | None]
"""Predicted wall time of a run in seconds; None where nothing is known."""


@dataclass(frozen=True)
class Question:
    """The part of a campaign that plans depend on.

    Attributes
    ----------
    points, evaluation_points
        Cheapest first.
    build
        Returns the build that a mode, a filter and a point need.
    cores
        Returns the cores that a run occupies.
    ranks_parameter
        The parameter that is the number of ranks, if one is.
    expected_s
        The user's estimate of a run's wall time.
    budget
        Maps the predicted cost of the full matrix, in core hours, to the budget in force.
    """

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
    build: Callable[[Mode, str, Point], BuildSpec]
    cores: Callable[[Point], int]
    ranks_parameter: str | None
    expected_s: Runtime
    budget: Callable[[float | None], float | None]


@dataclass(frozen=True)
class Knowledge:
    """What the iterations so far have taught.

    Attributes
    ----------
    plans
        All earlier plans.
    outcomes
        What became of their bundles, as the bundle pointers say.
    runtime
        Prediction of a run's wall time from models.
    filter_text
        Filter that the models suggest for the next iteration.
    """

    plans: tuple[Plan, ...] = ()
    outcomes: tuple[Mapping[str, Any], ...] = ()
    runtime: Runtime = lambda point: None
    filter_text: str = ""

    @property
    def spent_core_hours(self) -> float:
        """Charged so far; a run that several bundles share counts once."""
        cost: dict[tuple[str, str], float] = {
            (run["build"], outcome["id"] if run["folder"] is None else run["folder"]): run["cost_core_hours"]
            for outcome in self.outcomes
            for run in outcome["runs"]
        }
        return sum(cost.values())

    def measured(self, purpose: Purpose) -> list[Point]:
        """Return the points planned so far, in the order of planning."""
        bundles = (bundle for plan in self.plans for bundle in plan.bundles if bundle.purpose == purpose)
        return list(dict.fromkeys(bundle.point for bundle in bundles))


def next_plan(question: Question, known: Knowledge) -> Plan:
    """Decide what the next iteration builds and measures, or that the campaign is done."""
    draft = _Draft(question, known)
    if not known.plans:
        strategy = STRATEGIES[question.strategy]
        base = strategy.base(question.points, lambda point: _weight(question, point), question.ranks_parameter)
        every = len(base) == len(question.points)
        which = "every point of the campaign" if every else f"{len(base)} base points of strategy {question.strategy!r}"
        return draft.plan(base, Purpose.MODEL, f"first iteration: {which}, with the default instrumentation", "")
    last = known.plans[-1]
    if any(not outcome["complete"] for outcome in known.outcomes):
        return draft.done("the budget is spent; some planned runs were not started", budget_reached=True)
    if not any(run["status"] == "measured" for outcome in known.outcomes for run in outcome["runs"]):
        return draft.done("no run succeeded: there is nothing to model")
    evaluated = bool(known.measured(Purpose.EVALUATION))
    if last.iteration + 1 >= question.max_iterations and not (question.evaluation_points and not evaluated):
        return draft.done(f"the limit of {question.max_iterations} iterations is reached")
    if not evaluated and last.iteration + 1 < question.max_iterations:
        measured = known.measured(Purpose.MODEL)
        rest = STRATEGIES[question.strategy].rest(question.points, measured)
        changed = question.refine and known.filter_text != last.filter_text
        if rest or changed:
            reasons = []
            if changed:
                reasons.append("the models chose fewer functions: their points are measured again under the new filter")
            if rest:
                reasons.append("points between and beyond those measured, cheapest first")
            filter_text = known.filter_text if changed else last.filter_text
            again = measured if changed else []
            plan = draft.plan([*again, *rest], Purpose.MODEL, "; ".join(reasons), filter_text)
            if plan.bundles:
                return plan
            return draft.done("nothing more fits into the budget", budget_reached=True)
    if question.evaluation_points and not evaluated:
        plan = draft.plan(
            question.evaluation_points,
            Purpose.EVALUATION,
            "evaluation points, to compare with the models' predictions",
            last.filter_text,
        )
        if plan.bundles:
            return plan
        return draft.done("the evaluation points do not fit into the budget", budget_reached=True)
    reached = any(plan.budget_reached for plan in known.plans)
    chosen = "every point" if len(known.measured(Purpose.MODEL)) == len(question.points) else "every chosen point"
    what = "every affordable point is measured" if reached else f"{chosen} is measured"
    return draft.done(f"{what} and the filter has settled" if question.refine else what, budget_reached=reached)


def _weight(question: Question, point: Point) -> float:
    """Relative cost of a point before anything was measured."""
    seconds = question.expected_s(point)
    return question.cores(point) * (1.0 if seconds is None else seconds)


@dataclass(frozen=True)
class _Draft:
    question: Question
    known: Knowledge

    @property
    def iteration(self) -> int:
        return len(self.known.plans)

    def done(self, reason: str, budget_reached: bool = False) -> Plan:
        known = self.known
        return Plan(
            iteration=self.iteration,
            done=True,
            reason=reason,
            filter_text=known.plans[-1].filter_text,
            spent_core_hours=known.spent_core_hours,
            budget_core_hours=self.budget(),
            budget_reached=budget_reached,
        )

    def plan(self, points: Sequence[Point], purpose: Purpose, reason: str, filter_text: str) -> Plan:
        bundles = [self.bundle(point, purpose, filter_text) for point in points]
        builds: dict[str, BuildSpec] = {}
        for point in points:
            for mode, text in self.variants(filter_text):
                spec = self.question.build(mode, text, point)
                builds[spec.hash] = spec
        budget = self.budget()
        spent = self.known.spent_core_hours
        reached = False
        predicted: float | None = None
        costs = [self.cost(bundle) for bundle in bundles]
        if all(cost is not None for cost in costs):
            affordable: list[Bundle] = []
            predicted = 0.0
            for bundle, cost in zip(bundles, costs, strict=True):
                assert cost is not None
                if budget is not None and spent + predicted + cost > budget:
                    reached = True
                    continue
                affordable.append(bundle)
                predicted += cost
            bundles = affordable
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
            budget_reached=reached,
        )

    def variants(self, filter_text: str) -> list[tuple[Mode, str]]:
        """Return the builds of an iteration; effort is always counted under the widest instrumentation."""
        variants = [(Mode.VANILLA, ""), (Mode.TIME, filter_text)]
        if self.question.metrics & EFFORT_METRICS:
            variants.append((Mode.EFFORT, ""))
        return variants

    def bundle(self, point: Point, purpose: Purpose, filter_text: str) -> Bundle:
        question = self.question
        earlier = self.runs_before.get(point, {})
        baseline = earlier.get(question.build(Mode.VANILLA, "", point).hash, 0)
        repetitions: dict[tuple[str, Mode], range] = {}
        for mode, text in self.variants(filter_text):
            name = question.build(mode, text, point).hash
            if mode is Mode.VANILLA:
                # A new filter is compared with baseline runs made beside it, not with those of another day.
                fresh = question.repetitions if baseline == 0 else 1
                repetitions[name, mode] = range(baseline, baseline + fresh)
            elif mode is Mode.TIME:
                repetitions[name, mode] = range(question.repetitions)
            elif name not in earlier:
                repetitions[name, mode] = range(question.effort_repetitions)
        warmup = question.warmup and not earlier
        runs = randomised_blocks(repetitions, warmup, f"{question.seed} {self.iteration} {point.key}")
        return Bundle(point, purpose, runs, self.seconds(point))

    @cached_property
    def runs_before(self) -> dict[Point, dict[str, int]]:
        """Number of repetitions planned so far, by point and build."""
        counts: dict[Point, dict[str, int]] = {}
        for plan in self.known.plans:
            for bundle in plan.bundles:
                own = counts.setdefault(bundle.point, {})
                for run in bundle.runs:
                    own[run.build] = max(own.get(run.build, 0), run.repetition + 1)
        return counts

    def seconds(self, point: Point) -> float | None:
        modelled = self.known.runtime(point)
        return self.question.expected_s(point) if modelled is None else modelled

    def cost(self, bundle: Bundle) -> float | None:
        """Predicted core hours of a bundle's runs; None where nothing is known."""
        seconds = self.seconds(bundle.point)
        if seconds is None:
            return None
        return seconds * self.question.cores(bundle.point) * len(bundle.runs) / 3600.0

    def budget(self) -> float | None:
        """Return the budget in force; a share of the full matrix needs a prediction of its cost."""
        question = self.question
        full: float | None = 0.0
        for point in question.points:
            seconds = self.seconds(point)
            if seconds is None or full is None:
                full = None
                break
            runs = question.repetitions * 2 + question.effort_repetitions + question.warmup
            full += seconds * question.cores(point) * runs / 3600.0
        return question.budget(full)
