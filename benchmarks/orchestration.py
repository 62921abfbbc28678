"""What driving a campaign costs, beside its measurements: planning, the job graph, status, going on.

    python benchmarks/orchestration.py [--runs 10000] [--json FILE]

Nothing is measured: the store is filled with made-up runs that are sealed and booked like real ones. CPU time is user
and system, of all processes; memory is the largest resident set of one process. Times on a loaded machine are upper
bounds.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from buran.campaign.layout import Layout
from buran.campaign.plan import Plan
from buran.files import write_json
from buran.measure import ledger, store
from buran.measure.bundle import _outcome, slot_of
from buran.steps import controller
from buran.steps.plan import first_plan
from buran.steps.progress import progress_of
from buran.steps.session import Session, open_session

RUNS_PER_POINT = 5  # two plain, two for time, one that counts


def campaign(folder: Path, runs: int) -> Path:
    """Write a campaign of so many runs, ten sizes for each number of ranks."""
    (folder / "source").mkdir()
    (folder / "source" / "Makefile").write_text("program:\n\t$(CC) -o program program.c\n")
    (folder / "source" / "program.c").write_text("int main(void) { return 0; }\n")
    points = runs // RUNS_PER_POINT
    config = {
        "name": "scale",
        "target": {
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
        "resources": {"nodes": "ceil(p / 48)", "expected_s": 1},
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
    for build in plan.builds:
        write_json(layout.build_pointer(build.hash), {"build": build.hash, "status": "measured", "folder": None})
    lines = []
    for bundle in plan.bundles:
        for run in bundle.runs:
            slot = slot_of(session.target, layout, run, bundle)
            slot.folder.mkdir(parents=True)
            record = {
                "target": session.target.id,
                "mode": run.mode,
                "status": "measured",
                "wall_s": 1.0,
                "cost_core_hours": 1e-4,
            }
            (slot.folder / store.RECORD).write_text(json.dumps(record))
            lines.append(ledger.entry_of(layout.store, slot.folder))
        outcomes = [_outcome(layout, run, slot_of(session.target, layout, run, bundle)) for run in bundle.runs]
        path = layout.bundle_pointer(bundle.id)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({**bundle.to_json(), "complete": True, "runs": outcomes}))


def engine(session: Session, *extra: str) -> Callable[[], int]:
    """Return the workflow engine's dry run: it builds the graph, asks for all resources, and starts nothing."""
    profile = controller.find_profile("slurm")
    options = ["--slurm-status-command", "squeue", "--slurm-no-account", "--dry-run", "--quiet", "all", *extra]
    command = controller.engine_command(session.campaign.path, session.layout, profile, options)

    def work() -> int:
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-2000:]
        return done.returncode

    return work


def measure(folder: Path, runs: int) -> dict[str, Any]:
    session = open_session(campaign(folder, runs))
    layout: Layout = session.layout
    _ = session.target
    result: dict[str, Any] = {}
    result["first plan"], plan = timed(lambda: first_plan(session))
    runs = sum(len(bundle.runs) for bundle in plan.bundles)
    write_json(layout.plan(session.id, 0), plan.to_json())
    result["specifications of bundles"], _ = timed(lambda: layout.read_plan(session.id, 0))
    result["job graph, nothing measured"], _ = timed(engine(session))
    fill(session, plan)
    result["ledger from the store"], _ = timed(lambda: ledger.rebuild(layout.store))
    result["status"], state = timed(lambda: progress_of(session))
    assert state.measured == runs
    result["what is left to measure"], _ = timed(
        lambda: controller.make_eligible(layout, session.id, retry_failed=False)
    )
    result["job graph, everything measured"], _ = timed(engine(session))
    peak = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return {"runs": runs, "bundles": len(plan.bundles), "steps": result, "peak_rss_mib": peak / 1024}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
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
