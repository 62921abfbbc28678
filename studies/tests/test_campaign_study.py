"""The study of whole campaigns: every case can be drawn, and ways are judged alike."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import yaml

from buran.campaign.load import load_campaign
from buran.errors import ToolError, UsageError
from buran.profiles.experiment.build import experiment_from_profiles
from buran.profiles.profile import SEPARATOR
from buran_studies import extrap
from buran_studies.campaign import measured as campaign_measured
from buran_studies.campaign import rivals
from buran_studies.campaign import study as campaign
from buran_studies.campaign import summary as campaign_summary
from buran_studies.campaign.cases import CASES, program
from buran_studies.campaign.cases import campaign as campaign_file
from buran_studies.evaluation.study import Settings
from buran_studies.extrap import VARIABLE
from buran_studies.simulate.program import program_of

QUICK = Settings("campaign", quick=True, seed=3)


@pytest.mark.parametrize("name", sorted(CASES))
def test_every_case_is_a_campaign_with_the_papers_points(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    own = program_of(program(case, 5), tuple(case.values), name)
    assert sum(node.name.startswith("kernel_") for node in own.nodes) == case.kernels
    (tmp_path / "program.yaml").write_text(yaml.safe_dump(program(case, 5)))
    path = tmp_path / "campaign.yaml"
    path.write_text(yaml.safe_dump(campaign_file(case, 5)))
    asked = load_campaign(path)
    points = {"FASTEST": 24, "Kripke": 125, "Quicksilver": 125}.get(name, 25)
    assert len(asked.points) == points
    at = campaign._everything(own).truth_s(case.target, case.target["p"])
    assert 30 < sum(at.values()) < 60


def test_kernels_without_a_model_are_missed_and_those_with_one_judged_with_all_they_call() -> None:
    case = CASES["LULESH"]
    own = program_of(program(case, 5), tuple(case.values), "LULESH")
    truth = campaign._everything(own).truth_s(case.target, case.target["p"])
    assert campaign._errors(own, case, truth) == pytest.approx([0.0] * len(campaign._errors(own, case, truth)))
    largest = campaign._errors(own, case, {path: 1.2 * seconds for path, seconds in truth.items()})
    assert np.allclose(np.array(largest, dtype=float), 0.2)
    assert set(campaign._errors(own, case, {})) == {None}
    result = {"errors": [0.05, None, 0.2, 0.01]}
    assert campaign_summary.close(result) == 0.5
    assert campaign_summary.middle(result) == pytest.approx(0.125)


@pytest.mark.thorough
def test_the_quick_study_runs_and_names_what_it_found() -> None:
    shards = campaign.shards(QUICK)
    assert {shard["way"] for shard in shards} == {
        campaign_summary.MANUAL,
        campaign_summary.PIRA,
        campaign_summary.BURAN,
    }
    results = [campaign.run_shard(shard, QUICK) for shard in shards]
    for shard, result in zip(shards, results, strict=True):
        limit = shard["share"] * result["manual_core_hours"]
        assert 0 < result["core_hours"] < 1.1 * limit
    assert results[0] == campaign.run_shard(shards[0], QUICK)
    found = campaign.summarise(results, QUICK)
    assert [figure.goal for figure in found.figures] == ["at most 10", "at most 10"]
    assert len(found.tables[0].rows) == len({(shard["case"], shard["way"], shard["share"]) for shard in shards})
    assert found.plots


def results_of(shards: list[dict], kernels: dict[tuple[str, float], list[float | None]]) -> list[dict]:
    return [
        {
            "core_hours": 50 * shard["share"],
            "manual_core_hours": 50.0,
            "errors": kernels[shard["way"], shard["share"]],
            "reason": "",
            "modeller": "Extra-P",
        }
        for shard in shards
    ]


def test_the_cheapest_budget_with_the_manual_ways_accuracy_is_found_for_both_measures() -> None:
    ways = [
        (campaign_summary.MANUAL, 1.0, [0.02, 0.3]),
        (campaign_summary.BURAN, 0.05, [0.09, 0.4]),
        (campaign_summary.BURAN, 0.1, [0.01, None]),
        (campaign_summary.BURAN, 1.0, [0.01, 0.02]),
    ]
    shards = [{"case": "A", "way": way, "share": share, "seed": seed} for seed in (1, 2) for way, share, _ in ways]
    results = results_of(shards, {(way, share): errors for way, share, errors in ways})
    found = campaign_summary.summary(shards, results)
    values = {figure.name: (figure.value, figure.goal) for figure in found.figures}
    assert values["A core hours for the manual way's share within 10 %"] == (5.0, "at most 10")
    assert values["A core hours for the manual way's median error"] == (100.0, "at most 10")
    assert values["A share within 10 % at equal core hours"] == (100.0, "above 50, the manual way's")
    assert values["A median error at equal core hours"][0] == pytest.approx(1.5)
    assert values["A median error at equal core hours"][1] == "below 16, the manual way's"
    assert found.notes == ("models of the manual way: Extra-P",)
    assert {row[-1] for row in found.tables[0].rows} == {2}
    close, median = found.plots
    assert [curve.name for curve in close.curves] == [campaign_summary.MANUAL, campaign_summary.BURAN]
    assert close.curves[1].x == (5.0, 10.0, 100.0) and close.curves[1].y_error == (0.0, 0.0, 0.0)
    assert median.log_y


def test_programs_count_once_each_when_ways_are_compared() -> None:
    ways = [(campaign_summary.MANUAL, 1.0, [0.2]), (campaign_summary.BURAN, 0.1, [0.1])]
    shards = [{"case": case, "way": way, "share": share, "seed": 0} for case in "AB" for way, share, _ in ways]
    results = results_of(shards, {(way, share): errors for way, share, errors in ways})
    results[3] |= {"errors": [0.4], "held": [True]}
    results[1] |= {"held": [False, None]}
    table = campaign_summary.summary(shards, results).tables[1]
    rows = [dict(zip(table.header, row, strict=True)) for row in table.rows]
    assert [row["no worse than manual in"] for row in rows] == [2, 1]
    assert rows[1]["mean"] == pytest.approx(25) and rows[1]["±"] == pytest.approx(15)
    assert rows[0]["intervals hold %"] is None and rows[1]["intervals hold %"] == 50


def test_the_interval_of_a_function_is_that_of_its_call_paths_together() -> None:
    paths = ("main", f"main{SEPARATOR}f", f"main{SEPARATOR}g", f"main{SEPARATOR}g{SEPARATOR}f")
    truth = campaign_measured._Truth(paths, {"f": 10.0, "main": 1.0}, False)
    predicted = {"main": 1.3, f"main{SEPARATOR}f": 4.0, f"main{SEPARATOR}g{SEPARATOR}f": 5.0}
    far = {"main": 0.01, f"main{SEPARATOR}f": 1.0, f"main{SEPARATOR}g{SEPARATOR}f": 1.0}
    assert campaign_measured._held(["f", "main", "h"], truth, predicted, far, far) == [True, False, None]


def test_an_unknown_preset_is_refused() -> None:
    with pytest.raises(UsageError, match="no preset 'examplse'"):
        campaign.shards(Settings("campaign", preset="examplse"))


def test_a_manual_way_has_a_cheap_form_and_all_three_ways_are_in_all_cases() -> None:
    found = {(shard["case"], shard["way"], shard["share"]) for shard in campaign.shards(Settings("campaign"))}
    for case in CASES:
        ways = {(way, share) for name, way, share in found if name == case}
        assert {(campaign_summary.MANUAL, 1.0), (campaign_summary.BURAN, 1.0), (campaign_summary.PIRA, 1.0)} <= ways
        assert {(campaign_summary.BURAN, 0.1), (campaign_summary.PIRA, 0.1)} <= ways
        assert (campaign_summary.MANUAL, 1 / CASES[case].repetitions) in ways


def test_a_python_without_extrap_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BURAN_EXTRAP_PYTHON", "/nowhere/python")
    with pytest.raises(ToolError, match="Extra-P makes no models"):
        campaign.run_shard({"case": "LULESH", "way": campaign_summary.MANUAL, "share": 0.2, "seed": 3}, QUICK)


@pytest.mark.skipif(extrap.extrap_python() is None, reason="BURAN_EXTRAP_PYTHON names no Python with Extra-P")
def test_extrap_itself_models_the_manual_way() -> None:
    result = campaign.run_shard({"case": "LULESH", "way": campaign_summary.MANUAL, "share": 1.0, "seed": 3}, QUICK)
    assert result["modeller"] == "Extra-P"
    assert None not in result["errors"] and campaign_summary.middle(result) < 0.05


@pytest.mark.thorough
def test_an_example_is_really_measured_both_ways() -> None:
    settings = Settings("campaign", preset=campaign_measured.TINY, seed=1)
    results = [campaign.run_shard(shard, settings) for shard in campaign.shards(settings)]
    manual, fifth, equal = results[0]
    assert {"apply_operator", "jacobi_update"} <= {name.partition("(")[0] for name in manual["functions"]}
    assert all(error is not None for error in manual["errors"])
    assert 0 < fifth["core_hours"] < 0.4 * manual["core_hours"]  # a run in flight is not cut short
    assert fifth["core_hours"] < equal["core_hours"] < 1.5 * manual["core_hours"]
    found = campaign.summarise(results, settings)
    assert {figure.kind for figure in found.figures} == {"measured"}
    assert len(found.tables[0].rows) == 3


@pytest.mark.thorough
def test_rivals_play_on_a_measured_matrix_within_their_budgets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    case, seed = CASES["LULESH"], 3
    own = program_of(program(case, seed), tuple(case.values), case.name)
    (tmp_path / "program.yaml").write_text(yaml.safe_dump(program(case, seed)))
    _, runs = campaign._full_matrix(own, case, seed, tmp_path, case.repetitions)
    variant = campaign._everything(own)
    keys = [(point, ranks, repetition, campaign._key(seed, point, repetition)) for point, ranks, repetition in runs]
    table = experiment_from_profiles((at, number, variant.profile(at, ranks, key)) for at, ranks, number, key in keys)
    place = {tuple(point): row for row, point in enumerate(table.points.tolist())}
    walls_s, cores = np.full((len(place), case.repetitions), np.nan), np.ones(len(place))
    for at, ranks, number, key in keys:
        row = place[tuple(float(at[name]) for name in table.parameters)]
        walls_s[row, number], cores[row] = variant.took(at, ranks, key).wall_s, ranks
    matrix = rivals.Matrix(table, walls_s, cores, case.target)
    whole = float((walls_s.sum(axis=1) * cores).sum()) / 3600
    found = list(rivals.predictions(matrix, tmp_path, seed))
    assert len(found) == len(rivals.ways())
    for (name, share), (spent, predicted) in zip(rivals.ways(), found, strict=True):
        assert 0 < spent <= 1.05 * share * whole
        assert bool(predicted) is (rivals.OURS in name), "without Extra-P there are no models of its"
