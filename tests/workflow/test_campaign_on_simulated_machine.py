"""A campaign on a machine that SimGrid simulates: what is said of it, and that it is the same each time."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from workbench import Workbench

SWEEP = Path(__file__).parents[2] / "examples" / "sweep"
pytestmark = [
    pytest.mark.skipif(shutil.which("smpirun") is None, reason="SimGrid is not installed"),
    pytest.mark.thorough,
]


def simulated(folder: Path) -> Workbench:
    bench = Workbench(folder, results_name="wave")
    shutil.copytree(SWEEP, folder / "sweep")
    bench.write(
        name="wave",
        target={
            "source": "sweep",
            "build": "make MPICC={mpicc} CFLAGS='{flags}'",
            "binary": "sweep",
            "run": "{binary} {n} 2",
        },
        environments={
            "desk": {
                "machine": {
                    "topology": "torus", "nodes": 8, "cores_per_node": 2, "bandwidth_gb_s": 12.5, "latency_us": 0.5,
                    "seconds_per_block": 1e-9,
                }
            }
        },
        parameters={"p": {"role": "ranks", "values": [1, 4, 9]}, "n": {"role": "size", "values": [4, 6, 8]}},
        strategy={"name": "lines"},
        repetitions=1,
        effort_repetitions=1,
        warmup=False,
    )  # fmt: skip
    bench.buran("run", "campaign.yaml")
    return bench


def test_everything_says_that_it_is_simulated_and_twice_it_is_the_same(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    one, two = simulated(tmp_path / "one"), simulated(tmp_path / "two")
    report = json.loads((one.results / "latest" / "report.json").read_text())
    machine = "a simulated machine: torus of shape 2 x 2 x 2"
    assert report["simulated_on"].startswith(machine) and not report["measured_on"]
    for text in (
        one.buran("report", "campaign.yaml"),
        (one.results / "latest" / "report.txt").read_text(),
        (one.results / "latest" / "report.html").read_text(),
        one.buran("status", "campaign.yaml"),
        one.buran("check", "campaign.yaml"),
        one.buran("plan", "campaign.yaml"),
    ):
        assert machine in " ".join(text.split()) and "Simulated, not measured" in " ".join(text.split())
        assert "take turns" not in text
    records = [json.loads(path.read_text()) for path in (one.results / "store").glob("*/*~*/*/run.json")]
    assert len(records) >= 15
    for record in records:
        assert record["machine"].startswith(machine) and record["clock"] == "virtual"
        assert record["configuration"]["machine"]["seconds_per_block"] == 1e-9
        assert record["cost_core_hours"] == pytest.approx(record["wall_s"] * record["point"]["p"] / 3600)
        assert record["wall_s"] < 1e-3
    for name in ("report.json", "models.json", "experiment.jsonl", "scorep.filter", "report.txt", "findings.json"):
        first, second = ((bench.results / "latest" / name).read_text() for bench in (one, two))
        assert first.replace(str(one.folder), "") == second.replace(str(two.folder), ""), name
