"""The study of whole campaigns: every case can be drawn, and ways are judged alike."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import yaml

from buran.campaign.load import load_campaign
from buran.evaluate import campaign
from buran.evaluate.campaign_cases import CASES, program
from buran.evaluate.campaign_cases import campaign as campaign_file
from buran.evaluate.study import Settings
from buran.simulate.program import program_of

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
    assert campaign.close(result) == 0.5
    assert campaign.middle(result) == pytest.approx(0.125)


@pytest.mark.slow
def test_the_quick_study_runs_and_names_what_it_found() -> None:
    shards = campaign.shards(QUICK)
    assert {shard["way"] for shard in shards} == {campaign.MANUAL, campaign.PIRA, campaign.BURAN}
    results = [campaign.run_shard(shard, QUICK) for shard in shards]
    for shard, result in zip(shards, results, strict=True):
        limit = shard["share"] * result["manual_core_hours"]
        assert 0 < result["core_hours"] < 1.1 * limit
    assert results[0] == campaign.run_shard(shards[0], QUICK)
    found = campaign.summarise(results, QUICK)
    assert [figure.goal for figure in found.figures] == ["at most 10"]
    assert len(found.tables[0].rows) == len(shards)
    assert found.plots
