"""Small runs side by side on nodes of a real Slurm: cores of their own, and what is left when their job ends early."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path
from typing import Any

import pytest
from cluster import Cluster, SlurmBench, call, wait_until

from patience import PATIENCE_S

pytestmark = [pytest.mark.thorough, pytest.mark.mpi]
SIZES = {"n": {"role": "size", "values": [10, 20, 30, 40]}}
RESOURCES = {"ranks": 1, "time_limit": 60, "share_nodes": "all", "points_per_job": 4}
SRUN = {"launcher": "srun", "variables": {"SLURM_MPI_TYPE": "pmix", "OMPI_MCA_btl": "self,tcp"}}


def shared(bench: SlurmBench, **changes: Any) -> None:
    bench.point = "{n}"
    bench.program("sleep 2; exec {binary} {n}", parameters=SIZES, resources=RESOURCES, **changes)


def spans(records: list[dict[str, Any]]) -> list[tuple[float, float]]:
    """Begin and end of runs in seconds of the day."""

    def begin(record: dict[str, Any]) -> float:
        hours, minutes, seconds = re.findall(r"T(\d+):(\d+):([\d.]+)", record["started"])[0]
        return 3600 * int(hours) + 60 * int(minutes) + float(seconds)

    return [(begin(record), begin(record) + record["wall_s"]) for record in records]


@pytest.mark.parametrize("launcher", ["auto", "srun"])
def test_two_at_a_time_each_on_a_core_of_its_own(bench: SlurmBench, launcher: str) -> None:
    if launcher == "srun" and "pmix" not in call("srun", "--mpi=list"):
        pytest.skip("this Slurm has no PMIx: Open MPI cannot be started by srun")
    shared(bench, **({} if launcher == "auto" else {"environments": {"sandbox": SRUN}}))
    bench.run()
    bench.assert_whole({}, interrupted=0, runs=12)
    records = bench.records()
    (job,) = {record["job"] for record in records}
    assert all(record["own_cores"] == 1 and record["allocation"]["cpus"] == 2 for record in records)
    places = [place for record in records for place in record.get("placement", ())]
    assert len(places) == 8 and {len(place["cpus"].split(",")) for place in places} == {1}
    assert {place["cpus"] for place in places} == {"0", "1"}, "both of the node, one for each run"
    ends = spans(records)
    beside = [sum(begin < other_end and other_begin < end for other_begin, other_end in ends) for begin, end in ends]
    assert max(beside) > 1
    charged_s = 3600 * sum(record["cost_core_hours"] for record in records)
    lasted_s = max(end for _, end in ends) - min(begin for begin, _ in ends)
    assert 2 * lasted_s <= charged_s < 2 * (lasted_s + 60), f"both CPUs of job {job}, once"


def killed(bench: SlurmBench) -> list[int]:
    """Processes of this campaign's jobs that have no such parent."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        if b"buran.workflow.engine.job" in words and str(bench.folder).encode() in b" ".join(words):
            found[int(folder.name)] = parent
    return [pid for pid, parent in found.items() if parent not in found]


@pytest.mark.parametrize("how", ["scancel", "kill -9"])
def test_a_job_that_ends_early_leaves_what_it_has_measured(bench: SlurmBench, cluster: Cluster, how: str) -> None:
    shared(bench)
    controller = bench.start()
    wait_until(lambda: len(bench.finished()) >= 3, "finished runs")
    before = bench.finished()
    if how == "scancel":
        call("scancel", *cluster.running())
    else:
        for pid in killed(bench):
            os.kill(pid, signal.SIGKILL)
    assert controller.wait(PATIENCE_S) == 3, bench.output
    wait_until(lambda: not cluster.jobs(), "an empty queue")
    bench.run()
    bench.assert_whole(before, interrupted=2, runs=12)
    assert len(bench.attempts()) <= 2
