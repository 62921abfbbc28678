"""What our executor hands to the schedulers that are plug-ins."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import pytest

from workbench import Workbench

COMMANDS = {
    "qsub": "",
    "qselect": "",
    "qstat": """echo '{"Server":{"s":{"default_queue":"workq"}},"Queue":{"workq":{}}}'""",
    "pbsnodes": """n='{"resources_available":{"ncpus":4}}'; echo '{"nodes":{"a":'$n',"b":'$n'}}'""",
    "bsub": "",
    "bjobs": "echo 'No unfinished job found' >&2; exit 255",
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("profile", "submit", "asked"),
    [
        ("pbs", "qsub", "-l select=2:ncpus=1:mpiprocs=1 -l place=scatter:excl -l walltime="),
        pytest.param("lsf", "bsub", "-n 2 -x -R span[ptile=1]", marks=pytest.mark.thorough),
    ],
)
def test_other_schedulers_get_the_same_request(
    workbench: Workbench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, profile: str, submit: str, asked: str
) -> None:
    """A dry run shows what our executor hands to the scheduler of the profile."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for name, body in COMMANDS.items():
        (tools / name).write_text(f"#!/bin/sh\n{body}\n")
        (tools / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}{os.pathsep}{os.environ['PATH']}")
    workbench.write(resources={"time_limit": 20, "nodes": "p"})
    output = workbench.buran("run", "campaign.yaml", "--profile", profile, "--dry-run")
    assert "12 runs not" in output
    (line,) = (line for line in output.splitlines() if line.startswith(f"  {submit} "))
    assert asked in " ".join(shlex.split(line))
