"""A campaign on real schedulers: Grid Engine of one node where its packages are, and a PBS that is on PATH."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from workbench import Workbench

pytestmark = [pytest.mark.thorough, pytest.mark.mpi]
TOOL = str(Path(__file__).parents[3] / "tools" / "grid-engine-sandbox")


def said(*words: str) -> str:
    return subprocess.run([TOOL, *words], capture_output=True, text=True, check=False).stdout


@pytest.fixture(scope="module")
def grid_engine() -> Iterator[dict[str, str]]:
    """A running one, and the variables by which it is found; one that was started by hand is left alone."""
    if reason := said("check").strip():
        pytest.skip(f"no Grid Engine can be started here: {reason}")
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    was_there = subprocess.run([TOOL, "status"], check=False, **quiet).returncode == 0
    if not was_there and subprocess.run([TOOL, "start"], check=False, **quiet).returncode != 0:
        pytest.skip("no Grid Engine can be started here")
    pairs = (line.removeprefix("export ").partition("=") for line in said("variables").splitlines())
    yield {name: value for name, _, value in pairs}
    if not was_there:
        subprocess.run([TOOL, "stop"], check=True, **quiet)


@pytest.fixture
def pbs() -> dict[str, str]:
    """No variables: one that answers is found."""
    if shutil.which("pbsnodes") is None or subprocess.run(["pbsnodes", "-a"], capture_output=True).returncode != 0:
        pytest.skip("no PBS is on PATH, or none that answers")
    return {}


@pytest.mark.parametrize("profile", ["grid-engine", "pbs"])
def test_a_campaign_is_measured_by_jobs(
    workbench: Workbench, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, profile: str
) -> None:
    for name, value in request.getfixturevalue(profile.replace("-", "_")).items():
        monkeypatch.setenv(name, value)
    workbench.write(resources={"time_limit": 60}, environments={"here": {"launcher": "auto"}})
    workbench.buran("run", "campaign.yaml", "--profile", profile)
    found = (workbench.results / "store").glob("*/*/*~*/rep-*/run.json")
    records = [json.loads(path.read_text()) for path in found]
    assert len(records) == 12 and {record["scheduler"] for record in records} == {profile}
    jobs = {record["job"] for record in records}
    tasks = {record["allocation"]["tasks"] for record in records}
    assert len(jobs) == 4 and tasks == {1, 2}, "a job for each point"
    assert "0 problems" in workbench.buran("verify", "campaign.yaml")
