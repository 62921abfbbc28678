"""Refinement in real campaigns: filters at compile time and at run time, and what is remembered."""

from __future__ import annotations

import json

import pytest

from workbench import Workbench, new_workbench

pytestmark = [pytest.mark.mpi, pytest.mark.slow]


@pytest.mark.parametrize("filtering", ["compile", pytest.param("run", marks=pytest.mark.thorough)])
def test_filters_are_decided_once_and_remembered(filtering: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    bench: Workbench = new_workbench(tmp_path_factory.mktemp(filtering))
    bench.write(refinement={"filtering": filtering, "share": 0.3, "drop": ["work"]})
    bench.carry_out()
    records = [json.loads(path.read_text()) for path in (bench.results / "store").glob("*/build/run.json")]
    timed = [record for record in records if record["spec"]["mode"] == "time"]
    filtered = [record for record in timed if record["spec"]["filter_text"]]
    assert len(timed) > len(filtered) >= 1
    assert all(bool(record.get("filtered_at_run_time")) == (filtering == "run") for record in filtered)
    assert all(0 < record["visit_cost_s"] < 1e-4 for record in timed)
    verdicts = sorted((bench.results / "decisions").glob("*/verdicts-*.json"))
    known = json.loads(verdicts[-1].read_text())["functions"]
    assert known["main"]["kept"]
    text = bench.buran("filter", "campaign.yaml")
    assert "EXCLUDE *" in text and "INCLUDE MANGLED main" in text
    assert "no syntax error" in bench.buran(
        "filter", "campaign.yaml", "--check", str(bench.results / "latest" / "scorep.filter")
    )
    assert json.loads(bench.buran("filter", "campaign.yaml", "--json"))["schema"] == "buran-filter/1"
    started = bench.started()
    bench.carry_out()
    assert bench.started() == started
