"""Real MPI programs on a machine that SimGrid simulates, beside the same programs under a real MPI."""

from __future__ import annotations

import math
import os
import re
import shutil
from dataclasses import asdict, replace
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from native_programs import build, launch, profile_of, table
from native_programs import toolchain as real_toolchain
from test_jobs import opened

from buran.campaign.launcher import Placement
from buran.campaign.plan import Mode
from buran.campaign.point import Point
from buran.errors import BuildError, RunError, ToolError
from buran.files import write_json
from buran.measurement.machine.machine import RunJob
from buran.measurement.machine.process import Outcome
from buran.measurement.merge_dumps import read_dumps
from buran.measurement.toolchain.runtime import find_toolchain
from buran.measurement.toolchain.toolchain import Toolchain
from buran.modeling.fit import fit_models
from buran.plugins.simgrid import machine as simulated
from buran.plugins.simgrid.backend import NODE_GROUPS, SimulatedMachineBackend
from buran.plugins.simgrid.calibration import Calibration
from buran.plugins.simgrid.keys import MachineKeys
from buran.plugins.simgrid.machine import SimulatedMachine
from buran.plugins.simgrid.mpi import find_simgrid, is_missing, missing_functions
from buran.plugins.simgrid.platform import platform_of
from buran.profiles.profile import Profile
from buran.workflow.engine.jobs import job_limit_s, job_request
from patience import PATIENCE_S
from workbench import Workbench

EXAMPLES = Path(__file__).parents[3] / "examples"
needs_simgrid = pytest.mark.skipif(shutil.which("smpirun") is None, reason="SimGrid is not installed")

# A network that costs next to nothing: what is waited for is computing alone.
IDEAL: dict[str, Any] = {
    "topology": "crossbar", "nodes": 64, "cores_per_node": 1, "bandwidth_gb_s": 10_000.0, "latency_us": 0.001,
    "seconds_per_block": 8e-9,
}  # fmt: skip
TREE: dict[str, Any] = {
    "topology": "fat_tree", "nodes": 16, "cores_per_node": 4, "bandwidth_gb_s": 12.5, "latency_us": 0.5,
    "seconds_per_block": 1e-9,
}  # fmt: skip


def machine_of(folder: Path, memory_mb: int | None = None, **keys: Any) -> SimulatedMachine:
    described = MachineKeys(**keys)
    platform = platform_of(described, folder)
    campaign = SimpleNamespace(
        environment="desk",
        memory_mb=lambda point: memory_mb,
        placement=lambda point: Placement(int(point["p"]), nodes=1, tasks_per_node=platform.cores),
    )
    simgrid = SimpleNamespace(campaign=campaign, at=lambda point: platform)
    return SimulatedMachine(simgrid, folder, Path(the_toolchain().objects["time"][0]).with_name(NODE_GROUPS))  # type: ignore[arg-type]


def job_of(folder: Path, argv: list[str], environment: dict[str, str], ranks: int) -> RunJob:
    raw = folder / "raw"
    shutil.rmtree(raw, ignore_errors=True)
    raw.mkdir(parents=True)
    return RunJob(
        argv=argv, cwd=folder, environment={**os.environ, **environment}, stdout=folder / "out", stderr=folder / "err",
        time_limit_s=PATIENCE_S, binary=Path(argv[0]), mode=Mode.TIME, point=Point.of({"p": ranks}), ranks=ranks,
        raw=raw, filter_file=None, key="", beat=lambda: None,
    )  # fmt: skip


def run(program: Path, arguments: list[str], ranks: int, folder: Path, **keys: Any) -> tuple[Outcome, Profile]:
    """Run a program on a simulated machine."""
    folder.mkdir(exist_ok=True)
    machine = machine_of(folder, **keys)
    backend = SimulatedMachineBackend(the_toolchain(), folder / "toolchain.json", simulated=machine)
    started = backend.launch(Point.of({"p": ranks}), [str(program), *arguments], Placement(ranks))
    environment = {**started.variables, **backend.run_environment(Mode.TIME, folder / "raw")}
    job = replace(job_of(folder, list(started.argv), environment, ranks), binary=program)
    return machine.run(job), read_dumps(job.raw, ranks)


def the_toolchain() -> Toolchain:
    return find_toolchain(mpi=find_simgrid())


def program(text: str, folder: Path) -> Path:
    source = folder / "demo.c"
    source.write_text(f"#include <mpi.h>\n#include <stdlib.h>\n#include <pthread.h>\n{text}")
    return build(source, folder / "demo", tools=the_toolchain())


