"""Campaigns that ask for counters: modelled where the machine has them, said where it has not."""

from __future__ import annotations

import json

import pytest

from buran.profiles.cubex_read import read_cubex
from buran.profiles.experiment.read import read_experiment
from workbench import Workbench, new_workbench

pytestmark = [pytest.mark.mpi, pytest.mark.thorough]

ASKED = ("instructions", "task_clock")


@pytest.fixture(scope="module")
def counting(tmp_path_factory: pytest.TempPathFactory) -> Workbench:
    bench = new_workbench(tmp_path_factory.mktemp("counting"))
    bench.write(counters=list(ASKED), repetitions=1)
    bench.buran("run", "campaign.yaml")
    return bench


def test_counters_are_modelled_or_named_in_the_report(counting: Workbench) -> None:
    latest = counting.results / "latest"
    report = (latest / "report.txt").read_text()
    found = set(read_experiment(latest / "experiment.jsonl").metrics)
    models = {each["metric"] for each in json.loads((latest / "models.json").read_text())["metrics"]}
    for name in ASKED:
        is_said = "Counters that are not available" in report and f"{name}: " in report
        assert (name in found) != is_said
        assert (name in models) == (name in found)
    assert "time" in models and "basic_blocks" in models


def test_runs_with_and_without_counters_are_not_shared(counting: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    before = counting.started()
    counting.write(counters=[])
    monkeypatch.setenv("BURAN_COUNTERS", "task_clock")  # is not for campaigns
    counting.buran("run", "campaign.yaml")
    after = counting.started()
    assert set(before) < set(after)
    found = read_experiment(counting.results / "latest" / "experiment.jsonl").metrics
    assert not set(ASKED) & set(found)
    profiles = [*(counting.results / "latest" / "extrap").rglob("*.cubex")]
    assert profiles
    assert not any(set(ASKED) & set(read_cubex(path).metrics) for path in profiles)
