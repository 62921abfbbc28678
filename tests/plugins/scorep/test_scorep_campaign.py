"""Whole campaigns under a real Score-P, where there is one."""

import json
import os
import shutil
import signal
import subprocess
import time

import pytest

from buran.profiles.cubex_read import read_cubex
from patience import PATIENCE_S

pytestmark = [
    pytest.mark.slow,
    pytest.mark.thorough,
    pytest.mark.mpi,
    pytest.mark.skipif(shutil.which("scorep") is None, reason="Score-P is not installed"),
]


def runs(workbench):
    """Return the records of all timed runs that were measured."""
    records = [json.loads(path.read_text()) for path in workbench.results.glob("store/*/*/*~*/rep-*/run.json")]
    return [record for record in records if record["mode"] == "time"]


def test_a_campaign_runs_to_its_end_and_ends_with_a_list(workbench):
    wishes = {"target": {"p": 4, "n": 400}, "refinement": {"start": "everything"}}
    workbench.write(backend="scorep", compiler="auto", counters=["instructions", "page_faults"], **wishes)
    said = workbench.buran("run", "campaign.yaml")
    assert " 0 failed" in said and "Score-P" not in said.partition("report:")[2]
    measured = runs(workbench)
    assert measured and all(record["status"] == "measured" for record in measured)
    latest = workbench.results / "latest"
    assert "basic_blocks" in (latest / "experiment.jsonl").read_text()
    report = (latest / "report.txt").read_text()
    measured = (latest / "experiment.jsonl").read_text()
    for name in ("instructions", "page_faults"):  # what the machine does not have is left out and named, not fatal
        assert (f'"{name}"' in measured) != (f"{name}: " in report and "key counters" in report)
    assert "priors from counts" in report and "were not counted" not in report
    builds = [json.loads(path.read_text()) for path in workbench.results.glob("store/*/build/run.json")]
    costs = [record["visit_cost_s"] for record in builds if record.get("visit_cost_s")]
    assert costs and all(10e-9 < cost < 5e-6 for cost in costs)
    assert all(record["visit_cost_spread_s"] >= 0 for record in builds if record.get("visit_cost_s"))


def test_filters_at_run_time_take_one_build(workbench):
    workbench.write(backend="scorep", target={"p": 4, "n": 400}, refinement={"filtering": "run", "drop": ["fill*"]})
    workbench.buran("run", "campaign.yaml")
    assert {record["status"] for record in runs(workbench)} == {"measured"}
    timed = [json.loads(path.read_text()) for path in workbench.results.glob("store/*/build/run.json")]
    compiled = [each for each in timed if each["spec"]["mode"] == "time" and not each.get("filtered_at_run_time")]
    assert len(compiled) == 1