def waiting(profile: Profile) -> float:
    """Mean time in MPI, without start and end, over the ranks."""
    regions = [profile.tree.regions[number] for number in profile.tree.region.tolist()]
    rows = [at for at, region in enumerate(regions) if region.name in ("MPI_Recv", "MPI_Allreduce")]
    return float(profile.exclusive("time")[rows].sum(axis=0).mean())


# ---- real programs


@pytest.mark.slow
@pytest.mark.mpi
@needs_simgrid
@pytest.mark.parametrize("compiler", ["clang", pytest.param("gcc", marks=pytest.mark.thorough)])
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("sweep/sweep.c", ["6", "4"]),
        ("stencil/stencil.cpp", ["12", "4"]),
        pytest.param("treesort/treesort.cpp", ["2000"], marks=pytest.mark.thorough),
        ("../studies/benchmarks/relax/relax.f90", ["12"]),
    ],
)
def test_counts_and_bytes_are_those_of_a_real_mpi(
    name: str, arguments: list[str], compiler: str, tmp_path: Path
) -> None:
    """Every call path of every rank."""
    try:
        real_tools, simulated_tools = real_toolchain(compiler), find_toolchain(compiler=compiler, mpi=find_simgrid())
    except ToolError as error:
        pytest.skip(error.what)
    flags = ("-O2", *(("-J", str(tmp_path)) if name.endswith(".f90") else ()))  # where modules are written
    here = build(EXAMPLES / name, tmp_path / "here", flags=(*flags, "-lm"), tools=real_tools)
    there = build(EXAMPLES / name, tmp_path / "there", flags=flags, tools=simulated_tools)
    for ranks in (1, 2, 4):
        real = profile_of(here, tmp_path / f"real{ranks}", *arguments, ranks=ranks)
        _, at_the_desk = run(there, arguments, ranks, tmp_path / f"simulated{ranks}", **TREE)
        for metric in ("visits", "basic_blocks", "bytes_sent", "bytes_received"):
            assert table(at_the_desk, metric) == table(real, metric), (metric, ranks)


_FORTRAN = """
program constants
  use mpi
  implicit none
  integer :: rank, ranks, error, dims(2), status(MPI_STATUS_SIZE)
  real(8) :: total(3), got(3), begin
  call MPI_Init(error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, error)
  begin = MPI_Wtime()
  total = 1d0
  call MPI_Allreduce(MPI_IN_PLACE, total, 3, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, error)
  call MPI_Sendrecv(total, 3, MPI_DOUBLE_PRECISION, mod(rank + 1, ranks), 1, got, 3, MPI_DOUBLE_PRECISION, &
    mod(rank + ranks - 1, ranks), 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE, error)
  call MPI_Sendrecv(got, 3, MPI_DOUBLE_PRECISION, mod(rank + 1, ranks), 2, total, 3, MPI_DOUBLE_PRECISION, &
    mod(rank + ranks - 1, ranks), 2, MPI_COMM_WORLD, status, error)
  dims = 0
  call MPI_Dims_create(9, 2, dims, error)
  if (any(total /= ranks) .or. status(MPI_TAG) /= 2 .or. dims(1) /= 3 .or. MPI_Wtime() <= begin) &
    call MPI_Abort(MPI_COMM_WORLD, 1, error)
  call MPI_Finalize(error)
end program
"""


@pytest.mark.slow
@pytest.mark.mpi
@needs_simgrid
def test_constants_of_fortran_mean_what_they_do_under_a_real_mpi(tmp_path: Path) -> None:
    (tmp_path / "constants.f90").write_text(_FORTRAN)
    try:
        here = build(tmp_path / "constants.f90", tmp_path / "here")
    except ToolError as error:
        pytest.skip(error.what)
    there = build(tmp_path / "constants.f90", tmp_path / "there", tools=the_toolchain())
    real = profile_of(here, tmp_path / "real", ranks=4)
    _, at_the_desk = run(there, [], 4, tmp_path / "simulated", **TREE)
    for metric in ("visits", "bytes_sent", "bytes_received"):
        assert table(at_the_desk, metric) == table(real, metric), metric


