"""One planner: from what was asked and what is known to the runs of the next iteration.

Planning is deterministic. It sees only results of earlier iterations, so that a plan that is made again
chooses the same runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from buran.campaign.plan import BuildSpec, Bundle, Mode, Plan, Purpose, randomised_blocks
from buran.campaign.point import Point
from buran.select.base import base_places
from buran.select.changes import telling_places
from buran.select.costs import RunCosts
from buran.select.observations import Observations
from buran.select.pilot import pilot_places
from buran.select.protocol import Advice, Budget, PlanningState
from buran.select.question import EFFORT_METRICS, Knowledge, Question
from buran.select.shortfalls import shortfalls
from buran.select.space import Array

_CHANGE = 0.5  # of what is left of the budget, that measuring again under a new filter may take
_BATCH = 5  # runs a round for strategies that rate one run after the other


def next_plan(question: Question, known: Knowledge) -> Plan:
    """Decide what the next iteration builds and measures, or that the campaign is done.

    A campaign that ends without what was asked for says so: an accuracy, a target that models can be trusted at, or
    counts that do not depend on the run.
    """
    plan = _next_plan(question, known)
    if not plan.done:
        return plan
    lacking = shortfalls(question, known)
    if not lacking:
        return plan
    return replace(plan, reason="; ".join([plan.reason, *lacking]), budget_reached=True)


def _next_plan(question: Question, known: Knowledge) -> Plan:
    draft = _Draft(question, known)
    if not known.rounds:
        comparison = draft.comparison()
        if comparison is not None:
            return comparison
        pilot = draft.pilot()
        if pilot is not None:
            return pilot
        if not question.models:
            return draft.filter_found()
        base, advice = draft.chosen()
        base |= draft.beside_imported(base)
        if not base and draft.only_looked():
            return draft.done("the budget does not reach beyond the first look", budget_reached=True)
        if not base:
            reached = advice.budget_reached if advice.stop else True
            return draft.done(advice.stop or "the budget does not reach for a single run", budget_reached=reached)
        found = "" if known.changes is None else f"{known.changes.in_words()}; "
        plan = draft.plan(base, Purpose.MODEL, found + draft.first_reason(base), known.filter_text)
        if known.plans and not plan.bundles:
            return draft.done(f"{found}nothing fits into the budget", budget_reached=True)
        return plan
    last = known.plans[-1]
    if any(not outcome["complete"] for outcome in known.outcomes):
        return draft.ending("the budget is spent; some planned runs were not started", budget_reached=True)
    if not any(run["status"] == "measured" for outcome in known.outcomes for run in outcome["runs"]):
        return draft.done("no run succeeded: there is nothing to model")
    if known.planned(Purpose.EVALUATION):
        return draft.done(last.ended or "the evaluation points are measured", last.budget_reached)
    if len(known.rounds) < question.max_iterations:
        fixed = not question.adaptive
        changed = question.refine and known.filter_text != last.filter_text and draft.can_change()
        settled = fixed and (known.own == known.plans or known.measured is None)
        later = settled or (changed and question.weighs_runs)
        rest, advice = (dict[Point, int](), Advice()) if later else draft.chosen()
        if rest or changed:
            reasons = []
            if changed:
                reasons.append("the models chose fewer functions: their points are measured again under the new filter")
            if rest:
                reasons.append(f"strategy {question.strategy!r}: {_why(advice)}")
            filter_text = known.filter_text if changed else last.filter_text
            again = draft.again() if changed else {}
            points = again | {point: again.get(point, 0) + count for point, count in rest.items()}
            plan = draft.plan(points, Purpose.MODEL, "; ".join(reasons), filter_text)
            if plan.bundles:
                return plan
            return draft.ending("nothing more fits into the budget", budget_reached=True)
        if advice.stop is not None:
            return draft.ending(advice.stop, advice.budget_reached)
    else:
        return draft.ending(f"the limit of {question.max_iterations} iterations is reached")
    reached = any(plan.budget_reached for plan in known.rounds)
    chosen = "every point" if len(known.planned(Purpose.MODEL)) == len(question.points) else "every chosen point"
    what = "every affordable point is measured" if reached else f"{chosen} is measured"
    return draft.ending(f"{what} and the filter has settled" if question.refine else what, budget_reached=reached)


def _why(advice: Advice) -> str:
    """Return the reasons of a strategy's choice, the most frequent one first."""
    reasons = [each.reason for each in advice.suggestions]
    text = ", ".join(sorted(dict.fromkeys(reasons), key=lambda reason: (-reasons.count(reason), reason)))
    if advice.expected_error is None:
        return text
    return f"{text}; the prediction at the target is expected to be wrong by {advice.expected_error:.2g} of its value"


