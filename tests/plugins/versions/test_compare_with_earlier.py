"""Campaigns that first look whether the program changed since an earlier version."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from buran.campaign.load import load_campaign
from buran.campaign.mistakes import CampaignError
from buran.campaign.plan import Mode, Plan, Purpose
from buran.errors import ConfigError
from buran.files import not_synced, read_json
from buran.modeling.numerics.tuning import MATTERS
from buran.plugins.versions.difference import LEVEL
from buran.plugins.versions.earlier import earlier_results
from buran.plugins.versions.report_options import compare_with
from buran.workflow.history import History
from buran.workflow.report import gather, link_latest, write_results
from buran.workflow.session import Session, open_session
from buran.workflow.views.summary import summarize
from buran_studies.simulate.in_process import carry_out
from killed import count, derived, kill_when, start
from simulated_campaigns import PROGRAM, opened, written

EARLIER = "../old/campaign.yaml"


def changed(name: str, **formulas: str) -> dict[str, Any]:
    program = copy.deepcopy(PROGRAM)
    program["program"]["main"]["calls"][name].update(formulas)
    return program


def finished(folder: Path, program: dict[str, Any] = PROGRAM, **changes: Any) -> Session:
    """Carry a campaign out and write its report."""
    session = opened(folder, program, **changes)
    with not_synced():
        carry_out(session)
        write_results(History.open(session), session.layout.results(session.id))
        link_latest(session)
    return session


def plans(session: Session) -> list[Plan]:
    return History.open(session).plans


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("versions")
    finished(made / "old")
    return made


@pytest.fixture
def beside(folder: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """A folder beside the earlier version's."""
    yield folder / request.node.name


def latest(session: Session, name: str) -> Path:
    return session.layout.latest / name


def test_a_program_that_did_not_change_costs_little_and_ends_with_that(folder: Path, beside: Path) -> None:
    old = open_session(folder / "old" / "campaign.yaml")
    session = finished(beside, compare_with=EARLIER, seed=2)
    found = plans(session)
    assert [plan.phase for plan in found] == ["first look", "end"]
    pilots, end = found
    assert {run.mode for bundle in pilots.bundles for run in bundle.runs} == {Mode.VANILLA, Mode.TIME, Mode.EFFORT}
    assert pilots.filter_text == plans(old)[-1].filter_text
    assert len(pilots.bundles) == 4
    assert pilots.predicted_core_hours is not None  # from the earlier models
    assert end.reason.startswith("no change seen")
    assert ", 5 times show" in end.reason
    assert not end.budget_reached
    state = summarize(History.open(session))
    assert {item.phase for item in state.account} == {"refinement"}
    assert state.spent_core_hours < summarize(History.open(old)).spent_core_hours / 2
    report = gather(History.open(session))
    assert "sim (../old/campaign.yaml)" in latest(session, "report.txt").read_text()
    assert report.models
    assert "hold for this version" in latest(session, "report.txt").read_text()
    assert 'id="comparison"' in latest(session, "report.html").read_text()
    compared = compare_with(session, folder / "old" / "campaign.yaml", LEVEL, MATTERS)
    assert not compared.of("grown", "shrunk")


def test_a_count_that_changed_is_found_by_pilot_runs_and_the_strategy_goes_on(beside: Path) -> None:
    program = changed("setup", time_s="1e-5 * n**2 * log2(n)", basic_blocks="1000 * n**2 * log2(n)")
    session = finished(beside, program, compare_with=EARLIER)
    found = plans(session)
    assert [plan.phase for plan in found][:2] == ["first look", "times"]
    assert found[1].reason.startswith(
        "changed since sim (../old/campaign.yaml): simulated->main->setup (basic_blocks, "
    )
    assert "; first times: " in found[1].reason
    data = json.loads(latest(session, "comparison.json").read_text())
    (setup,) = (
        each for each in data["differences"] if each["metric"] == "time" and each["call_path"].endswith("setup")
    )
    assert setup["verdict"] == "grown"
    assert "grown" in latest(session, "report.txt").read_text()
    page = latest(session, "report.html").read_text()
    assert 'id="comparison"' in page
    assert page.count('<svg class="change') > 3
    measured = {bundle.point for plan in found[1:] for bundle in plan.bundles if bundle.purpose is Purpose.MODEL}
    assert gather(History.open(session)).points[0] == len(measured)


def test_a_time_that_changed_is_found_at_a_few_points_whose_runs_count_for_models(beside: Path) -> None:
    program = changed("solve", time_s="2.6e-7 * n**3")
    session = finished(beside, program, compare_with=EARLIER, goal="models")
    found = plans(session)
    assert [plan.phase for plan in found][:2] == ["first look", "times"]
    assert "simulated->main->solve (time" in found[1].reason
    account = {item.phase: item.runs for item in summarize(History.open(session)).account}
    piloted = sum(len(bundle.runs) for bundle in found[0].bundles)
    assert account.get("refinement", 0) < piloted / 2  # the others are what the strategy wanted anyway
    assert "duplicates" not in account
    data = json.loads(latest(session, "comparison.json").read_text())
    grown = {(each["metric"], each["call_path"]) for each in data["differences"] if each["verdict"] == "grown"}
    assert ("time", "simulated->main->solve") in grown


def test_a_time_that_changed_at_large_sizes_alone_is_found(beside: Path) -> None:
    program = changed("solve", time_s="2e-7 * n**3 * min(1.3, max(1, n / 38))")
    found = plans(finished(beside, program, compare_with=EARLIER, goal="models"))
    assert "simulated->main->solve (time" in found[1].reason


