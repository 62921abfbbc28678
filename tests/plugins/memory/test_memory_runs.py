"""A campaign that samples accesses to memory: at the points asked for, and once, whatever caches are asked about."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from buran.profiles.cubex_read import read_cubex
from workbench import Workbench

SOURCE = Path(__file__).parents[2] / "measurement" / "programs" / "reuse.c"
LINES = (4000, 8000, 12000, 16000, 20000)
ROUNDS = 5

pytestmark = [pytest.mark.mpi, pytest.mark.thorough]


def misses_at(bench: Workbench, lines: int) -> dict[str, float]:
    """Misses of all call paths in the profile that Extra-P gets."""
    (profile,) = (bench.results / "latest" / "extrap" / "memory").glob(f"*n{lines}.r*/profile.cubex")
    return {name: float(values.sum()) for name, values in read_cubex(profile).values.items()}


def test_misses_are_modelled_for_any_cache_and_measured_once(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    shutil.copy(SOURCE, tmp_path / "source")
    bench = Workbench(tmp_path)
    bench.write(
        name="small",
        compiler="clang",
        program={
            "source": "source",
            "build": "{mpicc} {flags} reuse.c -o reuse -lpthread",
            "binary": "reuse",
            "run": "{binary} {n} " + str(ROUNDS),
        },
        parameters={"n": {"role": "size", "values": [*LINES, 24000]}},
        metrics=["time", "visits", "misses_level_1", "misses_level_2", "first_touches"],
        memory={"points": [{"n": n} for n in LINES], "caches_kib": [16, 8192]},
        repetitions=1,
        warmup=False,
        target={"n": 80000},
        refinement={"enabled": False},
        resources={"ranks": 1, "time_limit": 120},
    )
    bench.buran("run", "campaign.yaml")
    runs = bench.started()
    records = [json.loads((bench.results / "store" / run / "run.json").read_text()) for run in runs]
    sampled = sorted(record["point"]["n"] for record in records if record["mode"] == "memory")
    assert sampled == [*LINES]
    assert re.search(rf"^memory +{len(LINES)} ", (bench.results / "latest" / "report.txt").read_text(), re.MULTILINE)
    report = json.loads((bench.results / "latest" / "report.json").read_text())
    assert report["roofline"] is None
    assert {"misses_level_1", "misses_level_2", "first_touches"} <= report["models"].keys()
    misses = misses_at(bench, LINES[-1])
    assert misses["misses_level_1"] == pytest.approx(ROUNDS * LINES[-1], rel=0.02)
    assert misses["misses_level_2"] == misses["first_touches"] == pytest.approx(LINES[-1], rel=0.02)

    bench.write(
        memory={"points": [{"n": n} for n in LINES], "caches_kib": [1, 1e6]},
        metrics=["time", "visits", "misses_level_1"],
    )
    bench.buran("run", "campaign.yaml")
    assert bench.started() == runs
    # 1 KiB has room for 16 lines, and where one line in 4 is looked at, for 4 of the sample.
    notes = " ".join((bench.results / "latest" / "report.txt").read_text().split())
    assert f"uncertain at n={LINES[-1]}" in notes and "one line in 4" in notes

    # With a machine file, misses are an account of times and the report says what bounds them; nothing is measured.
    level = {
        "shared_by": 1,
        "latency_s": 1e-9,
        "latency_busy_s": 1e-9,
        **dict.fromkeys(("gather_s", "gather_busy_s"), 1e-9),
        "bandwidth": 1e11,
        "bandwidth_busy": 1e11,
    }
    machine = {
        **{"host": "h", "cpu": "c", "kernel": "k", "compiler": "cc", "date": "2026-01-01T00:00:00+00:00"},
        **{
            "cores": 1,
            "flops": 1e10,
            "flops_busy": 1e10,
            "codes": {"chain": 1e-9, "calls": 1e-9, "loops": 1e-9},
            "spread": 0.0,
        },
        "levels": [{"bytes": 2**21, **level}, {"bytes": None, **level, "latency_s": 1e-7, "bandwidth": 1e10}],
    }
    bench.folder.joinpath("machine.json").write_text(json.dumps({"schema": "buran-machine/1", **machine}))
    bench.write(
        memory={"points": [{"n": n} for n in LINES], "machine": "machine.json"},
        metrics=["time", "visits", "misses_level_1"],
    )
    bench.buran("run", "campaign.yaml")
    assert bench.started() == runs
    report = json.loads((bench.results / "latest" / "report.json").read_text())
    assert report["roofline"]["levels"] == ["memory"] and report["roofline"]["rows"]
    assert any("another processor" in note for note in report["notes"])

    # Another machine has other times, where blocks are counted; this one has its own.
    asked = ("predict", "campaign.yaml", "--at", "n=80000", "--json", "--machine")
    assert "no basic blocks were counted" in bench.buran(*asked, "machine.json", expect=2)
    bench.write(
        memory={"points": [{"n": n} for n in LINES], "machine": "machine.json"},
        metrics=["time", "visits", "basic_blocks", "misses_level_1"],
    )
    bench.buran("run", "campaign.yaml")
    calibration = json.loads((bench.results / "latest" / "calibration.json").read_text())
    assert max(calibration["points"]) == [80000.0] and calibration["modelled"] > 0 < calibration["uncertainty_beyond"]
    found = json.loads(bench.buran(*asked, "machine.json"))
    run_time = bench.results / "latest" / "run-time.json"
    own = json.loads(bench.buran("predict", str(run_time), "--at", "n=80000", "--json"))["predictions"][0]
    assert found["same"]
    assert [found["predictions"][0][key] for key in ("predicted", "lower", "upper")] == pytest.approx(
        [own[key] for key in ("predicted", "lower", "upper")]
    )
    slower = machine | {"codes": dict.fromkeys(machine["codes"], 3e-09), "host": "slower", "page_bytes": 4096}
    bench.folder.joinpath("slower.json").write_text(json.dumps({"schema": "buran-machine/1", **slower}))
    there = json.loads(bench.buran(*asked, "slower.json"))
    assert not there["same"] and there["speed"]["ratio"] == pytest.approx(3)
    assert any("a size that is not known here and 4 KiB there" in note for note in there["notes"])
    for row, before in zip(there["predictions"], found["predictions"], strict=True):
        assert row["here"] == before["here"] and row["lower"] <= row["predicted"] <= row["upper"]
        factor = {"kept": 1.0, "blocks and misses": 3.0}.get(row["made of"])
        waiting = row["misses of level 1"]
        assert factor is None or row["predicted"] - waiting == pytest.approx(factor * (before["predicted"] - waiting))
    for name, why in (("schema", "buran-machine/1"), ("codes", "in common")):
        damaged = {"schema": "buran-machine/1", **slower} | {name: {"chain": 1e-9} if name == "codes" else "other/1"}
        bench.folder.joinpath("damaged.json").write_text(json.dumps(damaged))
        assert why in bench.buran(*asked, "damaged.json", expect=2)
