"""What a user may get wrong on a cluster: the message names it, and nothing was measured."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from cluster import Cluster, SlurmBench, wait_until

from buran.measure.schedulers import slurm
from buran.measure.schedulers.base import JobState
from buran.measure.schedulers.slurm import SLURM

pytestmark = [pytest.mark.slow, pytest.mark.mpi]


REFUSED = [
    ({"partition": "nowhere"}, "invalid partition specified", "`sinfo` lists the partitions"),
    ({"memory_mb": 10**7}, "Memory specification can not be satisfied", "see resources.memory_mb"),
    ({"constraint": "gpu"}, "Invalid feature specification", "see resources.constraint"),
    ({"reservation": "mine"}, "reservation is invalid", "see resources.reservation"),
]


@pytest.mark.thorough
def test_what_slurm_refuses_is_shown_with_the_next_step(bench: SlurmBench) -> None:
    for resources, why, step in REFUSED:
        bench.write(resources={"time_limit_s": 20, **resources})
        output = bench.run(expect=3)
        (line, *_) = [line for line in output.splitlines() if line.startswith("Slurm refused a job")]
        assert why in line and step in line
    assert not bench.starts()


@pytest.mark.thorough
def test_without_accounting_squeue_is_asked(cluster: Cluster) -> None:
    assert SLURM.engine_options("slurm") == ["--slurm-status-command", "squeue", "--slurm-no-account"]


def test_slurm_is_asked_and_answers(cluster: Cluster) -> None:
    sbatch = ["sbatch", "--parsable", "-N2", "-n3", "--exclusive", "--output=/dev/null", "--wrap", "sleep 60"]
    job = subprocess.run(sbatch, capture_output=True, text=True, check=True).stdout.strip()
    assert SLURM.job_state(job, 0) is JobState.LIVE
    fields = slurm.show_job(job)
    assert isinstance(fields, dict)
    given = slurm.allocation_of(fields)
    assert given.job == job and given.tasks == 3 and given.exclusive and given.time_limit_s is None
    subprocess.run(["scancel", job], check=True)
    wait_until(lambda: SLURM.job_state(job, 0) is JobState.ENDED, "the job's end")
    assert SLURM.job_state("99999", 0) is JobState.ENDED
    cluster.stop_controller()
    assert SLURM.job_state(job, 0) is JobState.UNKNOWN
    assert SLURM.campaign_jobs(Path.cwd()) is None
