"""What hooks may cost: lists whose measured overhead is above it, that exclude everything, or name what never runs."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest

from buran.campaign.plan import Plan
from buran.files import not_synced
from buran.instrumentation.filter_file import parse
from buran.instrumentation.measured import FilterOverhead
from buran.measurement.backends.embedded import VisitCost
from buran.reporting.text import render
from buran.workflow.filter_list import current_list, recommended_filter
from buran.workflow.history import History
from buran.workflow.report import gather, write_results
from buran.workflow.session import Session
from buran_studies.simulate.backend import SimulatedBackend
from buran_studies.simulate.in_process import carry_out
from simulated_campaigns import PROGRAM, opened

pytestmark = pytest.mark.slow

TARGET = {"p": 4096, "n": 200}
EXPENSIVE = {**PROGRAM, "startup_s": 0.001, "instrumentation": {"visit_s": 4e-7}}


@pytest.fixture(autouse=True)
def quick() -> Iterator[None]:
    with not_synced():
        yield


@pytest.fixture
def underrated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the calibrating loop say that a visit costs much less than it does in the program."""
    monkeypatch.setattr(SimulatedBackend, "visit_cost", lambda backend: VisitCost(1e-8))


def measured(session: Session) -> tuple[Plan, list[FilterOverhead]]:
    """Carry out a campaign; return its end, and what each filter has cost."""
    last = carry_out(session)
    return last, list(gather(History.open(session)).instrumentation)


@pytest.mark.usefixtures("underrated")
def test_a_filter_that_costs_more_than_is_allowed_has_not_settled(tmp_path: Any) -> None:
    session = opened(tmp_path, EXPENSIVE, target=TARGET, refinement={"constants": True})
    last, filters = measured(session)
    first, final = filters[0], filters[-1]
    assert first.within is False and first.time is not None and first.time.interval is not None
    assert first.time.interval[0] > 0.05
    assert final.within and "tiny" not in parse(last.filter_text).named
    assert "has settled" in last.reason


@pytest.mark.usefixtures("underrated")
def test_a_limit_that_cannot_be_met_is_said_in_words_and_as_a_verdict(tmp_path: Any) -> None:
    session = opened(tmp_path, EXPENSIVE, target=TARGET, refinement={"keep": ["tiny"]}, repetitions=1)
    last, filters = measured(session)
    assert filters[-1].within is False and "tiny" in parse(last.filter_text).named
    assert "settled" not in last.reason and "above the 5 % allowed" in last.reason
    folder = session.layout.results(session.id)
    write_results(History.open(session), folder)
    report, page = (json.loads((folder / name).read_text()) for name in ("report.json", "page.json"))
    assert report["instrumentation"][-1]["time"] == page["iterations"][-1]["time_overhead"]
    assert any("above the 5 % allowed" in note for note in report["notes"])
    assert "above the 5 % allowed" in (folder / "report.html").read_text()


@pytest.mark.parametrize(
    ("keep", "strategy"),
    [
        ([], "relevance"),
        (["ti*"], "filter-and-expand"),
        pytest.param(["ti*"], "relevance", marks=pytest.mark.thorough),
        pytest.param([], "filter-and-expand", marks=pytest.mark.thorough),
    ],
)
def test_what_is_to_be_kept_survives_pilots_and_published_rules(tmp_path: Any, keep: list[str], strategy: str) -> None:
    wishes = {"start": "everything", "strategy": strategy, "keep": keep}
    wishes |= {} if strategy == "relevance" else {"threshold": 1e9}
    session = opened(tmp_path, EXPENSIVE, refinement=wishes, repetitions=1)
    last, _ = measured(session)
    assert parse(last.filter_text).matches("tiny", "tiny") is bool(keep)
    history = History.open(session)
    assert ("tiny" in parse(recommended_filter(history)).named) is bool(keep)
    current = current_list(history)
    assert current is not None
    inside, outside = current.functions.functions, current.functions.left_out
    assert [each.name for each in inside.values() if each.reason and each.name == "tiny"] == ["tiny"] * len(keep)
    assert [each.name for each in outside.values() if each.reason and each.name == "tiny"] == ["tiny"] * (not keep)


@pytest.mark.parametrize(
    "wish",
    [
        {"strategy": "filter", "start": "everything"},
        pytest.param({"overhead_percent": None}, marks=pytest.mark.thorough),
    ],
)
@pytest.mark.usefixtures("underrated")
def test_what_nobody_limits_is_never_too_much(tmp_path: Any, wish: dict[str, Any]) -> None:
    session = opened(tmp_path, EXPENSIVE, target=TARGET, refinement={"keep": ["tiny"], **wish}, repetitions=1)
    _, filters = measured(session)
    assert {each.within for each in filters} == {None}


@pytest.mark.parametrize(
    ("wish", "goal"),
    [
        ({"drop": ["*"]}, "filter"),
        ({"overhead_percent": 1e-6}, "filter"),
        pytest.param({"drop": ["*"]}, "both", marks=pytest.mark.thorough),
        ({"overhead_percent": 1e-6}, "both"),
    ],
)
def test_a_filter_that_excludes_everything_is_an_answer(tmp_path: Any, wish: dict[str, Any], goal: str) -> None:
    session = opened(tmp_path, goal=goal, target=TARGET, refinement={**wish}, repetitions=1)
    last, _ = measured(session)
    history = History.open(session)
    assert last.reason in render(gather(history)).replace("\n", " ")
    assert parse(recommended_filter(history)).named == {"main"}


def test_what_never_ran_leaves_the_list(tmp_path: Any) -> None:
    program = copy.deepcopy(PROGRAM)
    calls = program["program"]["main"]["calls"]
    calls["idle"] = {"time_s": 0, "visits": 0}
    calls["late"] = {"time_s": "1e-3 if n > 50 else 0", "visits": "1 if n > 50 else 0"}
    session = opened(
        tmp_path,
        program,
        target=TARGET,
        refinement={"start": "statements", "start_threshold": 1, "pilot": False, "constants": True},
        strategy={"name": "lines", "max_iterations": 1},
        evaluation_points=[{"p": 64, "n": 60}],
        repetitions=1,
    )
    last = carry_out(session)
    history = History.open(session)
    assert {"idle", "late", "solve"} <= parse(last.filter_text).named
    assert parse(last.filter_text).named - parse(recommended_filter(history)).named == {"idle"}


def test_visits_that_follow_no_formula_cost_what_they_cost(tmp_path: Any) -> None:
    program = copy.deepcopy(EXPENSIVE)
    random = "1e5 * (1 + (7919 * n + 104729 * p) % 13)"  # data-dependent: no model of visits may rest on it
    calls = program["program"]["main"]["calls"]["solve"]["calls"]
    calls["lookup"] = {"time_s": f"2e-7 * {random}", "visits": random, "basic_blocks": random}
    session = opened(tmp_path, program, target=TARGET, refinement={"start": "everything", "pilot": False})
    last, filters = measured(session)
    history = History.open(session)
    visits = history.models(0)["visits"]
    assert visits.models[next(i for i, path in enumerate(visits.call_paths) if path.endswith("lookup"))] is None
    assert "lookup" not in parse(last.filter_text).named
    assert filters[-1].within