def test_killed_it_goes_on_and_measures_nothing_twice(workbench):
    workbench.write(backend="scorep", repetitions=3)
    first = subprocess.Popen(
        workbench.command("run", "campaign.yaml"),
        cwd=workbench.folder,
        env=workbench.environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    deadline = time.monotonic() + PATIENCE_S
    while len(runs(workbench)) < 3 and time.monotonic() < deadline and first.poll() is None:
        time.sleep(0.2)
    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    before = {path: path.stat().st_mtime_ns for path in workbench.results.glob("store/*/*/*~*/rep-*/profile.cubex")}
    assert len(before) >= 3
    workbench.buran("run", "campaign.yaml")
    assert len(runs(workbench)) == 4 * 3
    for path, written in before.items():
        assert path.stat().st_mtime_ns == written
        assert "time" in read_cubex(path).values or "basic_blocks" in read_cubex(path).values


HIDDEN = """
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
__attribute__((noinline)) static inline double inner(int n) {
    double x = 0;
    for (int i = 0; i < 400 * n; i++) x += 1.0 / (i + 1);
    return x;
}
__attribute__((noinline)) static double kernel(int n) { return n > 0 ? inner(n) + inner(n / 2) : 0; }
int main(int argc, char **argv) {
    int n = argc > 1 ? atoi(argv[1]) : 1;
    MPI_Init(&argc, &argv);
    double x = 0;
    for (int i = 0; i < 20; i++) x += kernel(n);
    printf("%g\\n", x);
    MPI_Finalize();
    return 0;
}
"""


def test_functions_without_hooks_below_a_kernel_are_tried(workbench):
    """Score-P passes over functions that are declared inline; the build that counts knows of their loops."""
    (workbench.folder / "source" / "program.c").write_text(HIDDEN)
    sizes = {"n": {"role": "size", "values": [50, 100, 200]}}
    workbench.write(backend="scorep", parameters=sizes, resources={"ranks": 1}, target={"n": 400}, refinement={})
    workbench.buran("run", "campaign.yaml")
    regions = [read_cubex(path).tree.regions for path in workbench.results.glob("store/*/*/*~*/rep-*/profile.cubex")]
    assert any("inner" in {each.mangled for each in every} for every in regions)
    filters = [path.read_text() for path in workbench.results.glob("decisions/*/*.filter")]
    assert any("inner: never measured" in text for text in filters)


HYBRID = """
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
__attribute__((noinline)) static double cell(double x, int i) {
    for (int k = 0; k < 200; k++) x = 0.5 * x + 1.0 / (i + k + 1);
    return x;
}
__attribute__((noinline)) static double relax(int n) {
    double sum = 0;
#pragma omp parallel for reduction(+ : sum) schedule(static)
    for (int i = 0; i < 1000 * n; i++) sum += cell(i, i);
    return sum;
}
int main(int argc, char **argv) {
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    double x = relax(argc > 1 ? atoi(argv[1]) : 1), sum = 0;
    MPI_Reduce(&x, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    if (sum < 0) puts("never");
    MPI_Finalize();
    return 0;
}
"""


def test_programs_with_ranks_and_threads(workbench):
    """What every rank and thread did is there, exactly; parallel regions are call paths."""
    (workbench.folder / "source" / "program.c").write_text(HYBRID)
    workbench.write(
        backend="scorep",
        program={**workbench.config["program"], "flags": "-O2 -fopenmp"},
        parameters={
            "p": {"role": "ranks", "values": [1, 2]},
            "t": {"role": "threads", "values": [1, 2]},
            "n": {"role": "size", "values": [10, 20, 40]},
        },
        constraints=["n == 40 or p + t == 2"],
        target={"p": 4, "t": 4, "n": 80},
        refinement={"start": "everything", "pilot": False},
    )
    assert " 0 failed" in workbench.buran("run", "campaign.yaml")
    seen = set()
    for path in workbench.results.glob("store/*/*/*~*/rep-*/run.json"):
        record = json.loads(path.read_text())
        assert record["status"] == "measured"
        if record["mode"] != "time":
            continue
        profile = read_cubex(path.with_name("profile.cubex"))
        ranks, threads = int(record["point"]["p"]), int(record["point"]["t"])
        places = [(place.rank, place.thread) for place in profile.locations]
        assert places == [(rank, thread) for rank in range(ranks) for thread in range(threads)]
        assert any("!$omp parallel" in name for name in profile.tree.names)
        cells = [number for number, name in enumerate(profile.tree.names) if name.endswith("->cell")]
        if cells:  # a later filter may leave it out
            counts = profile.exclusive("visits")[cells].sum(axis=0)
            assert counts.tolist() == [1000 * record["point"]["n"] / threads] * len(places)
            seen.add((ranks, threads))
    assert seen == {(1, 1), (1, 2), (2, 1), (2, 2)}
    latest = workbench.results / "latest"
    assert "INCLUDE MANGLED relax" in (latest / "scorep.filter").read_text()
    assert "!$omp parallel" in (latest / "experiment.jsonl").read_text()
