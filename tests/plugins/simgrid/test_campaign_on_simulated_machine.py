"""A campaign on a machine that SimGrid simulates: what is said of it, and that it is the same each time."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path

import pytest

from workbench import Workbench

ROOT = Path(__file__).parents[3]
SWEEP = ROOT / "examples" / "sweep"
LATEST = ("report.json", "models.json", "experiment.jsonl", "scorep.filter", "report.txt", "findings.json")
pytestmark = [
    pytest.mark.skipif(shutil.which("smpirun") is None, reason="SimGrid is not installed"),
    pytest.mark.thorough,
]


class OtherCheckout(Workbench):
    """Runs a copy of Buran that lies elsewhere."""

    @property
    def environment(self) -> dict[str, str]:
        checkout = self.folder / "checkout"
        if not checkout.exists():
            without = shutil.ignore_patterns(".*", "__pycache__", "docs", "results", "tests", "studies")
            shutil.copytree(ROOT, checkout, ignore=without)
        return {**super().environment, "PYTHONPATH": str(checkout / "src")}


def simulated(folder: Path, kind: type[Workbench] = Workbench) -> Workbench:
    bench = kind(folder, results_name="wave")
    shutil.copytree(SWEEP, folder / "sweep")
    bench.write(
        name="wave",
        program={
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


def decided(bench: Workbench) -> dict[str, str]:
    """Return the text of each plan, filter, model and report, without the folder that it lies in."""
    kept = [*bench.results.glob("iterations/**/*"), *bench.results.glob("decisions/**/*")]
    kept += [bench.results / "latest" / name for name in LATEST]
    texts = {path.relative_to(bench.results): path for path in kept if path.is_file() and path.suffix != ".npz"}
    return {str(name): text_of(path).replace(str(bench.folder), "") for name, path in texts.items()}


def text_of(path: Path) -> str:
    """Return what a file says, which may be compressed."""
    content = path.read_bytes()
    return (gzip.decompress(content) if content.startswith(b"\x1f\x8b") else content).decode()


def test_everything_says_that_it_is_simulated_and_two_checkouts_do_the_same(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    one, two = simulated(tmp_path / "one"), simulated(tmp_path / "two", OtherCheckout)
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
    records = [json.loads(path.read_text()) for path in (one.results / "store").glob("*/*/*~*/*/run.json")]
    assert len(records) >= 15
    for record in records:
        assert record["machine"].startswith(machine) and record["clock"] == "virtual"
        assert record["configuration"]["machine"]["seconds_per_block"] == 1e-9
        assert record["cost_core_hours"] == pytest.approx(record["wall_s"] * record["point"]["p"] / 3600)
        assert record["wall_s"] < 1e-3
    first, second = decided(one), decided(two)
    assert any(name.endswith("plan.json") for name in first) and any(name.endswith(".filter") for name in first)
    assert first.keys() == second.keys()
    assert [name for name in first if first[name] != second[name]] == []
