"""After `pip install .` in an empty environment, and with nothing else, the published methods run to their end."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from clean_copy import clean_copy

pytestmark = [pytest.mark.thorough, pytest.mark.mpi]  # most of it is the installing

CAMPAIGN: dict[str, Any] = {
    "program": {
        "source": "stencil",
        "build": "make MPICXX={mpicxx} CXXFLAGS='{flags}'",
        "flags": "-O2",
        "binary": "stencil",
        "run": "{binary} {n} {steps}",
    },
    "parameters": {"n": {"role": "size", "values": [4, 6, 8]}, "steps": {"role": "size", "values": [1, 2, 3]}},
    "metrics": ["time"],
    "repetitions": 1,
    "warmup": False,
    "budget": {"core_hours": 0.1},
    "resources": {"ranks": 1, "time_limit": 60, "expected_time": 0.5},
    "refinement": {"enabled": False},
}
LINES = {"base": "lines", "base_repetitions": 1, "batch": 5}
"""The five points on the lines are the first round: four others are left for the strategy."""
CASES: dict[str, dict[str, Any]] = {
    "gpr": {"strategy": {"name": "gpr", "max_iterations": 2, **LINES}},
    "hybrid": {"strategy": {"name": "hybrid", "max_iterations": 3, **LINES}},
    "filter-and-expand": {
        "parameters": {"n": {"role": "size", "values": [4, 6, 8]}},
        "program": {**CAMPAIGN["program"], "run": "{binary} {n} 2"},
        "metrics": ["time", "visits"],
        "strategy": {"name": "full", "max_iterations": 2},
        "target": {"n": "linear"},
        "refinement": {"strategy": "filter-and-expand", "start": "statements", "pilot": False},
    },
}

BASE = {
    "name": "base",
    "expression": "work + exchange",
    "components": {"work": "c * n**2 / p", "exchange": "a"},
    "parameters": {
        "c": {"value": 1e-4, "lower": 1e-6, "upper": 1e-2, "log": True},
        "a": {"value": 1e-3, "lower": 1e-5, "upper": 1e-1, "log": True},
    },
    "variables": {"p": {"scale": True}, "n": {}},
}


def environment() -> dict[str, str]:
    """The environment of a user who knows nothing of the checkout and of the environment of these tests."""
    hidden = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
    kept = {name: value for name, value in os.environ.items() if name not in hidden}
    own = str(Path(sys.executable).parent)
    path = os.pathsep.join(folder for folder in os.environ["PATH"].split(os.pathsep) if folder != own)
    return {**kept, "PATH": path, "NO_COLOR": "1"}


@pytest.fixture(scope="module")
def bin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install a copy of the source in an empty environment, as a user does; skip without an index of packages."""
    folder = tmp_path_factory.mktemp("installed")
    subprocess.run([sys.executable, "-m", "venv", folder / "v"], check=True)
    pip = [folder / "v" / "bin" / "pip", "--disable-pip-version-check"]
    patience = ["--retries", "1", "--timeout", "15"]
    asked = [*pip, "download", "--quiet", "--no-deps", *patience, "-d", folder, "hatchling", "snakemake"]
    reached = subprocess.run(asked, env=environment(), capture_output=True, text=True)
    if reached.returncode != 0:
        pytest.skip(f"pip reaches no index of packages here: {(reached.stderr.splitlines() or ['it failed'])[-1]}")
    clean_copy(folder / "tree")
    done = subprocess.run(
        [*pip, "install", "--quiet", "--no-compile", "."],
        cwd=folder / "tree",
        env=environment(),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "v" / "bin"


def call(bin: Path, folder: Path, *words: str | Path) -> str:
    """Run a command of the environment; return what it printed."""
    own = {**environment(), "BURAN_LOCK_FOLDER": str(folder / "lock")}  # no other campaign waits for this one
    own["PATH"] = os.pathsep.join([str(bin), own["PATH"]])
    done = subprocess.run([bin / words[0], *words[1:]], cwd=folder, env=own, capture_output=True, text=True)
    said = done.stdout + done.stderr
    assert done.returncode == 0 and "Traceback" not in said and "Warning" not in said, said
    return said


def test_no_other_distribution_of_ours_is_there(bin: Path, tmp_path: Path) -> None:
    where = "import buran; from importlib.metadata import distributions as all; "
    shown = call(bin, tmp_path, "python", "-c", where + "print(buran.__file__, *(d.metadata['Name'] for d in all()))")
    file, *names = shown.split()
    assert Path(file).is_relative_to(bin.parent) and [name for name in names if "buran" in name] == ["buran"]


@pytest.mark.parametrize("case", CASES)
def test_a_campaign_of_the_stencil(bin: Path, tmp_path: Path, case: str) -> None:
    call(bin, tmp_path, "buran", "init", "--example", "stencil", ".")
    (tmp_path / "campaign.yaml").write_text(yaml.safe_dump({"name": "small", **CAMPAIGN, **CASES[case]}))
    said = call(bin, tmp_path, "buran", "run")
    assert ", 0 failed" in said and "iterations is reached" in said, said
    report = json.loads((tmp_path / "results" / "small" / "latest" / "report.json").read_text())
    rows = [(each["number"], each["reason"]) for each in report["iterations"] for _ in each["points"]]
    if case == "filter-and-expand":
        main = re.search(r"main: above (\S+) s", call(bin, tmp_path, "buran", "filter"))
        assert main and float(main[1]) < 1e-3  # 1 % of a millisecond, not of the time that MPI takes to start
    else:
        assert [why for number, why in rows if number == 0 and "base points" in why] and len(rows) > 5
        first, *then = ("cheapest", "uncertain") if case == "hybrid" else ("uncertain",)
        assert first in dict(rows)[1] and (not then or then[0] in dict(rows)[2])


def test_models_as_published(bin: Path, tmp_path: Path) -> None:
    columns = [(p, n) for p in (1, 2, 4, 8) for n in (10, 20, 40, 80)]
    table = "\n".join(["p,n,time", *(f"{p},{n},{1e-4 * n**2 / p + 1e-3 * p}" for p, n in columns)])
    (tmp_path / "runs.csv").write_text(table + "\n")
    (tmp_path / "base.yaml").write_text(yaml.safe_dump(BASE))
    said = call(bin, tmp_path, *["buran", "correct", "base.yaml", "runs.csv", "--preset", "published", "--trials", "1"])
    assert "base: " in said and "train RMSE" in said
    model = "buran model --kind cpr runs.csv --preset published -o runs.npz"
    assert "16 observations" in call(bin, tmp_path, *model.split())
    predicted = call(bin, tmp_path, "buran", "predict", "runs.npz", "--at", "p=4,n=40").splitlines()[-1].split()
    assert predicted[:2] == ["4", "40"] and float(predicted[2]) == pytest.approx(0.044, rel=0.2)
