"""A dry run shows the submission of a job as it will be, to the letter."""

from __future__ import annotations

import os
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
        "sinfo": "#!/bin/sh\necho '4|1:2:1|2000|(null)'\n",
        "scontrol": "#!/bin/sh\necho 'PartitionName=debug Default=YES'\necho 'MaxArraySize = 1'\n",
    }
    folder = tmp_path / "tools"
    folder.mkdir()
    for name, text in tools.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return tmp_path


@pytest.mark.thorough
@pytest.mark.parametrize("points_per_job", [1, 3])
def test_the_shown_command_is_the_one_that_is_submitted(workbench: Workbench, slurm: Path, points_per_job: int) -> None:
    workbench.write(resources={"time_limit": 60, "nodes": "p", "points_per_job": points_per_job, "partition": "debug"})
    shown = workbench.buran("run", "campaign.yaml", "--profile", "slurm", "--dry-run")
    (line,) = (line for line in shown.splitlines() if line.startswith("  sbatch "))
    assert not list(slurm.glob("submitted-*")), "nothing was submitted"
    assert not (workbench.results / "pointers").exists()
    _, *words = shlex.split(line)
    workbench.buran("run", "campaign.yaml", "--profile", "slurm", expect=3)
    asked = [path.read_text().split("\0")[:-1] for path in slurm.glob("submitted-*")]
    assert len(asked) == (4 if points_per_job == 1 else 2)
    assert words in asked
    assert "--nodes=2" in words and "--ntasks=2" in words
    assert not any(word.startswith("--mem") for word in words), "nothing that the campaign file does not say"
