"""Planning: deterministic, within the budget, never the same run twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from buran.campaign.plan import COUNTING, BuildSpec, Mode, Plan, Purpose, randomised_blocks
from buran.campaign.point import Point
from buran.campaign.records import BundleOutcome, RunOutcome, Status, core_hours
from buran.campaign.sections import BudgetKeys
from buran.planning.base import base_indices
from buran.planning.draft import Draft
from buran.planning.observations import Observations
from buran.planning.planner import next_plan
from buran.planning.protocol import CAREFUL
from buran.planning.question import Candidate, Knowledge, Question

POINTS = tuple(Point.of({"p": p, "n": n}) for p, n in product((1, 2, 4, 8, 16), (10, 20, 30, 40, 50)))


OUTSIDE = Point.of({"p": 32, "n": 60})
Seconds = Callable[[Point], float | None]


def question(expected_s: Seconds = lambda point: 36.0, **changes: Any) -> Question:
    everywhere = (*POINTS, OUTSIDE, *changes.get("points", ()))
    plain = BuildSpec("target", Mode.VANILLA)
    asked = Question(
        table={point: Candidate(plain, int(point["p"]), expected_s(point)) for point in everywhere},
        points=tuple(sorted(POINTS, key=lambda point: (point["p"], point["n"]))),
        evaluation_points=(),
        metrics=frozenset({"time", "visits", "basic_blocks"}),
        repetitions=3,
        effort_repetitions=2,
        warmup=True,
        strategy="full",
        max_iterations=4,
        refine=True,
        seed=1,
        ranks_parameter="p",
        budget=BudgetKeys(),
    )
    return replace(asked, **changes)


def base_of(asked: Question) -> list[Point]:
    return [asked.points[place] for place in base_indices(asked.space)]


def carried_out(plan: Plan, status: Status = Status.MEASURED) -> list[BundleOutcome]:
    return [
        BundleOutcome.of(
            bundle,
            (
                RunOutcome(
                    run.build,
                    run.mode,
                    run.repetition,
                    status,
                    folder=f"{run.build}/{bundle.point.key}/{run.name}",
                    cost_core_hours=0.01,
                )
                for run in bundle.runs
            ),
        )
        for bundle in plan.bundles
    ]


def campaign(asked: Question, filters: list[str]) -> list[Plan]:
    """Play a campaign to its end; `filters` are what refinement suggests after each iteration."""
    plans = [next_plan(asked, Knowledge())]
    outcomes = carried_out(plans[0])
    while not plans[-1].done:
        suggested = filters[min(len(plans) - 1, len(filters) - 1)]
        known = Knowledge(tuple(plans), tuple(outcomes), {}, suggested)
        assert next_plan(asked, known) == next_plan(asked, known)
        plans.append(next_plan(asked, known))
        outcomes += carried_out(plans[-1])
    return plans


def runs_of(plans: list[Plan]) -> list[tuple[Any, ...]]:
    return [(bundle.point, run) for plan in plans for bundle in plan.bundles for run in bundle.runs]


def test_full_strategy_measures_everything_then_again_under_the_filter() -> None:
    plans = campaign(question(), ["f1", "f1"])
    assert [len(plan.bundles) for plan in plans] == [25, 25, 0]
    assert plans[1].filter_text == "f1"
    assert "settled" in plans[2].reason
    modes = [run.mode for bundle in plans[1].bundles for run in bundle.runs]
    assert modes.count(Mode.EFFORT) == 0  # counts do not depend on the run: once per point is enough
    assert modes.count(Mode.VANILLA) == 25  # a baseline beside the new filter
    assert modes.count(Mode.TIME) == 75


@pytest.mark.parametrize("strategy", ["full", "lines"])
@pytest.mark.parametrize("filters", [[""], ["f1"], ["f1", "f2"]])
def test_no_run_is_planned_twice_except_effort_that_the_store_has(strategy: str, filters: list[str]) -> None:
    runs = runs_of(campaign(question(strategy=strategy), filters))
    assert len(set(runs)) == len(runs)
    wanted = question().points if strategy == "full" else base_of(question())
    assert {point for point, _ in runs} == set(wanted)


def test_lines_lie_where_ranks_communicate_with_points_off_them() -> None:
    base = base_of(question())
    assert len(base) == 5 + 5 - 1 + 2
    along_p = [point for point in base if point["n"] == 10]
    along_n = [point for point in base if point["p"] == 2]
    assert len(along_p) == len(along_n) == 5
    for point in set(base) - set(along_p) - set(along_n):
        assert point["p"] > 1 and point["n"] > 10


@pytest.mark.parametrize(("name", "value"), [("n", 60), ("p", 32)])
def test_lines_take_a_value_that_is_added_and_no_other_new_point(name: str, value: int) -> None:
    axes = {"p": [1, 2, 4, 8, 16], "n": [10, 20, 30, 40, 50]}
    axes[name].append(value)
    points = tuple(Point.of({"p": p, "n": n}) for p, n in product(axes["p"], axes["n"]))
    before, after = (
        {bundle.point for bundle in next_plan(question(strategy="lines", points=own), Knowledge()).bundles}
        for own in (question().points, points)
    )
    cheapest = {"p": 2, "n": 10}
    assert before < after and after - before == {Point.of(cheapest | {name: value})}


def test_a_line_at_one_rank_is_taken_where_there_is_no_other() -> None:
    points = [Point.of({"p": p, "n": n}) for p, n in ((1, 10), (1, 20), (1, 30), (2, 10), (4, 10))]
    assert set(base_of(question(points=tuple(points)))) == set(points)


@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.integers(1, 64), st.integers(1, 64)), min_size=1, max_size=40, unique=True),
    st.sampled_from(["full", "lines", "design", "cpf"]),
)
def test_first_plans_have_feasible_points_once(pairs: list[tuple[int, int]], name: str) -> None:
    points = tuple(Point.of({"p": p, "n": n}) for p, n in sorted(pairs))
    plan = next_plan(question(points=points, strategy=name), Knowledge())
    chosen = [bundle.point for bundle in plan.bundles]
    assert chosen
    assert len(set(chosen)) == len(chosen)
    assert set(chosen) <= set(points)


def test_a_budget_leaves_out_the_dearest_and_says_so() -> None:
    asked = question(budget=BudgetKeys(core_hours=5.0))
    plan = next_plan(asked, Knowledge())
    assert plan.budget_reached
    assert plan.predicted_core_hours is not None and plan.predicted_core_hours <= 5.0
    assert 0 < len(plan.bundles) < 25
    left_out = {point["p"] for point in POINTS} - {bundle.point["p"] for bundle in plan.bundles}
    assert 16 in left_out


@settings(max_examples=40)
@given(st.floats(0.5, 60), st.sampled_from(["full", "lines"]))
def test_plans_never_promise_more_than_the_budget(budget: float, strategy: str) -> None:
    plans = campaign(question(budget=BudgetKeys(core_hours=budget), strategy=strategy), ["f1"])
    for plan in plans:
        if plan.bundles:
            assert plan.predicted_core_hours is not None
            assert plan.spent_core_hours + plan.predicted_core_hours <= budget * (1 + 1e-9)
    assert plans[-1].done


def test_a_percentage_of_the_full_matrix_needs_a_prediction() -> None:
    unknown, plan = (
        next_plan(question(budget=BudgetKeys(percent_of_full_matrix=50), expected_s=expected), Knowledge())
        for expected in (lambda point: None, lambda point: 36.0)
    )
    cores = sum(int(point["p"]) for point in POINTS)
    assert unknown.budget_core_hours is None
    assert plan.budget_core_hours == pytest.approx(cores * 36.0 * (3 + 3 + 2 + 1) / 3600 / 2)


def test_evaluation_points_come_last_and_are_not_for_models() -> None:
    plans = campaign(question(evaluation_points=(OUTSIDE,)), ["f1"])
    assert [bundle.purpose for bundle in plans[-2].bundles] == [Purpose.EVALUATION]
    assert plans[-2].filter_text == "f1"
    assert all(bundle.purpose is Purpose.MODEL for plan in plans[:-2] for bundle in plan.bundles)


def test_iterations_are_limited_though_filters_never_settle() -> None:
    plans = campaign(question(max_iterations=3), ["a", "b", "c", "d", "e"])
    assert len(plans) == 4
    assert "limit" in plans[-1].reason


def test_a_campaign_without_a_success_ends() -> None:
    plan = next_plan(question(), Knowledge())
    end = next_plan(question(), Knowledge((plan,), tuple(carried_out(plan, Status.FAILED)), filter_text="f"))
    assert end.done and "no run succeeded" in end.reason


def test_unstarted_runs_end_the_campaign_for_its_budget() -> None:
    plan = next_plan(question(), Knowledge())
    outcomes = [replace(outcome, complete=False) for outcome in carried_out(plan)]
    end = next_plan(question(), Knowledge((plan,), tuple(outcomes), filter_text="f"))
    assert end.done and end.budget_reached


def test_blocks_visit_every_build_once_a_round_and_are_seeded() -> None:
    repetitions = {("a", Mode.VANILLA): range(3), ("b", Mode.TIME): range(3), ("c", Mode.EFFORT): range(1)}
    runs = randomised_blocks(repetitions, True, "seed")
    assert runs[0].repetition == -1
    assert [sorted(run.build for run in part) for part in (runs[1:4], runs[4:6], runs[6:8])] == [
        ["a", "b", "c"],
        ["a", "b"],
        ["a", "b"],
    ]
    assert runs == randomised_blocks(repetitions, True, "seed")
    orders = {tuple(run.build for run in randomised_blocks(repetitions, False, str(seed))) for seed in range(20)}
    assert len(orders) > 3


def test_plans_survive_json_and_identities_are_pinned() -> None:
    plan = next_plan(question(), Knowledge())
    assert Plan.from_json(plan.to_json()) == plan
    # Identities are part of paths: a change here makes every store of every user worthless.
    assert BuildSpec("0123456789ab", Mode.TIME, "EXCLUDE *", (("n", 4),)).hash == "ce2149aa1b2534cd"
    assert plan.bundles[0].id == "7293596335a7b59b"


def seconds(point: Point) -> float:
    return 2.0 + 0.1 * float(point["n"]) * float(point["p"]) ** 0.5


TIMES = {point: seconds(point) for point in (*POINTS, OUTSIDE)}


def known_of(plans: list[Plan], outcomes: list[BundleOutcome]) -> Knowledge:
    """Return what is known of a program whose times are known."""
    timed: dict[Point, int] = {}
    for outcome in outcomes:
        done = [run for run in outcome.runs if run.mode is Mode.TIME and run.status is Status.MEASURED]
        if outcome.purpose is Purpose.MODEL and done:
            timed[outcome.point] = timed.get(outcome.point, 0) + len(done)
    measured = None
    if timed:
        names = tuple(POINTS[0])
        values = np.full((1, len(timed), max(timed.values())), np.nan)
        for row, (point, count) in enumerate(timed.items()):
            values[0, row, :count] = seconds(point) * (1 + 0.01 * np.cos(np.arange(count) + row))
        measured = Observations(np.array([[point[name] for name in names] for point in timed], dtype=float), values)
    return Knowledge(tuple(plans), tuple(outcomes), TIMES if timed else {}, "", measured)


def adaptive(
    asked: Question, most: int = 30, failing: Point | None = None, settled: bool = False
) -> tuple[list[Plan], list[BundleOutcome]]:
    """Play a campaign whose run times are known to the end."""
    plans: list[Plan] = []
    outcomes: list[BundleOutcome] = []
    while len(plans) < most and not (plans and plans[-1].done):
        known = replace(known_of(plans, outcomes), counts_settled=settled)
        plan = next_plan(asked, known)
        assert plan == next_plan(asked, known)
        plans.append(plan)
        for outcome in carried_out(plan):
            cost = seconds(outcome.point) * float(outcome.point["p"]) / 3600
            status = Status.FAILED if outcome.point == failing else Status.MEASURED
            runs = tuple(replace(run, cost_core_hours=cost, status=status) for run in outcome.runs)
            outcomes.append(replace(outcome, runs=runs))
    return plans, outcomes


def adaptive_question(**changes: Any) -> Question:
    plain: dict[str, Any] = {
        "strategy": "design",
        "refine": False,
        "max_iterations": 8,
        "warmup": False,
        "metrics": frozenset({"time", "visits"}),
        "expected_s": lambda point: None,
        "budget": BudgetKeys(percent_of_full_matrix=30),
        "target": OUTSIDE,
    }
    return question(**(plain | changes))


def test_a_point_whose_sampling_run_counts_keeps_its_timed_run() -> None:
    metrics = frozenset({"time", "visits", "basic_blocks"})
    memory = frozenset(question().points)
    asked = adaptive_question(
        metrics=metrics,
        counting_tells_times=True,
        effort_repetitions=1,
        budget=BudgetKeys(core_hours=500.0),
        memory_points=memory,
    )
    plan, without = (next_plan(replace(asked, counting_tells_times=may), Knowledge()) for may in (True, False))
    assert any(run.mode is Mode.MEMORY for bundle in plan.bundles for run in bundle.runs)
    assert runs_of([plan]) == runs_of([without])


@pytest.mark.parametrize("proven", [None, 0.5, 1.0])
def test_a_counting_run_replaces_a_timed_one_where_two_points_have_both(proven: float | None) -> None:
    metrics = frozenset({"time", "visits", "basic_blocks"})
    asked = adaptive_question(
        metrics=metrics, counting_tells_times=True, effort_repetitions=1, budget=BudgetKeys(core_hours=50.0)
    )
    first = next_plan(asked, Knowledge())
    modes = {bundle.point: Counter(run.mode for run in bundle.runs) for bundle in first.bundles}
    assert all(each[Mode.EFFORT] == 1 for each in modes.values()) and len(modes) > 2
    assert sum(each[Mode.TIME] > 0 for each in modes.values()) == 2
    known = replace(known_of([first], carried_out(first)), counting_proven=proven)
    second = next_plan(asked, known)
    new = [Counter(run.mode for run in bundle.runs) for bundle in second.bundles if bundle.point not in modes]
    counted = [each for each in new if each[Mode.EFFORT]]
    assert counted and all((each[Mode.TIME] > 0) == (proven != 1.0) for each in counted)


@pytest.mark.parametrize("strategy", ["design", "cpf", "gpr", "random"])
def test_adaptive_campaigns_measure_within_the_budget_and_never_a_run_twice(strategy: str) -> None:
    plans, outcomes = adaptive(adaptive_question(strategy=strategy))
    assert plans[-1].done and len(plans) > 3
    runs = runs_of(plans)
    assert len(set(runs)) == len(runs)
    budget = plans[-1].budget_core_hours
    assert budget is not None
    assert core_hours(outcomes) <= budget * (1 + 1e-9)
    assert len({point for point, _ in runs}) < 25


@pytest.mark.parametrize(("strategy", "points"), [("design", 3), ("gpr", 25)])
def test_the_first_points_have_a_baseline_beside_their_first_timed_run(strategy: str, points: int) -> None:
    seen: set[Point] = set()
    for plan in adaptive(adaptive_question(strategy=strategy))[0]:
        for bundle in plan.bundles:
            modes = [run.mode for run in bundle.runs]
            assert modes.count(Mode.TIME) > 0
            assert modes.count(Mode.VANILLA) == (bundle.point not in seen and len(seen) < points)
            seen.add(bundle.point)
    assert len(seen) > 3


def test_a_parameter_that_no_run_varied_is_named_at_the_end() -> None:
    once = seconds(Point.of({"p": 1, "n": 10})) / 3600  # pays for p = 2 too, but for no larger n
    few = adaptive_question(budget=BudgetKeys(core_hours=2.2 * once), expected_s=seconds)
    last = adaptive(few)[0][-1]
    assert last.done and last.budget_reached and "n = 10" in last.reason
    assert "say nothing" not in adaptive(adaptive_question())[0][-1].reason


def test_effort_is_counted_until_counts_tell_all_parameters_apart() -> None:
    asked = adaptive_question(metrics=frozenset({"time", "basic_blocks"}), effort_repetitions=1)
    for settled in (False, True):
        counted, timed = set[Point](), set[Point]()
        for plan in adaptive(asked, settled=settled)[0]:
            for bundle in plan.bundles:
                modes = [run.mode for run in bundle.runs]
                timed.add(bundle.point)
                counted |= {bundle.point} if Mode.EFFORT in modes else set()
        assert counted < timed if settled else counted == timed
        for name in ("p", "n"):
            assert len({point[name] for point in counted}) >= 3


def test_where_runs_are_weighed_counts_are_compared_at_one_point_that_communicates() -> None:
    asked = adaptive_question(metrics=frozenset({"time", "basic_blocks"}))
    plans, _ = adaptive(asked)
    counting = Counter(point for point, run in runs_of(plans) if run.mode is Mode.EFFORT)
    assert [point["p"] for point, runs in counting.items() if runs > 1] == [2] and len(counting) > 3
    alone = replace(asked, points=tuple(point for point in POINTS if point["p"] == 1), ranks_parameter=None)
    counting = Counter(point for point, run in runs_of(adaptive(alone)[0]) if run.mode is Mode.EFFORT)
    assert sorted(counting.values())[-2:] == [1, 2]


@pytest.mark.parametrize(("unsteady", "runs"), [({}, 1), ({"basic_blocks": ["main/poll"]}, 2)])
def test_counts_that_depend_on_the_run_are_counted_as_often_as_asked_for(
    unsteady: dict[str, list[str]], runs: int
) -> None:
    asked = adaptive_question(metrics=frozenset({"time", "basic_blocks"}), expected_s=seconds)
    plans, outcomes = adaptive(asked, most=2)
    later = next_plan(asked, replace(known_of(plans, outcomes), unsteady=unsteady))
    before = {point for point, _ in runs_of(plans)}
    new = Counter(point for point, run in runs_of([later]) if run.mode is Mode.EFFORT and point not in before)
    assert set(new.values()) == {runs}


@pytest.mark.parametrize("strategy", ["design", "full"])
def test_where_runs_are_weighed_the_counting_one_goes_first_and_warms_up(strategy: str) -> None:
    asked = adaptive_question(strategy=strategy, warmup=True, metrics=frozenset({"time", "basic_blocks"}))
    counted = [bundle for bundle in adaptive(asked)[0][0].bundles if Mode.EFFORT in {run.mode for run in bundle.runs}]
    assert counted
    for bundle in counted:
        first, *rest = bundle.runs
        assert (first.mode is Mode.EFFORT) if strategy == "design" else (first.repetition == -1)
        assert all(run.repetition >= 0 for run in rest)


@pytest.mark.parametrize("paired", [False, True])
@pytest.mark.parametrize("strategy", ["design", "full"])
def test_there_are_timed_runs_alone_where_these_tell_all(strategy: str, paired: bool) -> None:
    asked = adaptive_question(strategy=strategy, paired=paired, counts_with_times=True, evaluation_points=POINTS[-1:])
    plans, _ = adaptive(asked)
    modes = {run.mode for plan in plans for bundle in plan.bundles for run in bundle.runs}
    assert modes == {spec.mode for plan in plans for spec in plan.builds} == {Mode.TIME}
    half = replace(asked, counts_with_times=False, metrics=frozenset({"time"}))
    assert asked.full_matrix_core_hours(TIMES) == (half.full_matrix_core_hours(TIMES) or 0.0) / 2


def test_each_timed_run_has_a_baseline_where_points_are_chosen_by_it() -> None:
    for plan in adaptive(adaptive_question(paired=True))[0]:
        for bundle in plan.bundles:
            modes = [run.mode for run in bundle.runs]
            assert modes.count(Mode.TIME) == modes.count(Mode.VANILLA) > 0


def test_a_strategy_that_adapts_has_one_pilot_and_begins_with_what_that_cost() -> None:
    asked = adaptive_question(pilot=True, budget=BudgetKeys(core_hours=1.0), refine=True)
    first = next_plan(asked, Knowledge())
    assert first.pilot and len(first.bundles) == 1
    done = tuple(carried_out(first))
    cheap = next_plan(asked, Knowledge((first,), done, pilot_s=1.0))
    dear = next_plan(asked, Knowledge((first,), done, pilot_s=100.0))
    assert not cheap.pilot and len(cheap.bundles) > len(dear.bundles) > 0
    assert cheap.predicted_core_hours is not None and cheap.predicted_core_hours <= 1.0
    ratios = {Mode.TIME: 2.0, Mode.EFFORT: 6.0}
    dearer = next_plan(asked, Knowledge((first,), done, pilot_s=1.0, ratios=ratios))
    assert dearer.predicted_core_hours is not None
    assert dearer.predicted_core_hours / len(dearer.bundles) > cheap.predicted_core_hours / len(cheap.bundles)


def test_evaluation_points_are_paid_for_though_only_a_pilot_has_run() -> None:
    held = (OUTSIDE,)
    asked = adaptive_question(pilot=True, evaluation_points=held, budget=BudgetKeys(core_hours=1.0))
    first = next_plan(asked, Knowledge())
    plan = next_plan(asked, Knowledge((first,), tuple(carried_out(first)), pilot_s=1.0))
    run = 6 * 32 / 3600  # core hours: n is six times that of the pilot, which took a second
    assert plan.budget_core_hours == 1.0
    assert plan.limit_core_hours == pytest.approx(1.0 - CAREFUL * (asked.repetitions + 1) * run)


def test_a_new_filter_is_left_where_measuring_again_would_take_the_rest_of_the_budget() -> None:
    for budget, taken in ((100.0, "f1"), (0.05, "")):
        asked = adaptive_question(refine=True, budget=BudgetKeys(core_hours=budget))
        first = next_plan(asked, Knowledge())
        done = tuple(carried_out(first))
        names = tuple(asked.points[0])
        points = np.array([[bundle.point[name] for name in names] for bundle in first.bundles], dtype=float)
        measured = Observations(points, points.prod(axis=1)[None, :, None])
        plan = next_plan(asked, Knowledge((first,), done, TIMES, "f1", measured))
        assert plan.filter_text == taken


def test_points_that_failed_are_not_asked_for_again_unless_told_so() -> None:
    failing = adaptive_question().points[0]
    for retry in (False, True):
        plans, _ = adaptive(adaptive_question(retry_failed=retry, strategy="cpf"), failing=failing)
        asked = sum(bundle.point == failing for plan in plans for bundle in plan.bundles)
        assert asked > 1 if retry else asked == 1


def test_batches_are_points_of_a_round() -> None:
    plans, _ = adaptive(adaptive_question(batch=2))
    assert all(len(plan.bundles) <= 2 for plan in plans)


def test_a_share_of_the_full_matrix_is_for_models_and_core_hours_are_for_all() -> None:
    held = (OUTSIDE,)
    plans, outcomes = adaptive(adaptive_question(evaluation_points=held))
    assert [bundle.point for bundle in plans[-2].bundles] == list(held)
    assert plans[-2].budget_core_hours is None and plans[-3].budget_core_hours is not None
    limit = 3.0
    plans, outcomes = adaptive(adaptive_question(evaluation_points=held, budget=BudgetKeys(core_hours=limit)))
    assert core_hours(outcomes) <= limit
    assert Purpose.EVALUATION in {bundle.purpose for plan in plans for bundle in plan.bundles}


def test_an_accuracy_ends_the_campaign_and_is_said() -> None:
    plans, _ = adaptive(adaptive_question(accuracy=0.5, budget=BudgetKeys()))
    assert plans[-1].done and "within 50%" in plans[-1].reason


def test_a_new_filter_is_measured_as_often_as_the_old_one() -> None:
    asked = adaptive_question(refine=True, strategy="cpf", base_repetitions=2, budget=BudgetKeys(core_hours=1e4))
    first = next_plan(asked, Knowledge())
    done = carried_out(first)
    names = tuple(asked.points[0])
    points = np.array([[bundle.point[name] for name in names] for bundle in first.bundles], dtype=float)
    measured = Observations(points, np.ones((1, len(points), 1)))
    plan = next_plan(asked, Knowledge((first,), tuple(done), TIMES, "f1", measured))
    assert plan.filter_text == "f1"
    again = {bundle.point for bundle in first.bundles} & {bundle.point for bundle in plan.bundles}
    assert again == {bundle.point for bundle in first.bundles}


def test_pilot_runs_come_first_and_do_not_count() -> None:
    plans = campaign(question(pilot=True, max_iterations=2), ["f0", "f1", "f2"])
    assert [plan.pilot for plan in plans] == [True, True, False, False, False]
    assert [len(plan.bundles) for plan in plans] == [1, 6, 25, 25, 0]
    assert [plan.filter_text for plan in plans[:4]] == ["", "f0", "f1", "f2"]
    assert "limit of 2 iterations" in plans[-1].reason
    assert [run.mode for run in plans[0].bundles[0].runs].count(Mode.EFFORT) == 0
    once = {(bundle.point, run) for bundle in plans[1].bundles for run in bundle.runs if run.mode is Mode.TIME}
    assert len(once) == 6 and all(run.repetition == 0 for _, run in once)
    first = [run.mode for run in plans[2].bundles[0].runs if run.repetition >= 0]
    assert first.count(Mode.TIME) == first.count(Mode.VANILLA) == 3  # as if there had been no pilots
    assert all(bundle.purpose is Purpose.PILOT for plan in plans[:2] for bundle in plan.bundles)


def test_a_pilot_that_fails_is_not_gone_on_with() -> None:
    asked = question(pilot=True)
    first = next_plan(asked, Knowledge(filter_text="everything"))
    assert first.pilot and first.filter_text == "everything"
    known = Knowledge((first,), tuple(carried_out(first, Status.FAILED)), {}, "")
    second = next_plan(asked, known)
    assert not second.pilot and len(second.bundles) == 25 and second.filter_text == ""
    assert not known.failed


def test_a_small_campaign_needs_one_pilot_alone() -> None:
    few = tuple(Point.of({"p": 1, "n": n}) for n in (10, 20, 30))
    plans = campaign(question(pilot=True, points=few), ["f0", "f0"])
    assert [(plan.pilot, len(plan.bundles)) for plan in plans] == [(True, 1), (False, 3), (False, 0)]


def test_pilots_come_before_a_fixed_strategy() -> None:
    asked = question(pilot=True, strategy="lines", budget=BudgetKeys(core_hours=40.0))
    first = next_plan(asked, Knowledge())
    second = next_plan(asked, Knowledge((first,), tuple(carried_out(first)), filter_text="f0"))
    assert first.pilot and second.pilot
    plain = next_plan(question(strategy="lines", budget=BudgetKeys(core_hours=40.0)), Knowledge())
    known = Knowledge((first, second), tuple(carried_out(first) + carried_out(second)), filter_text="f1")
    third = next_plan(asked, known)
    assert not third.pilot and third.filter_text == "f1"
    assert {bundle.point for bundle in third.bundles} == {bundle.point for bundle in plain.bundles}


def played(asked: Question, filters: list[str], wrong: float = 1.0) -> tuple[list[Plan], list[BundleOutcome]]:
    """Play a campaign whose runs are `wrong` times as dear as predicted and stop at their plan's limit."""
    plans, outcomes, spent = list[Plan](), list[BundleOutcome](), 0.0
    while not (plans and plans[-1].done):
        suggested = filters[min(len(plans), len(filters)) - 1] if plans else ""
        predicted_s = TIMES if plans else {}
        plan = next_plan(
            asked,
            Knowledge(
                tuple(plans), tuple(outcomes), predicted_s, suggested, pilot_s=1.0 if asked.pilot and plans else None
            ),
        )
        plans.append(plan)
        for bundle in plan.bundles:
            cost = wrong * seconds(bundle.point) * float(bundle.point["p"]) / 3600
            runs = []
            for run in bundle.runs:
                fits = plan.most_core_hours is None or spent + cost <= plan.most_core_hours
                spent += cost if fits else 0.0
                status = Status.MEASURED if fits else Status.OVER_BUDGET
                runs.append(RunOutcome(run.build, run.mode, run.repetition, status, cost_core_hours=cost * fits))
            outcomes.append(BundleOutcome.of(bundle, runs))
    return plans, outcomes


