"""The workflow as a module of another one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from workbench import Workbench

ROOT = Path(__file__).parents[2]
MODULE = """
module buran:
    snakefile: "{root}/Snakefile"
    config: {config}

use rule * from buran as buran_*
"""


def snakemake(folder: Path, config: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    (folder / "Snakefile").write_text(MODULE.format(root=ROOT, config=config))
    command = [sys.executable, "-m", "snakemake", "-n", "--cores", "1"]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)


@pytest.mark.slow
@pytest.mark.mpi
def test_a_module_is_told_its_campaign_file(workbench: Workbench) -> None:
    workbench.write()
    done = snakemake(workbench.folder, '{"campaign_file": "campaign.yaml"}', workbench.environment)
    assert done.returncode == 0, done.stderr
    assert "buran_plan" in done.stdout + done.stderr
    assert "buran_report" in done.stdout + done.stderr
    done = snakemake(workbench.folder, "{}", workbench.environment)
    assert done.returncode != 0
    assert "the campaign file is not known" in done.stdout + done.stderr
