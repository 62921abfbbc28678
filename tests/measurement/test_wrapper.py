"""Command lines of the compiler wrappers."""

import os
import subprocess
import sys

import pytest
from native_programs import toolchain

from buran.errors import UsageError
from buran.measurement.merge_dumps import read_dumps
from buran.measurement.toolchain.toolchain import CLANG_PLUGIN, GCC_FALLBACK, Toolchain
from buran.measurement.toolchain.wrappers import CC, CXX, MPICC, MPICXX, CommandLine, inspect, translate

CLANG = Toolchain(
    kind=CLANG_PLUGIN,
    cc="clang",
    cxx="clang++",
    compiler_version="clang version 16",
    plugin="/cache/plugin.so",
    objects={"time": ("/cache/r.o", "/cache/time.o"), "effort": ("/cache/r.o", "/cache/effort.o")},
    mpicc="/usr/bin/mpicc",
    mpicxx="/usr/bin/mpicxx",
    mpiexec="/usr/bin/mpiexec",
    mpi="openmpi",
    mpi_version="4.1.4",
    notes=(),
    fingerprint="0",
)
GCC = Toolchain(**{**vars(CLANG), "kind": GCC_FALLBACK, "plugin": None})

NOTHING = CommandLine(compiles=False, links=False, lto=False)
COMPILE = CommandLine(compiles=True, links=False, lto=False)
LINK = CommandLine(compiles=False, links=True, lto=False)
BOTH = CommandLine(compiles=True, links=True, lto=False)
READ = CommandLine(compiles=False, links=False, lto=False, reads=True)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("-c a.c", COMPILE),
        ("-O2 -c -o a.o a.cpp", COMPILE),
        ("-c a.c b.c", COMPILE),
        ("-S a.c", COMPILE),
        ("-E a.c", READ),
        ("-M a.c", READ),
        ("-MM a.c", READ),
        ("-MD -MF a.d -MT a.o -c a.c", COMPILE),
        ("-fsyntax-only a.c", READ),
        ("a.o b.o -o program", LINK),
        ("a.o -o program.c", LINK),  # the name of the output is no source
        ("a.o -L dir.c -lfoo", LINK),
        ("a.o libx.a -Wl,-rpath,/x", LINK),
        ("a.c", BOTH),
        ("-v a.c", BOTH),
        ("a.c b.o -o program", BOTH),
        ("-x c -", BOTH),
        ("-xc++ source", BOTH),
        ("a.o -x none", LINK),
        ("-E -x c -", READ),
        ("-dM -E -x c /dev/null", READ),
        ("-MD -c a.c", COMPILE),
        ("-S -o - a.c", COMPILE),
        ("-shared a.o -o liba.so", CommandLine(compiles=False, links=False, shares=True)),
        ("-shared -fPIC a.c -o liba.so", CommandLine(compiles=True, links=False, shares=True)),
        ("-shared a.o -Wl,-soname,x,-z,defs", CommandLine(False, False, shares=True, refuses_undefined=True)),
        ("-shared a.o -Wl,--no-undefined", CommandLine(False, False, shares=True, refuses_undefined=True)),
        ("-shared a.o -z defs", CommandLine(False, False, shares=True, refuses_undefined=True)),
        ("-shared a.o -Xlinker -z -Xlinker defs", CommandLine(False, False, shares=True, refuses_undefined=True)),
        ("-shared a.o -Wl,--no-undefined-version", CommandLine(False, False, shares=True)),
        ("-nostdlib a.o", NOTHING),
        ("a.f90", BOTH),
        ("-c a.F", COMPILE),
        ("a.o -lmpi", CommandLine(False, True, names_mpi=True)),
        ("a.o -l mpi", CommandLine(False, True, names_mpi=True)),
        ("a.o /usr/lib/openmpi/libmpi.so.40", CommandLine(False, True, names_mpi=True)),
        ("a.o libmpich.a", CommandLine(False, True, names_mpi=True)),
        ("a.o mpi.o libsimpi.a -lm", LINK),
        ("-x c++-header a.h -o a.pch", CommandLine(False, False, precompiles=True)),
        ("-c a.hpp", CommandLine(False, False, precompiles=True)),
        ("-Xclang -emit-pch -x c++-header -c a.cxx", CommandLine(False, False, precompiles=True)),
        ("-x c -c a.h", COMPILE),
        ("-E a.h", NOTHING),
        ("-r a.o b.o -o c.o", NOTHING),
        ("", NOTHING),
        ("-v", NOTHING),
        ("--version", NOTHING),
        ("--showme", NOTHING),
        ("--showme:compile -c a.c", NOTHING),
        ("-show a.c", NOTHING),
        ("-### a.c", NOTHING),
        ("-print-search-dirs", NOTHING),
        ("-dumpversion", NOTHING),
        ("-o program -lfoo", NOTHING),
        ("-flto -c a.c", CommandLine(compiles=True, links=False, lto=True)),
        ("-flto=thin a.o", CommandLine(compiles=False, links=True, lto=True)),
        ("-flto -fno-lto a.c", BOTH),
    ],
)
def test_what_a_command_line_does(line, expected):
    assert inspect(line.split()) == expected


