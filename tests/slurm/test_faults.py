"""Whatever breaks on the cluster: nothing finished is lost, nothing is measured twice, and what failed is named."""

from __future__ import annotations

import shutil
import signal
import subprocess
import time

import pytest
from cluster import Cluster, SlurmBench, call, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.mpi]

SLOW = "sleep 3; exec {binary} {n}"


def test_ranks_and_nodes_are_those_asked_for_in_two_iterations(bench: SlurmBench) -> None:
    bench.write(
        parameters={"p": {"role": "ranks", "values": [1, 2, 4]}, "n": {"role": "size", "values": [20, 30, 40]}},
        resources={"nodes": "ceil(p / 2)", "time_limit_s": 60},
        strategy={"name": "lines"},
    )
    bench.run()
    records = bench.records()
    assert bench.status()["rows"][-1]["iteration"] == 1
    assert len(records) == 9 * 3
    for record in records:
        p = record["point"]["p"]
        assert record["status"] == "measured"
        assert record["slurm"]["tasks"] == p
        assert len(record["slurm"]["nodes"]) == -(-p // 2)
        assert record["argv"][1:3] == ["-n", str(p)]
        assert record["slurm"]["restarts"] == 0
    assert set(bench.starts().values()) == {3}, "one start of each of three builds"


def test_a_killed_controller_finds_its_jobs_again(bench: SlurmBench, cluster: Cluster) -> None:
    bench.program(SLOW)
    controller = bench.start()
    wait_until(lambda: bench.starts().total() >= 4, "running programs")
    controller.send_signal(signal.SIGKILL)
    controller.wait()
    before = bench.finished()
    assert cluster.jobs()
    assert "waiting for jobs that are still in the queue" in bench.run()
    bench.assert_whole(before, interrupted=0)
    assert len({record["slurm_job"] for record in bench.records()}) == 4, "no second job measured anything"


def test_an_interrupt_leaves_the_jobs_running(bench: SlurmBench, cluster: Cluster) -> None:
    bench.program(SLOW)
    controller = bench.start()
    wait_until(lambda: bench.starts().total() >= 2, "running programs")
    controller.send_signal(signal.SIGTERM)
    assert controller.wait(60) == 130
    assert "jobs go on in the queue" in bench.output
    assert cluster.jobs()
    bench.run()
    bench.assert_whole({}, interrupted=0)


def test_an_interrupt_cancels_the_jobs_on_request(bench: SlurmBench, cluster: Cluster) -> None:
    bench.program(SLOW)
    controller = bench.start("--cancel")
    wait_until(lambda: bench.starts().total() >= 2, "running programs")
    controller.send_signal(signal.SIGINT)
    assert controller.wait(60) == 130
    assert "jobs cancelled" in bench.output
    wait_until(lambda: not cluster.jobs(), "an empty queue")
    before = bench.finished()
    bench.run()
    bench.assert_whole(before, interrupted=4)


def test_slurmctld_may_be_away_for_a_minute(bench: SlurmBench, cluster: Cluster) -> None:
    bench.program(SLOW)
    controller = bench.start()
    wait_until(lambda: bench.starts().total() >= 1, "a running program")
    cluster.stop_controller()
    time.sleep(60)
    cluster.start_controller()
    assert controller.wait(400) == 0, bench.output
    bench.assert_whole({}, interrupted=0)


def test_an_engine_that_waits_for_jobs_that_are_gone_is_started_again(bench: SlurmBench, cluster: Cluster) -> None:
    """Slurm forgets ended jobs; without accounting the executor then waits for them for ever."""
    bench.program(SLOW)
    bench.quiet_s = 16.0
    profile = bench.profile / "config.yaml"
    profile.write_text(profile.read_text().replace("status-attempts: 1000000", "status-attempts: 1"))
    controller = bench.start()
    wait_until(lambda: bench.starts().total() >= 1, "a running program")
    cluster.stop_controller()
    time.sleep(25)
    cluster.start_controller()
    assert controller.wait(400) == 0, bench.output
    assert "the workflow engine lost its jobs" in bench.output
    bench.assert_whole({}, interrupted=0)


def test_a_node_may_fail_while_it_measures(bench: SlurmBench, cluster: Cluster) -> None:
    bench.program(SLOW)
    controller = bench.start()
    wait_until(lambda: bench.starts().total() >= 1, "a running program")
    (job, *_) = cluster.running()
    node = cluster.node_of(job)
    call("scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=test")
    time.sleep(5)
    call("scontrol", "update", f"NodeName={node}", "State=RESUME")
    assert controller.wait(400) == 0, bench.output
    assert f"Slurm job {job} lost its node" in bench.output
    bench.assert_whole({}, interrupted=2)


def test_a_cancelled_job_is_named_and_measured_by_the_next_run(bench: SlurmBench, cluster: Cluster) -> None:
    bench.program(SLOW)
    controller = bench.start()
    wait_until(lambda: bench.starts().total() >= 1, "a running program")
    (job, *_) = cluster.running()
    call("scancel", job)
    assert controller.wait(400) == 3
    assert f"Slurm job {job} was cancelled" in bench.output
    before = bench.finished()
    assert len(before) >= 9, "the other jobs went on"
    bench.run()
    bench.assert_whole(before, interrupted=1)
    assert any(attempt["status"] == "interrupted" for attempt in bench.attempts())


def test_a_job_that_runs_out_of_time_gets_more(bench: SlurmBench, cluster: Cluster) -> None:
    flag = bench.folder / "once"
    bench.program(
        f"[ {{n}} = 40 ] && [ {{p}} = 2 ] && mkdir {flag}.$OMPI_COMM_WORLD_RANK 2>/dev/null && sleep 300;"
        " exec {binary} {n}",
        resources={"time_limit_s": 400, "expected_s": 1},
    )
    cluster.partition("DOWN")
    controller = bench.start()
    wait_until(lambda: len(cluster.jobs("PENDING")) == 4, "queued jobs")
    for job in cluster.jobs("PENDING"):
        call("scontrol", "update", f"JobId={job}", "TimeLimit=1")
    cluster.partition("UP")
    assert controller.wait(400) == 0, bench.output
    assert "ran out of time" in bench.output
    bench.assert_whole({}, interrupted=1)
    (attempt,) = bench.attempts()
    assert "time limit of 60 s was reached" in attempt["reason"]


def test_a_rank_that_fails_is_a_failed_run_and_the_others_go_on(bench: SlurmBench) -> None:
    bench.program("[ $OMPI_COMM_WORLD_RANK = 1 ] && [ {n} = 40 ] && exit 7; exec {binary} {n}")
    bench.run(expect=1)
    state = bench.status()
    assert state["failed"] == 3 and state["measured"] == 9
    assert all("n=40,p=2" in failure["what"] and "exit code 7" in failure["reason"] for failure in state["failures"])
    before = bench.starts()
    bench.run(expect=1)
    assert bench.starts() == before, "failures are final until a retry is asked for"


def test_two_controllers_at_once_measure_once(bench: SlurmBench) -> None:
    bench.program(SLOW)
    both = [bench.start(), bench.start()]
    assert [each.wait(400) for each in both] == [0, 0], bench.output
    assert "another controller drives this campaign" in bench.output
    bench.assert_whole({}, interrupted=0)
    assert set(bench.starts().values()) == {3}


def test_two_folders_that_share_their_results_measure_once(bench: SlurmBench) -> None:
    bench.program(SLOW)
    other = bench.folder.with_name("other")
    shutil.copytree(bench.folder / "source", other / "source")
    twin = SlurmBench(other, dict(bench.config), profile=bench.profile)
    twin.write(results=str(bench.folder / "results"))
    both = [bench.start(), twin.start()]
    assert [each.wait(400) for each in both] == [0, 0], bench.output + twin.output
    bench.assert_whole({}, interrupted=0)
    assert set(bench.starts().values()) == {3}


def test_a_duplicate_job_meets_the_claim_and_ends(bench: SlurmBench, cluster: Cluster) -> None:
    bench.program(SLOW)
    controller = bench.start()
    wait_until(lambda: bench.starts().total() >= 1, "a running program")
    (job, *_) = cluster.running()
    script = bench.folder / "copy.sh"
    script.write_text(call("scontrol", "write", "batch_script", job, "-"))
    log = bench.folder / "copy.log"
    comment = call("squeue", "-h", "-j", job, "-o", "%k").strip()
    options = ["--wait", "--comment", comment, "--exclusive", "-D", str(bench.results), "-o", str(log)]
    copy = subprocess.run(["sbatch", *options, str(script)], env=bench.environment, capture_output=True)
    assert copy.returncode != 0
    (text,) = {path.read_text() for path in (bench.results / "logs" / "measure").glob("*.log") if path.stat().st_size}
    assert "this is being measured elsewhere" in text and f"Slurm job {job}" in text
    assert controller.wait(400) == 0, bench.output
    assert set(bench.starts().values()) == {3}


@pytest.mark.parametrize("fault", ["full", "read-only"])
def test_a_store_that_cannot_be_written(bench: SlurmBench, fault: str) -> None:
    bench.program(SLOW)
    store = bench.results / "store"
    store.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(store)], check=True)
    try:
        controller = bench.start()
        wait_until(lambda: len(bench.finished()) >= 2, "finished runs")
        filler = store / "filler"
        if fault == "full":
            subprocess.run(["dd", "if=/dev/zero", f"of={filler}", "bs=64k"], check=False, capture_output=True)
        else:
            subprocess.run(["mount", "-o", "remount,ro", str(store)], check=True)
        assert controller.wait(400) == 3, bench.output
        assert ("No space left" if fault == "full" else "Read-only file system") in bench.output
        subprocess.run(["mount", "-o", "remount,rw", str(store)], check=True)
        filler.unlink(missing_ok=True)
        before = bench.finished()
        bench.run()
        bench.assert_whole(before, interrupted=8)
    finally:
        subprocess.run(["umount", "-l", str(store)], check=False)
