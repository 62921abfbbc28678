"""A real Score-P, where there is one: what it compiles, records and says."""

import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from buran.campaign.plan import Mode
from buran.instrumentation.filter_file import format_filter, only
from buran.measurement.backends.base import SYSTEMS
from buran.measurement.toolchain.elf import Elf
from buran.plugins.scorep.hooks import hooked_functions
from buran.profiles.cubex_read import PARAMETRIZED, read_profile
from buran.profiles.symbols import variants

pytestmark = [
    pytest.mark.slow,
    pytest.mark.mpi,
    pytest.mark.skipif(shutil.which("scorep") is None, reason="Score-P is not installed"),
]
KINDS = Path(__file__).parents[2] / "measurement" / "programs" / "kinds.cpp"
PROGRAMS = Path(__file__).parents[2] / "data" / "scorep" / "src"


@pytest.fixture(scope="module")
def backend(tmp_path_factory):
    settings = SimpleNamespace(process_memory_mb=64, effort_metric=None, options="--user")
    refinement = SimpleNamespace(enabled=True, filtering="compile")
    config = SimpleNamespace(compiler="auto", counters=(), scorep=settings, refinement=refinement)
    scratch = tmp_path_factory.mktemp("scorep")
    campaign = SimpleNamespace(path=Path("campaign.yaml"), config=config, compiler="auto")
    return SYSTEMS.load("scorep").open(campaign, scratch)


def built(backend, folder, make, binary, filter_text=""):
    for program in PROGRAMS.iterdir():
        if not (folder / program.name).exists():
            folder.mkdir(exist_ok=True)
            shutil.copy(program, folder)
    filter_file = None
    if filter_text:
        filter_file = folder / "scorep.filter"
        filter_file.write_text(filter_text)
    tools = backend.tools(Mode.TIME)
    environment = {**os.environ, **backend.build_environment(Mode.TIME, filter_file)}
    words = ["make", binary, *(f"{name}={tools.get(tool, tool)}" for name, tool in make.items())]
    subprocess.run(words, cwd=folder, env=environment, check=True, capture_output=True)
    return folder / binary


def run(backend, program, *words, ranks=1, filter_file=None, **changes):
    """Run a program; return what it wrote on stderr, and its profile unless it failed."""
    raw = program.parent / f"raw{len(list(program.parent.glob('raw*')))}"
    raw.mkdir()
    environment = {**os.environ, **backend.run_environment(Mode.TIME, raw, filter_file), **changes}
    allow = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMP_NUM_THREADS": "2"}
    command = ["mpiexec", "--oversubscribe", "-n", str(ranks), program, *words]
    done = subprocess.run(command, env={**environment, **allow}, cwd=raw, capture_output=True, text=True)
    if done.returncode:
        (raw / "stderr.log").write_text(done.stderr)
        return raw / "stderr.log", None
    return None, backend.collect(Mode.TIME, raw, ranks)


def names(profile):
    return {region.name for region in (profile.tree.regions[each] for each in set(profile.tree.region.tolist()))}


# Destructors for `delete`, of what nobody deletes; and what gfortran makes of a type.
NEVER_CALLED = {"_ZN4BaseD0Ev", "_ZN4SideD0Ev", "_ZN6SharedD0Ev", "__kernels_MOD___copy_kernels_Field"}
THUNKS = ("_ZTh", "_ZTv")  # clang's ways from a base to a virtual function: it gives them hooks, most are never called
EVERYTHING = "SCOREP_REGION_NAMES_BEGIN\nINCLUDE *\nINCLUDE ?*\nSCOREP_REGION_NAMES_END\n"


def kinds(backend, folder, filter_text):
    """Build functions of every kind, in C++ and Fortran, under a filter."""
    folder.mkdir()
    shutil.copy(KINDS, folder / "names.cpp")
    make = {"MPICXX": "mpicxx", "MPIFC": "mpifort"}
    if is_clang(backend):  # whose plugin comes after inlining, and which has no Fortran here
        make |= {"FLAGS": "-O2 -fno-inline", "MPIFC": "mpif90"}
    return built(backend, folder, make, "names", filter_text)


def is_clang(backend):
    return backend.scorep.family == "clang"


