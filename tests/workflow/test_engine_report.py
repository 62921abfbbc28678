"""Snakemake's own report of a campaign takes in Buran's page and tables, with what they are."""

from __future__ import annotations

import base64
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from buran import assets
from buran.campaign.load import load_campaign

pytestmark = pytest.mark.slow

PROGRAM = {
    "schema": "buran-program/1",
    "program": {"main": {"time_s": 0.01, "calls": {"solve": {"time_s": "2e-7 * n**3", "basic_blocks": "3 * n**3"}}}},
}
CAMPAIGN = {
    "name": "sim",
    "backend": "simulated",
    "simulated": "program.yaml",
    "parameters": {"p": {"role": "ranks", "values": [4, 8]}, "n": {"role": "size", "values": [20, 40]}},
    "repetitions": 1,
    "refinement": {"enabled": False},
}


@pytest.mark.thorough
def test_it_holds_the_page_and_the_tables(tmp_path: Path) -> None:
    (tmp_path / "program.yaml").write_text(yaml.safe_dump(PROGRAM))
    file = tmp_path / "campaign.yaml"
    file.write_text(yaml.safe_dump(CAMPAIGN))
    done = subprocess.run(
        [sys.executable, "-m", "buran.cli", "run", str(file)], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    target = tmp_path / "engine.html"
    command = [sys.executable, "-m", "snakemake", "--snakefile", str(assets.root() / "Snakefile")]
    command += ["--configfile", str(file), "--report", str(target)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    latest, held = load_campaign(file).results_root / "latest", target.read_bytes()
    for name in ("report.html", "report.csv"):
        assert base64.b64encode((latest / name).read_bytes()) in held
    assert b"The report of the campaign as one page" in held
    assert b"A measurement campaign of Buran" in held