@settings(max_examples=60)
@given(
    st.floats(6.5, 60.0),  # evaluation takes 2.9 of it, and never keeps more than half
    st.sampled_from(["full", "lines"]),
    st.booleans(),
    st.booleans(),
    st.sampled_from([0.7, 1.0, 1.3]),
)
def test_a_budget_pays_for_a_new_filter_and_for_evaluation(
    budget: float, strategy: str, is_known: bool, changes: bool, wrong: float
) -> None:
    held = OUTSIDE
    asked = question(
        budget=BudgetKeys(core_hours=budget),
        strategy=strategy,
        evaluation_points=(held,),
        expected_s=seconds if is_known else lambda point: None,
        pilot=not is_known,
    )
    plans, outcomes = played(asked, ["f1"] if changes else [""], wrong)
    assert core_hours(outcomes) <= budget * (1 + 1e-9)
    assert len(plans) <= asked.max_iterations + 4
    evaluated = [outcome for outcome in outcomes if outcome.purpose is Purpose.EVALUATION]
    assert [outcome.point for outcome in evaluated] == [held]
    assert any(run.mode is Mode.TIME and run.status is Status.MEASURED for run in evaluated[0].runs)
    rounds = [plan for plan in plans if plan.bundles and plan.bundles[0].purpose is Purpose.MODEL]
    if changes and is_known:
        assert rounds[1].filter_text == "f1" and rounds[1].bundles


