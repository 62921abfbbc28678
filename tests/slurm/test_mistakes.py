"""What a user may get wrong on a cluster: the message names it, and nothing was measured."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from cluster import Cluster, SlurmBench, wait_until

from buran.measurement.schedulers import slurm
from buran.measurement.schedulers.jobs import JobState
from buran.measurement.schedulers.slurm import SLURM

pytestmark = [pytest.mark.slow, pytest.mark.mpi]


@pytest.mark.parametrize(
    ("resources", "code", "what", "step"),
    [
        ({"partition": "nowhere"}, 2, "there is no partition 'nowhere'", "choose one of: debug"),
        ({"memory_mb": 10**7}, 2, "do not fit into the partition debug", "key resources.memory_mb"),
        ({"threads": 3}, 2, "2 of 2 points do not fit", "3 threads of a rank, and a node has 2 cores"),
        ({"constraint": "gpu"}, 2, "no node of the partition debug is like that", "resources.constraint"),
        ({"reservation": "mine"}, 3, "reservation is invalid", "see resources.reservation"),
    ],
)
@pytest.mark.thorough
def test_what_slurm_would_refuse_is_shown_with_the_next_step(
    bench: SlurmBench, resources: dict[str, object], code: int, what: str, step: str
) -> None:
    bench.write(resources={"time_limit": 20, **resources})
    output = bench.run(expect=code)
    assert what in output and step in output
    if code == 2:
        assert what in bench.buran("check", "campaign.yaml", "--profile", "slurm", expect=2)
    assert not bench.starts()


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
