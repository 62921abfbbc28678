"""Projects that are built once: what appears, what helps against a failure, whether it is an MPI program."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from buran.plugins.project.examine import examine_project
from buran.plugins.project.sources import mpi_guards
from buran.plugins.project.trial import option_of, tried, with_words

GUARDED = """#ifdef HAVE_MPI
#include <mpi.h>
#endif
#include <stdio.h>
int main(int argc, char **argv) {
#ifdef HAVE_MPI
    MPI_Init(&argc, &argv);
    MPI_Finalize();
#endif
    if (argc > 1) puts("usage: prog [options]\\n  -s <size>  edge of the mesh\\n  --steps=N  how many");
    return 0;
}
"""
MAKEFILE = "NAME = prog-$(shell echo one)\nall:\n\t$(CC) -O2 -o $(NAME) prog.c\n"


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).write_text(text)
    return folder


@pytest.mark.slow
@pytest.mark.mpi
def test_mpi_behind_a_macro_and_a_name_that_a_shell_makes(tmp_path: Path) -> None:
    lines: list[str] = []
    project, shown = tried(examine_project(write(tmp_path, {"Makefile": MAKEFILE, "prog.c": GUARDED})), lines.append)
    assert project.build == "make CC='{mpicc} -DHAVE_MPI'" and project.uses_mpi
    assert project.binaries == ("prog-one",) and len(lines) == 2
    assert not any(remark.startswith("<-") for remark in project.remarks)
    assert any("-s <size>" in remark for remark in project.remarks)
    assert (option_of("s", shown), option_of("steps", shown), option_of("x", shown)) == (
        "-s {s}",
        "--steps={steps}",
        None,
    )
    assert {path.name for path in tmp_path.iterdir()} == {"Makefile", "prog.c"}


@pytest.mark.slow
@pytest.mark.mpi
@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs both compilers")
def test_flags_that_clang_does_not_know_need_gcc(tmp_path: Path) -> None:
    makefile = MAKEFILE.replace("-O2", "-O2 -ftree-vectorizer-verbose=2")
    project, _ = tried(examine_project(write(tmp_path, {"Makefile": makefile, "prog.c": GUARDED})), lambda line: None)
    assert project.build == "make CC='{mpicc} -DHAVE_MPI'" and project.uses_mpi
    assert project.compiler in ("gcc", "auto")  # where gcc is the first choice, nothing has to be said


@pytest.mark.slow
@pytest.mark.mpi
def test_what_no_macro_can_switch_on_has_one_rank_and_a_failure_is_marked(tmp_path: Path) -> None:
    dead = "#if 0\n#include <mpi.h>\n#endif\nint main(void) { return 0; }\n"
    project, _ = tried(examine_project(write(tmp_path, {"Makefile": MAKEFILE, "prog.c": dead})), lambda line: None)
    assert not project.uses_mpi and any("call MPI" in remark for remark in project.remarks)
    project, _ = tried(examine_project(write(tmp_path, {"prog.c": "int main(void) { retur 0; }\n"})), lambda line: None)
    assert project.remarks[-1].startswith("<- a trial build failed") and "error" in project.remarks[-1]


@pytest.mark.slow
@pytest.mark.mpi
def test_variables_that_two_files_define_are_common_as_they_once_were(tmp_path: Path) -> None:
    files = {"Makefile": MAKEFILE.replace("prog.c", "prog.c other.c"), "prog.c": f"int shared;\n{GUARDED}"}
    project, _ = tried(examine_project(write(tmp_path, files | {"other.c": "int shared;\n"})), lambda line: None)
    assert "-fcommon" in project.build and project.binaries and not any("<-" in remark for remark in project.remarks)


@pytest.mark.slow
@pytest.mark.mpi
def test_arguments_of_other_types_are_accepted_as_they_once_were(tmp_path: Path) -> None:
    fortran = "program old\ncall take(1)\ncall take(1.0)\nend program\n"
    makefile = (
        "FC = f77\nold: old.f90 part.o\n\t$(FC) -O2 -o old old.f90 part.o\npart.o: part.c\n\t$(CC) -O2 -c part.c\n"
    )
    c = "#include <mpi.h>\nvoid take_(void *x) { (void)x; }\nvoid end(void) { MPI_Abort(1, MPI_COMM_WORLD); }\n"
    files = {"Makefile": makefile, "old.f90": fortran, "part.c": c}
    project, _ = tried(examine_project(write(tmp_path, files)), lambda line: None)
    assert project.binaries == ("old",) and "FC='{mpifort} -fallow-argument-mismatch'" in project.build
    assert not any(remark.startswith("<-") for remark in project.remarks)


@pytest.mark.slow
@pytest.mark.mpi
def test_a_failure_keeps_the_flags_that_helped(tmp_path: Path) -> None:
    files = {
        "Makefile": "prog: prog.c\n\t$(CC) -O2 -o prog prog.c\n",
        "prog.c": "int main(void) { gone(); return 0; }\n",
    }
    project, _ = tried(examine_project(write(tmp_path, files)), lambda line: None)
    assert "<- a trial build failed" in project.remarks[-1] and str(tmp_path) not in project.remarks[-1]
    if project.compiler == "auto" and "-Wno" in project.build:  # clang refuses what gcc only warns of
        assert "undefined reference" in project.remarks[-1]


def test_words_are_added_behind_compilers() -> None:
    assert (
        with_words("make -C a CC={mpicc} X='{mpicxx} -DA'", "-DB") == "make -C a CC='{mpicc} -DB' X='{mpicxx} -DA -DB'"
    )
    cmake = "cmake -S . -DCMAKE_C_COMPILER={mpicc} && cmake --build build"
    once, twice = with_words(cmake, "-DB"), with_words(with_words(cmake, "-DB"), "-DC")
    assert once == "cmake -S . -DCMAKE_C_COMPILER={mpicc} -DCMAKE_C_FLAGS='-DB' && cmake --build build"
    assert twice == once.replace("-DB", "-DC -DB")
    assert with_words(cmake, "-DB", ("mpifort",)) == cmake
    assert with_words("make CC={mpicc} FC={mpifort}", "-f", ("mpifort",)) == "make CC={mpicc} FC='{mpifort} -f'"


def test_guards_of_mpi(tmp_path: Path) -> None:
    texts = ["#if defined(A) /* x */\n#include <mpi.h>\n#endif\n", "#ifndef NO_MPI\n#include <mpi.h>\n#endif\n"]
    texts += ["#ifdef B\n#endif\n#include <mpi.h>\n", '#endif\n#ifdef A\n# include "mpi.h"\n']
    paths = [tmp_path / f"{number}.c" for number in range(len(texts))]
    for path, text in zip(paths, texts, strict=True):
        path.write_text(text)
    assert mpi_guards(paths) == ["A"]
