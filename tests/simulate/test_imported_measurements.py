"""Campaigns that go on from measurements that exist already."""

from __future__ import annotations

import copy
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from imported_trees import measured_tree, plans

from buran.campaign.mistakes import CampaignError
from buran.campaign.plan import Mode
from buran.campaign.point import Point
from buran.campaign.records import RECORD, RunRecord, Status, read_record, read_run
from buran.cli import main
from buran.files import not_synced, write_json
from buran.measurement.bundle import slots_of
from buran.measurement.store import ledger, store
from buran.modeling.pmnf.model_set import read_models
from buran.profiles.cubex_read import read_cubex
from buran.profiles.cubex_write import write_cubex
from buran.profiles.experiment.jsonl import write_jsonl
from buran.profiles.experiment.read import read_experiment
from buran.profiles.metrics import Metric
from buran.reporting.text import render
from buran.workflow.engine.controller import forget_derived, make_eligible
from buran.workflow.history import History
from buran.workflow.import_runs import import_runs
from buran.workflow.imported import import_plan, imports_of
from buran.workflow.model import make_models
from buran.workflow.remeasure import open_generation
from buran.workflow.report import gather, write_results
from buran.workflow.session import Session, open_session
from buran.workflow.views.phases import phase_costs
from buran.workflow.views.status import progress_of
from buran_studies.simulate.in_process import carry_out
from data_of_others import folder, needs
from killed import count, kill_when
from simulated_campaigns import PROGRAM, opened, written

pytestmark = pytest.mark.slow

DATA = Path(__file__).parents[1] / "data"
ROOT = Path(__file__).parents[2]
TARGET = {"p": 4096, "n": 200}


@pytest.fixture(autouse=True)
def quick() -> Iterator[None]:
    with not_synced():
        yield


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("earlier")
    with not_synced():
        return measured_tree(folder / "campaign", folder / "tree")


def importing(folder: Path, path: Path, *, pool: bool = True, **changes: Any) -> Session:
    """Open a campaign that imports a tree; `changes` of the campaign, and `entry` of what it says of the tree."""
    entry = {"path": str(path), "pool": pool, **changes.pop("entry", {})}
    usual = {"target": TARGET, "refinement": {"enabled": False}, "metrics": ["time", "visits"], "warmup": False}
    return opened(folder, measurements=[entry], **{**usual, **changes})


def own_runs(session: Session) -> list[RunRecord]:
    records = [read_record(folder) for folder in store.run_folders(session.layout.store)]
    # One that was killed is no run, and may have said nothing.
    runs = [record for record in records if isinstance(record, RunRecord) and record.status is Status.MEASURED]
    return [run for run in runs if run.mode is not Mode.IMPORTED]


def test_points_that_are_imported_are_not_measured_again(tmp_path: Path, tree: Path) -> None:
    metrics = ["time", "visits", "basic_blocks"]
    without = opened(tmp_path / "without", target=TARGET, refinement={"enabled": False}, metrics=metrics)
    session = importing(tmp_path / "with", tree, metrics=metrics)
    carry_out(without)
    last = carry_out(session)
    found = plans(session)
    assert [plan.phase for plan in found] == ["import", "times", "end"]
    assert last.reason.startswith("the lines are measured")
    assert gather(History.open(session)).runtime is None  # nothing can be said from one run without instrumentation
    timed = [each for each in own_runs(session) if each.mode == Mode.TIME]
    assert len(timed) == 1  # for comparison
    assert len([each for each in own_runs(without) if each.mode == Mode.TIME]) > 10
    assert last.spent_core_hours < plans(without)[-1].spent_core_hours / 2
    models = {each.metric: each for each in read_models(session.layout.models(session.id, 1))}
    assert "simulated->main->solve->tiny" in models["time"].call_paths
    assert "basic_blocks" in models  # effort is counted all the same


