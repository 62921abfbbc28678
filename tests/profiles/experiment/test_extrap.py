"""What Extra-P itself makes of the files; it needs an environment of its own, for it wants numpy 1."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from buran.profiles.experiment.extrap_files import write_extrap_json, write_extrap_text
from buran.profiles.experiment.extrap_tree import write_extrap_tree
from buran.profiles.experiment.jsonl import write_jsonl
from buran.profiles.experiment.read import read_experiment
from tables import profile_of, tree_of

SCRIPT = """
import json, sys, warnings
warnings.simplefilter("ignore")
from extrap.fileio.file_reader.cube_file_reader2 import CubeFileReader2
from extrap.fileio.file_reader.json_file_reader import JsonFileReader
from extrap.fileio.file_reader.text_file_reader import TextFileReader
from extrap.modelers.model_generator import ModelGenerator
kind, path = sys.argv[1:]
readers = {"cube": CubeFileReader2, "json": JsonFileReader, "text": TextFileReader}
experiment = readers[kind]().read_experiment(path)
ModelGenerator(experiment).model_all()
out = {"parameters": [p.name for p in experiment.parameters], "means": {}, "models": {}}
for (path, metric), measurements in experiment.measurements.items():
    key = f"{path.name}|{metric.name}"
    out["means"][key] = [[*m.coordinate, m.mean, m.repetitions] for m in measurements]
    function = experiment.modelers[0].models[path, metric].hypothesis.function
    out["models"][key] = function.to_string(*experiment.parameters)
print("RESULT" + json.dumps(out))
"""


def extrap_python() -> str | None:
    given = os.environ.get("BURAN_EXTRAP_PYTHON")
    if given:
        return given
    command = shutil.which("extrap")
    neighbour = Path(command).with_name("python") if command else None
    return str(neighbour) if neighbour and neighbour.exists() else None


pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        extrap_python() is None,
        reason="no Extra-P: install extrap in its own environment, set BURAN_EXTRAP_PYTHON to its python",
    ),
]  # fmt: skip


def ask(kind: str, path: Path, tmp_path: Path) -> dict:
    script = tmp_path / "ask.py"
    script.write_text(SCRIPT)
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(
        [str(extrap_python()), str(script), kind, str(path)], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.rpartition("RESULT")[2])


def runs():
    early = tree_of("main", "main/solve", "main/solve/MPI_Send")
    late = tree_of("main", "main/solve", "main/late", "main/solve/MPI_Send")
    for n in (1000, 2000, 3000, 4000, 5000):
        for p in (2, 4, 8, 16, 32):
            for r in (1, 2):
                tree = early if n < 3000 else late
                work = [[5] * p, [n * n] * p, [64] * p] if n < 3000 else [[5] * p, [n * n] * p, [p] * p, [64] * p]
                time = [[1 + r + 0.1 * rank for rank in range(p)] for _ in work]
                yield {"n": n, "ranks": p}, r, profile_of(tree, time=time, basic_blocks=work, bytes_sent=work)


def test_extra_p_opens_the_folder_of_runs(tmp_path: Path) -> None:
    write_extrap_tree(tmp_path / "tree", runs(), prefix="demo")
    found = ask("cube", tmp_path / "tree", tmp_path)
    assert found["parameters"] == ["n", "nranks"]
    table = read_experiment(tmp_path / "tree")
    paths = list(table.tree.names)
    assert {key.split("|")[0] for key in found["means"]} == set(paths), "no call path was merged away"
    for key, rows in found["means"].items():
        path, metric = key.split("|")
        own = table.over_locations(metric)[paths.index(path)].mean(axis=1)
        rows = np.array(sorted(rows))
        assert np.array_equal(rows[:, :2], table.points)
        assert np.allclose(rows[:, 2], own, rtol=1e-9)
        assert (rows[:, 3] == 2).all(), "two repetitions at every point"
    assert "n^(2)" in found["models"]["main->solve|basic_blocks"]
    assert "n" not in found["models"]["main|basic_blocks"]


@pytest.mark.parametrize(
    ("write", "kind", "name"),
    [
        (write_jsonl, "json", "t.jsonl"),
        (write_extrap_json, "json", "t.json"),
        (write_extrap_text, "text", "t.txt"),
    ],
)
def test_extra_p_opens_the_files(write, kind: str, name: str, tmp_path: Path) -> None:
    write_extrap_tree(tmp_path / "tree", runs(), prefix="demo")
    table = read_experiment(tmp_path / "tree")
    write(table, tmp_path / name)
    found = ask(kind, tmp_path / name, tmp_path)
    assert found["parameters"] == ["n", "nranks"]
    paths = list(table.tree.names)
    assert len(found["means"]) == len(paths) * len(table.metrics)
    for key, rows in found["means"].items():
        path, metric = key.split("|")
        rows = np.array(sorted(rows))
        assert np.allclose(rows[:, 2], table.over_locations(metric)[paths.index(path)].mean(axis=1), rtol=1e-9)
    assert "n^(2)" in found["models"]["main->solve|basic_blocks"]