def test_what_it_records_is_what_the_list_says(backend, tmp_path):
    """Every function with hooks, in two lists of half of them each: nothing is missing, nothing is there beside.

    Of a constructor a list may be given any symbol: gcc has hooks in another one than clang.
    """
    functions = hooked_functions(Elf.read(kinds(backend, tmp_path / "all", EVERYTHING)))
    ours = sorted(
        {function.symbol for function in functions if function.file.endswith(("names.cpp", "solver.f90"))} - {"main"}
    )
    assert len(ours) >= (70 if is_clang(backend) else 60)
    chosen = sorted({variants(symbol)[0] for symbol in ours})
    for number, half in enumerate((chosen[::2], chosen[1::2])):
        listed = [symbol for symbol in ours if variants(symbol)[0] in half]
        program = kinds(backend, tmp_path / f"half{number}", format_filter(only([*half, "main"])))
        assert {hooked_function.symbol for hooked_function in hooked_functions(Elf.read(program))} == {*listed, "main"}
        _, profile = run(backend, program)
        visited = [profile.tree.regions[each] for each in set(profile.tree.region.tolist())]
        recorded = {each.mangled for each in visited if each.paradigm == "compiler"}
        assert recorded <= {*listed, "main"}
        assert {symbol for symbol in set(listed) - recorded if not symbol.startswith(THUNKS)} <= NEVER_CALLED


def test_a_filter_at_run_time_leaves_regions_of_the_program(backend, tmp_path):
    """Threads, a dynamic region and a parameter inside of one: `EXCLUDE *` would end the program."""
    if backend.scorep.version.startswith("9."):
        pytest.skip("Score-P 9 ends programs that record a parameter inside of a dynamic region, filtered or not")
    program = built(backend, tmp_path / "built", {"MPICXX": "mpicxx"}, "omp")
    _, everything = run(backend, program, "3", ranks=2)
    assert [region.name for region in everything.tree.regions if region.role == PARAMETRIZED] == ["solve(int)"]
    rules = format_filter(only(["main", "_Z5solvei"]))  # what a refinement would keep: solve records a parameter
    plain, own = tmp_path / "plain", tmp_path / "own"
    plain.write_text(rules)
    own.write_text(backend.run_filter(program, rules))
    log, profile = run(backend, program, "3", ranks=2, filter_file=plain)
    assert log is not None or "iteration" not in names(profile)
    log, profile = run(backend, program, "3", ranks=2, filter_file=own)
    assert log is None
    assert {"main", "iteration", "solve(int)"} <= names(profile)
    assert "kernel(int)" not in names(profile)
    assert {location.thread for location in profile.locations} == {0, 1}
    own.write_text(format_filter(only(["main"])))  # without what records the parameter
    log, _ = run(backend, program, "3", ranks=2, filter_file=own)
    assert log is not None and "parameter" in backend.why_failed(log)


def test_a_run_that_fills_its_memory_says_which_key_helps(backend, tmp_path):
    program = built(backend, tmp_path / "built", {"MPICXX": "mpicxx"}, "omp")
    log, _ = run(backend, program, "100000", SCOREP_TOTAL_MEMORY="200k", SCOREP_PROFILING_ENABLE_CLUSTERING="false")
    assert log is not None
    why = backend.why_failed(log)
    assert "scorep.process_memory_mb" in why and "SCOREP_TOTAL_MEMORY=" in why


def test_counters_of_perf(backend, tmp_path):
    program = built(backend, tmp_path / "built", {"MPICXX": "mpicxx"}, "omp")
    log, profile = run(backend, program, "3", SCOREP_METRIC_PERF="task-clock,page-faults")
    if log is not None:
        pytest.skip(f"perf is not available: {backend.why_failed(log)}")
    assert profile.metrics["task_clock"].unit == "sec" and 0 < profile.values["task_clock"].max() < 60
    assert read_profile(program.parent / "raw0" / "scorep" / "profile.cubex").metrics["page_faults"].dtype == "UINT64"


