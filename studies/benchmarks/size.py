"""What large campaigns cost to drive: `buran status`, and `buran run` with nothing left to do.

    python studies/benchmarks/size.py [--runs 100000] [--json FILE]
    python studies/benchmarks/size.py --graph [--runs 1000000] [--points-per-job auto|N] [--json FILE]
    python studies/benchmarks/size.py --measured [--runs 100000] [--json FILE]

The store is filled with made-up runs, booked like real ones; nothing is measured, and nothing is synced to the disk.
CPU time is user and system, of all processes. Each verb is a process of its own, as a user starts it, once with the
ledger and the index of runs that it finds and once without them.

With --graph the first plan is made, and the engine makes the graph of all jobs, with nothing measured yet, and carries
them out: a hundred numbers of ranks, and jobs of about ten minutes (`points_per_job: auto`) or of some points. They are
submitted to commands that stand for Slurm's: every job ends at once, and leaves what the engine waits for.

With --measured nothing is made up: `buran run` measures a program of a millisecond that prints a number, so many times,
on this machine, and models it; then come `buran status`, with its index and without, and `buran run` again.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from buran.campaign.plan import Plan
from buran.campaign.records import BuildOutcome, Status
from buran.files import not_synced
from buran.measurement.bundle import slots_of
from buran.measurement.store import ledger
from buran.workflow.engine import controller
from buran.workflow.engine.jobs import Division
from buran.workflow.measure import plan_in_force, write_plan
from buran.workflow.plan import first_plan
from buran.workflow.session import Session, open_session
from orchestration import RUNS_PER_POINT, campaign, command, fill, made_up_end, stand_ins, timed

_RANKS = 100  # numbers of them


def peak_mib(work: Callable[[], Any]) -> tuple[dict[str, float], Any]:
    """Do work in a process of its own; return its times and its memory, with that of the processes it waited for."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        times, result = timed(work)
        who = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
        peak = max(resource.getrusage(each).ru_maxrss for each in who) / 1024
        os.write(write, json.dumps([{**times, "peak_mib": peak}, str(result)[-2000:]]).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    times, result = json.loads(text)
    return times, result


def restart(session: Session) -> Callable[[], str]:
    """Return the work of starting a campaign again that is done."""

    def work() -> str:
        told = command("run", session)()
        assert "nothing is left to do" in told, told
        return told

    return work


def booked(session: Session) -> float:
    """Return the CPU seconds of one look at what a target has cost, as each run of a job takes before it starts."""
    reader = ledger.LedgerReader(session.layout.store)
    times, _ = timed(lambda: ledger.spent_core_hours(reader.read(), session.target.id))
    return times["cpu_s"]


def one_to_go(session: Session, plan: Plan) -> None:
    """Take the last point's runs away, as if they were still to be made."""
    layout, bundle = session.layout, plan.bundles[-1]
    for _, slot in slots_of(session.target, layout, bundle):
        shutil.rmtree(slot.folder)
    layout.bundle_pointer(bundle.id).unlink()
    shutil.rmtree(layout.iteration(session.id, 1))
    booked = ledger.ledger_path(layout.store)
    lines = [line for line in booked.read_text().splitlines() if f"/{bundle.point.key}~" not in line]
    booked.write_text("\n".join([*lines, ""]))


def measure(folder: Path, runs: int) -> dict[str, Any]:
    """Make a campaign of so many runs and measure what driving it takes."""
    session = open_session(campaign(folder, runs))
    steps: dict[str, Any] = {}
    with not_synced():
        steps["first plan"], plan = timed(lambda: first_plan(session))
        layout = session.layout
        write_plan(layout, session.id, plan)
        steps["specifications of bundles"], _ = timed(lambda: plan_in_force(layout, session.id, 0))
        fill(session, plan)
        steps["ledger from the store"], _ = timed(lambda: ledger.complete(layout.store))
        made_up_end(session, plan)
    steps["what is spent, before a run"] = {"wall_s": 0.0, "cpu_s": booked(session)}
    steps["buran status, without an index"], _ = peak_mib(command("status", session))
    steps["buran status"], _ = peak_mib(command("status", session))
    steps["buran run, nothing to do"], _ = peak_mib(restart(session))
    one_to_go(session, plan)
    steps["buran status, a point to go"], _ = peak_mib(command("status", session))
    return {"runs": sum(len(bundle.runs) for bundle in plan.bundles), "bundles": len(plan.bundles), "steps": steps}


_TINY = """#include <stdio.h>
int main(int count, char **words) { return printf("rate: %s per_s\\n", words[1]) < 0; }
"""


def measured(folder: Path, runs: int) -> dict[str, Any]:
    """Measure so many runs, look at them, and start again."""
    (folder / "source").mkdir()
    (folder / "source" / "tiny.c").write_text(_TINY)
    config = {
        "name": "tiny",
        "backend": "command",
        "program": {
            "source": "source",
            "build": "{cc} {flags} -o tiny tiny.c",
            "binary": "tiny",
            "run": "{binary} {n} {m}",
        },
        "environments": {"here": {"launcher": "none"}},
        "parameters": {
            "m": {"role": "size", "values": list(range(1, runs // (4 * _RANKS) + 1))},
            "n": {"role": "size", "values": list(range(1, _RANKS + 1))},
        },
        "figures": {"rate": r"rate: (\S+) per_s"},
        "repetitions": 2,
        "warmup": False,
        "resources": {"ranks": 1, "time_limit": 60},
    }
    path = folder / "campaign.yaml"
    path.write_text(yaml.safe_dump(config))
    session = open_session(path)
    steps: dict[str, Any] = {}
    steps["buran run"], _ = peak_mib(command("run", session))
    steps["buran status, the first time"], _ = peak_mib(command("status", session))
    steps["buran status"], _ = peak_mib(command("status", session))
    steps["buran run, nothing to do"], _ = peak_mib(restart(session))
    entries = [entry for entry in ledger.read(session.layout.store) if not entry.is_of_build]
    points = {entry.key.point for entry in entries}
    return {"runs": len(entries), "bundles": len(points), "steps": steps}


def graph(folder: Path, runs: int, points_per_job: int | str) -> dict[str, Any]:
    """Plan a campaign of so many runs, have the engine make the graph of its jobs, and have it submit them."""
    path = campaign(folder, runs)
    config = yaml.safe_load(path.read_text())
    sizes = runs // RUNS_PER_POINT // _RANKS
    config["parameters"] = {
        "p": {"role": "ranks", "values": list(range(1, _RANKS + 1))},
        "n": {"role": "size", "values": list(range(1, sizes + 1))},
    }
    config["resources"]["points_per_job"] = points_per_job
    path.write_text(yaml.safe_dump(config))
    session = open_session(path)
    layout = session.layout

    def planned() -> str:
        with not_synced():
            plan = first_plan(session)
            write_plan(layout, session.id, plan)
        return f"{sum(len(bundle.runs) for bundle in plan.bundles)} {len(plan.bundles)}"

    profile = controller.find_profile("slurm")
    environment = stand_ins(folder / "slurm")

    def engine(*options: str) -> int:
        words = controller.engine_command(path, layout, profile, ["--quiet", "all", *options])
        done = subprocess.run(words, capture_output=True, text=True, env=environment)
        assert done.returncode == 0, done.stderr[-2000:]
        return done.returncode

    steps: dict[str, Any] = {}
    steps["first plan, with its files"], counts = peak_mib(planned)
    steps["graph of all jobs"], _ = peak_mib(partial(engine, "--dry-run"))
    made, bundles = map(int, counts.split())
    division = Division.read(layout.division(session.id, 0))
    batched = [job for jobs in division.batches.values() for job in jobs]
    jobs = bundles + len(batched) - sum(map(len, batched))
    for spec in first_plan(session).builds:
        BuildOutcome(spec.hash, spec.mode, Status.MEASURED, None, "").write(layout.build_pointer(spec.hash))
    steps["submitting all jobs, with the graph"], _ = peak_mib(partial(engine, "--until", "measure_together"))
    assert all(map(Path.is_file, map(layout.batch_pointer, division.batches)))
    return {"runs": made, "bundles": bundles, "jobs": jobs, "steps": steps}


def main() -> None:
    """Read the command line and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int)
    parser.add_argument("--graph", action="store_true", help="plan, and make the graph of all jobs")
    parser.add_argument("--measured", action="store_true", help="measure them all")
    parser.add_argument(
        "--points-per-job", type=lambda text: text if text == "auto" else int(text), default="auto", help="with --graph"
    )
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        in_jobs = partial(graph, points_per_job=arguments.points_per_job)
        work, usual = (in_jobs, 1_000_000) if arguments.graph else (measure, 100_000)
        work = measured if arguments.measured else work
        found = work(Path(name), arguments.runs or usual)
    jobs = f", {found['jobs']} jobs" if "jobs" in found else ""
    print(f"{found['runs']} runs in {found['bundles']} bundles{jobs}")
    for step, times in found["steps"].items():
        memory = f"{times['peak_mib']:6.0f} MiB" if "peak_mib" in times else ""
        print(f"{step:36} {times['wall_s']:8.2f} s wall {times['cpu_s']:8.3f} s CPU {memory}")
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=2))


if __name__ == "__main__":
    sys.exit(main())