def test_response_files_are_read(tmp_path):
    (tmp_path / "args").write_text("-c 'a file.c'")
    assert inspect([f"@{tmp_path / 'args'}"]) == COMPILE
    assert inspect([f"@{tmp_path / 'missing'}"]) == LINK


def test_vanilla_adds_nothing():
    assert translate(["-O2", "a.c"], wrapper=MPICC, mode="vanilla", toolchain=CLANG) == [
        "/usr/bin/mpicc",
        "-O2",
        "a.c",
    ]


def test_compiling_takes_the_plugin_and_linking_the_runtime():
    def command(*arguments, mode="effort", tools=CLANG):
        return translate(arguments, wrapper=MPICXX, mode=mode, toolchain=tools)

    compile_only = command("-c", "a.cpp")
    assert "-fpass-plugin=/cache/plugin.so" in compile_only and "/cache/r.o" not in compile_only
    assert compile_only[-2:] == ["-c", "a.cpp"]
    link_only = command("a.o", mode="time")
    assert link_only[0] == "/usr/bin/mpicxx"
    assert link_only.index("/cache/time.o") < link_only.index("a.o")  # what begins first ends last
    assert "/cache/time.o" in link_only and "/cache/effort.o" not in link_only
    assert not any("plugin" in word for word in link_only)
    both = command("-g", "a.cpp")
    assert both.index("-gline-tables-only") < both.index("-g")  # the user's choice wins
    assert "-fsanitize-coverage=trace-pc" in command("-c", "a.c", tools=GCC)
    assert "-fsanitize-coverage=trace-pc" not in command("-c", "a.c", mode="time", tools=GCC)


@pytest.mark.parametrize("mode", ["time", "effort"])
@pytest.mark.parametrize("line", ["-flto -c a.c", "-flto=thin a.o", "-flto=auto -shared a.o"])
def test_lto_is_refused(line, mode):
    with pytest.raises(UsageError, match="link-time optimisation"):
        translate(line.split(), wrapper=MPICC, mode=mode, toolchain=CLANG)
    for harmless in ("-flto --version", "-flto -E a.c"):
        assert translate(harmless.split(), wrapper=MPICC, mode=mode, toolchain=CLANG)
    assert translate(line.split(), wrapper=MPICC, mode="vanilla", toolchain=CLANG)


def test_where_options_stand_for_the_mpis_own_wrapper_sources_are_read_with_them_too():
    tools = Toolchain(**{**vars(CLANG), "mpi_compiling": ("-I/smpi", "-fPIC")})
    assert translate(["-E", "a.c"], wrapper=MPICC, mode="time", toolchain=tools)[1:3] == ["-I/smpi", "-fPIC"]
    assert "-I/smpi" not in translate(["a.o"], wrapper=MPICC, mode="time", toolchain=tools)


def test_precompiled_headers_are_refused():
    for line in ("-x c++-header a.h", "-c a.hpp", "-Xclang -emit-pch -x c++-header -c a.cxx"):
        with pytest.raises(UsageError, match="precompiled headers") as caught:
            translate(line.split(), wrapper=MPICXX, mode="time", toolchain=CLANG)
        assert "CMAKE_DISABLE_PRECOMPILE_HEADERS" in str(caught.value)


def test_shared_libraries_leave_the_runtime_to_the_program():
    command = translate(["-shared", "a.o", "-Wl,--no-undefined"], wrapper=CC, mode="time", toolchain=CLANG)
    assert command == ["clang", "-shared", "a.o", "-Wl,--no-undefined", "-Wl,--unresolved-symbols=ignore-all"]
    command = translate(["-shared", "a.o"], wrapper=CC, mode="time", toolchain=CLANG)
    assert command == ["clang", "-shared", "a.o"]