@pytest.mark.thorough
@needs_simgrid
def test_a_wavefront_waits_as_its_theory_says(tmp_path: Path) -> None:
    """Eight directions, of which pairs follow each other without a gap: 6 (sqrt(p) - 1) blocks of n^3 cells."""
    sweep = build(EXAMPLES / "sweep" / "sweep.c", tmp_path / "sweep", tools=the_toolchain())
    points = [(ranks, n) for ranks in (4, 9, 16, 36, 64) for n in (4, 6, 8, 12, 16)]
    waited = []
    for ranks, n in points:
        outcome, profile = run(sweep, [str(n), "8"], ranks, tmp_path / f"p{ranks}n{n}", **IDEAL)
        names = [profile.tree.regions[number].name for number in profile.tree.region.tolist()]
        block, face = (profile.exclusive("time")[names.index(name)].mean() / 64 for name in ("sweep_block", "sum_face"))
        blocks = 6 * (math.sqrt(ranks) - 1)
        assert blocks * block <= waiting(profile) <= blocks * (block + 3 * face)
        assert outcome.wall_s == pytest.approx(profile.values["time"][0].max())
        assert profile.attributes["clock"] == "simulated"
        waited.append(waiting(profile))
    model = fit_models(np.array(points, dtype=np.float64), np.array([waited])).models[0].function
    growing = {
        tuple((factor.parameter, factor.basis.exponent) for factor in term.factors): coefficient
        for coefficient, term in zip(model.coefficients, model.terms, strict=True)
    }
    assert growing[(0, Fraction(1, 2)), (1, Fraction(3))] == pytest.approx(6 * IDEAL["seconds_per_block"], rel=1e-3)
    assert growing[((1, Fraction(3)),)] == pytest.approx(-6 * IDEAL["seconds_per_block"], rel=1e-3)


@pytest.mark.slow
@pytest.mark.mpi
@needs_simgrid
def test_grids_of_ranks_are_those_of_a_real_mpi(tmp_path: Path) -> None:
    """SimGrid's own would be lines, as 9 x 1, and so another program."""
    source = tmp_path / "grids.c"
    source.write_text(
        """#include <mpi.h>
        #include <stdio.h>
        int main(int c, char **v) {
            MPI_Init(&c, &v);
            for (int ranks = 1; ranks <= 128; ranks++)
                for (int first = 0; first <= 2; first++) {
                    int two[] = {0, 0}, three[] = {first, 0, 0};
                    if (first && ranks % first)
                        continue;
                    MPI_Dims_create(ranks, 2, two);
                    MPI_Dims_create(ranks, 3, three);
                    printf("%d: %d %d, %d %d %d\\n", ranks, two[0], two[1], three[0], three[1], three[2]);
                }
            MPI_Finalize();
            return 0;
        }"""
    )
    real = launch(build(source, tmp_path / "here"), tmp_path / "real", ranks=1).stdout
    there = build(source, tmp_path / "there", tools=the_toolchain())
    run(there, [], 1, tmp_path / "simulated", **TREE)
    lines = (tmp_path / "simulated" / "out").read_text().splitlines()
    grids = [tuple(map(int, re.findall(r"\d+", line))) for line in lines]
    assert len(grids) > 250
    assert all(grid[0] == math.prod(grid[1:3]) == math.prod(grid[3:]) for grid in grids)
    if real_toolchain().mpi == "openmpi":
        assert lines == real.splitlines()


@pytest.mark.slow
@needs_simgrid
def test_two_runs_are_equal_byte_for_byte(tmp_path: Path) -> None:
    sweep = build(EXAMPLES / "sweep" / "sweep.c", tmp_path / "sweep", tools=the_toolchain())
    written = []
    for name in ("one", "other"):
        run(sweep, ["6", "4"], 16, tmp_path / name, **TREE)
        written.append({path.name: path.read_bytes() for path in (tmp_path / name / "raw").iterdir()})
    assert len(written[0]) == 16 and written[0] == written[1]


@pytest.mark.slow
@needs_simgrid
def test_ranks_stand_on_the_nodes_of_the_machine(tmp_path: Path) -> None:
    demo = program("int main(int c, char **v) { MPI_Init(&c, &v); MPI_Finalize(); return 0; }", tmp_path)
    _, profile = run(demo, [], 6, tmp_path / "run", **TREE)
    assert '"host": "node0", "cpus": "", "ranks": "0-3"' in profile.attributes["placement"]
    assert '"host": "node1", "cpus": "", "ranks": "4-5"' in profile.attributes["placement"]


