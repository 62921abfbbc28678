"""How the loop ends: phases, goals, and campaigns that cannot give what they are asked for."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from buran.campaign.load import load_campaign
from buran.campaign.mistakes import CampaignError
from buran.campaign.plan import Mode, Plan
from buran.campaign.records import Status
from buran.files import not_synced, read_json
from buran.instrumentation.filter_file import parse
from buran.modeling.pmnf.model_set import read_models
from buran.planning.gpr import NOT_CONVERGED
from buran.reporting.tables import tables_of
from buran.reporting.text import render
from buran.workflow.history import History
from buran.workflow.plan import choice_of, question_of
from buran.workflow.report import gather
from buran.workflow.session import Session
from buran.workflow.views.summary import summarize
from buran_studies.simulate.in_process import carry_out
from simulated_campaigns import PROGRAM, opened, written

pytestmark = pytest.mark.slow

TARGET = {"p": 4096, "n": 200}


@pytest.fixture(autouse=True)
def quick() -> Iterator[None]:
    with not_synced():
        yield


def plans(session: Session) -> list[Plan]:
    return History.open(session).plans


def test_the_phases_come_in_order_and_every_plan_says_which_and_why(tmp_path: Path) -> None:
    session = opened(
        tmp_path, target=TARGET, refinement={"pilot": True}, evaluation_points=[{"p": 64, "n": 60}], repetitions=1
    )
    carry_out(session)
    found = plans(session)
    phases = [plan.phase for plan in found]
    assert phases[:2] == ["first look", "refinement"]
    assert phases[-2:] == ["evaluation", "end"]
    assert set(phases[2:-2]) == {"times"}
    assert all(plan.reason for plan in found)
    path = session.layout.plan(session.id, 0)
    assert read_json(path)["phase"] == "first look"
    assert Plan.from_json(read_json(path)) == found[0]


def test_what_no_point_can_show_does_not_end_a_campaign(tmp_path: Path) -> None:
    """Who waits for whom with 4096 ranks is open, whatever is measured with 32; what computing takes is not."""
    session = opened(
        tmp_path, strategy={"name": "design"}, budget={"core_hours": 0.05}, target=TARGET, refinement={"pilot": True}
    )
    last = carry_out(session)
    chosen = [plan for plan in plans(session) if "makes coefficients certain" in plan.reason]
    assert chosen and last.spent_core_hours > 0.02


def test_a_filter_is_not_overruled_by_models_of_fewer_values_than_tell_growth(tmp_path: Path) -> None:
    session = opened(
        tmp_path,
        constraints=["p * n >= 150", "p * n <= 700"],  # no lines along the parameters
        strategy={"name": "design", "max_iterations": 3, "batch": 1},
        target=TARGET,
        refinement={"pilot": True},
        repetitions=1,
    )
    carry_out(session)
    found = plans(session)
    seen: set[tuple[int, ...]] = set()
    for before, after in pairwise(found):
        if before.pilot:
            continue
        seen |= {(int(bundle.point["p"]), int(bundle.point["n"])) for bundle in before.bundles}
        values = [len(set(column)) for column in zip(*seen, strict=True)]
        assert min(values) >= 3 or after.filter_text == before.filter_text
    assert len(found[2].bundles) == 1  # what the first models of times are made of


def test_a_filter_alone_takes_small_runs_until_it_has_settled(tmp_path: Path) -> None:
    both = opened(tmp_path / "both", target=TARGET, refinement={"pilot": True})
    alone = opened(tmp_path / "alone", goal="filter")
    last = carry_out(alone)
    assert "settled" in last.reason and not last.budget_reached
    carry_out(both)
    found = plans(alone)
    assert {plan.phase for plan in found} == {"first look", "refinement", "end"}
    assert "EXCLUDE MANGLED tiny" in found[-1].filter_text
    assert found[-1].spent_core_hours < plans(both)[-1].spent_core_hours / 2
    report = gather(History.open(alone))
    assert report.runtime is None
    assert last.reason in render(report)


@pytest.mark.parametrize("rule", ["filter", "filter-and-expand"])
def test_a_published_rule_measures_under_the_list_that_it_chose(rule: str, tmp_path: Path) -> None:
    wishes = {"strategy": rule, "share": 0.3, "start": "everything", "pilot": False}
    session = opened(tmp_path, strategy={"max_iterations": 4}, refinement=wishes, repetitions=1)
    carry_out(session)
    timed = [build.filter_text for plan in plans(session) for build in plan.builds if build.mode is Mode.TIME]
    first, second = timed[:2]
    assert parse(first).matches("tiny", "tiny", "app.c") and not parse(second).matches("tiny", "tiny", "app.c")


def test_models_alone_keep_the_instrumentation(tmp_path: Path) -> None:
    session = opened(tmp_path, goal="models")
    carry_out(session)
    assert {build.filter_text for plan in plans(session) for build in plan.builds} == {""}
    assert [plan.phase for plan in plans(session)] == ["times", "end"]


def test_counts_alone_need_no_timed_run(tmp_path: Path) -> None:
    counts = {"metrics": ["basic_blocks"], "refinement": {"enabled": False}, "goal": "models"}
    session = opened(tmp_path, **counts)
    carry_out(session)
    runs = [run for plan in plans(session) for bundle in plan.bundles for run in bundle.runs]
    assert {run.mode for run in runs} == {Mode.EFFORT}
    sets = read_models(session.layout.models(session.id, 0))
    assert [models.metric for models in sets] == ["basic_blocks"]
    assert any(model is not None for model in sets[0].models)


def test_a_filter_cannot_be_the_goal_without_refinement(tmp_path: Path) -> None:
    with pytest.raises(CampaignError, match=r"refinement"):
        load_campaign(written(tmp_path, goal="filter", refinement={"enabled": False}))


def test_a_budget_that_pays_for_the_first_look_alone_is_said_to(tmp_path: Path) -> None:
    session = opened(tmp_path, goal="filter", budget={"core_hours": 0.0012}, target=TARGET, repetitions=1)
    carry_out(session)
    assert plans(session)[0].phase == "first look"
    assert summarize(History.open(session)).budget_reached  # exit code 4


def test_rounds_are_a_guard_where_the_strategy_ends_by_itself(tmp_path: Path) -> None:
    wishes: dict[str, dict[str, Any]] = {
        "design": {"name": "design"},
        "lines": {"name": "lines"},
        "asked": {"name": "design", "max_iterations": 3},
    }
    found = {
        name: question_of(History.open(opened(tmp_path / name, strategy=wish))).max_iterations
        for name, wish in wishes.items()
    }
    assert found == {"design": 12, "lines": 12, "asked": 3}


@pytest.mark.parametrize("points", [[{"n": n} for n in (20, 30, 40, 50, 60, 80)], [{"n": 20}, {"n": 30}]])
def test_gpr_ends_with_one_parameter_and_with_two_points(tmp_path: Path, points: list[dict[str, int]]) -> None:
    program: dict[str, Any] = {"schema": "buran-program/1", "program": {"main": {"time_s": "1e-6 * n**2"}}}
    session = opened(
        tmp_path, program, parameters={"n": {"role": "size"}}, points=points, resources={"ranks": 1},
        strategy={"name": "gpr", "max_iterations": 8}, refinement={"enabled": False}, target=None,
    )  # fmt: skip
    last = carry_out(session)
    assert last.reason and summarize(History.open(session)).measured >= len(points)
    reasons = "; ".join(plan.reason for plan in plans(session))
    assert "uncertain" in reasons and reasons.count(NOT_CONVERGED) == 1  # without noise, processes lie at a bound


@pytest.mark.parametrize("pool_filters", ["auto", "off"])
def test_the_report_says_which_builds_models_are_made_of(tmp_path: Path, pool_filters: str) -> None:
    session = opened(tmp_path, repetitions=1, model={"pool_filters": pool_filters})
    last = carry_out(session)
    times = [build for plan in plans(session) for build in plan.builds if build.mode is Mode.TIME]
    assert len(times) == 2
    newest = next(build for build in times if build.filter_text == last.filter_text)
    points = len(plans(session)[0].bundles)
    (note,) = [note for note in gather(History.open(session)).notes if newest.hash in note]
    counting = sum(run.mode is Mode.EFFORT for run in History.open(session).runs)
    assert f"the {points} runs" in note
    mixed = f"{points + counting} of {points + counting} runs"
    assert (mixed in note, " ns a visit" in note) == (pool_filters == "auto", pool_filters == "auto")


def test_a_point_that_always_fails_is_not_proposed_for_ever(tmp_path: Path) -> None:
    program: dict[str, Any] = {**copy.deepcopy(PROGRAM), "failure_probability": "1 if p == 4 and n == 30 else 0"}
    session = opened(
        tmp_path,
        program,
        strategy={"name": "cpf", "max_iterations": 4},
        refinement={"enabled": False},
        budget={"core_hours": 0.1},
    )
    carry_out(session)
    asked = [bundle for plan in plans(session) for bundle in plan.bundles if dict(bundle.point) == {"n": 30, "p": 4}]
    assert len(asked) == 1
    state = summarize(History.open(session))
    assert state.failures  # exit code 1
    assert state.measured > 20


def test_effort_that_depends_on_the_run_is_reported(tmp_path: Path) -> None:
    program = copy.deepcopy(PROGRAM)
    program["program"]["main"]["calls"]["setup"]["unsteady_percent"] = 5
    session = opened(tmp_path, program, refinement={"enabled": False})
    last = carry_out(session)
    assert "simulated->main->setup" in last.reason and last.budget_reached
    report = gather(History.open(session))
    assert report.unsteady == {"basic_blocks": ("simulated->main->setup",)}
    (said,) = next(table for table in tables_of(report) if table.name == "instrumentation").sentences
    assert "basic_blocks" in said and "simulated->main->setup" in said
    assert any(run.mode is Mode.EFFORT for bundle in plans(session)[0].bundles for run in bundle.runs)


def test_a_budget_for_the_first_look_alone_is_not_called_done(tmp_path: Path) -> None:
    session = opened(
        tmp_path,
        strategy={"name": "design"},
        target=TARGET,
        refinement={"pilot": True},
        budget={"core_hours": 0.0004},
        warmup=False,
    )
    last = carry_out(session)
    assert [plan.phase for plan in plans(session)] == ["first look", "end"]
    assert last.reason and last.budget_reached


EVALUATION = [{"p": 64, "n": 60}]


def test_evaluation_points_that_come_later_are_all_that_is_measured(tmp_path: Path) -> None:
    def runs(session: Session) -> set[str]:
        return {str(path.parent) for path in session.layout.store.glob("*/*/*~*/rep-*/run.json")}

    before = opened(tmp_path, repetitions=1)
    carry_out(before)
    measured = runs(before)
    after = opened(tmp_path, repetitions=1, evaluation_points=EVALUATION)
    assert not carry_out(after).budget_reached
    new = runs(after) - measured
    assert len(new) == 4 and {Path(folder).parent.name.partition("~")[0] for folder in new} == {"n=60,p=64"}


def test_the_reason_for_no_more_points_outlives_the_evaluation_points(tmp_path: Path) -> None:
    session = opened(
        tmp_path,
        repetitions=1,
        strategy={"name": "cpf", "max_iterations": 20},
        target=TARGET,
        refinement={"enabled": False},
        budget={"core_hours": 0.05},
        evaluation_points=EVALUATION,
    )
    last = carry_out(session)
    *_, evaluation, end = plans(session)
    assert evaluation.phase == "evaluation"
    assert end.reason == last.reason and evaluation.reason.startswith(f"{end.reason}; ")
    assert "budget" in end.reason and end.budget_reached  # exit code 4


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("", "a b", "the models chose 2 functions"),
        ("a b c", "a b", "the models chose fewer functions, 2 of 3"),
        ("a b", "a b c", "the models chose 1 more function"),
        ("a b", "a c d", "the models chose 2 more functions and 1 fewer"),
    ],
)
def test_fewer_functions_are_only_called_so_where_they_are_fewer(before: str, after: str, words: str) -> None:
    def text(names: str) -> str:
        rules = "".join(f"INCLUDE MANGLED {name}\n" for name in names.split())
        return f"SCOREP_REGION_NAMES_BEGIN\nEXCLUDE *\n{rules}SCOREP_REGION_NAMES_END\n" if names else ""

    assert choice_of(text(before), text(after)) == words


def test_an_evaluation_point_beyond_the_budget_stands_in_the_report(tmp_path: Path) -> None:
    session = opened(
        tmp_path,
        evaluation_points=[{"p": 64, "n": 60}, {"p": 64, "n": 2000}],
        budget={"core_hours": 0.3},
        target=TARGET,
        refinement={"enabled": False},
        metrics=["time", "visits"],
    )
    carry_out(session)
    report = gather(History.open(session))
    assert [test.point["n"] for test in report.evaluation] == [60]
    (untested,) = report.untested
    assert untested.point == {"p": 64, "n": 2000} and untested.why == "budget" and (untested.predicted_s or 0) > 100
    table = render(report).split("Evaluation points")[1]
    assert "n=2000" in table and "not measured" in table


def test_a_run_that_costs_more_than_was_predicted_leaves_out_those_of_other_builds(tmp_path: Path) -> None:
    session = opened(
        tmp_path,
        parameters={"p": {"role": "ranks", "values": [4, 5]}, "n": {"role": "size", "values": [50, 51]}},
        resources={"expected_time": 0.001},
        budget={"core_hours": 1.5 * 0.15 * 4 / 3600},  # less than two runs
        target=TARGET,
        refinement={"enabled": False},
        metrics=["time", "visits"],
        warmup=False,
    )
    carry_out(session)
    outcomes = History.open(session).outcomes(plans(session))
    made = [sum(run.status is Status.MEASURED for run in outcome.runs) for outcome in outcomes]
    assert max(made) == 1 and len(made) > 1
