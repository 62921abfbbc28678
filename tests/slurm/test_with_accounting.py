"""The other way to ask what became of jobs: sacct, with slurmdbd and a database. Starts a Slurm of its own."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest
from cluster import Cluster, SlurmBench

from buran.measure import slurm
from buran.steps import cluster as driving

pytestmark = [pytest.mark.slow, pytest.mark.mpi]


@pytest.fixture
def accounting(sandbox: Cluster, tool: str) -> Iterator[Cluster]:
    """The sandbox, started anew with accounting; afterwards without, as it was."""
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    if subprocess.run([tool, "start", "--accounting"], check=False, **quiet).returncode != 0:
        subprocess.run([tool, "start"], check=True, **quiet)
        pytest.skip("slurmdbd and a database cannot be started here")
    yield sandbox
    subprocess.run([tool, "start"], check=True, **quiet)


def test_a_campaign_with_accounting_asks_sacct(accounting: Cluster, bench: SlurmBench) -> None:
    assert slurm.has_accounting()
    assert driving.engine_options() == ["--slurm-status-command", "sacct"]
    bench.write(resources={"time_limit_s": 60, "account": "nowhere"})
    refused = bench.run(expect=3)
    assert "account nowhere appears to be invalid" in refused and "say which in resources.account" in refused
    bench.write(resources={"time_limit_s": 60, "account": "sandbox"})
    output = bench.run()
    assert "--slurm-status-command sacct" in output
    bench.assert_whole({}, interrupted=0)
    assert {record["slurm"]["account"] for record in bench.records()} == {"sandbox"}
