"""The planner: from the campaign file and what is known to the runs of the next iteration.

Planning is deterministic. It sees only results of earlier iterations, so that a plan that is made again
chooses the same runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from buran.campaign.plan import Mode, Plan, Purpose
from buran.campaign.point import Point
from buran.modeling.numerics.tuning import FLOOR, HALF
from buran.planning.base import pilot_indices
from buran.planning.draft import Draft
from buran.planning.observations import Observations
from buran.planning.protocol import Advice, PlanningState
from buran.planning.question import Knowledge, Question
from buran.profiles.metrics import counted
from buran.wording import shown_value

# Runs a round for strategies that rate one run after the other. Tuned: judgement.
BATCH = 5


def next_plan(question: Question, knowledge: Knowledge) -> Plan:
    """Decide what the next iteration builds and measures, or that the campaign is done.

    The first phase that has a plan decides; None says that its turn is over or not yet there. A campaign that ends
    without what was requested says so: an accuracy, a target that models can be trusted at, or counts that do not
    depend on the run.
    """
    draft = Draft(question, knowledge)
    phases = (find_functions, settle_filter, first_round, halt, next_round)
    plan = next((plan for phase in phases if (plan := phase(draft)) is not None), None) or end(draft)
    missing = shortfalls(question, knowledge) if plan.done else []
    return replace(plan, reason="; ".join([plan.reason, *missing]), budget_reached=True) if missing else plan


def find_functions(draft: Draft) -> Plan | None:
    """Plan the next runs that only find functions; None where there are none left or they gain nothing.

    The first is a single one at the smallest point. The others follow only if it succeeded. A strategy that
    adapts begins with cheap points of its own: what they show of functions needs no runs that are lost to models.
    """
    question, knowledge = draft.question, draft.knowledge
    if knowledge.rounds:
        return None
    if len(knowledge.plans) > 1 and not question.models:
        return _pilots_again(draft)
    alone = question.models and question.adaptive and bool(knowledge.plans)
    if not question.pilot or len(knowledge.plans) > 1 or alone:
        return None
    if not knowledge.plans:
        reason = "pilot run at the smallest point, to find functions whose instrumentation costs too much"
        return _affordable(draft, question.points[:1], reason)
    indices = pilot_indices(question.space.points)
    if not knowledge.all_measured or (question.models and len(indices) >= len(question.points)):
        return None
    reason = f"pilot runs at {len(indices)} small points, to choose functions before everything is measured"
    return _affordable(draft, [question.points[index] for index in indices], reason)


def _pilots_again(draft: Draft) -> Plan | None:
    """Plan the pilot runs under a new filter; None if the filter has settled, or nothing more may be made."""
    question, knowledge = draft.question, draft.knowledge
    changed = knowledge.filter_text != knowledge.plans[-1].filter_text
    if not changed or not knowledge.complete or len(knowledge.plans) >= question.max_iterations:
        return None
    indices = pilot_indices(question.space.points)
    reason = f"the filter changed: pilot runs at {len(indices)} small points again, to see whether it has settled"
    return _affordable(draft, [question.points[index] for index in indices], reason)


def _affordable(draft: Draft, points: Sequence[Point], reason: str) -> Plan | None:
    plan = draft.plan(dict.fromkeys(points, 1), Purpose.PILOT, reason, draft.knowledge.filter_text)
    return plan if len(plan.bundles) == len(points) else None


def settle_filter(draft: Draft) -> Plan | None:
    """End a campaign that only wanted a filter, and say whether it has settled; None for one that wants models."""
    question, knowledge = draft.question, draft.knowledge
    missed = knowledge.missed_limit
    if knowledge.rounds or question.models:
        return None
    if not knowledge.any_measured:
        nothing = "the budget does not reach for a single run" if not knowledge.plans else "no run succeeded"
        return draft.done(nothing, budget_reached=not knowledge.plans)
    if knowledge.complete and knowledge.filter_text == knowledge.plans[-1].filter_text:
        return draft.done(f"the filter gets no smaller, but {missed}" if missed else "the filter has settled")
    newest = replace(draft.done("", budget_reached=True), filter_text=knowledge.filter_text)
    if knowledge.complete and len(knowledge.plans) >= question.max_iterations:
        why = f"the limit of {question.max_iterations} iterations is reached before the filter has settled"
        return replace(newest, reason=why, budget_reached=False)
    return replace(newest, reason="the budget is spent before the filter has settled")


def first_round(draft: Draft) -> Plan | None:
    """Plan the first points for models, or the end because there are none to measure; None in later rounds."""
    knowledge = draft.knowledge
    if knowledge.rounds:
        return None
    base, advice = _chosen(draft)
    base = _without_foreign(draft, base)
    if base:
        base |= dict.fromkeys((point for point in draft.to_sample if point not in base), 0)
    if not base and _only_looked(draft):
        return draft.done("the budget pays for the first runs only", budget_reached=True)
    if not base:
        reached = advice.budget_reached if advice.stop else True
        return draft.done(advice.stop or "the budget does not reach for a single run", budget_reached=reached)
    plan = draft.plan(base, Purpose.MODEL, _first_reason(draft, base), knowledge.filter_text)
    if knowledge.plans and not plan.bundles:
        return draft.done("nothing fits into the budget", budget_reached=True)
    return plan


def next_round(draft: Draft) -> Plan | None:
    """Plan what the strategy wants next, and measured points again where the filter changed.

    The end where the strategy stops or there may be no more rounds; None where neither wants anything.
    """
    question, knowledge = draft.question, draft.knowledge
    if len(knowledge.rounds) >= question.max_iterations:
        advice = _chosen(draft)[1] if question.adaptive else Advice()
        limit = f"the limit of {question.max_iterations} iterations is reached"
        return draft.ending(advice.stop or limit, advice.budget_reached or not knowledge.complete)
    last = knowledge.plans[-1]
    again = _again(draft) if question.refine and knowledge.filter_text != last.filter_text else {}
    changed = bool(again) and _can_change(draft, again)
    is_open = question.adaptive and not (changed and question.weighs_runs)
    rest, advice = _chosen(draft) if is_open else (dict[Point, int](), Advice())
    left_out = dict[Point, int]() if is_open or question.adaptive else _left_out(draft)
    sampled = draft.to_sample
    if not rest and not changed and not left_out and not sampled:
        return None if advice.stop is None else draft.ending(advice.stop, advice.budget_reached)
    reasons = []
    if changed:
        reasons.append(f"{knowledge.choice}: their points are measured again under the new filter")
    if rest:
        said = "; ".join(plan.reason for plan in knowledge.plans)
        reasons.append(f"strategy {question.strategy!r}: {_why(advice)}")
        reasons += [note for note in advice.notes if note not in said]
    if left_out:
        reasons.append(f"{len(left_out)} points that were left out before, as far as the budget reaches")
        rest = left_out
    if sampled:
        reasons.append("accesses to memory are sampled")
    if knowledge.start_s > max((draft.run_s.get(point, 0.0) for point in rest), default=np.inf):
        reasons.append(f"starting a run is charged {knowledge.start_s:.2g} s, more than any of these runs takes")
    points = {**dict.fromkeys(sampled, 0), **(again if changed else {})}
    points |= {point: points.get(point, 0) + count for point, count in rest.items()}
    plan = draft.plan(points, Purpose.MODEL, "; ".join(reasons), knowledge.filter_text if changed else last.filter_text)
    return plan if plan.bundles else draft.ending("nothing more fits into the budget", budget_reached=True)


def _chosen(draft: Draft) -> tuple[dict[Point, int], Advice]:
    """Ask the strategy: points with the number of runs wanted at each, most wanted first."""
    question, knowledge, space = draft.question, draft.knowledge, draft.space
    ids = {point: index for index, point in enumerate(question.points)}
    failed = frozenset[Point]() if question.retry_failed else knowledge.failed
    state = PlanningState(
        knowledge.measured or Observations.nothing(len(space.parameters)),
        space,
        draft.limit(Purpose.MODEL) if question.adaptive else None,
        knowledge.spent_core_hours,
        seed=question.seed,
        failed=frozenset(ids[point] for point in failed if point in ids),
        errors=knowledge.errors,
        most=question.batch or BATCH if question.adaptive and not question.weighs_runs else None,
        points=question.batch,
        rounds_left=question.max_iterations - len(knowledge.rounds),
    )
    advice = question.chooser.suggest(state)
    out: dict[Point, int] = {}
    for suggestion in advice.suggestions:
        point = question.points[suggestion.index]
        if point in out or not question.adaptive or len(out) != question.batch:
            out[point] = out.get(point, 0) + 1
    return out, advice


def _left_out(draft: Draft) -> dict[Point, int]:
    """Return the points of a strategy that chooses all at once which were not measured, with their runs.

    What is kept of the budget for a new filter pays for them where the filter stays, or costs less than was expected.
    """
    question, knowledge = draft.question, draft.knowledge
    tried = knowledge.failed | question.foreign | draft.runs_before.keys()
    indices = question.chooser.indices(question.space).tolist()
    points = (question.points[index] for index in indices)
    return {point: question.repetitions for point in points if point not in tried}


def _why(advice: Advice) -> str:
    """Return the reasons of a strategy's choice, the most frequent one first."""
    reasons = [suggestion.reason for suggestion in advice.suggestions]
    text = ", ".join(sorted(dict.fromkeys(reasons), key=lambda reason: (-reasons.count(reason), reason)))
    if advice.expected_error is None:
        return text
    return f"{text}; the prediction at the target is expected to be wrong by {advice.expected_error:.2g} of its value"