@dataclass(frozen=True)
class _Draft(RunCosts):
    @property
    def iteration(self) -> int:
        return len(self.known.plans)

    def done(self, reason: str, budget_reached: bool = False) -> Plan:
        known = self.known
        return Plan(
            iteration=self.iteration,
            done=True,
            reason=reason,
            filter_text=known.plans[-1].filter_text if known.plans else "",
            spent_core_hours=known.spent_core_hours,
            budget_core_hours=self.budget(Purpose.MODEL),
            budget_reached=budget_reached,
        )

    def only_looked(self) -> bool:
        """Tell whether pilots are all that a budget paid for, although there are points that have not failed."""
        known, question = self.known, self.question
        if not known.own or known.imported or known.changes is not None:
            return False
        return self.budget(Purpose.MODEL) is not None and not known.failed.issuperset(question.points)

    def ending(self, reason: str, budget_reached: bool = False) -> Plan:
        """Plan the evaluation points where there are some to measure, else the end; `reason` says why no other points.

        Where they do not fit into the budget the campaign ends without them.
        """
        question, known = self.question, self.known
        if not question.evaluation_points or known.planned(Purpose.EVALUATION):
            return self.done(reason, budget_reached)
        points = dict.fromkeys(question.evaluation_points, question.repetitions)
        why = f"{reason}; evaluation points last, to compare with the models' predictions"
        plan = self.plan(points, Purpose.EVALUATION, why, known.plans[-1].filter_text)
        if plan.bundles:
            return replace(plan, ended=reason, budget_reached=plan.budget_reached or budget_reached)
        return self.done(f"{reason}; the evaluation points do not fit into the budget", budget_reached=True)

    def comparison(self) -> Plan | None:
        """Plan the next runs that tell whether the program changed, or the end because it did not.

        None without an earlier version, and as soon as something is known to have changed. Counts come first: they
        are exact, and one run is enough.
        """
        question, known = self.question, self.known
        if not question.earlier:
            return None
        if not known.plans and question.earlier_counts:
            places = pilot_places(self.earlier_points)
            reason = f"counts at {len(places)} small points, to see whether the work of the program changed"
            return self.affordable_comparison(places, reason)
        if known.plans and not any(run["status"] == "measured" for each in known.outcomes for run in each["runs"]):
            return self.done("no run succeeded: there is nothing to compare")
        if any(not outcome["complete"] for outcome in known.outcomes):
            return self.done("the budget is spent; whether the program changed is not known", budget_reached=True)
        found = known.changes
        if found is not None and found.changed:
            return None
        if found is None or not (found.timed or found.open):
            places = telling_places(self.earlier_points)
            before = f"counts are the same at {found.counted} points; " if found is not None and found.counted else ""
            reason = f"{before}times at {len(places)} points, to compare them with the earlier version's predictions"
            return self.affordable_comparison(places, reason)
        if found.open:
            return None
        reached = any(plan.budget_reached for plan in known.plans)
        less = "; the budget does not reach for more points" if reached else ""
        return self.done(f"{found.in_words()}{less}", budget_reached=reached)

    @property
    def earlier_points(self) -> Array:
        """Shape (point, parameter): those of the earlier version, cheapest first."""
        rows = [[point[name] for name in self.question.space.parameters] for point in self.question.earlier]
        return np.array(rows, dtype=np.float64)

    def affordable_comparison(self, places: Sequence[int], reason: str) -> Plan:
        points = [self.question.earlier[place] for place in places]
        runs = dict.fromkeys(points, self.question.repetitions)
        plan = self.plan(runs, Purpose.COMPARISON, reason, self.known.filter_text)
        if plan.bundles:
            return plan
        return self.done("the budget does not reach for comparing with the earlier version", budget_reached=True)

    def pilot(self) -> Plan | None:
        """Plan the next runs that only find functions; None where there are none left or they gain nothing.

        The first is a single one at the smallest point. The others follow only if it succeeded. A strategy that
        adapts begins with cheap points of its own: what they show of functions needs no runs that are lost to models.
        """
        question, known = self.question, self.known
        if len(known.own) > 1 and not question.models:
            return self.pilot_again()
        alone = question.models and question.adaptive and bool(known.own)
        if not question.pilot or len(known.own) > 1 or alone or (question.models and known.tells_growth):
            return None
        if not known.own:
            reason = "pilot run at the smallest point, to find functions whose hooks cost too much"
            return self.affordable_pilot(question.points[:1], reason)
        places = pilot_places(question.space.points)
        succeeded = all(run["status"] == "measured" for outcome in known.outcomes for run in outcome["runs"])
        if not succeeded or (question.models and len(places) >= len(question.points)):
            return None
        reason = f"pilot runs at {len(places)} small points, to choose functions before everything is measured"
        return self.affordable_pilot([question.points[place] for place in places], reason)

    def pilot_again(self) -> Plan | None:
        """Plan the pilot runs under a new filter; None if the filter has settled, or nothing more may be made."""
        question, known = self.question, self.known
        changed = known.filter_text != known.plans[-1].filter_text
        spent = any(not outcome["complete"] for outcome in known.outcomes)
        if not changed or spent or len(known.plans) >= question.max_iterations:
            return None
        places = pilot_places(question.space.points)
        reason = f"the filter changed: pilot runs at {len(places)} small points again, to see whether it has settled"
        return self.affordable_pilot([question.points[place] for place in places], reason)

    def filter_found(self) -> Plan:
        """End a campaign that only wanted a filter; say whether it has settled."""
        question, known = self.question, self.known
        if not any(run["status"] == "measured" for outcome in known.outcomes for run in outcome["runs"]):
            nothing = "the budget does not reach for a single run" if not known.own else "no run succeeded"
            return self.done(nothing, budget_reached=not known.own)
        last = known.plans[-1]
        complete = all(outcome["complete"] for outcome in known.outcomes)
        if complete and known.filter_text == last.filter_text:
            return self.done("the filter has settled")
        newest = replace(self.done("", budget_reached=True), filter_text=known.filter_text)
        if complete and len(known.plans) >= question.max_iterations:
            why = f"the limit of {question.max_iterations} iterations is reached before the filter has settled"
            return replace(newest, reason=why, budget_reached=False)
        return replace(newest, reason="the budget is spent before the filter has settled")

    def affordable_pilot(self, points: Sequence[Point], reason: str) -> Plan | None:
        plan = self.plan(dict.fromkeys(points, 1), Purpose.PILOT, reason, self.known.filter_text)
        return plan if len(plan.bundles) == len(points) else None

    def chosen(self) -> tuple[dict[Point, int], Advice]:
        """Ask the strategy: points with the number of runs wanted at each, most wanted first."""
        question, known = self.question, self.known
        space = self.space
        fixed = not question.adaptive
        budget = None if fixed else self.budget(Purpose.MODEL)
        ids = {point: place for place, point in enumerate(question.points)}
        failed = frozenset() if question.retry_failed else frozenset(ids[p] for p in known.failed if p in ids)
        advice = question.chooser.suggest(
            known.measured or Observations.nothing(len(space.parameters)),
            space,
            Budget(budget, known.spent_core_hours),
            PlanningState(
                question.seed,
                failed,
                known.errors,
                None if fixed or question.strategy == "design" else question.batch or _BATCH,
                question.batch,
                question.max_iterations - len(known.rounds),
            ),
        )
        out: dict[Point, int] = {}
        for each in advice.suggestions:
            point = question.points[each.place]
            if point not in out and not fixed and len(out) == question.batch:
                continue
            out[point] = out.get(point, 0) + 1
        return out, advice

    def first_reason(self, base: Mapping[Point, int]) -> str:
        """Say why these points are measured first."""
        question, known = self.question, self.known
        every = len(base) == len(question.points)
        which = "every point of the campaign" if every else f"{len(base)} base points of strategy {question.strategy!r}"
        if known.imported:
            new, timed = (
                len(base.keys() - known.imported),
                sum(base[point] > 0 for point in base.keys() & known.imported),
            )
            which = (
                f"{new} points beside the {len(known.imported)} whose times are imported; {timed} of these are timed "
                "here too, and counts of effort"
            )
        hooks = "the filter of the pilot runs" if known.own else "the filter that imported times have chosen"
        if not known.plans:
            hooks = "the first filter"
        if question.earlier:
            hooks = "the earlier version's filter"
        return f"first times: {which}, with {hooks if known.filter_text else 'the default instrumentation'}"

    def beside_imported(self, base: Mapping[Point, int]) -> dict[Point, int]:
        """Return further points to run where times are imported, with the number of timed runs.

        Effort is counted where it would have been without them, and one point is timed here too, for comparison.
        """
        question, imported = self.question, self.known.imported
        if not imported:
            return {}
        out: dict[Point, int] = {}
        if question.metrics & EFFORT_METRICS:
            places = (
                range(len(question.points)) if question.strategy == "full" else base_places(question.space).tolist()
            )
            out = dict.fromkeys((question.points[place] for place in places), 0)
        if not imported & base.keys():
            out[next(point for point in question.points if point in imported)] = 1
        return {point: count for point, count in out.items() if point in imported and point not in base}

    def repetitions_of(self, point: Point) -> int:
        """Return how many timed runs of a point were planned under one filter so far."""
        modes = [
            {(run.build, run.repetition) for run in bundle.runs if run.mode is Mode.TIME}
            for plan in self.known.plans
            for bundle in plan.bundles
            if bundle.point == point and bundle.purpose is Purpose.MODEL
        ]
        counts: dict[str, int] = {}
        for build, _ in set().union(*modes):
            counts[build] = counts.get(build, 0) + 1
        return max(counts.values(), default=self.question.repetitions)

    def again(self) -> dict[Point, int]:
        """Return the runs that a new filter asks for at the points that were measured under another."""
        once, points = self.question.weighs_runs, self.known.planned(Purpose.MODEL)
        if not self.question.adaptive:
            points += [point for point in self.question.points if point in self.known.imported - set(points)]
        return {point: 1 if once else self.repetitions_of(point) for point in points}

    def can_change(self) -> bool:
        """Tell whether measuring again under a new filter leaves enough of the budget to gain from it."""
        budget = self.budget(Purpose.MODEL)
        if not self.question.adaptive or budget is None:
            return True
        filter_text = self.known.filter_text
        bundles = self.bundles(self.again(), Purpose.MODEL, filter_text)
        costs = [self.cost(bundle) for bundle in bundles]
        left = budget - self.known.spent_core_hours
        return any(cost is None for cost in costs) or sum(cost or 0.0 for cost in costs) <= _CHANGE * left

    def plan(self, points: Mapping[Point, int], purpose: Purpose, reason: str, filter_text: str) -> Plan:
        bundles = self.bundles(points, purpose, filter_text)
        builds: dict[str, BuildSpec] = {}
        for point in points:
            for mode, text in self.variants(filter_text, purpose):
                spec = self.question.build(mode, text, point)
                builds[spec.hash] = spec
        budget = self.budget(purpose)
        spent = self.known.spent_core_hours
        reached = False
        predicted: float | None = None
        costs = [self.cost(bundle) for bundle in bundles]
        if all(cost is not None for cost in costs):
            affordable: list[Bundle] = []
            predicted = 0.0
            for bundle, cost in zip(bundles, costs, strict=True):
                assert cost is not None
                if budget is not None and spent + predicted + cost > budget * (1 + 1e-9):
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

    def variants(self, filter_text: str, purpose: Purpose) -> list[tuple[Mode, str]]:
        """Return the builds of an iteration; effort is always counted under the widest instrumentation."""
        if purpose is Purpose.COMPARISON and not self.known.plans and self.question.earlier_counts:
            return [(Mode.EFFORT, "")]
        variants = [(Mode.VANILLA, ""), (Mode.TIME, filter_text)]
        if purpose is Purpose.COMPARISON:
            return variants
        guard = purpose is Purpose.PILOT and not self.known.own
        if self.question.metrics & EFFORT_METRICS and not guard:
            variants.append((Mode.EFFORT, ""))
        return variants

    def bundles(self, points: Mapping[Point, int], purpose: Purpose, filter_text: str) -> list[Bundle]:
        """Return the bundles of some points: the first ones beside the baseline, until enough have shown its cost."""
        compared = self.compared(filter_text)
        found = []
        for point, count in points.items():
            beside = purpose is not Purpose.MODEL or not self.is_compared(compared)
            found.append(self.bundle(point, purpose, filter_text, count, beside))
            compared += any(run.mode is Mode.VANILLA for run in found[-1].runs)
        return found

    def bundle(self, point: Point, purpose: Purpose, filter_text: str, count: int, beside: bool = True) -> Bundle:
        """Return `count` more timed runs of a point with the counts, and baseline runs `beside`, that go with them."""
        question = self.question
        earlier = self.runs_before.get(point, {})
        baseline = earlier.get(question.build(Mode.VANILLA, "", point).hash, 0)
        repetitions: dict[tuple[str, Mode], range] = {}
        for mode, text in self.variants(filter_text, purpose):
            name = question.build(mode, text, point).hash
            if mode is Mode.VANILLA:
                # A new filter is compared with baseline runs made beside it, not with those of another day.
                timed = earlier.get(question.build(Mode.TIME, filter_text, point).hash, 0)
                fresh = self.baselines(count, baseline, timed) if beside else 0
                repetitions[name, mode] = range(baseline, baseline + fresh)
            elif mode is Mode.TIME:
                first = earlier.get(name, 0)
                repetitions[name, mode] = range(first, first + count)
            elif name not in earlier and not self.counts_settled:
                repetitions[name, mode] = range(question.effort_repetitions)
        timed = count > 0 and any(mode is not Mode.EFFORT for _, mode in repetitions)
        warmup = question.warmup and timed and not earlier and purpose is not Purpose.PILOT
        runs = randomised_blocks(repetitions, warmup, f"{question.seed} {self.iteration} {point.key}")
        return Bundle(point, purpose, runs, self.seconds(point))

    def baselines(self, count: int, baseline: int, timed: int) -> int:
        """Return how many runs of the baseline go with `count` timed ones, after so many of either."""
        if not self.question.adaptive:
            return count if baseline == 0 else 1
        if self.question.paired:
            return count
        return min(count, 1) if timed == 0 else 0

    @cached_property
    def runs_before(self) -> dict[Point, dict[str, int]]:
        """Number of repetitions planned so far, by point and build; what pilots measured is found in the store."""
        counts: dict[Point, dict[str, int]] = {}
        for plan in self.known.rounds:
            for bundle in plan.bundles:
                own = counts.setdefault(bundle.point, {})
                for run in bundle.runs:
                    own[run.build] = max(own.get(run.build, 0), run.repetition + 1)
        return counts

    def budget(self, purpose: Purpose) -> float | None:
        """Return the budget in force; a share of the full matrix needs a prediction of its cost.

        Core hours are for everything, so that evaluation points reduce what models may take. A share of the full
        matrix, which has none of these points, is for models alone and does not limit them.
        """
        question = self.question
        full = question.full_matrix_core_hours(self.seconds)
        whole, budget = question.budget(None), question.budget(full)
        evaluated = self.known.planned(Purpose.EVALUATION)
        bundles = [
            self.bundle(p, Purpose.EVALUATION, "", question.repetitions)
            for p in question.evaluation_points
            if p not in evaluated
        ]
        beside = sum(self.cost(bundle) or 0.0 for bundle in bundles)
        if budget is None:
            return None
        if purpose is Purpose.EVALUATION:
            return whole
        if evaluated:
            spent = self.spent_on_evaluation
            models = max(budget, self.known.spent_core_hours - spent)  # runs may have been dearer than predicted
            return min(each for each in (models + beside + spent, whole) if each is not None)
        return min(each for each in (budget, None if whole is None else max(whole - beside, 0.0)) if each is not None)

    @property
    def spent_on_evaluation(self) -> float:
        outcomes = tuple(each for each in self.known.outcomes if each["purpose"] == Purpose.EVALUATION)
        return replace(self.known, outcomes=outcomes, build_core_hours=0.0).spent_core_hours
