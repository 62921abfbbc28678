"""The bundled example on a cluster: ranks and nodes are those asked for, as the program itself says."""

from __future__ import annotations

import itertools
import shlex
import shutil
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from cluster import SlurmBench

from patience import PATIENCE_S

pytestmark = [pytest.mark.slow, pytest.mark.mpi]
STENCIL = Path(__file__).parents[2] / "examples" / "stencil"


def spread(text: str) -> list[int]:
    """Write ranks such as ``0-1,3`` out."""
    spans = [[int(end) for end in part.split("-")] for part in text.split(",")]
    return [rank for span in spans for rank in range(span[0], span[-1] + 1)]


def run_as_a_job(bench: SlurmBench) -> None:
    """Run the controller on a node, as where login nodes end long processes."""
    script, log = bench.folder / "controller.sh", bench.folder / "controller.log"
    words = bench.command("run", "campaign.yaml", "--profile", str(bench.profile))
    script.write_text(f"#!/bin/sh\nexec {shlex.join(words)}\n")
    submit = ["sbatch", "--wait", "--ntasks=1", f"--output={log}", str(script)]
    done = subprocess.run(submit, cwd=bench.folder, env=bench.environment, capture_output=True, timeout=PATIENCE_S)
    assert done.returncode == 0, log.read_text()


@pytest.mark.parametrize("iterations", [1, pytest.param(2, marks=pytest.mark.thorough)])
def test_the_example_on_one_and_two_nodes(bench: SlurmBench, iterations: int) -> None:
    sizes = [2, 4] if iterations == 1 else [1, 2, 4]
    shutil.copytree(STENCIL, bench.folder / "stencil")
    places = bench.folder / "places"
    note = f"echo {{p}} {{m}} {{build}} $SLURMD_NODENAME >> {places}"
    bench.write(
        program={
            "source": "stencil",
            "build": "make MPICXX={mpicxx} CXXFLAGS='{flags}'",
            "binary": "stencil",
            "run": f"bash -c '{note}; exec {{binary}} 4 2'",
        },
        parameters={
            "p": {"role": "ranks", "values": sizes},
            "m": {"role": "size", "values": [1, 2]},
        },
        constraints=["m <= p and p <= 2 * m"],
        resources={"nodes": "m", "time_limit": 60},
        refinement={"enabled": iterations > 1, "share": 0.3, "drop": ["residual_norm"]},
        strategy={"name": "full", "max_iterations": iterations},
    )
    run_as_a_job(bench)
    rows = bench.status()["rows"]
    assert {row["iteration"] for row in rows if row["runs"]} == set(range(iterations))
    builds = len({row["build"] for row in bench.records()})
    assert builds == 3 if iterations == 1 else builds > 3, "the second iteration measures with a filter of its own"
    records, expected = bench.records(), Counter[tuple[str, ...]]()
    for record in records:
        p, m = record["point"]["p"], record["point"]["m"]
        given: dict[str, Any] = record["allocation"]
        assert record["status"] == "measured"
        assert given["tasks"] == p and len(given["nodes"]) == m and given["restarts"] == 0
        assert record["argv"][1:3] == ["-n", str(p)]
        tree = bench.results / "store" / record["build"] / "tree"
        for node in given["nodes"]:
            expected[str(p), str(m), str(tree), node] += p // m
        if record["mode"] != "vanilla":
            ranks: dict[str, list[int]] = {}
            for place in record["placement"]:
                ranks.setdefault(place["host"], []).extend(spread(place["ranks"]))
            assert sorted(itertools.chain(*ranks.values())) == list(range(p))
            assert {node: len(placed) for node, placed in ranks.items()} == dict.fromkeys(given["nodes"], p // m)
    assert Counter(tuple(line.split()) for line in places.read_text().splitlines()) == expected
    points = {(record["point"]["p"], record["point"]["m"]) for record in records}
    assert points == {(p, m) for p in sizes for m in (1, 2) if m <= p <= 2 * m}
