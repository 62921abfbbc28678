"""Threads belong to their rank: a program with MPI, OpenMP and a library of its own, measured and modelled."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from buran.modeling.pmnf.model_set import ModelSet
from buran.profiles.experiment.jsonl import read_jsonl
from workbench import Workbench

HYBRID = Path(__file__).parent / "hybrid"
KERNELS = {"relaxed": 3, "nearest": 3}  # exponents of their work in n


@pytest.mark.mpi
@pytest.mark.thorough
def test_counts_of_a_rank_are_exact_and_the_head_names_a_kernel(tmp_path: Path) -> None:
    if not shutil.which("cmake"):
        pytest.skip("needs cmake")
    shutil.copytree(HYBRID, tmp_path / "program")
    bench = Workbench(tmp_path, results_name="hybrid")
    bench.write(
        name="hybrid",
        program={
            "source": "program",
            "build": "cmake -S . -B build -DCMAKE_CXX_COMPILER={cxx} -DMPI_CXX_COMPILER={mpicxx} "
            "-DCMAKE_CXX_FLAGS='{flags}' && cmake --build build",
            "binary": "build/hybrid",
            "run": "{binary} {n}",
        },
        parameters={
            "p": {"role": "ranks", "values": [1, 2]},
            "t": {"role": "threads", "values": [1, 2, 3, 4]},
            "n": {"role": "size", "values": [60, 90, 120, 150]},
        },
        strategy={"name": "lines"},
        repetitions=2,
        effort_repetitions=2,
        warmup=False,
        target={"p": 4, "t": 8, "n": 400},
        refinement={"enabled": False},
        resources={"time_limit": 120},
    )
    bench.buran("run", expect=None)
    latest = bench.results / "latest"
    table = read_jsonl(latest / "experiment.jsonl")
    names = [name.rpartition("->")[2].partition("(")[0] for name in table.tree.names]
    blocks, sent = (table.over_locations(metric) for metric in ("basic_blocks", "bytes_sent"))
    measured = np.isfinite(blocks).sum(axis=2) > 1
    assert measured.any() and (np.nanmax(blocks, axis=2) == np.nanmin(blocks, axis=2))[measured].all()
    for row, name in enumerate(names):
        if name in (*KERNELS, "MPI_Allreduce"):
            values = np.nanmin((sent if name == "MPI_Allreduce" else blocks)[row], axis=1)
            for ranks, fewest in ((1, 2), (2, 4)):
                same = (table.points[:, 0] == ranks) & (table.points[:, 2] == 60)  # whatever the number of threads
                assert same.sum() >= fewest and len(set(values[same].tolist())) == 1
    models = ModelSet.from_json(json.loads((latest / "report.json").read_text())["models"]["basic_blocks"])
    for path, model in zip(models.call_paths, models.models, strict=True):
        name = path.rpartition("->")[2].partition("(")[0]
        if name in KERNELS:
            assert model is not None
            assert [model.function.lead(k) for k in range(3)] == [(0, 0), (0, 0), (KERNELS[name], 0)]
    head = (latest / "report.txt").read_text().split("How long will it take")[0]
    assert any(name in head for name in ("relax", "search", *KERNELS))