def test_what_was_imported_says_so_everywhere(tmp_path: Path, tree: Path) -> None:
    session = importing(tmp_path, tree)
    carry_out(session)
    state = progress_of(History.open(session))
    assert not state.failures
    account = {item.phase: item for item in state.account}
    assert account["imported"].core_hours == 0.0
    assert account["imported"].runs == len(list(tree.iterdir()))
    assert [row.measured for row in state.rows if row.mode == "imported"] == [account["imported"].runs]
    said = render(gather(History.open(session)))
    assert f"{account['imported'].runs} runs at" in said
    assert "had cost" in said
    assert "Their times are mixed with those of the campaign, which are" in said
    record = next(
        read_run(folder) for folder in store.run_folders(session.layout.store) if read_run(folder).mode is Mode.IMPORTED
    )
    assert Path(record.source["path"]).is_relative_to(tree)
    assert len(record.source["sha256"]) == 64
    assert record.had_cost_core_hours == pytest.approx(record.wall_s * record.cores / 3600)
    folder = tmp_path / "results-of-it"
    write_results(History.open(session), folder)
    assert (folder / "report.html").is_file()


def copied(tree: Path, folder: Path) -> Path:
    shutil.copytree(tree, folder)
    return folder


def reasons(session: Session) -> str:
    return "\n".join(f"{each.what}: {each.reason}" for each in progress_of(History.open(session)).failures)


def imported(session: Session) -> int:
    return next(item.runs for item in progress_of(History.open(session)).account if item.phase == "imported")


def test_imports_that_may_not_be_mixed_choose_the_filter_and_predict_costs(tmp_path: Path, tree: Path) -> None:
    session = importing(tmp_path / "with", tree, pool=False, refinement={})
    last = carry_out(session)
    without = opened(tmp_path / "without", target=TARGET, metrics=["time", "visits"], warmup=False)
    assert last.filter_text == carry_out(without).filter_text
    assert len(own_runs(session)) < 0.75 * len(own_runs(without))
    assert [plan.phase for plan in plans(session)] == ["import", "times", "end"]
    assert "INCLUDE MANGLED solve" in plans(session)[1].filter_text
    assert "tiny" not in last.filter_text
    assert plans(session)[1].predicted_core_hours == pytest.approx(last.spent_core_hours, rel=0.3)
    timed = [each for each in own_runs(session) if each.mode == Mode.TIME]
    assert len(timed) > 10  # all of them here
    assert not progress_of(History.open(session)).failures  # nobody asked for mixing
    assert "Their times have models of their own" in render(gather(History.open(session)))
    folder = tmp_path / "results-of-it"
    write_results(History.open(session), folder)
    (alone,) = folder.glob("imported-*.json")
    times = next(each for each in read_models(alone) if each.metric == "time")
    assert "simulated->main->solve->tiny" in times.call_paths


def test_times_under_another_filter_are_corrected_or_left_out(tmp_path: Path, tree: Path) -> None:
    mixed = importing(tmp_path / "mixed", tree, refinement={})
    carry_out(mixed)
    assert "runs under other filters or with counts" in render(gather(History.open(mixed)))
    apart = importing(tmp_path / "apart", tree, refinement={}, model={"pool_filters": "off"})
    carry_out(apart)
    assert "not mixed" in render(gather(History.open(apart)))
    assert "they were taken under another filter" in reasons(apart)  # exit code 1


def test_runs_under_the_filter_that_is_named_count_for_that_filter(tmp_path: Path, tree: Path) -> None:
    filter_file = tmp_path / "old.filter"
    filter_file.write_text("SCOREP_REGION_NAMES_BEGIN\n  EXCLUDE tiny\nSCOREP_REGION_NAMES_END\n")
    session = importing(tmp_path / "campaign", tree, entry={"filter": str(filter_file)}, goal="models")
    carry_out(session)
    assert {plan.filter_text for plan in plans(session)} == {plans(session)[0].filter_text}
    assert "EXCLUDE tiny" in plans(session)[1].filter_text


