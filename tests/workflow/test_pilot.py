"""Campaigns that begin with pilot runs: hooks in everything, or where the call graph suggests, and no slow-down."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from buran.instrumentation.filter_file import parse
from buran.measurement.toolchain.runtime import find_toolchain
from buran.measurement.toolchain.toolchain import GCC_PLUGIN
from workbench import Workbench

pytestmark = [pytest.mark.mpi, pytest.mark.slow]
SOURCE = Path(__file__).parent / "hot"
WITHIN = """
#include <mpi.h>
#include <stdlib.h>
static inline double within(int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += 1.0 / (i + 1);
    return sum;
}
__attribute__((noinline)) double grind(int n)
{
    double sum = 0;
    for (int i = 0; i < 20 * n; i++)
        sum += within(n);
    return sum;
}
int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    volatile double sum = grind(argc > 1 ? atoi(argv[1]) : 0);
    MPI_Finalize();
    return sum < 0;
}
"""


def bench_of(folder: Path, refinement: dict[str, Any], **changes: Any) -> Workbench:
    shutil.copytree(SOURCE, folder / "source")
    bench = Workbench(folder)
    bench.write(
        name="small",
        program={
            "source": "source",
            "build": "make MPICC={mpicc} CFLAGS='{flags}'",
            "flags": "-O2",
            "binary": "hot",
            "run": "{binary} {n}",
        },
        parameters={"n": {"role": "size", "values": [200, 400, 600, 800, 1000]}},
        repetitions=1,
        effort_repetitions=1,
        warmup=False,
        refinement=refinement,
        resources={"ranks": 1, "time_limit": 60},
        **changes,
    )
    return bench


def iterations_of(bench: Workbench) -> list[dict[str, Any]]:
    found = sorted(bench.results.glob("iterations/*/*/plan.json"), key=lambda path: int(path.parent.name))
    return [json.loads(path.read_text()) for path in found]


@pytest.mark.thorough
@pytest.mark.parametrize("compiler", ["clang", "gcc"])
def test_a_campaign_does_not_start_with_tiny_hot_functions(compiler: str, tmp_path: Path) -> None:
    if compiler == "gcc" and find_toolchain(compiler="gcc").kind != GCC_PLUGIN:
        pytest.skip("no headers for GCC's plugins")
    bench = bench_of(tmp_path, {"start": "everything"}, compiler=compiler)
    bench.buran("run", "campaign.yaml")
    plans = iterations_of(bench)
    purposes = [{bundle["purpose"] for bundle in plan["bundles"]} for plan in plans]
    assert purposes[:3] == [{"pilot"}, {"pilot"}, {"model"}]
    assert [len(plan["bundles"]) for plan in plans[:3]] == [1, 3, 5]
    assert "INCLUDE *" in plans[0]["filter_text"]
    assert "EXCLUDE MANGLED tiny\n" in plans[1]["filter_text"] and "MANGLED tinier\n" in plans[1]["filter_text"]
    rules = parse(plans[2]["filter_text"])
    let_through = {name for name in ("main", "grind", "tiny", "tinier") if rules.matches(name, name)}
    assert let_through == {"main", "grind"}
    named = parse((bench.results / "latest" / "scorep.filter").read_text()).named
    assert {"main", "grind"} <= named and not {"tiny", "tinier"} & named
    verdicts = json.loads(sorted(bench.results.glob("decisions/*/verdicts-1.json"))[0].read_text())["functions"]
    assert not verdicts["tiny"]["kept"] and "throttled" in verdicts["tiny"]["reason"]
    started = bench.started()
    bench.buran("run", "campaign.yaml")
    assert bench.started() == started


def test_the_first_filter_by_the_call_graph(tmp_path: Path) -> None:
    bench = bench_of(tmp_path, {"start": "loops", "start_threshold": 2, "pilot": False, "share": 0.3})
    bench.carry_out()
    plans = iterations_of(bench)
    assert "the first filter" in plans[0]["reason"] and len(plans[0]["bundles"]) == 5
    named = {line.split()[-1] for line in plans[0]["filter_text"].splitlines() if line.startswith("INCLUDE")}
    assert named == {"main", "grind"}  # of loops that can be reached: main 4, grind 2, prepare 1
    assert "INCLUDE MANGLED grind" in bench.buran("filter", "campaign.yaml")


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("strategy", "keep", "tried"), [("lines", [], True), ("design", [], False), ("design", ["within"], True)]
)
def test_functions_that_are_not_counted_are_tried_unless_each_run_is_weighed(
    strategy: str, keep: list[str], tried: bool, tmp_path: Path
) -> None:
    bench = bench_of(
        tmp_path,
        {"pilot": False, "keep": keep, "constants": True},
        target={"n": 2000},
        strategy={"name": strategy},
        budget={"core_hours": 0.05},
    )
    (tmp_path / "source" / "hot.c").write_text(WITHIN)
    bench.buran("run", "campaign.yaml")
    filters = "\n".join(plan["filter_text"] for plan in iterations_of(bench))
    assert ("within" in filters) == tried