def test_plain_compilers_take_an_mpi_layer_that_needs_no_mpi():
    tools = Toolchain(**{**vars(CLANG), "objects": {"time": ("/c/r.o", "/c/mpi.o")}})

    def command(line):
        return translate(line.split(), wrapper=CXX, mode="time", toolchain=tools)

    assert command("a.o")[:4] == ["clang++", "/c/r.o", "/c/weak-mpi.o", "a.o"]
    assert command("a.o -lmpi")[:4] == ["clang++", "/c/r.o", "/c/mpi.o", "a.o"]


def test_unknown_mode():
    with pytest.raises(UsageError, match="`fast`"):
        translate(["a.c"], wrapper=MPICC, mode="fast", toolchain=CLANG)


def test_filter_of_the_fallback_becomes_a_part_of_the_program(tmp_path):
    path = tmp_path / "filter,1.txt"
    path.write_text("")
    with pytest.raises(UsageError, match="comma"):
        translate(["a.o"], wrapper=MPICC, mode="time", toolchain=GCC, filter_file=str(path))
    with pytest.raises(UsageError, match="cannot be read"):
        translate(["a.o"], wrapper=MPICC, mode="time", toolchain=GCC, filter_file=str(tmp_path / "none"))


# ---- as a command

SOURCES = {
    "first.c": "int twice(int x) { int s = 0; for (int i = 0; i < x; i++) s += 2; return s; }\n",
    "main.c": "#include <mpi.h>\nint twice(int);\nint main(int c, char **v) {\n"
    "  MPI_Init(&c, &v); int r = twice(c) != 2; MPI_Finalize(); return r; }\n",
}


def wrapper(folder, *arguments, tool="mpicc", mode="effort", **variables):
    (folder / "toolchain.json").write_text(toolchain().to_json())
    environment = {**os.environ, "BURAN_TOOLCHAIN": str(folder / "toolchain.json"), "BURAN_MODE": mode}
    code = f"from buran.measurement.toolchain.wrappers import {tool}; {tool}()"
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=folder,
        env={**environment, **variables},
        capture_output=True,
        text=True,
    )


@pytest.mark.mpi
def test_as_a_command(tmp_path):
    for name, source in SOURCES.items():
        (tmp_path / name).write_text(source)
    ways = {
        "at-once": [["first.c", "main.c", "-o", "at-once"]],
        "two-steps": [["-c", "first.c", "main.c"], ["first.o", "main.o", "-o", "two-steps"]],
        "mixed": [["-c", "first.c", "-o", "x.o"], ["-x", "c", "main.c", "-x", "none", "x.o", "-o", "mixed"]],
    }
    for name, commands in ways.items():
        for command in commands:
            done = wrapper(tmp_path, *command)
            assert done.returncode == 0, done.stderr
            assert not done.stderr  # no warning about options of ours
        folder = tmp_path / f"profile-{name}"
        environment = {
            **os.environ,
            "BURAN_PROFILE_DIR": str(folder),
            "OMPI_ALLOW_RUN_AS_ROOT": "1",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        }
        subprocess.run([tmp_path / name], env=environment, check=True)
        names = read_dumps(folder, 1).tree.names
        assert {f"{name}->main", f"{name}->main->MPI_Init", f"{name}->main->twice"} <= set(names)


@pytest.mark.mpi
@pytest.mark.parametrize("arguments", [["--version"], ["-v"], ["-###", "main.c"], ["-E", "first.c"]])
def test_questions_are_passed_through(tmp_path, arguments):
    for name, source in SOURCES.items():
        (tmp_path / name).write_text(source)
    done = wrapper(tmp_path, *arguments)
    assert done.returncode == 0, done.stderr
    assert done.stdout + done.stderr


@pytest.mark.mpi
def test_errors_have_no_traceback(tmp_path):
    done = wrapper(tmp_path, "-flto", "-c", "a.c")
    assert done.returncode == 2
    assert "link-time optimisation" in done.stderr and "Traceback" not in done.stderr
    done = wrapper(tmp_path, "-c", "a.c", BURAN_TOOLCHAIN=str(tmp_path / "none.json"))
    assert done.returncode == 3 and "none.json" in done.stderr and "Traceback" not in done.stderr
    assert wrapper(tmp_path, "-c", "missing.c").returncode not in (0, 2, 3)


def test_start_up_loads_only_what_is_needed():
    code = (
        "import sys, buran.measurement.toolchain.wrappers, buran.measurement.toolchain.toolchain;"
        "print([m for m in ('numpy', 'pydantic', 'scipy', 'asyncio') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
