"""The workflow as a module of another one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from workbench import Workbench

ROOT = Path(__file__).parents[2]
TOLD = """
module buran:
    snakefile: "{root}/Snakefile"
    config: {{"campaign_file": "campaign.yaml"}}

use rule * from buran as buran_*
"""
DEPLOYED = """
configfile: "campaign.yaml"

module buran:
    snakefile: "{root}/workflow/Snakefile"
    config: config

use rule * from buran
"""
"""What the catalogue of workflows tells users to write."""
UNTOLD = """
module buran:
    snakefile: "{root}/Snakefile"
    config: {{}}

use rule * from buran
"""


def snakemake(workbench: Workbench, module: str) -> tuple[int, str]:
    (workbench.folder / "Snakefile").write_text(module.format(root=ROOT))
    command = [sys.executable, "-m", "snakemake", "-n", "--cores", "1"]
    done = subprocess.run(command, cwd=workbench.folder, env=workbench.environment, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.thorough
@pytest.mark.mpi
def test_without_a_target_a_module_does_the_whole_campaign(workbench: Workbench) -> None:
    workbench.write()
    for module, prefix in ((TOLD, "buran_"), (DEPLOYED, "")):
        code, said = snakemake(workbench, module)
        assert code == 0, said
        assert "Nothing to be done" not in said
        assert f"\n{prefix}plan " in said and f"\n{prefix}report " in said
        assert "localrules directive" not in said
    code, said = snakemake(workbench, UNTOLD)
    assert code != 0
    assert "campaign_file" in said and "IndexError" not in said