@pytest.mark.slow
@needs_simgrid
def test_simgrid_takes_every_machine_that_can_be_described(tmp_path: Path) -> None:
    demo = program(
        "int main(int c, char **v) { int r, s; MPI_Init(&c, &v); MPI_Comm_rank(MPI_COMM_WORLD, &r); "
        "MPI_Allreduce(&r, &s, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD); MPI_Finalize(); return 0; }",
        tmp_path,
    )
    topologies = ("crossbar", "fat_tree", "torus", "dragonfly")
    shapes: list[dict[str, Any]] = [{"topology": name, "nodes": n} for name in topologies for n in (1, 5)]
    shapes += [{"shape": (4, 4, 2)}, {"topology": "dragonfly", "shape": (2, 2, 2, 2)}]
    choices: list[dict[str, Any]] = [{"collectives": name} for name in ("ompi", "mpich", "mvapich2", "impi")]
    for number, keys in enumerate([*shapes, *choices, {"factors": "simgrid"}]):
        described = {**TREE, "cores_per_node": 1, **keys}
        outcome, _ = run(demo, [], min(described["nodes"], 4), tmp_path / str(number), **described)
        assert outcome.exit_code == 0 and not outcome.timed_out and (outcome.wall_s > 0 or described["nodes"] == 1)


_PAIRS = """
int main(int c, char **v) {
    struct { double value; int rank; } mine = {1, 2}, most;
    MPI_Init(&c, &v);
    MPI_Allreduce(&mine, &most, 1, MPI_DOUBLE_INT, MPI_MAXLOC, MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
"""


@pytest.mark.slow
@needs_simgrid
def test_the_gap_in_a_pair_is_not_sent(tmp_path: Path) -> None:
    _, profile = run(program(_PAIRS, tmp_path), [], 2, tmp_path / "run", **TREE)
    at = profile.tree.names.index("demo->main->MPI_Allreduce")
    assert profile.values["bytes_sent"][at].tolist() == [24, 24]  # 12 bytes to each of two, as under a real MPI


_SEND = """
int main(int c, char **v) {
    static char bytes[10000];
    int r;
    MPI_Init(&c, &v);
    MPI_Comm_rank(MPI_COMM_WORLD, &r);
    if (r)
        MPI_Recv(bytes, 10000, MPI_CHAR, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    else
        MPI_Send(bytes, 10000, MPI_CHAR, 1, 0, MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
"""


@pytest.mark.slow
@needs_simgrid
def test_a_message_above_the_eager_limit_waits_until_it_is_received(tmp_path: Path) -> None:
    demo = program(_SEND, tmp_path)
    seconds = []
    for limit in (20_000, 4096):
        _, profile = run(demo, [], 2, tmp_path / f"run{limit}", **TREE, eager_limit_bytes=limit)
        seconds.append(float(profile.exclusive("time")[profile.tree.names.index("demo->main->MPI_Send")].sum()))
    transfer_s = 10_000 / 20e9  # loopback
    assert seconds[0] < 0.1 * transfer_s and seconds[1] >= transfer_s


_CALLS = """
static __attribute__((noinline)) int leaf(int n) { int s = 0; for (int i = 0; i < n; i++) s += i & n; return s; }
static __attribute__((noinline)) int left(int n) { return leaf(n) + 1; }
static __attribute__((noinline)) int right(int n) { return leaf(n) - 1; }
int main(int c, char **v) {
    MPI_Init(&c, &v);
    volatile int n = left(100 * c) + right(200 * c);
    MPI_Finalize();
    return n == 1;
}
"""


@pytest.mark.slow
@needs_simgrid
def test_call_paths_cost_what_the_calibration_says_and_those_it_lacks_what_their_callers_do(tmp_path: Path) -> None:
    calibration = Calibration(
        parameters=("p",), parallel=("p",), choices=(), points=((1.0,),), depths=(0, 1, 2, 3, 2),
        symbols=("", "main", "left", "leaf", "right"),
        seconds_per_block=((1e-9,), (2e-9,), (3e-9,), (5e-9,), (7e-9,)), base=(0.0,) * 5, effects={"p": ((0.0,),) * 5},
        uncertainty=None,
    )  # fmt: skip
    write_json(tmp_path / "calibration.json", {"schema": Calibration.schema_read, **asdict(calibration)})
    demo = program(_CALLS, tmp_path)
    keys = {**TREE, "seconds_per_block": None, "calibrated": str(tmp_path / "calibration.json")}
    _, profile = run(demo, [], 2, tmp_path / "run", **keys)
    seconds, blocks = (profile.exclusive(name).sum(axis=1) for name in ("time", "basic_blocks"))
    for path, cost in {
        "main": 2e-9, "main->left": 3e-9, "main->left->leaf": 5e-9, "main->right": 7e-9, "main->right->leaf": 7e-9,
    }.items():  # fmt: skip
        at = profile.tree.names.index(f"demo->{path}")
        assert blocks[at] > 0 and seconds[at] == pytest.approx(cost * blocks[at], abs=1e-11)


