"""A real Slurm on this host for the whole session: four emulated nodes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests" / "workflow"))

from cluster import Cluster, SlurmBench  # noqa: E402

TOOL = ROOT / "tools" / "slurm-sandbox"


def _tool(*words: str) -> subprocess.CompletedProcess[str]:
    # The daemons keep what they inherit: never a pipe that somebody waits for.
    return subprocess.run(
        [str(TOOL), *words], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, text=True
    )


@pytest.fixture(scope="session")
def sandbox() -> Iterator[Cluster]:
    """A running Slurm; one that was started by hand is used and left alone."""
    reason = subprocess.run([str(TOOL), "check"], capture_output=True, text=True, check=False).stdout.strip()
    if reason:
        pytest.skip(f"no Slurm can be started here: {reason}")
    running = _tool("status").returncode == 0
    if not running and _tool("start").returncode != 0:
        pytest.skip("no Slurm can be started here: its packages cannot be installed")
    yield Cluster()
    if not running:
        _tool("stop")


@pytest.fixture
def tool() -> str:
    """The sandbox's own command."""
    return str(TOOL)


@pytest.fixture
def cluster(sandbox: Cluster) -> Iterator[Cluster]:
    """The same, healthy and empty before and after each test."""
    sandbox.heal()
    yield sandbox
    sandbox.heal()


@pytest.fixture
def bench(cluster: Cluster, tmp_path: Path) -> Iterator[SlurmBench]:
    """A small campaign with a profile that waits for files less long."""
    profile = tmp_path / "profile"
    profile.mkdir()
    settings = yaml.safe_load((ROOT / "profiles" / "slurm" / "config.yaml").read_text())
    settings |= {"latency-wait": 20}
    (profile / "config.yaml").write_text(yaml.safe_dump(settings))
    folder = tmp_path / "bench"
    folder.mkdir()
    bench = SlurmBench.make(folder, profile)
    yield bench
    bench.stop()


@pytest.fixture(autouse=True)
def no_slurm_of_an_outer_job(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("SLURM")]:
        monkeypatch.delenv(name)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if shutil.which("mpicc") is None:
        for item in items:
            if Path(__file__).parent in item.path.parents:
                item.add_marker(pytest.mark.skip(reason="no MPI compiler"))