def test_what_was_kept_for_a_new_filter_pays_for_further_points_where_it_stays() -> None:
    asked = question(budget=BudgetKeys(core_hours=6.0), expected_s=seconds)
    plans, _ = played(asked, [""])
    first, second = plans[0], plans[1]
    assert first.limit_core_hours is not None and first.limit_core_hours < 6.0 and first.budget_core_hours == 6.0
    assert "left out before" in second.reason
    assert not {bundle.point for bundle in first.bundles} & {bundle.point for bundle in second.bundles}


def test_a_plan_of_unknown_cost_takes_half_and_the_campaign_goes_on_after_it() -> None:
    asked = question(budget=BudgetKeys(core_hours=3.0), expected_s=lambda point: None)
    plans, outcomes = played(asked, ["f1"])
    first = {bundle.id for bundle in plans[0].bundles}
    assert plans[0].limit_core_hours == pytest.approx(1.5)
    assert not all(outcome.complete for outcome in outcomes if outcome.id in first)
    assert plans[1].filter_text == "f1" and plans[1].bundles
    assert 1.5 < core_hours(outcomes) <= 3.0


@pytest.mark.parametrize("strategy", ["full", "lines", "design"])
def test_accesses_to_memory_are_sampled_once_at_the_points_asked_for(strategy: str) -> None:
    asked = frozenset({Point.of({"p": 1, "n": 10}), Point.of({"p": 4, "n": 30})})
    metrics = question().metrics | {"misses_level_1"}
    plans = campaign(question(strategy=strategy, memory_points=asked, metrics=metrics), ["f1", "f1"])
    sampled = [(point, run) for point, run in runs_of(plans) if run.mode is Mode.MEMORY]
    assert {point for point, _ in sampled} == asked and len(sampled) == 2
    assert {run.repetition for _, run in sampled} == {0}
    specs = {build.hash: build for plan in plans for build in plan.builds}
    assert {specs[run.build].filter_text for _, run in sampled} == {""}
    assert not any(run.mode is Mode.MEMORY for _, run in runs_of(campaign(question(strategy=strategy), [""])))