def _only_looked(draft: Draft) -> bool:
    """Tell whether pilots are all that a budget paid for, although there are points that have not failed."""
    knowledge, question = draft.knowledge, draft.question
    limited = bool(knowledge.plans) and draft.budget(Purpose.MODEL) is not None
    return limited and not knowledge.failed.issuperset(question.points)


def _first_reason(draft: Draft, base: Mapping[Point, int]) -> str:
    """Say why these points are measured first."""
    question, knowledge = draft.question, draft.knowledge
    every = len(base) == len(question.points)
    which = "every point of the campaign" if every else f"{len(base)} base points of strategy {question.strategy!r}"
    if question.foreign:
        which = f"{which}; {len(question.foreign)} points were timed elsewhere (measurements)"
    hooks = "the filter of the pilot runs" if knowledge.plans else "the first filter"
    return f"first times: {which}, with {hooks if knowledge.filter_text else 'the default instrumentation'}"


def _without_foreign(draft: Draft, base: Mapping[Point, int]) -> dict[Point, int]:
    """Return points with the number of timed runs: none where times were measured elsewhere.

    One is timed all the same if all were, so that there is a filter, and a run without hooks.
    """
    question = draft.question
    counting = counted(question.metrics)
    out = {point: 0 if point in question.foreign else runs for point, runs in base.items()}
    if base and not any(out.values()):
        out[next(iter(base))] = 1
    return {point: runs for point, runs in out.items() if runs or counting or point not in question.foreign}