def test_a_strategy_that_chooses_goes_on_from_what_is_imported(tmp_path: Path, tree: Path) -> None:
    budget = {"core_hours": 0.05}
    session = importing(tmp_path, tree, strategy={"name": "design", "max_iterations": 2}, budget=budget)
    last = carry_out(session)
    first = plans(session)[1]
    assert first.bundles
    assert last.spent_core_hours <= budget["core_hours"] * 1.2


def test_a_table_is_imported_too(tmp_path: Path, tree: Path) -> None:
    table = tmp_path / "old.jsonl"
    write_jsonl(read_experiment(tree), table)
    session = importing(tmp_path / "campaign", table)
    carry_out(session)
    assert imported(session) == len(list(tree.iterdir()))
    assert not progress_of(History.open(session)).failures
    models = {each.metric: each for each in read_models(session.layout.models(session.id, 1))}
    assert "simulated->main->solve->tiny" in models["time"].call_paths


def test_other_call_paths_are_named_and_not_mixed(tmp_path: Path) -> None:
    program = copy.deepcopy(PROGRAM)
    calls = program["program"]["main"]["calls"]
    calls["work"] = calls.pop("solve")
    tree = measured_tree(tmp_path / "earlier", tmp_path / "tree", program)
    session = importing(tmp_path / "campaign", tree)
    carry_out(session)
    said = reasons(session)
    assert "they have other call paths" in said
    assert "% of the time of theirs is in call paths that this program does not have (simulated->main->work" in said
    assert "% of the time of this program's is in call paths that they do not have (simulated->main->solve" in said
    times = next(e for e in read_models(session.layout.models(session.id, 2)) if e.metric == "time")
    assert not any("work" in path for path in times.call_paths)
    assert len({bundle.point for plan in plans(session)[1:] for bundle in plan.bundles}) == len(
        plans(session)[0].bundles
    )


def test_a_call_path_of_one_side_alone_has_no_zeros_on_the_other(tmp_path: Path) -> None:
    program = copy.deepcopy(PROGRAM)
    program["program"]["main"]["calls"]["extra"] = {"time_s": "1e-9 * n**2"}
    tree = measured_tree(tmp_path / "earlier", tmp_path / "tree", program)
    session = importing(tmp_path / "campaign", tree)
    carry_out(session)
    assert not progress_of(History.open(session)).failures
    table = read_experiment(session.layout.table(session.id, 1))
    values = table.over_locations("time")[table.tree.names.index("simulated->main->extra")]
    assert np.isfinite(values).any()
    assert (values[np.isfinite(values)] > 0).all()


