r"""What driving a campaign costs, beside its measurements: planning, the job graph, status, going on.

    python studies/benchmarks/orchestration.py [--runs 10000] [--json FILE]
    python studies/benchmarks/orchestration.py --slurm [--points 200] [--points-per-job 1 20] [--plain]
    python studies/benchmarks/orchestration.py --start-up

Without --slurm nothing is measured: the store is filled with made-up runs that are sealed and booked like real ones,
and submitted to a Slurm whose jobs end at once. CPU time is user and system, of all processes; memory is the largest
resident set of one process. Times on a loaded machine are upper bounds.

With --slurm (tools/slurm-sandbox start) tiny points are measured by real jobs. Overhead is the time of the sandbox's
nodes from start to end outside of the measured program and its launcher, per run. --plain does the same with Snakemake
alone: the same program, one job for each run, and the defaults of its Slurm plugin, which it needs
(`pip install snakemake-executor-plugin-slurm`). Builds are made before. Where Slurm keeps accounts (start
--accounting), what the ledger says is compared with what sacct says that the same jobs held; the CPU time of jobs is
told where Slurm gathers it (BURAN_SANDBOX_LINES with JobAcctGatherType=jobacct_gather/linux).

With --seconds the program sleeps so long, and is run to count too: nodes of the sandbox share the host's cores, and
what sleeps does not notice.

With --start-up the process of a job runs here, without a scheduler: its CPU time without that of its programs.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from buran.campaign.layout import Layout
from buran.campaign.plan import Plan
from buran.campaign.records import BuildOutcome, BundleOutcome, RunRecord, Status
from buran.files import write_json
from buran.measurement.build import build
from buran.measurement.bundle import outcome_of, slots_of
from buran.measurement.store import ledger
from buran.plugins.schedulers.tabled import seconds_of
from buran.workflow.engine import controller
from buran.workflow.history import History
from buran.workflow.measure import plan_in_force
from buran.workflow.plan import first_plan
from buran.workflow.session import Session, open_session
from buran.workflow.views.summary import summarize

_NODES = 4  # of the sandbox
RUNS_PER_POINT = 5  # two plain, two for time, one that counts


_PROGRAM = """#include <stdlib.h>
#include <unistd.h>
int main(int number, char **words) { return number > 2 ? usleep(1e6 * atof(words[2])) : 0; }
"""


def campaign(folder: Path, runs: int) -> Path:
    """Write a campaign of so many runs, ten sizes for each number of ranks."""
    (folder / "source").mkdir()
    (folder / "source" / "Makefile").write_text("program:\n\t$(CC) -o program program.c\n")
    (folder / "source" / "program.c").write_text(_PROGRAM)
    points = runs // RUNS_PER_POINT
    config = {
        "name": "scale",
        "program": {
            "source": "source",
            "build": "make CC={mpicc} CFLAGS='{flags}'",
            "binary": "program",
            "run": "{binary} {n}",
        },
        "parameters": {
            "p": {"role": "ranks", "values": list(range(1, points // 10 + 1))},
            "n": {"role": "size", "values": list(range(10, 110, 10))},
        },
        "repetitions": 2,
        "effort_repetitions": 1,
        "warmup": False,
        "refinement": {"enabled": False},
        "resources": {"nodes": "ceil(p / 48)", "expected_time": 1},
    }
    path = folder / "campaign.yaml"
    path.write_text(yaml.safe_dump(config))
    return path


def cpu_s() -> float:
    """CPU time of this process and of those it waited for."""
    return sum(
        usage.ru_utime + usage.ru_stime
        for usage in (resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN))
    )


def timed(work: Callable[[], Any]) -> tuple[dict[str, float], Any]:
    """Return wall and CPU seconds of a piece of work, and its result."""
    wall, cpu = time.perf_counter(), cpu_s()
    result = work()
    return {"wall_s": time.perf_counter() - wall, "cpu_s": cpu_s() - cpu}, result


def fill(session: Session, plan: Plan) -> None:
    """Make up all runs of a plan and the pointers to them."""
    layout = session.layout
    for spec in plan.builds:
        BuildOutcome(spec.hash, spec.mode, Status.MEASURED, None, "").write(layout.build_pointer(spec.hash))
    lines = []
    for bundle in plan.bundles:
        slots = slots_of(session.target, layout, bundle)
        for run, slot in slots:
            slot.folder.mkdir(parents=True)
            RunRecord(
                status=Status.MEASURED, wall_s=1.0, cost_core_hours=1e-4, build=run.build, target=session.target.id,
                mode=run.mode, point=bundle.point, repetition=run.repetition, clock="wall", cores=1,
            ).write(slot.folder)  # fmt: skip
            lines.append(ledger.entry_of(layout.store, slot.folder))
        outcome = BundleOutcome.of(bundle, (outcome_of(layout, run, slot) for run, slot in slots))
        outcome.write(layout.bundle_pointer(bundle.id))


def engine(session: Session, environment: Mapping[str, str], *options: str) -> Callable[[], int]:
    """Return the work of the workflow engine for a plan."""
    profile = controller.find_profile("slurm")
    words = ["--quiet", "all", *options]
    command = controller.engine_command(session.campaign.path, session.layout, profile, words)

    def work() -> int:
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
        assert done.returncode == 0, done.stderr[-2000:]
        return done.returncode

    return work


_SBATCH = """#!/bin/sh
number=$(($(cat {made}/number) + 1))
echo $number > {made}/number
for word; do case $word in --comment=*) id=${{word#*_}};; esac; done
names=$id
test -f jobs/$id.json && names=$(grep -o '[0-9a-f]\\{{16\\}}' jobs/$id.json | grep -v $id)
task=0
for name in $names; do
    kind=bundles
    test -f pointers/batches/${{name%??????????????}}/$name.spec.json && kind=batches
    echo '[]' > pointers/$kind/${{name%??????????????}}/$name.json
    test "$names" = $id && echo "$number|COMPLETED" || echo "$number"_"$task|COMPLETED"
    task=$((task + 1))
done >> {made}/jobs
echo $number
"""


def stand_ins(folder: Path) -> dict[str, str]:
    """Write commands that stand for Slurm's; return an environment in which they are found."""
    scripts = {
        "sbatch": _SBATCH.format(made=folder),
        "squeue": f'#!/bin/sh\ncase "$*" in *--states=all*) cat {folder}/jobs;; esac\n',
        "scontrol": "#!/bin/sh\necho 'MaxArraySize = 1001'\n",
    }
    folder.mkdir()
    (folder / "number").write_text("0\n")
    (folder / "jobs").touch()
    for name, text in scripts.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    return {**os.environ, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}


def command(verb: str, session: Session) -> Callable[[], str]:
    """Return a command as a user types it."""

    def work() -> str:
        words = [sys.executable, "-m", "buran.cli", verb, str(session.campaign.path)]
        done = subprocess.run(words, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return work


def made_up_end(session: Session, plan: Plan) -> None:
    """Make up what the engine leaves when a campaign is done; models take no part in what is timed here."""
    layout = session.layout
    last = replace(plan, iteration=1, done=True, reason="made up", builds=(), bundles=())
    write_json(layout.plan(session.id, 1), last.to_json())


def measure(folder: Path, runs: int) -> dict[str, Any]:
    session = open_session(campaign(folder, runs))
    layout: Layout = session.layout
    _ = session.target
    result: dict[str, Any] = {}
    result["first plan"], plan = timed(lambda: first_plan(session))
    runs = sum(len(bundle.runs) for bundle in plan.bundles)
    write_json(layout.plan(session.id, 0), plan.to_json())
    result["specifications of bundles"], _ = timed(lambda: plan_in_force(layout, session.id, 0))
    slurm = stand_ins(folder / "slurm")
    result["job graph, nothing measured"], _ = timed(engine(session, slurm, "--dry-run"))
    fill(session, plan)
    result["ledger from the store"], _ = timed(lambda: ledger.rebuild(layout.store))
    result["status"], state = timed(lambda: summarize(History.open(session)))
    assert state.measured == runs
    result["what is left to measure"], _ = timed(
        lambda: controller.make_eligible(layout, session.id, retry_failed=False)
    )
    result["job graph, everything measured"], _ = timed(engine(session, slurm, "--dry-run"))
    pointers = [layout.bundle_pointer(bundle.id) for bundle in plan.bundles]
    made_up = [pointer.read_text() for pointer in pointers]
    for pointer in pointers:
        pointer.unlink()
    result["submitting all jobs"], _ = timed(engine(session, slurm, "--until", "measure_together"))
    for pointer, text in zip(pointers, made_up, strict=True):
        assert pointer.is_file()
        pointer.write_text(text)
    result["buran status"], _ = timed(command("status", session))
    made_up_end(session, plan)
    result["buran run, everything made"], told = timed(command("run", session))
    assert "nothing is left to do" in told
    peak = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return {"runs": runs, "bundles": len(plan.bundles), "steps": result, "peak_rss_mib": peak / 1024}


_PLAIN = """
rule all:
    input: [f"out/{{n}}" for n in range({points})]
rule run:
    output: "out/{{n}}"
    resources: runtime=5, slurm_extra="--exclusive"
    shell: "{binary} 1 > {{output}}"
"""


def on_slurm(folder: Path, points: int, points_per_job: int, seconds: float) -> dict[str, float]:
    """Measure so many points by real jobs; return wall time and runs."""
    path = campaign(folder, RUNS_PER_POINT * points)
    config = yaml.safe_load(path.read_text())
    config |= {
        "parameters": {"n": {"role": "size", "values": list(range(1, points + 1))}},
        "repetitions": 1,
        "resources": {
            "ranks": 1,
            "expected_time": 0.1 + seconds,
            "time_limit": 60,
            "points_per_job": points_per_job,
        },
        "environments": {"sandbox": {"launcher": "auto", "variables": {"OMPI_MCA_btl": "self,tcp"}}},
    }
    if seconds:
        config["program"]["run"] = f"{{binary}} {{n}} {seconds}"
    else:
        config["metrics"] = ["time"]
    path.write_text(yaml.safe_dump(config))
    command = [sys.executable, "-m", "buran.cli", "run", str(path), "--profile", "slurm"]
    session = open_session(path)
    plan = first_plan(session)
    layout = session.layout
    write_json(layout.plan(session.id, 0), plan.to_json())
    plan_in_force(layout, session.id, 0)
    for spec in plan.builds:
        build(session.target, layout, spec).write(layout.build_pointer(spec.hash))
    shutil.rmtree(layout.root / "iterations")
    times, done = timed(lambda: subprocess.run(command, capture_output=True, text=True))
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    records = [json.loads(path.read_text()) for path in layout.store.glob("*/*/*~*/rep-*/run.json")]
    return {
        **times,
        "runs": len(records),
        "program_s": sum(record["wall_s"] for record in records),
        "charged_core_s": 3600 * sum(record["cost_core_hours"] for record in records),
    }


def accounts() -> dict[str, tuple[float, float]]:
    """Return by job what Slurm says that it held and used, in core seconds; nothing where it keeps no accounts."""
    asked = ["sacct", "--noheader", "--parsable2", "--format=JobIDRaw,ElapsedRaw,AllocCPUS,TotalCPU"]
    if shutil.which("sacct") is None:
        return {}
    lines = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.splitlines()
    fields = [line.split("|") for line in lines if line.count("|") == 3]
    used: dict[str, float] = defaultdict(float)
    for step, _, _, cpu in fields:
        if "." in step:
            used[step.partition(".")[0]] += seconds_of(cpu) or 0.0
    return {job: (float(held_s) * int(cpus), used[job]) for job, held_s, cpus, _ in fields if "." not in job}


def start_up(folder: Path, jobs: int = 5) -> dict[str, float]:
    """Run the processes of some jobs of one point each; return the median of their own CPU time in seconds."""
    path = campaign(folder, RUNS_PER_POINT * 20)
    session = open_session(path)
    plan, layout = first_plan(session), session.layout
    write_json(layout.plan(session.id, 0), plan.to_json())
    plan_in_force(layout, session.id, 0)
    for spec in plan.builds:
        build(session.target, layout, spec).write(layout.build_pointer(spec.hash))
    own = []
    for bundle in [bundle for bundle in plan.bundles if bundle.point["p"] == 1][:jobs]:
        words = [sys.executable, "-m", "buran.workflow.measure", str(path), session.id, bundle.id]
        before = cpu_s()
        subprocess.run(words, cwd=layout.root, check=True)
        outcome = BundleOutcome.read(layout.bundle_pointer(bundle.id))
        assert outcome.complete
        own.append(cpu_s() - before - sum(run.cpu_s or 0.0 for run in outcome.runs))
    return {"start_up_cpu_s": statistics.median(own), "most_cpu_s": max(own)}


def plain(folder: Path, points: int) -> dict[str, float]:
    """Do the same with Snakemake alone."""
    binary = folder / "program"
    (folder / "program.c").write_text("int main(void) { return 0; }\n")
    subprocess.run(["cc", "-o", str(binary), str(folder / "program.c")], check=True)
    (folder / "Snakefile").write_text(_PLAIN.format(points=points, binary=binary))
    command = [sys.executable, "-m", "snakemake", "--executor", "slurm", "--jobs", "50", "--slurm-no-account"]
    command += ["--slurm-status-command", "squeue"]  # the default needs accounting, which the sandbox has not
    times, done = timed(lambda: subprocess.run(command, cwd=folder, capture_output=True, text=True))
    assert done.returncode == 0, done.stderr[-2000:]
    return {**times, "runs": points, "program_s": 0.0}


def compare_on_slurm(points: int, points_per_job: list[int], seconds: float, with_plain: bool) -> dict[str, Any]:
    """Print what a run costs beside the program, for each way to cut the points into jobs."""
    ways: dict[str, Callable[[Path], dict[str, float]]] = {
        f"{number} points a job": partial(on_slurm, points=points, points_per_job=number, seconds=seconds)
        for number in points_per_job
    }
    if with_plain:
        ways["Snakemake alone"] = partial(plain, points=points)
    found: dict[str, Any] = {}
    for name, work in ways.items():
        before = accounts()
        with tempfile.TemporaryDirectory() as folder:
            found[name] = work(Path(folder))
        each = found[name]
        jobs = [account for job, account in accounts().items() if job not in before]
        held_s, used_s = (sum(account[place] for account in jobs) for place in (0, 1))
        overhead_s = (_NODES * each["wall_s"] - each["program_s"]) / each["runs"]
        print(
            f"{name:20} {points:5} points {each['runs']:6.0f} runs {each['wall_s']:8.1f} s wall, that is "
            f"{each['wall_s'] / each['runs']:6.2f} s a run; {overhead_s:6.2f} s of a node a run beside the program; "
            f"controller {each['cpu_s']:.1f} s CPU",
            flush=True,
        )
        if jobs:
            print(
                f"    {len(jobs)} jobs held {held_s:.0f} core s and used {used_s / len(jobs):.2f} s CPU each",
                flush=True,
            )
        if jobs and "charged_core_s" in each:
            share = each["charged_core_s"] / held_s - 1.0
            print(f"    the ledger says {each['charged_core_s']:.0f}, {share:+.1%}", flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--slurm", action="store_true", help="measure tiny points by real jobs")
    parser.add_argument("--points", type=int, default=200)
    parser.add_argument("--points-per-job", type=int, nargs="*", default=[1, 20])
    parser.add_argument("--seconds", type=float, default=0.0, help="with --slurm: that the program sleeps")
    parser.add_argument("--plain", action="store_true", help="with --slurm: Snakemake alone too")
    parser.add_argument("--start-up", action="store_true", help="the process of a job, without a scheduler")
    arguments = parser.parse_args()
    if arguments.start_up:
        with tempfile.TemporaryDirectory() as name:
            own = start_up(Path(name))
        print(
            f"process of a job: {own['start_up_cpu_s']:.2f} s CPU beside its programs, {own['most_cpu_s']:.2f} at most"
        )
        return
    if arguments.slurm:
        ways = arguments.points_per_job, arguments.seconds, arguments.plain
        compared = compare_on_slurm(arguments.points, *ways)
        if arguments.json:
            arguments.json.write_text(json.dumps(compared, indent=2))
        return
    with tempfile.TemporaryDirectory() as name:
        found = measure(Path(name), arguments.runs)
    print(f"{found['runs']} runs in {found['bundles']} bundles; peak memory {found['peak_rss_mib']:.0f} MiB")
    for step, times in found["steps"].items():
        per_run = 1000 * times["cpu_s"] / found["runs"]
        print(f"{step:32} {times['wall_s']:8.2f} s wall {times['cpu_s']:8.2f} s CPU {per_run:8.3f} ms CPU per run")
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=2))


if __name__ == "__main__":
    sys.exit(main())