def _again(draft: Draft) -> dict[Point, int]:
    """Return the runs that a new filter asks for at the points that were measured under another.

    As many of each as were planned under one filter so far; one where the strategy decides of each. Such a strategy
    sees which points lack times, so that a few cheap points are enough where earlier times are used.
    """
    question, knowledge = draft.question, draft.knowledge
    points = knowledge.planned(Purpose.MODEL)
    if question.weighs_runs and question.pooled:
        planned = set(points)
        points = [point for point in question.points if point in planned][: draft.enough_compared]
    points = [point for point in points if point not in question.foreign]
    timed: dict[Point, dict[str, set[int]]] = {}
    bundles = (bundle for plan in knowledge.plans for bundle in plan.bundles if bundle.purpose is Purpose.MODEL)
    for bundle in bundles:
        for run in bundle.runs:
            if run.mode is Mode.TIME:
                timed.setdefault(bundle.point, {}).setdefault(run.build, set()).add(run.repetition)
    most = {point: max(map(len, by_build.values())) for point, by_build in timed.items()}
    return {point: 1 if question.weighs_runs else most.get(point, question.repetitions) for point in points}


def _can_change(draft: Draft, again: Mapping[Point, int]) -> bool:
    """Tell whether measuring again under a new filter leaves enough of the budget to gain from it."""
    budget, text = draft.limit(Purpose.MODEL), draft.knowledge.filter_text
    if not draft.question.adaptive or budget is None:
        return True
    costs = [draft.cost(bundle, text) for bundle in draft.bundles(again, Purpose.MODEL, text)]
    left = budget - draft.knowledge.spent_core_hours
    return any(cost is None for cost in costs) or sum(cost or 0.0 for cost in costs) <= HALF * left