@pytest.mark.parametrize(("strategy", "count"), [("full", 25), ("design", 6)])
def test_accesses_to_memory_are_sampled_at_cheap_points_where_points_are_chosen(strategy: str, count: int) -> None:
    metrics = question().metrics | {"misses_level_1"}
    plans = campaign(question(strategy=strategy, memory_points=None, metrics=metrics), ["f1", "f1"])
    sampled = [point for point, run in runs_of(plans) if run.mode is Mode.MEMORY]
    assert len(sampled) == count
    assert {len({point[name] for point in sampled}) for name in ("p", "n")} == ({5} if strategy == "full" else {3})


@pytest.mark.parametrize("hours", [0.3, 3.0, 30.0])
def test_of_a_budget_sampling_takes_a_part(hours: float) -> None:
    metrics = question().metrics | {"misses_level_1"}
    asked = question(strategy="design", memory_points=None, metrics=metrics, budget=BudgetKeys(core_hours=hours))
    _, outcomes = played(asked, ["f1", "f1"])
    sampled = [run.cost_core_hours for outcome in outcomes for run in outcome.runs if run.mode is Mode.MEMORY]
    timed = [run.cost_core_hours for outcome in outcomes for run in outcome.runs if run.mode is Mode.TIME]
    assert sum(sampled) <= 0.5 * hours and len(sampled) <= 6 and sum(timed) > 0
    assert (len(sampled) == 6) == (hours > 1)


