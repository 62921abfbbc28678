"""Campaigns whose kernels have analytical models: simulated or measured, corrected, reported."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from buran.cli import main
from buran.files import not_synced
from buran.modeling.correction import load_corrected
from buran.workflow.history import History
from buran.workflow.report import write_results
from buran.workflow.session import open_session
from buran_studies.simulate.in_process import carry_out

ROOT = Path(__file__).parents[3]
PROGRAM = """
#include <mpi.h>
#include <stdlib.h>
static volatile double sink;
/* Time n, and from 64 on four times as much for each further one: the base model knows nothing of that. */
__attribute__((noinline)) static void relax(int n) {
    long count = n + (n > 64 ? 3L * (n - 64) : 0);
    double sum = 0;
    for (long i = 0; i < 20000 * count; i++)
        sum += 1.0 / (double)(i + 1);
    sink = sum;
}
int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    relax(atoi(argv[1]));
    MPI_Finalize();
    return 0;
}
"""
BASE = """
expression: call + work
components: {call: a, work: c * n}
parameters:
  a: {value: 1.0e-6, lower: 1.0e-8, upper: 1.0e-3, log: true, unit: s}
  c: {value: 1.0e-4, lower: 1.0e-6, upper: 1.0e-1, log: true, unit: s}
variables: {n: {range: [8, 192], scale: true, unit: 1}}
"""
CAMPAIGN = {
    "name": "relaxed",
    "program": {
        "source": "source",
        "build": "{mpicc} {flags} -o program program.c",
        "flags": "-O2",
        "binary": "program",
        "run": "{binary} {n}",
    },
    "parameters": {"n": {"role": "size", "values": [8, 12, 16, 24, 32, 48, 64, 96, 128, 160, 192]}},
    "metrics": ["time"],
    "model": {"repetition": "min"},  # other load makes runs longer, never shorter
    "repetitions": 3,
    "warmup": False,
    "target": {"n": 192},
    "refinement": {"enabled": False},
    "correct": {"relax": "relax.yaml", "main->relax": "model", "nowhere": "relax.yaml"},
    "resources": {"ranks": 1, "time_limit": 60},
}


RELAX_S = "1e-4 * (n + 3 * max(n - 64, 0))"
SIMULATED = {
    "backend": "simulated",
    "simulated": "program.yaml",
    **{key: value for key, value in CAMPAIGN.items() if key != "program"},
}


def test_the_report_of_a_simulated_campaign_has_base_beside_corrected(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = {"main": {"time_s": 1e-3, "calls": {"relax": {"time_s": RELAX_S}}}}
    described = {"schema": "buran-program/1", "noise": {"percent": 1}, "program": program}
    (tmp_path / "program.yaml").write_text(yaml.safe_dump(described))
    (tmp_path / "relax.yaml").write_text(BASE)
    (tmp_path / "campaign.yaml").write_text(yaml.safe_dump(SIMULATED, sort_keys=False))
    session = open_session(tmp_path / "campaign.yaml")
    with not_synced():
        carry_out(session)
        write_results(History.open(session), session.layout.results(session.id))
    check_corrections(session.layout.results(session.id), capsys)


@pytest.mark.mpi
@pytest.mark.thorough
def test_the_report_has_base_beside_corrected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "program.c").write_text(PROGRAM)
    (tmp_path / "relax.yaml").write_text(BASE)
    (tmp_path / "campaign.yaml").write_text(yaml.safe_dump(CAMPAIGN, sort_keys=False))
    done = subprocess.run(
        [sys.executable, "-m", "buran.cli", "run", "campaign.yaml"], cwd=tmp_path, capture_output=True, text=True,
        env={**os.environ, "BURAN_LOCK_FOLDER": str(tmp_path / "lock"), "NO_COLOR": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    check_corrections(tmp_path / "results" / "relaxed" / "latest", capsys)


def check_corrections(latest: Path, capsys: pytest.CaptureFixture[str]) -> None:
    relax, own, nowhere = json.loads((latest / "report.json").read_text())["corrections"]

    assert not relax["refused"] and relax["reason"].startswith("corrected by")
    # A straight line through the origin is too low where the most is done.
    assert relax["corrected_s"] > 1.2 * relax["base_s"] > 0 and relax["beyond"] == ""
    assert "averaged" in " ".join(relax["notes"])
    assert own["reason"] and own["base_s"] is not None and own["formula"][0].startswith("time = ")
    assert nowhere["reason"].startswith("not corrected")

    text = (latest / "report.txt").read_text()
    assert re.search(r"at n=192: base [\d.e-]+ s, corrected [\d.e-]+ s", text) and "base model model" in text
    model = latest / "corrected" / "relax.json"
    assert load_corrected(model).report.points == 11
    assert main(["predict", str(model), "--at", "n=384", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)
    assert main(["correct", str(latest / "models.json"), str(latest / "experiment.jsonl"), "--call-path", "relax"]) == 0
    assert "time = " in capsys.readouterr().out


def test_the_bundled_example_is_a_campaign(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(ROOT / "config" / "examples" / "correct.yaml"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["name"] == "correct"
