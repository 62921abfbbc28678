"""Whatever breaks on the cluster: nothing finished is lost, nothing is measured twice, and what failed is named."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from cluster import Cluster, SlurmBench, call, wait_until

from patience import PATIENCE_S

pytestmark = [pytest.mark.slow, pytest.mark.mpi]

SLOW = "sleep 2; exec {binary} 40"


def test_a_killed_and_an_interrupted_controller_find_their_jobs_again(bench: SlurmBench, cluster: Cluster) -> None:
    hold = bench.folder / "hold"
    hold.touch()
    bench.program(f"while [ -e {hold} ]; do sleep 0.2; done; exec {{binary}} 40", resources={"time_limit": 600})
    killed = bench.start()
    wait_until(lambda: bench.starts().total() >= 2, "running programs")
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    before = bench.finished()
    assert cluster.jobs()
    interrupted = bench.start()
    wait_until(lambda: "waiting for jobs that are still in the queue" in bench.output, "the next controller")
    interrupted.send_signal(signal.SIGTERM)
    assert interrupted.wait(PATIENCE_S) == 130
    assert "left in the queue" in bench.output
    assert cluster.jobs()
    hold.unlink()
    bench.run()
    bench.assert_whole(before, interrupted=0)
    assert len({record["job"] for record in bench.records()}) == 2, "no second job measured anything"


@pytest.mark.thorough
def test_an_interrupt_cancels_what_runs_and_what_can_never_start(bench: SlurmBench, cluster: Cluster) -> None:
    bench.program(SLOW)
    cluster.partition("DOWN")
    controller = bench.start("--cancel")
    wait_until(lambda: len(cluster.jobs("PENDING")) == 2, "queued jobs")
    call("scontrol", "hold", cluster.jobs("PENDING")[0])
    cluster.partition("UP")
    wait_until(lambda: bench.starts() and "may never start" in bench.output, "a running program and the news")
    assert "1 job may never start (JobHeld" in bench.output and "scontrol release" in bench.output
    controller.send_signal(signal.SIGINT)
    assert controller.wait(PATIENCE_S) == 130
    assert "2 jobs cancelled" in bench.output or "1 job cancelled" in bench.output
    assert not cluster.jobs(), "it has waited until the queue is empty"
    before = bench.finished()
    bench.run()
    bench.assert_whole(before, interrupted=1)


@pytest.mark.thorough
def test_slurmctld_may_be_away_for_a_minute(bench: SlurmBench, cluster: Cluster) -> None:
    bench.program(SLOW)
    controller = bench.start()
    wait_until(lambda: bench.starts().total() >= 1, "a running program")
    cluster.stop_controller()
    time.sleep(60)
    cluster.start_controller()
    assert controller.wait(PATIENCE_S) == 0, bench.output
    bench.assert_whole({}, interrupted=2)


@pytest.mark.thorough
def test_a_node_may_fail_and_a_time_limit_may_be_too_short(bench: SlurmBench, cluster: Cluster) -> None:
    flag = bench.folder / "once"
    bench.program(
        f"[ {{p}} = 2 ] && mkdir {flag}.$PMIX_RANK 2>/dev/null && sleep 300; {SLOW}",
        resources={"time_limit": 400, "expected_time": 1},
    )
    cluster.partition("DOWN")
    controller = bench.start()
    wait_until(lambda: len(cluster.jobs("PENDING")) == 2, "queued jobs")
    short, other = sorted(
        cluster.jobs("PENDING"), key=lambda job: "NumTasks=1 " in call("scontrol", "show", "job", "-o", job)
    )
    call("scontrol", "update", f"JobId={short}", "TimeLimit=1")
    cluster.partition("UP")
    wait_until(lambda: bench.starts()["1"], "a running program")
    node = cluster.node_of(other)
    call("scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=test")
    time.sleep(5)
    call("scontrol", "update", f"NodeName={node}", "State=RESUME")
    assert controller.wait(PATIENCE_S) == 0, bench.output
    assert f"Slurm job {other} lost its node" in bench.output
    assert f"Slurm job {short} ran out of time" in bench.output
    bench.assert_whole({}, interrupted=2)
    assert any("time limit of 60 s was reached" in attempt["reason"] for attempt in bench.attempts())


@pytest.mark.thorough
def test_a_cancelled_job_is_measured_by_the_next_run_and_a_duplicate_ends(bench: SlurmBench, cluster: Cluster) -> None:
    hold = bench.folder / "hold"
    hold.touch()
    bench.program(f"while [ -e {hold} ]; do sleep 0.2; done; exec {{binary}} 40", resources={"time_limit": 300})
    controller = bench.start()
    wait_until(lambda: len(bench.starts()) == 2, "running programs")
    job, other = cluster.running()
    script = bench.folder / "copy.sh"
    script.write_text(call("scontrol", "write", "batch_script", job, "-"))
    comment = call("squeue", "-h", "-j", job, "-o", "%k").strip()
    options = ["--wait", "--comment", comment, "--exclusive", "-D", str(bench.results), "-o", str(bench.folder / "log")]
    copy = subprocess.Popen(["sbatch", *options, str(script)], env=bench.environment, stdout=subprocess.DEVNULL)
    call("scancel", other)
    assert copy.wait(PATIENCE_S) != 0
    hold.unlink()
    logs = [path.read_text() for path in (bench.results / "logs" / "measure").glob("*/*.log")]
    (text,) = [text for text in logs if "being measured elsewhere" in text]
    assert f"Slurm job {job}" in text
    assert controller.wait(PATIENCE_S) == 3
    assert f"Slurm job {other} was cancelled" in bench.output
    before = bench.finished()
    assert len(before) >= 3, "the other job went on"
    bench.run()
    bench.assert_whole(before, interrupted=1)
    assert any(attempt["status"] == "interrupted" for attempt in bench.attempts())
    assert min(bench.starts().values()) == 3, "the duplicate started nothing"


@pytest.mark.thorough
def test_a_controller_in_a_job_that_is_requeued_goes_on(bench: SlurmBench, cluster: Cluster) -> None:
    bench.program(SLOW)
    script, code = bench.folder / "controller.sh", bench.folder / "code"
    words = bench.command("run", "campaign.yaml", "--profile", str(bench.profile))
    script.write_text(f"#!/bin/sh\n{shlex.join(words)}\necho $? > {code}\n")
    submit = [
        "sbatch",
        "--parsable",
        "--requeue",
        "--ntasks=1",
        "--open-mode=append",
        f"--output={bench.folder}/output",
    ]
    done = subprocess.run(
        [*submit, str(script)], cwd=bench.folder, env=bench.environment, capture_output=True, text=True
    )
    job = done.stdout.strip()
    wait_until(lambda: bench.starts() and len(cluster.running()) > 1, "a running program")
    before = bench.finished()
    call("scontrol", "requeue", job)
    wait_until(code.is_file, "the controller's end")
    assert code.read_text().strip() == "0", bench.output
    assert "Restarts=1" in call("scontrol", "show", "job", "-o", job)
    bench.assert_whole(before, interrupted=0)


@pytest.mark.thorough
def test_srun_binds_ranks_and_one_that_fails_is_a_failed_run(bench: SlurmBench) -> None:
    if "pmix" not in call("srun", "--mpi=list"):
        pytest.skip("this Slurm has no PMIx: Open MPI cannot be started by srun")
    bench.point = "{n}"
    bench.program(
        "[ $PMIX_RANK = 1 ] && [ {n} = 40 ] && exit 7; exec {binary} {n}",
        environments={
            "sandbox": {"launcher": "srun", "variables": {"SLURM_MPI_TYPE": "pmix", "OMPI_MCA_btl": "self,tcp"}}
        },
        parameters={"n": {"role": "size", "values": [20, 40]}},
        resources={"ranks": 4, "nodes": 2, "time_limit": 60},
    )
    bench.run(expect=1)
    state = bench.status()
    assert state["failed"] == 3 and state["measured"] == 3
    assert all(
        "n=40" in failure["what"] and "task 1: Exited with exit code 7" in failure["reason"]
        for failure in state["failures"]
    )
    for record in bench.records():
        assert record["argv"][:9] == [
            "srun",
            "-N",
            "2",
            "-n",
            "4",
            "-c",
            "1",
            "--cpu-bind=cores",
            "--kill-on-bad-exit=1",
        ]
        places = record.get("placement", [])
        assert record["mode"] == "vanilla" or {place["host"] for place in places} == set(record["allocation"]["nodes"])
        if len(os.sched_getaffinity(0)) >= 2:
            assert all(place["cpus"].isdecimal() and place["ranks"].isdecimal() for place in places), "a core for each"
    before = bench.starts()
    bench.run(expect=1)
    assert bench.starts() == before, "failures are final until a retry is asked for"


@pytest.mark.thorough
def test_controllers_at_once_here_and_in_another_folder_measure_once(bench: SlurmBench) -> None:
    bench.program(SLOW)
    other = bench.folder.with_name("other")
    shutil.copytree(bench.folder / "source", other / "source")
    twin = SlurmBench(other, dict(bench.config), profile=bench.profile)
    twin.write(results=str(bench.folder / "results"))
    all_at_once = [bench.start(), bench.start(), twin.start()]
    assert [each.wait(PATIENCE_S) for each in all_at_once] == [0, 0, 0], bench.output + twin.output
    assert (bench.output + twin.output).count("another controller drives this campaign") >= 2
    bench.assert_whole({}, interrupted=0)
    assert "0 problems" in twin.buran("verify", "campaign.yaml")


@pytest.mark.thorough
def test_a_store_on_another_file_system_that_is_full_then_read_only(bench: SlurmBench) -> None:
    bench.program(SLOW)
    store = bench.results / "store"
    store.mkdir(parents=True)
    assert store.stat().st_dev == Path("/tmp").stat().st_dev
    mount("-t", "tmpfs", "-o", "size=64m", "tmpfs", str(store))
    try:
        controller = bench.start()
        wait_until(bench.finished, "a finished run")
        filler = store / "filler"
        subprocess.run(["dd", "if=/dev/zero", f"of={filler}", "bs=64k"], check=False, capture_output=True)
        assert controller.wait(PATIENCE_S) == 3, bench.output
        assert "No space left on device" in bench.output and "make room there" in bench.output
        assert "Traceback" not in bench.output
        filler.unlink()
        before = bench.finished()
        mount("--bind", str(store), str(store))
        mount("-o", "remount,ro,bind", str(store))
        output = bench.run(expect=3)
        subprocess.run(["umount", "-l", str(store)], check=True)
        assert "Read-only file system" in output and "mounted for writing" in output
        assert bench.finished() == before
        bench.run()
        bench.assert_whole(before, interrupted=4)
    finally:
        while os.path.ismount(store):
            subprocess.run(["umount", "-l", str(store)], check=True)


def mount(*words: str) -> None:
    subprocess.run(["mount", *words], check=True)