# What SimGrid returns 0 for, or dies of, is told in its words.
FAULTS = {
    "abort": ("if (r) MPI_Abort(MPI_COMM_WORLD, 7); MPI_Barrier(MPI_COMM_WORLD);", "not complete", {}),
    "deadlock": ("MPI_Recv(&r, 1, MPI_INT, !r, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);", "Deadlock detected", {}),
    "graph": (
        "MPI_Comm d; int s = 0; MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &s, MPI_UNWEIGHTED, 1, &s, "
        "MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &d);",
        "Not yet implemented",
        {},
    ),
    "spin": ("volatile int on = 1; while (on) {}", "machine.run_limit", {"run_limit": 2.0}),
}


@pytest.mark.slow
@needs_simgrid
@pytest.mark.parametrize("fault", FAULTS)
def test_a_program_that_does_not_come_to_its_end_fails(fault: str, tmp_path: Path) -> None:
    body, words, keys = FAULTS[fault]
    demo = program(
        f"int main(int c, char **v) {{ int r; MPI_Init(&c, &v); MPI_Comm_rank(MPI_COMM_WORLD, &r); {body} "
        "MPI_Finalize(); return 0; }",
        tmp_path,
    )
    assert missing_functions(demo) == (("MPI_Dist_graph_create_adjacent",) if fault == "graph" else ())
    with pytest.raises(RunError) as caught:
        run(demo, [], 2, tmp_path / "run", **{**TREE, **keys})
    assert words in str(caught.value)


@pytest.mark.slow
@needs_simgrid
def test_a_program_with_threads_is_refused(tmp_path: Path) -> None:
    demo = program(
        "void *f(void *a) { return a; }\nint main(int c, char **v) { MPI_Init(&c, &v); pthread_t t; "
        "pthread_create(&t, 0, f, 0); pthread_join(t, 0); MPI_Finalize(); return 0; }",
        tmp_path,
    )
    with pytest.raises(RunError, match=r"no profile|not complete"):
        run(demo, [], 2, tmp_path / "run", **TREE)
    assert "one thread" in (tmp_path / "run" / "err").read_text()


@pytest.mark.slow
@needs_simgrid
def test_shared_libraries_of_the_program_are_refused(tmp_path: Path) -> None:
    """All ranks would book what happens there on one of them."""
    (tmp_path / "lib.c").write_text("int twice(int n) { int s = 0; for (int i = 0; i < n; i++) s += 2; return s; }")
    build(tmp_path / "lib.c", tmp_path / "libtwice.so", flags=("-shared",), tools=the_toolchain())
    (tmp_path / "demo.c").write_text(
        "#include <mpi.h>\nint twice(int);\n"
        "int main(int c, char **v) { MPI_Init(&c, &v); int n = twice(c); MPI_Finalize(); return n > 99; }"
    )
    library = str(tmp_path / "libtwice.so")
    demo = build(tmp_path / "demo.c", tmp_path / "demo", flags=(library,), tools=the_toolchain())
    machine = machine_of(tmp_path, **TREE)
    backend = SimulatedMachineBackend(the_toolchain(), tmp_path / "toolchain.json", simulated=machine)
    with pytest.raises(BuildError, match=r"libtwice\.so"):
        backend.inspect_build(demo, tmp_path, "", Mode.TIME)


@pytest.mark.slow
@needs_simgrid
def test_a_platform_file_that_simgrid_refuses_is_named_by_its_key(tmp_path: Path) -> None:
    demo = program("int main(int c, char **v) { MPI_Init(&c, &v); MPI_Finalize(); return 0; }", tmp_path)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "own.xml").write_text(
        '<?xml version="1.0"?>\n<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">\n'
        '<platform version="4.1"><zone id="z" routing="Full"><hots id="a"/><host id="b" speed="1Gf"/></zone></platform>'
    )
    with pytest.raises(RunError) as caught:
        run(demo, [], 1, tmp_path / "run", platform="own.xml", seconds_per_block=1e-9)
    assert "environments.desk.machine" in str(caught.value) and "Parse error" in str(caught.value)