@pytest.mark.parametrize(("hours", "points"), [(0.3, 1), (0.5, 2), (3.0, 3)])
def test_of_a_budget_of_few_runs_baselines_take_few(hours: float, points: int) -> None:
    plans, _ = played(question(strategy="design", warmup=False, budget=BudgetKeys(core_hours=hours)), ["f1"])
    assert len({point for point, run in runs_of(plans[:1]) if run.mode is Mode.VANILLA}) == points


@pytest.mark.parametrize("pooled", [False, True])
def test_few_points_are_measured_again_where_earlier_times_are_used(pooled: bool) -> None:
    plans = campaign(question(strategy="design", pooled=pooled), ["", "f1"])
    before = {bundle.point for plan in plans if plan.filter_text == "" for bundle in plan.bundles}
    again = next(plan for plan in plans if plan.filter_text == "f1")
    assert len(before) > 3
    assert {bundle.point for bundle in again.bundles} == set(sorted(before, key=POINTS.index)[:3] if pooled else before)


def test_runs_that_sample_accesses_tell_the_counts_too() -> None:
    metrics = question().metrics | {"misses_level_1"}
    asked = question(memory_points=frozenset(POINTS[:5]), metrics=metrics, effort_repetitions=1)
    modes: dict[Point, set[Mode]] = {}
    for point, run in runs_of(campaign(asked, ["f1"])):
        modes.setdefault(point, set()).add(run.mode)
    counting = {point: {mode for mode in modes[point] if mode in COUNTING} for point in modes}
    assert all(counting[point] == {Mode.MEMORY if point in POINTS[:5] else Mode.EFFORT} for point in POINTS)