CMAKE = """\
cmake_minimum_required(VERSION 3.16)
project(program C)
include(CheckCSourceRuns)
check_c_source_runs("int main(void) { return 0; }" RUNS)
find_package(MPI REQUIRED)
find_package(OpenMP REQUIRED)
if(NOT RUNS)
  message(FATAL_ERROR "checks fail")
endif()
add_library(work STATIC work.c)
target_link_libraries(work OpenMP::OpenMP_C)
add_executable(program main.c)
target_link_libraries(program work MPI::MPI_C OpenMP::OpenMP_C)
"""
AUTOCONF = """\
AC_INIT([program], [1])
AC_PROG_CC
AC_RUN_IFELSE([AC_LANG_PROGRAM()], [], [AC_MSG_ERROR([checks fail])])
AC_OPENMP
AC_CONFIG_FILES([Makefile])
AC_OUTPUT
"""
MAKEFILE = "program: main.c work.c\n\t@CC@ -O1 @OPENMP_CFLAGS@ -o $@ main.c work.c\n"
HYBRID = """\
#include <mpi.h>
double relax(int n);
int main(int argc, char **argv) {
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    double x = relax(1000);
    MPI_Finalize();
    return x < 0;
}
"""
THREADED = """\
static double cell(double x, int i) { for (int k = 0; k < 50; k++) x = 0.5 * x + 1.0 / (i + k + 1); return x; }
static double dropped(int n) { double x = 0; for (int k = 0; k < n; k++) x += 1.0 / (k + 1); return x; }
double relax(int n) {
    double sum = dropped(n);
#pragma omp parallel for reduction(+ : sum)
    for (int i = 0; i < n; i++) sum += cell(i, i);
    return sum;
}
"""
SYSTEMS_OF_BUILDS = {
    "cmake": "SCOREP_WRAPPER=off cmake -S . -B build -D CMAKE_C_COMPILER={mpicc} && cmake --build build",
    "autoconf": "autoconf && SCOREP_WRAPPER=off ./configure CC={mpicc} && make && mkdir build && cp program build",
}


def hybrid(backend, folder, system, mode=Mode.TIME):
    """Build a program with threads by a build system whose configure step makes programs and runs them."""
    if not shutil.which(system):
        pytest.skip(f"needs {system}")
    folder.mkdir()
    files = {"CMakeLists.txt": CMAKE, "configure.ac": AUTOCONF, "Makefile.in": MAKEFILE, "main.c": HYBRID}
    for name, text in {**files, "work.c": THREADED}.items():
        (folder / name).write_text(text)
    (folder / "scorep.filter").write_text(format_filter(only(["main", "relax", "cell"])))
    environment = {**os.environ, **backend.build_environment(mode, folder / "scorep.filter")}
    words = ["bash", "-c", SYSTEMS_OF_BUILDS[system].format(**backend.tools(mode))]
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True)
    (folder / "build.log").write_text(done.stdout + done.stderr)
    return folder / "build" / "program" if done.returncode == 0 else None


@pytest.mark.parametrize("system", SYSTEMS_OF_BUILDS)
def test_programs_with_threads_and_a_configure_step(backend, tmp_path, system):
    threads = replace(backend, options="--thread=omp")
    program = hybrid(threads, tmp_path / "timed", system)
    inlined = {"cell"} if is_clang(backend) and system == "autoconf" else set()  # by clang, before its plugin comes
    assert {each.symbol for each in hooked_functions(Elf.read(program))} == {"main", "relax", "cell"} - inlined
    log, profile = run(threads, program, ranks=2)
    assert log is None
    assert {(each.rank, each.thread) for each in profile.locations} == {(0, 0), (0, 1), (1, 0), (1, 1)}
    visits = {name: count.tolist() for name, count in zip(profile.tree.names, profile.exclusive("visits"), strict=True)}
    cells = [count for name, count in visits.items() if name.endswith("->cell")]
    assert inlined or (sum(map(sum, cells)) == 2 * 1000 and all(each > 0 for each in cells[0]))  # of every thread
    assert any("!$omp parallel" in name for name in visits)
    plain = hybrid(threads, tmp_path / "plain", system, Mode.VANILLA)
    assert not any("scorep" in name for name in Elf.read(plain).needed)


def test_a_link_that_does_not_know_of_threads_says_which_key_helps(backend, tmp_path):
    """CMake links OpenMP's library without the option that Score-P looks for."""
    if hybrid(replace(backend, options=""), tmp_path / "built", "cmake") is not None:
        pytest.skip("this CMake hands the option to the linker")
    assert "scorep.options: --thread=omp" in backend.why_failed(tmp_path / "built" / "build.log")
