"""What Makefiles, CMake and Meson tell, on small projects that are really built with what was found."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from buran.errors import UsageError
from buran.plugins.project.examine import examine_project
from buran.plugins.project.makefile import read_makefile
from buran.plugins.project.sources import Language, language_of_command, language_of_variable

MAIN_C = '#include <stdio.h>\nint helper(int n);\nint main(void) { printf("%d\\n", helper(1)); return 0; }\n'
HELPER_C = "int helper(int n) { return n + ANSWER; }\n"
MPI_CPP = "#include <mpi.h>\nint main(int c, char **v) { MPI_Init(&c, &v); MPI_Finalize(); }\n"
SERIAL_CPP = "int main() { return 0; }\n"

# name: files, the build command that is expected, its programs, whether MPI is used
PROJECTS = {
    "variables": (
        {
            "Makefile": "MPICXX ?= mpic++\nCXX = $(MPICXX) -DUSE=1\nCXXFLAGS = -O1 -I.\nOBJ = main.o\nEXE = sim.x\n"
            "all: $(EXE)\n%.o: %.cpp\n\t@echo compiling\n\t$(CXX) $(CXXFLAGS) -c -o $@ $<\n"
            "$(EXE): $(OBJ)\n\t$(CXX) $(OBJ) -o $@\nclean:\n\trm -f *.o $(EXE)\n.PHONY: all clean\n",
            "main.cpp": MPI_CPP,
        },
        "make CXX='{mpicxx} -DUSE=1'",
        ("sim.x",),
        True,
    ),
    "make's own rules": (
        {"Makefile": "CFLAGS += -DANSWER=2\nprog: prog.o helper.o\n", "prog.c": MAIN_C, "helper.c": HELPER_C},
        "make CC={mpicc}",
        ("prog",),
        False,
    ),
    "a rule whose target is a variable without a value": (
        {
            "Makefile": "$(EXE): $(OBJ)\n\t$(CC) -o $(EXE) $(OBJ)\n"
            "prog: prog.c helper.c\n\t$(CC) -DANSWER=2 -o $@ $^\n",
            "prog.c": MAIN_C,
            "helper.c": HELPER_C,
        },
        "make CC={mpicc}",
        ("prog",),
        False,
    ),
    "flags of a suite of compilers": (
        {
            "Makefile": "SUITE = pgi\nifeq ($(SUITE),pgi)\nCFLAGS = -fast --no-such-flag\nelse ifeq ($(SUITE),gnu)\n"
            "CFLAGS = -O1\nendif\nprog: main.c helper.c\n\t$(CC) $(CFLAGS) -DANSWER=2 -o prog main.c helper.c\n",
            "main.c": MAIN_C,
            "helper.c": HELPER_C,
        },
        "make SUITE=gnu CC={mpicc}",
        ("prog",),
        False,
    ),
    "no flags set": (
        {"Makefile": "tool: tool.cpp\n\t$(CXX) $(CXXFLAGS) tool.cpp -o tool\n", "tool.cpp": SERIAL_CPP},
        "make CXX={mpicxx} CXXFLAGS='{flags}'",
        ("tool",),
        False,
    ),
    "compiler by name": (
        {"Makefile": "prog: main.cpp\n\tmpicxx -O1 main.cpp -o prog\n", "main.cpp": MPI_CPP},
        r"sed -i -e 's|^\(\t[@-]*\)mpicxx |\1{mpicxx} |' Makefile && make",
        ("prog",),
        True,
    ),
    "two folders down": (
        {
            "Makefile": "all:\n\tcd code && $(MAKE)\n",
            "code/Makefile": "include ../settings.mk\nsim: main.o\n\t${CXX} -o $@ $^\n.cpp.o:\n\t${CXX} -c $<\n",
            "settings.mk": "CXX := mpicxx\n",
            "code/main.cpp": MPI_CPP,
        },
        "make CXX={mpicxx}",
        ("code/sim",),
        True,
    ),
    "only below": (
        {"src/Makefile": "sim: main.cpp\n\t$(CXX) -o sim main.cpp\n", "src/main.cpp": SERIAL_CPP},
        "make -C src CXX={mpicxx}",
        ("src/sim",),
        False,
    ),
    "cmake": (
        {
            "CMakeLists.txt": "# add_executable(no x.cpp)\ncmake_minimum_required(VERSION 3.16)\nproject(Solver CXX)\n"
            'option(SOLVER_WITH_MPI "use MPI (or not)" OFF)\nset(EXE ${PROJECT_NAME}.x)\n'
            "if(SOLVER_WITH_MPI)\n find_package(MPI REQUIRED)\nendif()\nadd_executable(${EXE} main.cpp)\n"
            "add_subdirectory(tools)\n",
            "main.cpp": MPI_CPP,
            "tools/CMakeLists.txt": "add_executable(convert convert.cpp)\n",
            "tools/convert.cpp": SERIAL_CPP,
        },
        "cmake -S . -B build -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_COMPILER={mpicxx} -DSOLVER_WITH_MPI=ON "
        "&& cmake --build build",
        ("build/Solver.x", "build/tools/convert"),
        True,
    ),
    "cmake with a switch that is no option": (
        {
            "CMakeLists.txt": "cmake_minimum_required(VERSION 3.16)\nproject(P LANGUAGES C)\noption(WITH_MPI yes ON)\n"
            "IF(USE_MPI)\n find_package(MPI REQUIRED)\nENDIF()\nif(WITH_MPI)\nendif()\nif(MPI_FOUND)\nendif()\n"
            "add_executable(p main.c helper.c)\ntarget_compile_definitions(p PRIVATE ANSWER=3)\n",
            "main.c": MAIN_C,
            "helper.c": HELPER_C,
        },
        "cmake -S . -B build -DCMAKE_BUILD_TYPE=Release -DCMAKE_C_COMPILER={mpicc} -DUSE_MPI=ON && cmake --build build",
        ("build/p",),
        True,
    ),
    "cmake with one folder of programs": (
        {
            "CMakeLists.txt": "cmake_minimum_required(VERSION 3.16)\nproject(P LANGUAGES C)\n"
            "set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)\n"
            "add_executable(p main.c helper.c)\ntarget_compile_definitions(p PRIVATE ANSWER=3)\n",
            "main.c": MAIN_C,
            "helper.c": HELPER_C,
        },
        "cmake -S . -B build -DCMAKE_BUILD_TYPE=Release -DCMAKE_C_COMPILER={mpicc} && cmake --build build",
        ("build/bin/p",),
        False,
    ),
}

MESON = """project('p', 'c')
if get_option('with-mpi')
  executable('parallel', 'p.c', dependencies: dependency('mpi', language: 'c'))
