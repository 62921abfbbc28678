"""A dry run shows the submission of a job as it will be, to the letter."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

import pytest
from workbench import Workbench

pytestmark = [pytest.mark.mpi, pytest.mark.slow]

SBATCH = """#!/bin/sh
for word; do printf '%s\\0' "$word"; done > {folder}/submitted-$$
echo "Requested node configuration is not available" >&2
exit 1
"""


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Slurm that has nothing to give and remembers what it was asked for."""
    tools = {
        "sbatch": SBATCH.format(folder=tmp_path),
        "squeue": "#!/bin/sh\n",
        "sinfo": "#!/bin/sh\necho 'debug*'\n",
        "scontrol": "#!/bin/sh\necho 'MinJobAge = 300 sec'\n",
    }
    folder = tmp_path / "tools"
    folder.mkdir()
    for name, text in tools.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return tmp_path


def options(words: list[str]) -> list[str]:
    """Replace what differs from start to start of the engine: the name of its jobs, temporary files, orders of sets."""
    name = words[words.index("--job-name") + 1]
    assert re.fullmatch(r"[0-9a-f-]{36}", name)
    words = ["NAME" if word == name else word for word in words]
    *rest, wrapped = [re.sub(r"(/tmp\.?)[a-z0-9_]{8}'", r"\1'", word) for word in words]
    assert wrapped.startswith("--wrap=")
    return [*rest, *sorted(wrapped.split())]


@pytest.mark.parametrize("points_per_job", [1, pytest.param(3, marks=pytest.mark.thorough)])
def test_the_shown_command_is_the_one_that_is_submitted(workbench: Workbench, slurm: Path, points_per_job: int) -> None:
    workbench.write(
        resources={"time_limit_s": 60, "nodes": "p", "points_per_job": points_per_job, "partition": "debug"}
    )
    shown = workbench.buran("run", "campaign.yaml", "--profile", "slurm", "--dry-run")
    (line,) = (line for line in shown.splitlines() if line.startswith("  sbatch "))
    assert not list(slurm.glob("submitted-*")), "nothing was submitted"
    assert not (workbench.results / "pointers").exists()
    _, *words = shlex.split(line)
    workbench.buran("run", "campaign.yaml", "--profile", "slurm", expect=3)
    asked = [options(path.read_text().split("\0")[:-1]) for path in slurm.glob("submitted-*")]
    assert len(asked) == (4 if points_per_job == 1 else 2)
    assert options(words) in asked
    assert "--nodes=2" in words and "--ntasks=2" in words
    assert "--mem" not in words, "nothing that the campaign file does not say"
