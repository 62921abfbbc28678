"""A program with two mistakes that cost next to nothing where it is measured: the report shows both."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from buran.modeling.pmnf.model_set import ModelSet
from workbench import Workbench

PLATE = Path(__file__).parent / "plate"


@pytest.mark.mpi
@pytest.mark.thorough
def test_two_hidden_mistakes_are_told_by_their_counts(tmp_path: Path) -> None:
    """Their exponents are exact. That both head the report is not tested: times of calls may hide one of them."""
    if not shutil.which("mpifort"):
        pytest.skip("needs an MPI with Fortran")
    shutil.copytree(PLATE, tmp_path / "program")
    bench = Workbench(tmp_path, results_name="plate")
    bench.write(
        name="plate",
        program={
            "source": "program",
            "build": "make FC={mpifort} FFLAGS='{flags}'",
            "binary": "plate",
            "run": "{binary} {n} 100",
        },
        parameters={
            "p": {"role": "ranks", "values": [1, 2, 3, 4, 6]},
            "n": {"role": "size", "values": [8, 12, 16, 24, 32]},
        },
        strategy={"name": "lines"},
        repetitions=2,
        effort_repetitions=1,
        warmup=False,
        target={"p": 65536, "n": 256},
    )
    bench.buran("run", expect=4)  # the target lies beyond all reason, and it says so
    latest = bench.results / "latest"
    report = json.loads((latest / "report.json").read_text())
    blocks = ModelSet.from_json(report["models"]["basic_blocks"])
    leads = {
        path.rpartition("->")[2]: [model.function.lead(k) for k in range(2)]
        for path, model in zip(blocks.call_paths, blocks.models, strict=True)
        if model is not None
    }
    p, n = blocks.parameters.index("p"), blocks.parameters.index("n")
    assert leads["plate::median"][n] == (4, 0)
    assert leads["plate::find_neighbours"][p] == (2, 0)
    head = (latest / "report.txt").read_text().split("How long will it take")[0]
    assert "MPI_Init" not in head