endif
subdir('tools')
"""


def need(*programs: str) -> None:
    for program in programs:
        if shutil.which(program) is None:
            pytest.skip(f"needs {program}")


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


@pytest.mark.parametrize("name", PROJECTS)
def test_what_is_found(name: str, tmp_path: Path) -> None:
    files, build, programs, mpi = PROJECTS[name]
    need(build.split()[0])
    found = examine_project(write(tmp_path, files))
    assert (found.build, found.binaries, found.uses_mpi) == (build, programs, mpi)
    assert found.remarks[0].startswith("Found: ")
    assert not any(remark.startswith("<-") for remark in found.remarks) and found.failure is None
    assert {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()} == files.keys()


@pytest.mark.slow
@pytest.mark.mpi
@pytest.mark.parametrize("name", PROJECTS)
def test_what_is_found_builds(name: str, tmp_path: Path) -> None:
    """The compilers that the wrappers stand for, through a name of their own: nothing else may compile."""
    files, build, programs, _ = PROJECTS[name]
    need(build.split()[0])
    found = examine_project(write(tmp_path / "project", files))
    called = tmp_path / "called"
    values = {"flags": "-O1"}
    for language in Language:
        wrapper = tmp_path / f"my-{language.value}"
        real = shutil.which(language.value) or "false"
        wrapper.write_text(f'#!/bin/sh\necho {language.value} >> {called}\nexec {shlex.quote(real)} "$@"\n')
        wrapper.chmod(0o755)
        values[language.value] = str(wrapper)
    done = subprocess.run(found.build.format(**values), shell=True, cwd=found.folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    for program in programs:
        subprocess.run([found.folder / program], check=True, capture_output=True)
    assert called.read_text()


def test_a_project_with_both_says_so(tmp_path: Path) -> None:
    need("cmake")
    files = {"CMakeLists.txt": "project(P C)\nadd_executable(p p.c)\n", "Makefile": "p: p.c\n\t$(CC) -o p p.c\n"}
    write(tmp_path, {**files, "p.c": "int main(void) { return 0; }\n"})
    assert "--system make" in examine_project(tmp_path).remarks[0]
    assert examine_project(tmp_path, "make").build == "make CC={mpicc}"


def test_what_could_not_be_told_is_marked(tmp_path: Path) -> None:
    write(tmp_path, {"Makefile": "all:\n\t./configure-and-build.py\n", "a.c": "int x;\n"})
    found = examine_project(tmp_path)
    assert not found.binaries and found.remarks[-1].startswith("<- which variables")


def test_what_cmake_cannot_configure_is_said_with_its_last_words(tmp_path: Path) -> None:
    need("cmake")
    files = {
        "CMakeLists.txt": "project(P C)\nfind_package(Nowhere REQUIRED)\n",
        "a.c": "int x;\n",
    }
    found = examine_project(write(tmp_path, files))
    assert found.failure is not None and not found.binaries
    assert "MPI" in found.remarks[0]
    assert "find_package" in found.remarks[1] and found.remarks[1].startswith("<- cmake")
    assert "Configuring incomplete" in str(found.failure) and "next:" in str(found.failure)
    assert found.build.startswith("cmake -S . -B build -DCMAKE_BUILD_TYPE=Release -DCMAKE_C_COMPILER={mpicc} ")


def test_a_switch_that_cannot_be_configured_leaves_what_there_is_without(tmp_path: Path) -> None:
    need("cmake")
    text = "project(P C)\noption(P_USE_MPI x OFF)\nif(P_USE_MPI)\n find_package(Nowhere REQUIRED)\nendif()\n"
    text += "set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_SOURCE_DIR}/bin)\nadd_executable(p p.c)\n"
    found = examine_project(write(tmp_path, {"CMakeLists.txt": text, "p.c": MAIN_C}))
    assert found.binaries == ("bin/p",) and found.uses_mpi and "MPI=ON" not in found.build
    assert "with -DP_USE_MPI=ON" in found.remarks[-1]


def test_meson_says_what_it_builds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    need("meson", "ninja", "mpicc")
    options = "option('with-mpi', type: 'boolean', value: false)\noption('levels', type: 'array', value: ['mpi'])\n"
    files = {"meson.build": MESON, "meson_options.txt": options, "tools/meson.build": "executable('convert', 'c.c')\n"}
    found = examine_project(write(tmp_path, {**files, "p.c": "", "tools/c.c": ""}))
    assert found.failure is None and found.uses_mpi and found.binaries == ("build/parallel", "build/tools/convert")
    assert found.build.startswith("CC={mpicc} meson setup build --buildtype=release -Dwith-mpi=true && ")


@pytest.mark.parametrize(("file", "tool"), [("CMakeLists.txt", "cmake"), ("meson.build", "meson")])
def test_a_tool_that_is_missing_is_named(file: str, tool: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    found = examine_project(write(tmp_path, {file: "", "p.c": "#include <mpi.h>\n"}))
    assert found.uses_mpi and f"<- {tool} is not installed" in found.remarks[1]
    assert found.failure is not None and f"install {tool}" in str(found.failure.hint)


@pytest.mark.parametrize(("level", "said"), [("-g", True), ("-O0", True), ("-O2", False), ("$(FAST_$(SUITE))", False)])
def test_flags_that_stay_are_named_as_their_language_does(level: str, said: bool, tmp_path: Path) -> None:
    text = f"FAST = -O3\nFAST_ = -O3\nCFLAGS += {level}\nprog: prog.c\n\t$(CC) $(CFLAGS) -o prog prog.c\n"
    remarks = examine_project(write(tmp_path, {"Makefile": text, "prog.c": MAIN_C})).remarks
    assert remarks[1].endswith("as in CFLAGS='{flags}'")
    assert any("-O2" in remark for remark in remarks) == said


@pytest.mark.parametrize(
    ("files", "build"),
    [
        ({"configure": ""}, "./configure --disable-shared CC={mpicc} "),
        ({"configure": "  --with-mpi    [default=no]\n"}, "./configure --disable-shared --with-mpi CC={mpicc} "),
        (
            {"configure.ac": "AC_ARG_ENABLE([mpi], [], [])\n"},
            "autoreconf -fi && ./configure --disable-shared --enable-mpi ",
        ),
        ({"configure.ac": ""}, "autoreconf -fi && ./configure "),
        ({"bootstrap": ""}, "sh ./bootstrap && ./configure "),
        (
            {"Makefile.intel": "", "Makefile.gnu": "p: p.c\n\t$(CC) -o p p.c\n"},
            "cp Makefile.gnu Makefile && make CC={mpicc}",
        ),
    ],
)
def test_other_build_systems(files: dict[str, str], build: str, tmp_path: Path) -> None:
    write(tmp_path, {**files, "p.c": "#include <mpi.h>\nint main(void) { return 0; }\n"})
    project = examine_project(tmp_path)
    assert project.build.startswith(build) and project.uses_mpi
    assert project.binaries == (("p",) if "Makefile.gnu" in files else ())
    assert ("cp Makefile.intel Makefile && make CC={mpicc}" in project.alternatives) == ("Makefile.intel" in files)


def test_flags_for_gpus_are_left_out_in_another_way(tmp_path: Path) -> None:
    makefile = (
        "CXX = hipcc\nCPPFLAGS = -DA -DHAVE_HIP -x hip --offload-arch=gfx90a\np: p.cc\n\t$(CXX) $(CPPFLAGS) -o p p.cc\n"
    )
    write(tmp_path, {"Makefile": makefile, "p.cc": "#include <mpi.h>\nint main() { return 0; }\n"})
    project = examine_project(tmp_path)
    assert project.alternatives == (f"{project.build} CPPFLAGS='-DA'",)


def test_presets_are_other_ways_to_build(tmp_path: Path) -> None:
    need("cmake")
    presets = '{"version": 3, "configurePresets": [{"name": "base", "hidden": true}, {"name": "release"}]}'
    files = {"CMakeLists.txt": "project(P C)\nadd_executable(p p.c)\n", "CMakePresets.json": presets}
    write(tmp_path, {**files, "p.c": "int main(void) { return 0; }\n"})
    (other,) = examine_project(tmp_path).alternatives
    assert other.startswith("cmake --preset release -B build -DCMAKE_C_COMPILER={mpicc}")
    (tmp_path / "CMakePresets.json").write_text("[broken")
    assert not examine_project(tmp_path).alternatives


def test_a_variant_of_a_makefile_may_call_itself(tmp_path: Path) -> None:
    """By its usual name, as its authors tell to do: copied."""
    makefile = "all: depend\n\t$(CC) -o ../p p.c\ndepend:\n"
    write(tmp_path, {"src/Makefile.vanilla": makefile, "src/p.c": "#include <mpi.h>"})
    project = examine_project(tmp_path, makefile=Path("src/Makefile.vanilla"))
    assert project.build == "cp src/Makefile.vanilla src/Makefile && make -C src CC={mpicc}"


def test_cmake_one_folder_down_comes_before_a_library_that_is_kept_with_it(tmp_path: Path) -> None:
    need("cmake")
    library = {"src/xml/Makefile": "t: t.cpp\n\t$(CXX) -o t t.cpp\n"}
    write(tmp_path, {**library, "src/CMakeLists.txt": "project(P C)\nadd_executable(p p.c)\n", "src/p.c": ""})
    for system in (None, "cmake"):
        project = examine_project(tmp_path, system)
        assert project.build.startswith("cmake -S src -B build ") and project.binaries == ("build/p",)
    assert examine_project(tmp_path, "make").build == "make -C src/xml CXX={mpicxx}"
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "CMakeLists.txt").write_text("project(D)\n")
    assert examine_project(tmp_path).build.startswith("cmake -S src ")


def test_bad_input(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such folder"):
        examine_project(tmp_path / "absent")
    with pytest.raises(UsageError, match="not seen how") as caught:
        examine_project(tmp_path)
    assert "{mpicxx}" in str(caught.value)
    write(tmp_path, {"a/Makefile": "", "b/Makefile": ""})
    with pytest.raises(UsageError, match="several Makefiles") as caught:
        examine_project(tmp_path)
    assert "--makefile a/Makefile" in str(caught.value)
    assert examine_project(tmp_path, makefile=Path("b")).build.startswith("make -C b ")
    for wrong in ("c/Makefile", "../Makefile", "/etc/hosts"):
        with pytest.raises(UsageError, match="no such Makefile"):
            examine_project(tmp_path, makefile=Path(wrong))
    write(tmp_path, {"src/Makefile": "p: p.c\n\t$(CC) -o p p.c\n"})
    assert examine_project(tmp_path).build == "make -C src CC={mpicc}"
    with pytest.raises(UsageError, match="no CMakeLists"):
        examine_project(tmp_path / "a", "cmake")


@pytest.mark.parametrize(
    ("command", "language"),
    [
        ("mpicc", Language.C),
        ("/opt/x/bin/gcc-12", Language.C),
        ("mpig++", Language.CXX),
        ("clang++-16", Language.CXX),
        ("mpif90", Language.FORTRAN),
        ("ftn", Language.FORTRAN),
        ("ar", None),
        ("rm", None),
    ],
)
def test_compilers_are_known_by_name(command: str, language: Language | None) -> None:
    assert language_of_command(command) is language


def test_variables_are_known_by_name() -> None:
    assert language_of_variable("MPICXX") is Language.CXX and language_of_variable("CC") is Language.C
    assert language_of_variable("FC") is Language.FORTRAN and language_of_variable("RM") is None


@given(st.text(alphabet="ab$(){}:=\t\n\\ #.o%+?!-,CX@<^;", max_size=120))
@settings(max_examples=150)
def test_any_text_is_read(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    folder = tmp_path_factory.getbasetemp() / "any"
    folder.mkdir(exist_ok=True)
    (folder / "Makefile").write_text(text)
    makefile = read_makefile(folder / "Makefile")
    makefile.programs()
    makefile.compilers({Language.C})
    assert examine_project(folder).build
