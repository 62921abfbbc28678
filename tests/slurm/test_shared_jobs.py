"""Several points in one job, and jobs for what is not measured."""

from __future__ import annotations

import pytest
import yaml
from cluster import Cluster, SlurmBench, call, wait_until

from patience import PATIENCE_S

pytestmark = [pytest.mark.thorough, pytest.mark.mpi]
FOUR_POINTS = {"p": {"role": "ranks", "values": [1, 2]}, "n": {"role": "size", "values": [20, 40]}}
TWO_IN_A_JOB = {"time_limit": 60, "points_per_job": 2}


def test_points_share_jobs_and_nothing_else(bench: SlurmBench) -> None:
    bench.point = "{ranks} {n}"
    bench.program("test {n} != 20 || exit 3; exec {binary} {n}", parameters=FOUR_POINTS, resources=TWO_IN_A_JOB)
    bench.run(expect=1)
    records, failures = bench.records(), bench.attempts()
    assert len(records) == len(failures) == 6, "a point that fails does not stop the others of its job"
    spared = "not started: the program fails here without instrumentation too (rep-00: exit code 3)"
    assert {record["reason"] for record in failures} == {"exit code 3", spared}
    jobs = {record["job"]: set() for record in (*records, *failures)}
    for record in (*records, *failures):
        jobs[record["job"]].add(record["point"]["p"])
        assert record["allocation"]["tasks"] == record["point"]["p"]
    assert sorted(map(sorted, jobs.values())) == [[1], [2]], "two jobs for four points"
    starts = sorted(bench.starts().values())
    assert starts[2:] == [3, 3] and starts[0] < 3, "what fails without hooks spares runs that have not begun"
    assert "nothing is left to do" in bench.run(expect=1)


def test_a_cancelled_job_leaves_what_it_has_measured(bench: SlurmBench, cluster: Cluster) -> None:
    bench.point = "{ranks} {n}"
    bench.program("sleep 2; exec {binary} {n}", parameters=FOUR_POINTS, resources=TWO_IN_A_JOB)
    controller = bench.start()
    wait_until(lambda: len(bench.finished()) >= 4, "finished runs")
    before = bench.finished()
    call("scancel", *cluster.running())
    assert controller.wait(PATIENCE_S) == 3, bench.output
    assert "was cancelled" in bench.output
    status = bench.status()
    assert any(
        "CANCELLED" in interruption["reason"] or "SIGTERM" in interruption["reason"]
        for interruption in status["interruptions"]
    )
    bench.run()
    bench.assert_whole(before, interrupted=2, runs=12)


def test_everything_may_be_a_job(bench: SlurmBench) -> None:
    profile = bench.profile / "config.yaml"
    limits = [f"{rule}:runtime=9" for rule in ("build", "plan", "model", "refine", "report")]
    settings = yaml.safe_load(profile.read_text()) | {"config": ["cheap_rules=jobs"], "set-resources": limits}
    profile.write_text(yaml.safe_dump(settings))
    bench.run()
    bench.assert_whole({}, interrupted=0)
    scripts = {path.name.partition("-")[0] for path in (bench.results / "jobs").glob("*-*.sh")}
    assert scripts == {"build", "plan", "refine", "model", "report"}
    assert len([*(bench.results / "logs" / "slurm").iterdir()]) > len(scripts), "and jobs that measure"
