"""The phases that measure for models: the first round, and those after it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from buran.campaign.plan import Mode, Plan, Purpose
from buran.campaign.point import Point
from buran.modeling.numerics.tuning import HALF
from buran.planning.draft import Draft
from buran.planning.observations import Observations
from buran.planning.protocol import Advice, Budget, PlanningState
from buran.planning.strategies import base_of
from buran.profiles.metrics import counted

# Runs a round for strategies that rate one run after the other. Tuned: judgement.
BATCH = 5


def first_round(draft: Draft) -> Plan | None:
    """Plan the first points for models, or the end because there are none to measure; None in later rounds."""
    knowledge = draft.knowledge
    if knowledge.rounds:
        return None
    base, advice = _chosen(draft)
    base |= _off_imported(draft, base)
    if base:
        base |= dict.fromkeys((point for point in draft.to_sample if point not in base), 0)
    if not base and _only_looked(draft):
        return draft.done("the budget pays for the first runs only", budget_reached=True)
    if not base:
        reached = advice.budget_reached if advice.stop else True
        return draft.done(advice.stop or "the budget does not reach for a single run", budget_reached=reached)
    changes = "" if knowledge.changes is None else f"{knowledge.changes.in_words()}; "
    plan = draft.plan(base, Purpose.MODEL, changes + _first_reason(draft, base), knowledge.filter_text)
    if knowledge.plans and not plan.bundles:
        return draft.done(f"{changes}nothing fits into the budget", budget_reached=True)
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
    settled = not question.adaptive and (knowledge.run_plans == knowledge.plans or knowledge.measured is None)
    is_open = not settled and not (changed and question.weighs_runs)
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
    if knowledge.start_s > max((draft.seconds(point) or 0.0 for point in rest), default=np.inf):
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
    advice = question.chooser.suggest(
        knowledge.measured or Observations.nothing(len(space.parameters)),
        space,
        Budget(draft.limit(Purpose.MODEL) if question.adaptive else None, knowledge.spent_core_hours),
        PlanningState(
            question.seed,
            frozenset(ids[point] for point in failed if point in ids),
            knowledge.errors,
            question.batch or BATCH if question.adaptive and not question.weighs_runs else None,
            question.batch,
            question.max_iterations - len(knowledge.rounds),
        ),
    )
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
    tried = knowledge.failed | knowledge.imported | draft.runs_before.keys()
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
    if not knowledge.run_plans or knowledge.imported or knowledge.changes is not None:
        return False
    return draft.budget(Purpose.MODEL) is not None and not knowledge.failed.issuperset(question.points)


def _first_reason(draft: Draft, base: Mapping[Point, int]) -> str:
    """Say why these points are measured first."""
    question, knowledge = draft.question, draft.knowledge
    every = len(base) == len(question.points)
    which = "every point of the campaign" if every else f"{len(base)} base points of strategy {question.strategy!r}"
    if knowledge.imported:
        new = len(base.keys() - knowledge.imported)
        timed = sum(base[point] > 0 for point in base.keys() & knowledge.imported)
        which = (
            f"{new} points in addition to the {len(knowledge.imported)} whose times are imported; {timed} of these are "
            "timed here too, and counts of effort"
        )
    hooks = "the filter of the pilot runs" if knowledge.run_plans else "the filter that imported times have chosen"
    if not knowledge.plans:
        hooks = "the first filter"
    if question.earlier:
        hooks = "the earlier version's filter"
    return f"first times: {which}, with {hooks if knowledge.filter_text else 'the default instrumentation'}"


def _off_imported(draft: Draft, base: Mapping[Point, int]) -> dict[Point, int]:
    """Return further points to run where times are imported, with the number of timed runs.

    Effort is counted where it would have been without them, and one point is timed here too, for comparison.
    """
    question, imported = draft.question, draft.knowledge.imported
    if not imported:
        return {}
    out: dict[Point, int] = {}
    if counted(question.metrics):
        chosen = base_of(question.strategy, question.base) if question.adaptive else question.chooser
        indices = chosen.indices(question.space)
        out = dict.fromkeys((question.points[index] for index in indices.tolist()), 0)
    if not imported & base.keys():
        out[next(point for point in question.points if point in imported)] = 1
    return {point: count for point, count in out.items() if point in imported and point not in base}


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
    if not question.adaptive:
        points += [point for point in question.points if point in knowledge.imported - set(points)]
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
