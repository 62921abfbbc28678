"""The other way to ask what became of jobs: sacct, with slurmdbd and a database. Starts a Slurm of its own."""

from __future__ import annotations

import math
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster import Cluster, SlurmBench, call

from buran.measurement.schedulers import slurm

pytestmark = [pytest.mark.thorough, pytest.mark.mpi]
SLEEP = {
    "build": "printf '#!/bin/sh\\nexec sleep $1\\n' > pause && chmod +x pause",
    "run": "{binary} {n}",
}
STENCIL = Path(__file__).parents[2] / "examples" / "stencil"


@pytest.fixture
def accounting(sandbox: Cluster, tool: str, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """The sandbox, started anew with accounting and what a test wants beside; afterwards without, as it was."""
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    beside = getattr(request, "param", ())
    if subprocess.run([tool, "start", "--accounting", *beside], check=False, **quiet).returncode != 0:
        subprocess.run([tool, "start"], check=True, **quiet)
        pytest.skip("slurmdbd and a database, or what is asked for beside, cannot be started here")
    yield sandbox
    subprocess.run([tool, "start"], check=True, **quiet)


@pytest.mark.parametrize("accounting", [["--energy"]], indirect=True)
def test_energy_that_slurm_accounts_for_is_modelled(accounting: Cluster, bench: SlurmBench) -> None:
    """Slurm's own plugin gathers made-up counters of 200 W a node; programs that sleep consume what follows from it."""
    pytest.importorskip("buran.plugins.energy")
    bench.write(
        backend="command",
        metrics=["time"],
        program={"source": "source", "binary": "pause", **SLEEP},
        parameters={"p": {"role": "ranks", "values": [1, 2]}, "n": {"role": "size", "values": [2, 4]}},
        environments={"sandbox": {"launcher": "srun"}},
        resources={"nodes": "p", "time_limit": 60, "account": "sandbox"},
        target={"p": 2, "n": 8},
        energy=True,
    )
    bench.run()
    records = [record for record in bench.records() if record["mode"] in ("vanilla", "time")]
    assert len(records) == 8
    for record in records:
        point, joules = record["point"], record.get("energy_j")
        assert record.get("energy_from") == "slurm", record.get("energy_unknown")
        # Slurm looks at them each second, later on a loaded machine: how exact it is, is its own affair.
        assert joules > 100 * point["p"] * point["n"], (point, joules)
    booked: dict[str, int] = {}
    for line in call("sacct", "-nP", "--format=JobIDRaw,ConsumedEnergyRaw").splitlines():
        step, _, consumed = line.partition("|")
        job, _, number = step.partition(".")
        if number.isdecimal():
            booked[job] = booked.get(job, 0) + int(consumed)
    charged: dict[str, float] = {}
    for record in bench.records():
        charged[record["job"]] = charged.get(record["job"], 0.0) + (record.get("energy_j") or 0.0)
    assert charged == {job: booked[job] for job in charged}, "what the records say is what is booked of their steps"
    report = (bench.results / "latest" / "report.txt").read_text()
    assert "As the scheduler slurm accounts for steps of its jobs" in report
    assert "Energy and core hours" in report and "n=8, p=2, predicted" in report


def test_a_campaign_is_charged_to_an_account_of_its_user(accounting: Cluster, bench: SlurmBench) -> None:
    assert slurm.has_accounting()
    bench.write(resources={"time_limit": 60, "account": "nowhere"})
    refused = bench.run(expect=2)
    assert "account 'nowhere' cannot be used in the partition debug" in refused
    assert "key resources.account" in refused and "yours there: root, sandbox" in refused
    bench.write(resources={"time_limit": 60, "account": "sandbox"})
    bench.run()
    bench.assert_whole({}, interrupted=0)
    assert {record["allocation"]["account"] for record in bench.records()} == {"sandbox"}


def test_the_whole_loop_is_charged_no_more_than_its_jobs_held(accounting: Cluster, bench: SlurmBench) -> None:
    """Filter, models, adaptive points and a budget, without a hand on it; the ledger against Slurm's own records."""
    shutil.copytree(STENCIL, bench.folder / "stencil")
    budget = 0.05
    bench.write(
        program={
            "source": "stencil",
            "build": "make MPICXX={mpicxx} CXXFLAGS='{flags}'",
            "binary": "stencil",
            "run": "{binary} {n} 10",
        },
        parameters={"p": {"role": "ranks", "values": [1, 2, 4]}, "n": {"role": "size", "values": [8, 12, 16, 20]}},
        resources={"nodes": "ceil(p / 2)", "time_limit": 60, "points_per_job": 8, "account": "sandbox"},
        target={"p": 8, "n": 40},
        refinement={"enabled": True, "pilot": True, "share": 0.05},
        strategy={"name": "design", "max_iterations": 2},
        budget={"core_hours": budget},
    )
    output = bench.run(expect=None)
    state = bench.status()
    assert state["done"] and state["reason"] in output
    phases = {plan["phase"] for plan in bench.plans()}
    assert {"first look", "times", "end"} <= phases
    # The ledger is the sum of the records of the runs, to the last digit but rounding.
    records = [*bench.records(), *bench.warmups(), *bench.attempts()]
    charged = math.fsum(record["cost_core_hours"] for record in records)
    assert state["spent_core_hours"] == pytest.approx(charged, rel=1e-12)
    assert math.fsum(item["core_hours"] for item in state["account"]) == pytest.approx(charged, rel=1e-12)
    most = max(record["cost_core_hours"] for record in records)
    assert charged <= budget + 4 * most, "exceeded by no more than the run in flight on each node"
    # Slurm's records: each job held about what its runs are charged for.
    held = slurm_records()
    assert {record["job"] for record in records} <= held.keys()
    for job, core_seconds in held.items():
        own = [record for record in records if record["job"] == job]
        width = max((record["allocation"]["cpus"] for record in own), default=0)
        used = math.fsum(3600 * record["cost_core_hours"] for record in own)
        assert used <= core_seconds + 2 * width, f"job {job}"  # Slurm counts whole seconds; the job's end is foreseen
    whole = math.fsum(held[job] for job in {record["job"] for record in records}) / 3600
    own = math.fsum(record["program_core_hours"] for record in records if record["cost_core_hours"])
    assert 0 < own < charged, "the programs alone had less"
    assert charged > whole / 2, "what the site charges, but for the ends of jobs"
    print(f"ledger {charged:.4g} core hours, jobs {whole:.4g}, {len(held)} jobs, ended: {state['reason']}")


def slurm_records() -> dict[str, float]:
    """Return the core seconds that Slurm says its jobs held, by job."""
    shown = call("sacct", "--noheader", "--parsable2", "--allocations", "--format=JobIDRaw,ElapsedRaw,AllocCPUS")
    fields = (line.split("|") for line in shown.splitlines())
    return {job: float(elapsed_s) * int(cpus) for job, elapsed_s, cpus in fields}
