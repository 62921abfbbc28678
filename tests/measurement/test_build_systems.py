"""Real build systems with the wrappers as their compilers: make, CMake, autotools, ccache."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from native_programs import LAUNCH, toolchain

from buran.measurement.merge_dumps import read_dumps
from buran.measurement.toolchain.elf import Elf
from buran.measurement.toolchain.static_features import read_static_features
from buran.measurement.toolchain.toolchain import CLANG_PLUGIN
from patience import PATIENCE_S

pytestmark = [pytest.mark.mpi, pytest.mark.slow]

MAIN = """\
#include <mpi.h>
#include "work.h"
int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int result = work(100) == 0;
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return result;
}
"""
WORK = """\
#include "work.h"
static int part(int n) { int s = 0; for (int i = 0; i < n; i++) s += i & 3; return s; }
int work(int n) { int s = 0; for (int i = 0; i < n; i++) s += part(i); return s; }
"""
HEADER = """\
#ifdef __cplusplus
extern "C"
#endif
int work(int n);
"""


@pytest.fixture
def bench(tmp_path):
    """A folder with the sources and the wrappers, and an environment in which both work."""
    if toolchain().kind != CLANG_PLUGIN:
        pytest.skip("needs clang and its headers")
    folder = tmp_path / "bench"
    folder.mkdir()
    for name, text in (("main.c", MAIN), ("main.cpp", MAIN), ("work.c", WORK), ("work.h", HEADER)):
        (folder / name).write_text(text)
    wrappers = tmp_path / "bin"
    wrappers.mkdir()
    for name in ("cc", "cxx", "mpicc", "mpicxx"):
        path = wrappers / f"buran-{name}"
        path.write_text(f"#!{sys.executable}\nfrom buran.measurement.toolchain.wrappers import {name}\n{name}()\n")
        path.chmod(0o755)
    (tmp_path / "toolchain.json").write_text(toolchain().to_json())
    return Bench(folder, wrappers, tmp_path / "toolchain.json")


class Bench:
    def __init__(self, folder, wrappers, description):
        self.folder = folder
        self.environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith(("BURAN_MODE", "CCACHE"))},
            **LAUNCH,
            "PATH": f"{wrappers}:{os.environ['PATH']}",
            "BURAN_TOOLCHAIN": str(description),
            "BURAN_MODE": "effort",
        }

    def run(self, *command, expect=0, folder=None, **variables):
        done = subprocess.run(
            command,
            cwd=folder or self.folder,
            env={**self.environment, **variables},
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )
        assert done.returncode == expect, done.stdout + done.stderr
        return done.stdout + done.stderr

    def profile(self, program, **variables):
        dumps = self.folder / f"profile-{Path(program).name}-{len(list(self.folder.iterdir()))}"
        self.run(str(self.folder / program), BURAN_PROFILE_DIR=str(dumps), **variables)
        return read_dumps(dumps, 1)

    def check(self, program, *expected):
        """The functions are in the profile below main, with counted blocks."""
        profile = self.profile(program)
        names = profile.tree.names
        for name in ("main", "main->MPI_Barrier", *(expected or ("main->work",))):
            assert f"{profile.attributes['executable']}->{name}" in names
        assert profile.values["basic_blocks"].sum() > 100 * 99 / 2


def need(*programs):
    for program in programs:
        if not shutil.which(program):
            pytest.skip(f"needs {program}")


# ---- make

MAKEFILE = """\
CFLAGS = -O2
program: main.o libwork.a
\t$(CC) $(CFLAGS) -o $@ main.o -L. -lwork
libwork.a: work.o
\tar rcs $@ $^
%.o: %.c
\t$(CC) $(CFLAGS) -MD -MP -c -o $@ $<
-include main.d work.d
"""


def test_make_with_a_static_library_and_dependencies(bench):
    (bench.folder / "Makefile").write_text(MAKEFILE)
    bench.run("make", "CC=buran-mpicc")
    assert "work.h" in (bench.folder / "main.d").read_text()
    bench.check("program")
    assert "up to date" in bench.run("make", "CC=buran-mpicc")
    os.utime(bench.folder / "work.h", (2e9, 2e9))
    assert "-c -o main.o" in bench.run("make", "CC=buran-mpicc")  # the wrapper wrote what depends on the header


# ---- shared libraries


@pytest.mark.parametrize("flags", [(), ("-Wl,--no-undefined",), ("-Wl,-z,defs",)])
def test_shared_library_uses_the_programs_runtime(bench, flags):
    bench.run("buran-mpicc", "-O2", "-shared", "-fPIC", "work.c", "-o", "libwork.so", *flags)
    own = {function.name for function in Elf.read(bench.folder / "libwork.so").functions}
    assert not any(name.startswith("buran_") for name in own)
    bench.run("buran-mpicc", "-O2", "main.c", "-L.", "-lwork", "-Wl,-rpath,$ORIGIN", "-o", "program")
    bench.check("program")


def test_library_that_is_opened_while_the_program_runs(bench):
    (bench.folder / "opens.c").write_text(
        "#include <dlfcn.h>\n#include <mpi.h>\nint main(int c, char **v) {\n MPI_Init(&c, &v);\n"
        ' void *h = dlopen("./libwork.so", RTLD_NOW);\n if (!h) return 3;\n'
        ' int r = ((int (*)(int))dlsym(h, "work"))(100) == 0;\n MPI_Barrier(MPI_COMM_WORLD);\n'
        " MPI_Finalize();\n return r; }\n"
    )
    bench.run("buran-mpicc", "-O2", "-shared", "-fPIC", "work.c", "-o", "libwork.so")
    bench.run("buran-mpicc", "-O2", "opens.c", "-ldl", "-o", "program")
    bench.check("program")


def test_mpi_that_only_a_library_knows(bench):
    """The program is linked with the plain compiler, and its own library brings the MPI along."""
    (bench.folder / "comm.c").write_text(
        "#include <mpi.h>\nvoid open_mpi(void) { MPI_Init(0, 0); MPI_Barrier(MPI_COMM_WORLD); }\n"
        "void close_mpi(void) { MPI_Finalize(); }\n"
    )
    (bench.folder / "plain.c").write_text(
        '#include "work.h"\nvoid open_mpi(void), close_mpi(void);\n'
        "int main(void) { open_mpi(); int r = work(100) == 0; close_mpi(); return r; }\n"
    )
    bench.run("buran-mpicc", "-shared", "-fPIC", "comm.c", "-o", "libcomm.so")
    bench.run("buran-cc", "-O2", "plain.c", "work.c", "-L.", "-lcomm", "-Wl,-rpath,$ORIGIN", "-o", "program")
    profile = bench.profile("program")
    assert any(name.endswith("->MPI_Barrier") for name in profile.tree.names)
    assert "program->main->work" in profile.tree.names


def test_program_without_mpi(bench):
    (bench.folder / "serial.c").write_text('#include "work.h"\nint main(void) { return work(100) == 0; }\n')
    bench.run("buran-cc", "-O2", "serial.c", "work.c", "-o", "program")
    assert {"program->main", "program->main->work"} <= set(bench.profile("program").tree.names)


# ---- CMake

CMAKE = """\
cmake_minimum_required(VERSION 3.16)
project(program C CXX)
include(CheckFunctionExists)
include(CheckCSourceRuns)
check_function_exists(clock_gettime HAS_CLOCK)
check_c_source_runs("int main(void) { return 0; }" RUNS)
if(NOT HAS_CLOCK OR NOT RUNS)
  message(FATAL_ERROR "checks fail")
