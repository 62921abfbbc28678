"""A project's sources: their languages, compilers, and whether they use MPI."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path

from buran.measurement.source import CXX, CXX_HEADERS, FIXED_FORM, FREE_FORM, C, suffix

MOST_FILES = 2000
MOST_BYTES = 200_000


class Language(StrEnum):
    """Languages with a compiler that instruments; the value is its placeholder in a build command."""

    C = "mpicc"
    CXX = "mpicxx"
    FORTRAN = "mpifort"


CMAKE_NAMES = {Language.C: "C", Language.CXX: "CXX", Language.FORTRAN: "Fortran"}
_SUFFIXES = {
    **dict.fromkeys(C, Language.C),
    **dict.fromkeys(CXX + CXX_HEADERS, Language.CXX),
    **dict.fromkeys(FIXED_FORM + FREE_FORM, Language.FORTRAN),
}
_COMPILERS = (
    (r"(mpi)?(g\+\+|c\+\+|clang\+\+|icpc|icpx|nvc\+\+|CC)|mpicxx|mpicpc|mpiicpc|mpiicpx", Language.CXX),
    (r"(mpi)?(cc|gcc|clang|icc|icx|nvc)|mpiicc|mpiicx|c99", Language.C),
    (r"(mpi)?(gfortran|ifort|ifx|flang|nvfortran|f77|f90|f95)|mpifort|mpifc|mpiifort|mpiifx|ftn", Language.FORTRAN),
)  # fmt: skip
_NAMES = (
    (r".*(CXX|CPP|C\+\+)", Language.CXX),
    (r".*(CC)", Language.C),
    (r".*(FC|F77|F90|FORT|FTN)", Language.FORTRAN),
)
_CONDITION = re.compile(r"\s*#\s*(ifdef|ifndef|if|endif)\b\s*(.*)")
_MACRO = re.compile(r"(?:defined\s*\(?\s*)?(\w+)\s*\)?\s*(?:/|$)")
_MPI = re.compile(rb"#\s*include\s*[<\"]mpi\.h|\buse\s+mpi\b|\buse\s+mpi_f08\b|mpif\.h|\bMPI_Init\b", re.IGNORECASE)


def language_of_command(command: str) -> Language | None:
    """Tell which language a compiler of this name, with or without folder and version, is for."""
    name = re.sub(r"-[0-9.]+$", "", command.rpartition("/")[2])
    return next((language for pattern, language in _COMPILERS if re.fullmatch(pattern, name)), None)


def language_of_variable(name: str) -> Language | None:
    """Tell which language a variable of a Makefile names the compiler of, by its name."""
    return next((language for pattern, language in _NAMES if re.fullmatch(pattern, name)), None)


def sources_below(folder: Path) -> list[Path]:
    """Return source files, hidden folders and builds left out, the highest first."""
    sources: list[Path] = []
    folders = [folder]
    while folders and len(sources) < MOST_FILES:
        for path in sorted(folders.pop(0).iterdir()):
            if path.is_dir() and not path.is_symlink() and not path.name.startswith((".", "build", "CMakeFiles")):
                folders.append(path)
            elif suffix(path) in _SUFFIXES and path.is_file():
                sources.append(path)
    return sources


def languages(sources: Iterable[Path]) -> set[Language]:
    """Return what the sources are written in."""
    return {_SUFFIXES[suffix(path)] for path in sources if suffix(path) in _SUFFIXES}


def mpi_guards(sources: Iterable[Path]) -> list[str]:
    """Return the macros that sources include MPI behind, the commonest first."""
    guards: Counter[str] = Counter()
    for path in sources:
        open_conditions: list[str] = []
        try:
            text = path.read_bytes()[:MOST_BYTES].decode(errors="replace")
        except OSError:
            continue
        for line in text.splitlines():
            if match := _CONDITION.match(line):
                word, condition = match[1], match[2]
                if word == "endif":
                    open_conditions[-1:] = []
                elif word in ("if", "ifdef", "ifndef"):
                    named = _MACRO.match(condition)
                    open_conditions.append(named[1] if named and word != "ifndef" else "")
            elif _MPI.search(line.encode()):
                guards.update(name for name in open_conditions[-1:] if name and not name.isdigit())
    return [name for name, _ in guards.most_common()]


def mention_mpi(sources: Iterable[Path]) -> bool:
    """Tell whether a source file uses MPI."""
    for path in sources:
        try:
            with path.open("rb") as file:
                if _MPI.search(file.read(MOST_BYTES)):
                    return True
        except OSError:
            continue
    return False