def test_the_same_seed_gives_the_same_plans_and_nothing_old_is_touched(folder: Path, beside: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in (folder / "old" / "results").rglob("*") if path.is_file()}
    texts = []
    for name in ("one", "two"):
        session = finished(beside / name, compare_with="../" + EARLIER)
        texts.append([session.layout.plan(session.id, each.iteration).read_text() for each in plans(session)])
    assert texts[0] == texts[1]
    assert {path: path.stat().st_mtime_ns for path in before} == before


@pytest.mark.thorough
def test_killed_while_it_compares_and_resumed_it_ends_the_same(folder: Path, beside: Path) -> None:
    program = changed("solve", time_s="2.6e-7 * n**3")
    roots = []
    for name in ("whole", "broken"):
        file = written(beside / name, program, compare_with="../" + EARLIER, goal="models")
        roots.append(file.parent / "results" / "sim")
        moments = {
            "pilot runs are made": count("store/*/*/*~*/rep-*/run.json", 2),
            "versions were compared": count("iterations/*/1/plan.json", 1),
        }
        for reached in moments.values() if name == "broken" else ():
            kill_when(["run", str(file)], beside, roots[-1], reached)
        process = start(["run", str(file)], beside)
        text, _ = process.communicate()
        assert process.returncode == 0, text
    assert [plan.phase for plan in plans(open_session(file))][:2] == ["first look", "times"]
    assert derived(roots[0]) == derived(roots[1])


def test_an_artefact_that_was_kept_is_enough(folder: Path, beside: Path) -> None:
    kept = beside / "kept"
    kept.mkdir(parents=True)
    for name in ("report.json", "findings.json"):
        (kept / name).write_text((folder / "old" / "results" / "sim" / "latest" / name).read_text())
    session = finished(beside / "new", compare_with="../kept", goal="models")
    found = plans(session)
    assert [plan.phase for plan in found] == ["first look", "end"]  # no counts to compare number by number
    assert "exact counts" not in found[-1].reason


def test_without_budget_for_pilot_runs_the_campaign_measures_what_it_can(beside: Path) -> None:
    with pytest.raises(ConfigError, match="first plan"):
        finished(beside / "none", compare_with="../" + EARLIER, budget={"core_hours": 0.0045})
    found = plans(finished(beside / "some", compare_with="../" + EARLIER, budget={"core_hours": 0.035}))
    assert found[-1].done and found[-1].spent_core_hours < 0.035


def test_runs_that_fail_everywhere_end_the_campaign(beside: Path) -> None:
    session = finished(beside, {**copy.deepcopy(PROGRAM), "failure_probability": 1}, compare_with=EARLIER)
    assert plans(session)[-1].reason.startswith("no run succeeded")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"compare_with": "../nowhere.yaml"}, "no such file or folder"),
        ({"compare_with": "."}, "no results"),
        ({"compare_with": "campaign.yaml"}, "no results"),
        ({"compare_with": EARLIER, "goal": "filter"}, "a filter is the goal"),
        ({"compare_with": EARLIER, "metrics": ["visits"], "refinement": {"enabled": False}}, "no models to compare"),
        (
            {"compare_with": EARLIER, "points": [{"p": 4, "n": 21}, {"p": 8, "n": 22}],
             "parameters": {"p": {"role": "ranks"}, "n": {"role": "size"}}},
            "no point in common",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_compared_with_is_a_mistake_in_the_file(
    folder: Path, tmp_path: Path, changes: dict[str, Any], said: str
) -> None:
    if changes["compare_with"] == EARLIER:
        changes = {**changes, "compare_with": str(folder / "old" / "campaign.yaml")}
    with pytest.raises(CampaignError) as raised:
        open_session(written(tmp_path, **changes))
    assert said in str(raised.value)
    assert "campaign.yaml" in str(raised.value)


def test_other_parameters_and_itself_are_refused(folder: Path, tmp_path: Path) -> None:
    old = str(folder / "old" / "campaign.yaml")
    with pytest.raises(CampaignError, match="over other parameters"):
        open_session(written(tmp_path, compare_with=old, parameters={
            "n": {"role": "size", "values": [20, 30]}, "p": {"role": "ranks", "values": [4, 8]}}))  # fmt: skip
    path = folder / "old" / "campaign.yaml"
    data = yaml.safe_load(path.read_text())
    itself = path.with_name("itself.yaml")
    for name in ("itself.yaml", "results/sim/latest"):
        itself.write_text(yaml.safe_dump({**data, "compare_with": name}))
        with pytest.raises(CampaignError, match="compared with itself"):
            load_campaign(itself)
    reports = sorted((folder / "old" / "results" / "sim" / "reports").iterdir())
    itself.write_text(yaml.safe_dump({**data, "compare_with": f"results/sim/reports/{reports[0].name}"}))
    assert earlier_results(load_campaign(itself)) == reports[0].resolve()
    assert read_json(reports[0] / "report.json")["campaign"] == "sim"


@pytest.mark.thorough
def test_false_alarms_are_as_rare_as_the_level_says(tmp_path: Path) -> None:
    alarms = []
    for first in range(6):
        finished(tmp_path / f"old{first}", repetitions=3, seed=100 + first)
        for second in range(3):
            place, seed = tmp_path / f"new{first}{second}", 500 + 10 * first + second
            earlier = f"../old{first}/campaign.yaml"
            session = opened(place, repetitions=3, goal="models", seed=seed, compare_with=earlier)
            with not_synced():
                carry_out(session)
            alarms += [plan.reason for plan in plans(session)[1:2] if not plan.done]
    assert len(alarms) <= 3, alarms  # of 18, at a level of 95 %