# ---- without SimGrid


def test_functions_that_simgrid_lacks() -> None:
    assert is_missing("MPI_Comm_spawn") and is_missing("MPI_File_open") and is_missing("MPI_Neighbor_alltoall")
    assert not is_missing("MPI_Send") and not is_missing("MPI_Comm_split") and not is_missing("MPI_Win_fence")


def test_more_memory_than_there_is_is_refused_with_the_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "demo").write_bytes(b"x" * 1_000_000)
    monkeypatch.setattr(simulated, "machine_state", lambda: {"memory_available_kib": 1_000_000})
    job = job_of(tmp_path, [str(tmp_path / "demo")], {}, 4096)
    with pytest.raises(RunError, match=r"4096 ranks .*5.04 GB .*1.02 GB"):
        machine_of(tmp_path, **TREE).run(job)
    with pytest.raises(RunError, match=r"by resources.memory_mb"):
        machine_of(tmp_path, memory_mb=50_000, **TREE).run(job)


_TWO_BROADCASTS = """
static void first(int *value) { MPI_Bcast(value, 1, MPI_INT, 0, MPI_COMM_WORLD); }
static void second(int *value) { MPI_Bcast(value, 1, MPI_INT, 0, MPI_COMM_WORLD); }
int main(int argc, char **argv) {
    int value = argc;
    MPI_Init(&argc, &argv);
    first(&value);
    MPI_Barrier(MPI_COMM_WORLD);
    second(&value);
    MPI_Finalize();
    return 0;
}
"""


@needs_simgrid
@pytest.mark.slow
def test_the_first_broadcast_costs_as_much_as_the_second(tmp_path: Path) -> None:
    _, profile = run(program(_TWO_BROADCASTS, tmp_path), [], 16, tmp_path / "run", **TREE)
    seconds = dict(zip(profile.tree.names, profile.exclusive("time").sum(axis=1).tolist(), strict=True))
    first, second = (seconds[f"demo->main->{name}->MPI_Bcast"] for name in ("first", "second"))
    assert 0 < first < 2 * second  # SimGrid alone sorts ranks by nodes first


_WANTS_THREADS = """
int main(int argc, char **argv) {
    int provided, wanted = atoi(argv[1]);
    MPI_Init_thread(&argc, &argv, wanted, &provided);
    if (provided < wanted)
        MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_Finalize();
    return 0;
}
"""
_SERIALIZED, _MULTIPLE = "2", "3"  # in SimGrid's mpi.h


@needs_simgrid
@pytest.mark.slow
def test_a_program_gets_threads_that_do_not_call_mpi_at_once_and_no_others(tmp_path: Path) -> None:
    demo = program(_WANTS_THREADS, tmp_path)
    outcome, _ = run(demo, [_SERIALIZED], 2, tmp_path / "run", **TREE)
    assert outcome.failure is None
    with pytest.raises(RunError, match="MPI_Abort"):
        run(demo, [_MULTIPLE], 2, tmp_path / "run", **TREE)


def test_a_script_is_refused(tmp_path: Path) -> None:
    (tmp_path / "demo").write_text("#!/bin/sh\nexec ./program\n")
    backend = SimulatedMachineBackend(SimpleNamespace(), tmp_path, simulated=SimpleNamespace())  # type: ignore[arg-type]
    with pytest.raises(BuildError, match="script"):
        backend.inspect_build(tmp_path / "demo", tmp_path, "", Mode.TIME)


def test_words_that_the_launcher_would_cut_are_refused(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="'two words'"):
        machine_of(tmp_path, **TREE).run(job_of(tmp_path, ["smpirun", "two words"], {}, 1))


@pytest.mark.mpi
@needs_simgrid
def test_a_simulated_machine_is_one_process_with_the_memory_of_all_its_nodes(workbench: Workbench) -> None:
    workbench.write(environments={"desk": {"machine": {**TREE, "cores_per_node": 1, "run_limit": 100.0}}})
    session, bundle = opened(workbench, memory_mb=500)
    ranks = session.campaign.ranks(bundle.point)
    request = job_request(session, bundle)
    assert ranks > 1 and (request.nodes, request.tasks, request.memory_mb) == (1, 1, 500 * ranks)
    assert job_limit_s(session, replace(bundle, predicted_s=1e-3)) > len(bundle.runs) * 100