def halt(draft: Draft) -> Plan | None:
    """End where runs were left out, where none succeeded, or where the evaluation points are measured; else None."""
    knowledge = draft.knowledge
    last = knowledge.plans[-1]
    if _is_spent(draft):
        return draft.ending("the budget is spent; some planned runs were not started", budget_reached=True)
    if not knowledge.any_measured:
        return draft.done("no run succeeded: there is nothing to model")
    if knowledge.planned(Purpose.EVALUATION):
        return draft.done(last.ended or "the evaluation points are measured", last.budget_reached)
    return None


def _is_spent(draft: Draft) -> bool:
    """Tell whether runs of the last plan were left out, and it could have spent all that there is for models."""
    last, limit = draft.knowledge.plans[-1], draft.limit(Purpose.MODEL)
    ids = {bundle.id for bundle in last.bundles}
    left_out = any(outcome.id in ids and not outcome.complete for outcome in draft.knowledge.outcomes)
    most = last.most_core_hours
    return left_out and (limit is None or most is None or most >= limit * (1 - 1e-9))


def end(draft: Draft) -> Plan:
    """Plan the evaluation points, or the end: all that was chosen is measured."""
    question, knowledge = draft.question, draft.knowledge
    reached = not knowledge.complete or any(plan.budget_reached for plan in knowledge.rounds)
    chosen = "every point" if len(knowledge.planned(Purpose.MODEL)) == len(question.points) else "every chosen point"
    what = "every affordable point is measured" if reached else f"{chosen} is measured"
    if question.refine and knowledge.missed_limit:
        what = f"{what}, but {knowledge.missed_limit}"
    elif question.refine and knowledge.filter_text == knowledge.plans[-1].filter_text:
        what = f"{what} and the filter has settled"
    return draft.ending(what, budget_reached=reached)


def shortfalls(question: Question, knowledge: Knowledge) -> list[str]:
    """Return a sentence for each: a target that models say nothing of, an accuracy, counts that hold for any run."""
    of_target = _too_far(question), _not_varied(question, knowledge), _too_wide(question, knowledge)
    return [sentence for sentence in (*of_target, _unsteady(knowledge)) if sentence]


def _too_far(question: Question) -> str | None:
    """Return as text by how much the target lies beyond all points; None if that is not beyond `FLOOR`."""
    space = question.space
    largest, least = space.points.max(axis=0), space.points.min(axis=0)
    beyond = np.maximum(space.target / largest, least / space.target)
    worst = int(beyond.argmax())
    if beyond[worst] * FLOOR <= 1:
        return None
    name, value = space.parameters[worst], space.target[worst]
    return f"the target {name} = {value:g} lies a factor of {beyond[worst]:.3g} beyond all points: too far to trust"


def _not_varied(question: Question, knowledge: Knowledge) -> str | None:
    """Return as text which parameter had one value in all runs, and another one at the target; None if none had."""
    space, measured = question.space, knowledge.measured
    if measured is None or not len(measured.points):
        return None
    for name, values, at in zip(space.parameters, measured.points.T, space.target, strict=True):
        if name not in space.choices and (values == values[0]).all() and at != values[0]:
            return f"all runs have {name} = {shown_value(values[0])}: models say nothing of how time grows with it"
    return None


def _too_wide(question: Question, knowledge: Knowledge) -> str | None:
    """Return as text what accuracy was reached instead of the one that was requested; None if it was, or none was."""
    if question.accuracy is None or knowledge.measured is None:
        return None
    width = question.chooser.width_at_target(knowledge.measured, question.space)
    if width is None or width <= question.accuracy:
        return None
    could = f"it is within {100 * width:.2g} %" if np.isfinite(width) else "how far it is off cannot be said"
    return f"the prediction at the target is not within {100 * question.accuracy:g} %: {could}"


def _unsteady(knowledge: Knowledge) -> str | None:
    """Return as text which counts are not the same in all runs of a point; None where all are."""
    metric, paths = next(iter(knowledge.unsteady.items()), ("", ()))
    if not paths:
        return None
    more = sum(map(len, knowledge.unsteady.values())) - 1
    where = f"{metric} of {paths[0]}" + (f" and {more} other counts" if more else "")
    return f"effort depends on the run: {where}; models of them are valid for the measured runs only"