endif()
find_package(MPI REQUIRED)
find_package(Threads REQUIRED)
add_library(work SHARED work.c)
add_library(more STATIC more.cpp)
add_executable(program main.cpp)
target_link_libraries(program work more MPI::MPI_CXX Threads::Threads)
"""


@pytest.fixture
def cmake_project(bench):
    need("cmake", "make")
    (bench.folder / "CMakeLists.txt").write_text(CMAKE)
    (bench.folder / "more.cpp").write_text(
        "#include <vector>\nint more(int n) { return std::vector<int>(n).size(); }\n"
    )
    return bench


@pytest.mark.parametrize(("c", "cxx"), [("mpicc", "mpicxx"), pytest.param("cc", "cxx", marks=pytest.mark.thorough)])
@pytest.mark.parametrize("generator", ["Unix Makefiles", pytest.param("Ninja", marks=pytest.mark.thorough)])
def test_cmake(cmake_project, c, cxx, generator):
    if generator == "Ninja":
        need("ninja")
    options = [f"-DCMAKE_C_COMPILER=buran-{c}", f"-DCMAKE_CXX_COMPILER=buran-{cxx}", "-DCMAKE_BUILD_TYPE=Release"]
    cmake_project.run("cmake", "-G", generator, "-S", ".", "-B", "build", *options)
    cmake_project.run("cmake", "--build", "build")
    cmake_project.check("build/program")
    features = read_static_features(cmake_project.folder / "build" / "program", cmake_project.folder)
    assert set(features.units) == {"main.cpp", "work.c"}  # nothing of more.cpp is needed


def test_instrumentation_is_off_during_configure(cmake_project):
    options = ["-DCMAKE_C_COMPILER=buran-mpicc", "-DCMAKE_CXX_COMPILER=buran-mpicxx"]
    cmake_project.run("cmake", "-S", ".", "-B", "build", *options, BURAN_WRAPPER="off")
    cmake_project.run("cmake", "--build", "build")
    cmake_project.check("build/program")


@pytest.mark.thorough
def test_cmake_with_precompiled_headers_is_told_what_to_do(cmake_project):
    lists = cmake_project.folder / "CMakeLists.txt"
    lists.write_text(CMAKE + "target_precompile_headers(program PRIVATE <vector>)\n")
    options = ["-DCMAKE_C_COMPILER=buran-mpicc", "-DCMAKE_CXX_COMPILER=buran-mpicxx"]
    cmake_project.run("cmake", "-S", ".", "-B", "build", *options)
    assert "-DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON" in cmake_project.run("cmake", "--build", "build", expect=2)
    cmake_project.run("cmake", "-S", ".", "-B", "other", *options, "-DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON")
    cmake_project.run("cmake", "--build", "other")
    cmake_project.check("other/program")


# ---- autotools


@pytest.mark.thorough
@pytest.mark.parametrize("wrapper", ["on", "off"])
def test_autotools_with_libtool(bench, wrapper):
    """With the wrapper on or off while it is configured."""
    need("autoreconf", "libtoolize", "make")
    (bench.folder / "configure.ac").write_text(
        "AC_INIT([program],[1.0])\nAC_CONFIG_AUX_DIR([aux-files])\nAM_INIT_AUTOMAKE([foreign])\nLT_INIT\nAC_PROG_CC\n"
        "AC_CHECK_FUNCS([clock_gettime MPI_Init])\nAC_CHECK_SIZEOF([long])\nAC_C_INLINE\nAC_OPENMP\n"
        "AC_CONFIG_FILES([Makefile])\nAC_OUTPUT\n"
    )
    (bench.folder / "Makefile.am").write_text(
        "lib_LTLIBRARIES = libwork.la\nlibwork_la_SOURCES = work.c work.h\nbin_PROGRAMS = program\n"
        "program_SOURCES = main.c\nprogram_LDADD = libwork.la\n"
    )
    bench.run("autoreconf", "-fi")
    place = bench.folder / "place"
    place.mkdir()
    variables = {"BURAN_WRAPPER": "off"} if wrapper == "off" else {}
    log = bench.run("../configure", "CC=buran-mpicc", f"--prefix={place}/inst", folder=place, **variables)
    assert "checking for MPI_Init... yes" in log and "checking size of long... 8" in log
    bench.run("make", "install", folder=place)
    bench.check("place/inst/bin/program")


# ---- ccache


@pytest.fixture
def cached(bench):
    need("ccache")
    bench.environment["CCACHE_DIR"] = str(bench.folder / "cache")
    return bench


def compile_cached(bench, **variables):
    bench.run("ccache", "buran-mpicc", "-O2", "-c", "work.c", **variables)
    data = (bench.folder / "work.o").read_bytes()
    (bench.folder / "work.o").unlink()
    mode = "effort" if b"buran_blocks" in data else "time" if b"buran_objects_are_for_time" in data else "vanilla"
    return mode, b"buran_enter" in data


def hits(bench):
    text = bench.run("ccache", "--print-stats")
    values = dict(line.split("\t") for line in text.splitlines())
    return int(values["direct_cache_hit"]) + int(values["preprocessed_cache_hit"])


def test_ccache_keeps_nothing_without_the_key(cached):
    for mode in ("vanilla", "effort", "time", "effort", "vanilla"):
        assert compile_cached(cached, BURAN_MODE=mode)[0] == mode
    assert hits(cached) == 0


def test_without_ccache_it_is_not_in_the_way(cached):
    assert compile_cached(cached, BURAN_MODE="time", CCACHE_DISABLE="1") == ("time", True)


# ---- single commands


def test_response_files_and_several_sources(bench):
    (bench.folder / "inner").write_text("main.c work.c")
    (bench.folder / "words").write_text('-O2 @inner -o "a program"')
    bench.run("buran-mpicc", "@words")
    bench.check("a program")


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (("--help",), "BURAN_MODE"),
        (("--version",), "clang version"),
        (("-###", "main.c"), "-fpass-plugin"),
        (("-E", "main.c"), "MPI_Barrier"),
        (("-M", "work.c"), "work.h"),
        (("-MM", "work.c"), "work.o: work.c work.h"),
        (("-dM", "-E", "-x", "c", "/dev/null"), "__clang_major__"),
        (("-S", "-O2", "-o", "-", "work.c"), "buran_blocks"),
        (("-fsyntax-only", "work.c"), ""),
        (("-print-search-dirs",), "libraries"),
    ],
)
def test_questions_and_early_ends(bench, arguments, shown):
    before = sorted(path.name for path in bench.folder.iterdir())
    if arguments[0] == "-###":
        shown = ""  # shown for the command as it was typed
    assert shown in bench.run("buran-mpicc", *arguments)
    assert sorted(path.name for path in bench.folder.iterdir()) == before


def test_mistake_in_a_filter_has_file_and_line(bench):
    rules = bench.folder / "rules.filter"
    rules.write_text("# mine\nSCOREP_REGION_NAMES_BEGIN\nINCLUDE a\nSCOREP_FILE_NAMES_END\n")
    shown = bench.run("buran-mpicc", "-c", "work.c", expect=2, BURAN_FILTER=str(rules))
    assert f"{rules}:4: error:" in shown
    rules.unlink()
    shown = bench.run("buran-mpicc", "-c", "work.c", expect=2, BURAN_FILTER=str(rules))
    assert "cannot be read" in shown
