"""Copies of the repository without one plug-in, and without any: their tests, a campaign, each verb and the demo."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import simulated_campaigns
from buran.cli import VERBS
from buran.extensions import PLUGINS
from clean_copy import clean_copy

pytestmark = [pytest.mark.thorough, pytest.mark.mpi]

NAMES = sorted(path.parent.name for path in PLUGINS.glob("*/__init__.py"))
CALLS = (
    "check", "plan", "run --dry-run", "status", "verify", "report", "filter",
    "convert results/sim/latest/experiment.jsonl runs.jsonl", "model runs.jsonl --kind cpr -o model.npz",
    "predict model.npz --at p=8,n=30", "suggest runs.jsonl --processes p", "correct jacobi.yaml runs.jsonl",
    "doctor", "init new", "demo --help",
)  # fmt: skip
"""One of each verb in the folder of a finished campaign; `buran demo` does what `make demo` does."""
CODE = """
import sys
from pathlib import Path
from buran.cli import main
from workbench import Workbench
Workbench.at(Path.cwd()).carry_out()
for words in sys.argv[1:]:
    code = main(words.split())
    assert code == 0, (words, code)
"""

Call = Callable[..., str]
CopyWithout = Callable[[list[str]], tuple[Path, Call]]


@pytest.fixture
def copy_without(tmp_path: Path) -> CopyWithout:
    """Copy the repository without plug-ins and the tests of all, and return its folder and what runs commands there."""

    def copied(missing: list[str]) -> tuple[Path, Call]:
        tree = tmp_path / "tree"
        clean_copy(tree)
        shutil.rmtree(tree / "tests" / "plugins")
        for name in missing:
            shutil.rmtree(tree / "src" / "buran" / "plugins" / name)
        path = os.pathsep.join(str(tree / name) for name in ("src", "studies/src", "tests"))
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
        environment = {**kept, "PYTHONPATH": path, "BURAN_LOCK_FOLDER": str(tmp_path / "lock")}

        def call(*words: str, cwd: Path = tree) -> str:
            done = subprocess.run(words, cwd=cwd, env=environment, capture_output=True, text=True)
            assert done.returncode == 0, f"{words}\n{done.stdout[-5000:]}{done.stderr[-5000:]}"
            return done.stdout

        found = call(sys.executable, "-c", "from buran.extensions import PLUGINS; print(PLUGINS)")
        assert Path(found.strip()) == tree / "src" / "buran" / "plugins"
        return tree, call

    return copied


@pytest.mark.parametrize("missing", [*([name] for name in NAMES), NAMES], ids=[*NAMES, "all"])
def test_every_verb_works_and_the_tests_are_there(copy_without: CopyWithout, missing: list[str]) -> None:
    tree, call = copy_without(missing)
    folder = tree / "campaign"
    simulated_campaigns.written(folder, repetitions=1, refinement={"enabled": False})
    shutil.copy(tree / "config" / "base-models" / "jacobi.yaml", folder)
    assert {words.split()[0] for words in CALLS} == set(VERBS)
    call(sys.executable, "-c", CODE, *CALLS, cwd=folder)
    call(sys.executable, "-m", "pytest", "-q", "--collect-only", "-p", "no:cacheprovider", "tests")


def test_the_core_passes_its_tests_without_any(copy_without: CopyWithout) -> None:
    """The selection of `make check`."""
    _, call = copy_without(NAMES)
    quick = ["-q", "-n", "2", "-m", "not slow", "-p", "no:cacheprovider"]
    said = call(sys.executable, "-m", "pytest", *quick, "tests")
    assert "buran.plugins" not in said and "plug-in" not in said, "no test is skipped for want of one"


def test_the_demo_runs_without_any(copy_without: CopyWithout) -> None:
    """What `make demo` does once everything is set up."""
    _, call = copy_without(NAMES)
    said = call("make", "-o", "setup", "demo", f"VENV={sys.prefix}")
    assert "scaling? energy" in said