def test_what_cannot_be_used_is_named_and_the_rest_is(tmp_path: Path, tree: Path) -> None:
    own = copied(tree, tmp_path / "tree")
    runs = sorted(own.iterdir())
    data = (runs[0] / "profile.cubex").read_bytes()
    (runs[0] / "profile.cubex").write_bytes(data[: len(data) // 2])  # truncated
    shutil.copy(runs[2] / "profile.cubex", runs[3] / "profile.cubex")  # one run, there twice
    shutil.copytree(runs[4], own / "old.p4n999.r1")  # outside
    shutil.copytree(runs[4], own / "something else")  # no name of a run
    shutil.copytree(runs[4], own / f"again{runs[4].name[3:]}")  # a point and repetition twice
    wrong = runs[-1]
    shutil.copy(runs[5] / "profile.cubex", wrong / "profile.cubex")  # of fewer ranks
    session = importing(tmp_path / "campaign", own)
    last = carry_out(session)
    assert last.done
    said = reasons(session)
    for text in (
        "the profile cannot be read",
        "it is the same run as",
        "imported run at n=999,p=4: it is no point of the campaign",
        "the name of a run's folder cannot be read",
        "two folders have the same point and repetition",
        "but a run at",
    ):
        assert text in said
    assert imported(session) == len(runs) - 3


def test_a_counter_that_fell_below_zero_is_left_out_and_named(
    tmp_path: Path, tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In one run of a tree: the times of that run count, and whoever makes models of the tree is told."""
    theirs = tmp_path / "theirs"
    shutil.copytree(tree, theirs)
    for number, path in enumerate(sorted(theirs.glob("*/profile.cubex"))):
        profile = read_cubex(path)
        counts = np.zeros(profile.values["visits"].shape, dtype=np.uint64)
        counts[-1 if number == 0 else 0] = 7  # more in a callee than in its caller
        counter = Metric("PAPI_L2_DCM", "#", "inclusive", "UINT64")
        metrics, values = ({**profile.metrics, counter.name: counter}, {**profile.values, counter.name: counts})
        path.unlink()
        write_cubex(replace(profile, metrics=metrics, values=values), path)
    session = importing(tmp_path / "new", theirs)
    carry_out(session)
    notes = gather(History.open(session)).notes
    assert "Counters left out of imported runs: PAPI_L2_DCM fell below zero." in notes
    assert main(["convert", str(theirs), str(tmp_path / "table.jsonl")]) == 0
    assert "note: the counter PAPI_L2_DCM fell below zero in 1 of" in capsys.readouterr().err
    table = read_experiment(tmp_path / "table.jsonl").over_locations("PAPI_L2_DCM")
    assert np.isnan(table).all(axis=0).sum() == 1


def test_a_file_that_changed_is_named_and_what_was_imported_stays(tmp_path: Path, tree: Path) -> None:
    own = copied(tree, tmp_path / "tree")
    session = importing(tmp_path / "campaign", own)
    carry_out(session)
    before = imported(session)
    file = own / "old.p4n20.r0" / "profile.cubex"
    profile = read_cubex(file)
    write_cubex(replace(profile, values={**profile.values, "time": 1.01 * profile.values["time"]}), file)
    assert main(["verify", str(session.campaign.path)]) == 1
    again = open_session(session.campaign.path)
    assert again.id != session.id
    carry_out(again)
    assert "it changed after it was imported on" in reasons(again)
    assert imported(again) == before
    assert len(own_runs(again)) == len(own_runs(session))  # nothing was measured again
    open_generation(again, Point.of({"p": 4, "n": 20}))  # as `buran remeasure` does
    forget_derived(again.layout, again.id)
    carry_out(again)
    assert not progress_of(History.open(again)).failures
    assert imported(again) == before


def test_an_import_that_was_killed_is_gone_on_with(tmp_path: Path, tree: Path) -> None:
    whole, broken = importing(tmp_path / "whole", tree), importing(tmp_path / "broken", tree)
    carry_out(whole)
    carry_out(broken)
    bundle = plans(broken)[0].bundles[0]
    run, other = (slot.folder for _, slot in slots_of(broken.target, broken.layout, bundle))
    (run / store.SUMS).unlink()
    run.rename(run.with_name(f".tmp-{run.name}-1-dead"))  # before it was sealed
    other.rename(other.with_name(f".tmp-{other.name}-1-dead"))
    (other.with_name(f".tmp-{other.name}-1-dead") / RECORD).unlink()  # while it was copied
    broken.layout.bundle_pointer(bundle.id).unlink()
    forget_derived(broken.layout, broken.id)
    carry_out(broken)
    assert imported(broken) == imported(whole)
    assert plans(broken) == plans(whole)
    ledger.rebuild(broken.layout.store)
    assert progress_of(History.open(broken)).spent_core_hours == pytest.approx(
        progress_of(History.open(whole)).spent_core_hours
    )


def test_what_is_imported_outlives_its_files(tmp_path: Path, tree: Path) -> None:
    own = copied(tree, tmp_path / "tree")
    session = importing(tmp_path / "campaign", own)
    carry_out(session)
    before = imported(session)
    shutil.rmtree(own)
    again = open_session(session.campaign.path)
    carry_out(again)
    assert imported(again) == before
    assert not progress_of(History.open(again)).failures


def test_files_of_other_tools_say_what_to_do(tmp_path: Path, tree: Path) -> None:
    """Profiles that Cube 2 and 3 wrote, and one that a killed run left half."""
    own = copied(tree, tmp_path / "tree")
    runs = sorted(own.iterdir())
    for run, version in zip(runs, ("2.0", "3.0"), strict=False):
        (run / "profile.cubex").write_text(f'<?xml version="1.0"?>\n<cube version="{version}">\n</cube>')
    data = (runs[2] / "profile.cubex").read_bytes()
    (runs[2] / "profile.cubex").write_bytes(data[: len(data) // 2])
    session = importing(tmp_path / "campaign", own)
    carry_out(session)
    said = reasons(session)
    for text in ("Cube 2.0", "Cube 3.0", "cube3to4", "truncated, damaged or of another kind"):
        assert text in said
    assert imported(session) == len(runs) - 3


def test_runs_of_two_programs_in_one_folder_are_refused(tmp_path: Path, tree: Path) -> None:
    program = copy.deepcopy(PROGRAM)
    calls = program["program"]["main"]["calls"]
    for name in list(calls):
        calls[f"other_{name}"] = calls.pop(name)
    other = measured_tree(tmp_path / "earlier", tmp_path / "other", program)
    own = tmp_path / "tree"
    own.mkdir()
    for number, run in enumerate(sorted(tree.iterdir())):
        shutil.copytree(run if number % 2 else other / run.name, own / run.name)
    session = importing(tmp_path / "campaign", own)
    carry_out(session)
    said = reasons(session)
    assert "they have other call paths" in said or "hardly a call path in common" in said
    times = next(e for e in read_models(session.layout.models(session.id, 2)) if e.metric == "time")
    assert not any("other_" in path for path in times.call_paths)


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"path": "nowhere"}, "the measurements 'nowhere' are missing"),
        ({"names": {"n": "q"}}, "'q' is no parameter"),
        ({"fixed": {"q": 1}}, "'q' is no parameter"),
        ({"filter": "nowhere"}, "the filter 'nowhere' cannot be read"),
        ({"core_hours": "q"}, "q"),
        ({"pattern": "n(?P<n>"}, "must be a regular expression"),
        ({"pattern": "n([0-9]+)"}, "must have a named group for each parameter"),
    ],
)
def test_mistakes_in_the_campaign_file(tmp_path: Path, tree: Path, entry: dict[str, Any], message: str) -> None:
    given = {"path": str(tree), **entry}
    with pytest.raises(CampaignError, match=message) as caught:
        open_session(written(tmp_path, measurements=[given]))
    assert "measurements" in str(caught.value)


@pytest.mark.parametrize("rule", ["EXCLUD *", "EXCLUDE * CALLEE solve SCOREP_FILE_NAMES_BEGIN", "solve"])
def test_a_filter_with_an_unknown_rule_is_named_with_its_line(tmp_path: Path, tree: Path, rule: str) -> None:
    rules = tmp_path / "rules"
    rules.write_text(f"SCOREP_REGION_NAMES_BEGIN\n{rule}\nSCOREP_REGION_NAMES_END\n")
    with pytest.raises(CampaignError, match="cannot be read") as caught:
        open_session(written(tmp_path, measurements=[{"path": str(tree), "filter": str(rules)}]))
    assert "measurements" in str(caught.value) and f"{rules}:2" in str(caught.value)


def test_parameters_that_the_names_do_not_tell_can_be_given(tmp_path: Path, tree: Path) -> None:
    own = tmp_path / "tree"
    own.mkdir()
    for run in sorted(tree.iterdir()):
        if ".p4n" in run.name:
            shutil.copytree(run, own / run.name.replace("p4n", "size"))
    with pytest.raises(CampaignError, match="do not say the value of p and n") as caught:
        importing(tmp_path / "one", own)
    assert "the runs have size; the campaign's parameters are p, n" in str(caught.value)
    with pytest.raises(CampaignError, match="vary size, which is no parameter"):
        importing(tmp_path / "two", own, entry={"fixed": {"p": 4, "n": 20}})
    session = importing(tmp_path / "three", own, entry={"fixed": {"p": 4}, "names": {"size": "n"}, "core_hours": 2})
    carry_out(session)
    assert imported(session) == len(list(own.iterdir()))
    assert f"had cost {2 * imported(session)} core hours elsewhere" in render(gather(History.open(session)))


def test_folders_as_score_p_names_them_are_read_by_a_pattern(tmp_path: Path, tree: Path) -> None:
    own, number = tmp_path / "tree", 0
    for run in sorted(tree.iterdir()):
        point, repetition = run.name.split(".")[1:]
        number += 1
        where = own / point.replace("n", "/n") / f"scorep-20260101_12{int(repetition[1:]):02}_{number:012}"
        shutil.copytree(run, where)
    trace = own / "p4/n20/scorep-20260101_1300_1"
    trace.mkdir(parents=True)
    (trace / "traces.otf2").write_bytes(b"OTF2")
    (own / "p4/notes").mkdir()
    shutil.copytree(next(tree.iterdir()), own / "p4/other/scorep-20260101_1300_2")
    with pytest.raises(CampaignError) as caught:
        importing(tmp_path / "one", own / "p4/n20")
    assert "the key `pattern`" in str(caught.value)
    session = importing(tmp_path / "two", own, entry={"pattern": r"p(?P<p>\d+)/n(?P<n>\d+)/scorep-"})
    outcome = imports_of(session.campaign, session.layout)[0]
    assert len(outcome.runs) == number
    assert {run.repetition for run in outcome.runs} == set(range(1, 1 + max(run.repetition for run in outcome.runs)))
    assert sorted(Path(each.where).name for each in outcome.problems) == [
        "scorep-20260101_1300_1",
        "scorep-20260101_1300_2",
    ]
    assert any("traces (OTF2) are not read" in each.reason for each in outcome.problems)
    assert any("does not fit the pattern" in each.reason for each in outcome.problems)
    carry_out(session)
    assert imported(session) == number


def test_a_tree_without_anything_to_import_is_a_mistake(tmp_path: Path, tree: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(CampaignError, match="cannot be read"):
        importing(tmp_path / "one", tmp_path / "empty")
    outside = tmp_path / "outside"
    shutil.copytree(next(tree.iterdir()), outside / "old.p4n999.r1")
    with pytest.raises(CampaignError, match=r"nothing in .* can be imported") as caught:
        importing(tmp_path / "two", outside)
    assert "it is no point of the campaign" in str(caught.value)


def test_profiles_of_another_kind_are_refused_with_the_reason(tmp_path: Path, tree: Path) -> None:
    own = tmp_path / "tree"
    for run in sorted(tree.iterdir())[:4]:
        profile = read_cubex(run / "profile.cubex")
        kept = {"visits": profile.metrics["visits"]}
        (own / run.name).mkdir(parents=True)
        write_cubex(replace(profile, metrics=kept), own / run.name / "profile.cubex")
    session = importing(tmp_path / "campaign", own)
    carry_out(session)
    assert "it has no metric time, but visits" in reasons(session)
    assert len([each for each in own_runs(session) if each.mode == Mode.TIME]) > 10  # measured here instead


def without_metric(tree: Path, folder: Path, metric: str) -> Path:
    for run in sorted(tree.iterdir()):
        profile = read_cubex(run / "profile.cubex")
        kept = {name: each for name, each in profile.metrics.items() if name != metric}
        (folder / run.name).mkdir(parents=True)
        write_cubex(replace(profile, metrics=kept), folder / run.name / "profile.cubex")
    return folder


@pytest.mark.parametrize("refined", [False, True])
def test_runs_without_a_metric_are_not_mixed(tmp_path: Path, tree: Path, refined: bool) -> None:
    own = without_metric(tree, tmp_path / "tree", "visits")
    session = importing(tmp_path / "campaign", own, target=TARGET, refinement={"enabled": refined})
    carry_out(session)
    assert "they have no visits, which the campaign needs to mix them" in reasons(session)
    assert len(own_runs(session)) > 20
    asked = {"metrics": ["time"], "target": TARGET, "refinement": {"enabled": False}}
    if not refined:  # which needs visits
        without = importing(tmp_path / "without", own, **asked)
        carry_out(without)
        assert not progress_of(History.open(without)).failures
        assert len(own_runs(without)) == 2


def test_what_comes_in_later_is_imported_and_what_was_mended(tmp_path: Path, tree: Path) -> None:
    own = copied(tree, tmp_path / "tree")
    runs = sorted(own.iterdir())
    later = runs[0].rename(tmp_path / runs[0].name)
    whole = (runs[1] / "profile.cubex").read_bytes()
    (runs[1] / "profile.cubex").write_bytes(whole[:600])
    session = importing(tmp_path / "campaign", own)
    carry_out(session)
    assert imported(session) == len(runs) - 2
    later.rename(runs[0])
    (runs[1] / "profile.cubex").write_bytes(whole)
    again = open_session(session.campaign.path)
    carry_out(again)
    assert imported(again) == len(runs) - 1
    assert "the profile cannot be read" in reasons(again)
    make_eligible(again.layout, again.id, retry_failed=True)  # buran run --retry-failed
    carry_out(again)
    assert imported(again) == len(runs)
    assert not progress_of(History.open(again)).failures


def test_a_parameter_with_one_value_may_be_missing_here(tmp_path: Path, tree: Path) -> None:
    own = tmp_path / "tree"
    for run in tree.iterdir():
        prefix, point, repetition = run.name.split(".")
        shutil.copytree(run, own / f"{prefix}.{point}t2.{repetition}")
    session = importing(tmp_path / "campaign", own)
    carry_out(session)
    assert imported(session) == len(list(tree.iterdir()))


def test_pilots_are_made_where_imports_do_not_tell_growth(tmp_path: Path, tree: Path) -> None:
    own = tmp_path / "tree"
    for run in tree.glob("old.p4n20.*"):
        shutil.copytree(run, own / run.name)
    few = importing(tmp_path / "few", own, target=TARGET, refinement={"pilot": True})
    many = importing(tmp_path / "many", tree, target=TARGET, refinement={"pilot": True})
    for session, pilots in ((few, True), (many, False)):
        last = carry_out(session)
        found = plans(session)
        assert found[0].phase == "import"
        assert any(plan.pilot for plan in found) == pilots
        assert "tiny" in last.filter_text or "EXCLUDE" in last.filter_text
        assert not progress_of(History.open(session)).failures


def test_profiles_of_scorep_are_imported(tmp_path: Path) -> None:
    session = opened(
        tmp_path,
        {"schema": "buran-program/1", "program": {"main": {"time_s": "1e-9 * p * n"}}},
        parameters={
            "p": {"role": "ranks", "values": [1, 2]},
            "n": {"role": "size", "values": [2000, 4000, 8000, 16000, 32000]},
        },
        measurements=[{"path": str(DATA / "scorep" / "tree")}],
        refinement={"enabled": False},
    )
    write_json(session.layout.plan(session.id, 0), import_plan(session.campaign, session.layout).to_json())
    assert not import_runs(session, History.open(session).plans[0]).problems
    assert imported(session) == 10
    paths = (session.layout.models, session.layout.findings, session.layout.table)
    make_models(History.open(session, 1), *(path(session.id, 0) for path in paths))
    visits = next(models for models in read_models(session.layout.models(session.id, 0)) if models.metric == "visits")
    assert any(path.endswith("less_than(double, double)") for path in visits.call_paths)


def test_a_copied_repetition_of_a_table_is_found(tmp_path: Path) -> None:
    lines = (DATA / "extrap" / "stencil.txt").read_text().splitlines()
    copied = [f"{line} {line.split()[1]}" if line.startswith("DATA") else line for line in lines]
    (tmp_path / "table.txt").write_text("\n".join(copied) + "\n")
    session = opened(
        tmp_path / "campaign",
        parameters={
            "p": {"role": "ranks", "values": [1, 2, 4, 8]},
            "n": {"role": "size", "values": [16, 24, 32, 40, 48]},
        },
        measurements=[{"path": str(tmp_path / "table.txt")}],
        refinement={"enabled": False},
    )
    write_json(session.layout.plan(session.id, 0), import_plan(session.campaign, session.layout).to_json())
    import_runs(session, History.open(session).plans[0])
    assert imported(session) == 40
    assert reasons(session).count("it is the same run as") == 20


@needs("extrap")
def test_profiles_that_come_with_extra_p_are_imported(tmp_path: Path) -> None:
    values = [1, 10, 25]
    session = opened(
        tmp_path,
        {"schema": "buran-program/1", "program": {"main": {"time_s": "1e-9 * x * y * z"}}},
        parameters={name: {"role": "size", "values": values} for name in "xyz"},
        resources={"ranks": 1},
        measurements=[{"path": str(folder("extrap") / "cube" / "multi_parameter")}],
        refinement={"enabled": False},
    )
    plan = import_plan(session.campaign, session.layout)
    write_json(session.layout.plan(session.id, 0), plan.to_json())
    assert not import_runs(session, History.open(session).plans[0]).problems
    assert imported(session) == 27
    paths = (session.layout.models, session.layout.findings, session.layout.table)
    make_models(History.open(session, 1), *(path(session.id, 0) for path in paths))
    times = next(each for each in read_models(session.layout.models(session.id, 0)) if each.metric == "time")
    assert "main->mat_mul" in times.call_paths


@needs("relearn")
def test_repetitions_that_were_copied_are_found(tmp_path: Path) -> None:
    session = opened(
        tmp_path,
        parameters={
            "p": {"role": "ranks", "values": [32, 64, 128, 256, 512]},
            "n": {"role": "size", "values": [5000, 6000, 7000, 8000, 9000]},
        },
        measurements=[{"path": str(folder("relearn") / "relearn.txt")}],
        refinement={"enabled": False},
    )
    write_json(session.layout.plan(session.id, 0), import_plan(session.campaign, session.layout).to_json())
    import_runs(session, History.open(session).plans[0])
    assert imported(session) == 44
    assert reasons(session).count("it is the same run as") == 6


def drive(words: list[str], folder: Path) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "NO_COLOR": "1", "BURAN_LOCK_FOLDER": str(folder)}
    return subprocess.Popen(
        [sys.executable, "-m", *words], cwd=ROOT, stdout=subprocess.DEVNULL, env=environment, start_new_session=True
    )


@pytest.mark.thorough
def test_the_workflow_imports_killed_and_resumed(tmp_path: Path, tree: Path) -> None:
    whole, broken = (importing(tmp_path / name, tree) for name in ("whole", "broken"))
    carry_out(whole)
    file, root = broken.campaign.path, broken.layout.root
    for pattern, least in (("store/*/*/*~imported/rep-*/run.json", 4), ("store/*/*/*~*/rep-*/run.json", 20)):
        kill_when(["run", str(file)], tmp_path, root, count(pattern, least))
    assert drive(["snakemake", "--configfile", str(file), "--unlock"], tmp_path).wait() == 0
    assert drive(["snakemake", "--configfile", str(file)], tmp_path).wait() == 0  # the workflow alone
    folders = [session.layout.root / "iterations" for session in (whole, broken)]
    names = sorted(str(path.relative_to(folders[0])) for path in folders[0].rglob("*.json"))
    assert len(names) > 6
    for name in names:
        assert (folders[0] / name).read_bytes() == (folders[1] / name).read_bytes(), name
    assert drive(["buran.cli", "run", str(file)], tmp_path).wait() == 0
    assert len(own_runs(broken)) == len(own_runs(whole))  # and nothing is measured twice


def test_phases_of_a_campaign_that_imports(tmp_path: Path, tree: Path) -> None:
    session = importing(tmp_path, tree, budget={"core_hours": 0.05}, strategy={"name": "design", "max_iterations": 2})
    assert not any(cost.made or cost.ahead for cost in phase_costs(History.open(session)))
    last = carry_out(session)
    costs = phase_costs(History.open(session))
    assert sum(cost.spent_core_hours for cost in costs) == pytest.approx(last.spent_core_hours)
    assert not any(cost.ahead for cost in costs)