def test_sampling_is_a_part_of_what_the_full_matrix_costs() -> None:
    plain, sampling = question(), question(memory_points=frozenset(POINTS[:5]))
    without, cost = (asked.full_matrix_core_hours(TIMES) for asked in (plain, sampling))
    assert without is not None and cost is not None
    assert cost / without == pytest.approx(
        (2 * 3 + 1 + 2 + 3 * 5 / 25) / (2 * 3 + 1 + 2)
    )  # three times a plain run, until one was seen


def test_the_start_of_a_job_is_a_cost_of_each_run() -> None:
    asked = question(strategy="design")
    free, charged = (Draft(asked, Knowledge(start_s=start_s)) for start_s in (0.0, 10.0))
    bundle = free.bundles({asked.points[0]: 2}, Purpose.MODEL, "")[0]
    cores = asked.table[bundle.point].cores
    costs = [draft.cost(bundle, "") or 0.0 for draft in (free, charged)]
    assert costs[1] - costs[0] == pytest.approx(10.0 * len(bundle.runs) * cores / 3600)
    seconds = np.full(len(asked.points), 36.0)
    assert (charged.space.core_hours(seconds) > free.space.core_hours(seconds)).all()


def test_a_share_of_the_full_matrix_is_of_its_points_alone() -> None:
    few = question(full_matrix=question().points[:5])
    assert few.full_matrix_core_hours(TIMES) == pytest.approx(
        question(points=question().points[:5]).full_matrix_core_hours(TIMES)
    )
