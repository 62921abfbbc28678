"""How an existing project is built, from its Makefile or CMake files."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from buran.errors import UsageError
from buran.project.cmake import NAME as CMAKE_FILE
from buran.project.cmake import read_cmake
from buran.project.makefile import Makefile, makefile_in, read_makefile
from buran.project.sources import Language, languages, mention_mpi, sources_below

_CMAKE_COMPILER = {
    Language.C: "CMAKE_C_COMPILER",
    Language.CXX: "CMAKE_CXX_COMPILER",
    Language.FORTRAN: "CMAKE_Fortran_COMPILER",
}


@dataclass(frozen=True)
class Project:
    """How a project is built.

    Attributes
    ----------
    build
        Shell command with placeholders for compilers and flags.
    binaries
        What the build makes, relative to the project's folder, the likeliest first; empty where nothing was found.
    uses_mpi
        Whether anything of MPI was seen in build files or sources.
    remarks
        What was found, and what a person has to look at; the latter begin with ``<-``.
    """

    folder: Path
    build: str
    binaries: tuple[str, ...]
    uses_mpi: bool
    remarks: tuple[str, ...]


def examine_project(folder: Path, system: str | None = None) -> Project:
    """Find out how a project is built.

    Parameters
    ----------
    system
        ``make`` or ``cmake`` where a project has both; CMake by default.

    Raises
    ------
    UsageError
        There is no such folder, or neither a Makefile nor a CMakeLists.txt in it.
    """
    if not folder.is_dir():
        raise UsageError("there is no such folder", where=folder)
    try:
        makefile = makefile_in(folder)
        if (folder / CMAKE_FILE).is_file() and system != "make":
            return _with_cmake(folder, both=makefile is not None)
        if system == "cmake":
            raise UsageError(f"there is no {CMAKE_FILE}", where=folder)
        return _with_make(folder, makefile or _makefile_below(folder))
    except OSError as error:
        raise UsageError("a project's file cannot be read", where=error.filename, why=error.strerror) from None


def _makefile_below(folder: Path) -> Path:
    below = sorted(path for level in ("*", "*/*") for path in folder.glob(level) if path.is_dir())
    makefiles = [makefile for place in below if "/." not in str(place) and (makefile := makefile_in(place)) is not None]
    if not makefiles:
        has_configure = (folder / "configure").is_file()
        raise UsageError(
            "it is not seen how the project is built",
            where=folder,
            why="there is neither a Makefile nor a CMakeLists.txt"
            + (", but a configure script" if has_configure else ""),
            hint="begin with a template, `buran init DIR`, and set target.build: "
            + ("./configure CC={mpicc} CXX={mpicxx} && make" if has_configure else "any shell command with {mpicxx}"),
        )
    if len({len(path.parts) for path in makefiles[:2]}) == 1 and len(makefiles) > 1:
        names = ", ".join(str(path.parent.relative_to(folder)) for path in makefiles[:6])
        raise UsageError("there are several Makefiles", where=folder, why=names, hint="name one of these folders")
    return makefiles[0]


# -- CMake -----------------------------------------------------------------------------------------------


def _with_cmake(folder: Path, *, both: bool) -> Project:
    cmake = read_cmake(folder)
    sources = sources_below(folder)
    mpi = cmake.mentions_mpi or mention_mpi(sources)
    compiled = cmake.languages & (languages(sources) | cmake.languages) or {Language.CXX}
    options = [
        f"-D{_CMAKE_COMPILER[language]}={{{language.value}}}" for language in sorted(compiled, key=list(Language).index)
    ]
    options += [f"-D{name}=ON" for name in cmake.switches]
    too = ", and a Makefile, which `buran init --system make` takes" if both else ""
    remarks = [f"Found: {CMAKE_FILE}{too}" + ("" if mpi else "; no use of MPI")]
    if cmake.switches:
        remarks.append(f"{', '.join(cmake.switches)}: off by default, and switched on here")
    unclear = [name for name in cmake.programs if "$" in name]
    if unclear and len(unclear) == len(cmake.programs):
        remarks.append(f"<- where CMake puts {', '.join(unclear)} could not be told")
    binaries = tuple(dict.fromkeys(f"build/{name}" for name in cmake.programs if "$" not in name))
    build = f"cmake -S . -B build -DCMAKE_BUILD_TYPE=Release {' '.join(options)} && cmake --build build"
    return Project(folder, build, binaries, mpi, tuple(remarks))


# -- make ------------------------------------------------------------------------------------------------


def _with_make(folder: Path, path: Path) -> Project:
    makefile = read_makefile(path)
    sources = sources_below(folder)
    below = path.parent.relative_to(folder)
    written_in = languages([source for source in sources if source.parent == path.parent] or sources)
    compilers = makefile.compilers(written_in)
    inner = _inner(makefile) if not compilers else None
    shown = str(path.relative_to(folder))
    remarks = [f"Found: {shown}"]
    if inner is not None:
        compilers = inner.compilers(written_in)
        remarks[0] += f", which calls that in {inner.path.parent.relative_to(folder)}"
    reading = inner or makefile
    settings = [_setting(reading, name, language) for name, language in compilers.items()]
    flags = reading.unset_flags(set(compilers.values()))
    settings += [f"{name}='{{flags}}'" for name in flags]
    if compilers and not flags:
        remarks.append("its own compiler flags stay; to set others, add them here, as in CXXFLAGS='{flags}'")
    words = ["make", *([] if below == Path() else ["-C", str(below)]), *settings]
    build = " ".join(words)
    by_name = reading.by_name()
    if by_name and not compilers:
        remarks.append(
            f"{shown} calls {', '.join(by_name)} by name: in the copy that is built, wrappers take their place"
        )
        build = _replaced(by_name, reading.path.relative_to(folder)) + " && " + build
    elif not compilers:
        build += " CC={mpicc} CXX={mpicxx}"
        remarks.append(f"<- which variables of {shown} name the compilers was not seen; these are the usual ones")
    mpi = mention_mpi(sources) or any("mpi" in reading.expand(f"$({name})").lower() for name in compilers)
    if not mpi:
        remarks[0] += "; no use of MPI"
    place = reading.path.parent.relative_to(folder)
    binaries = tuple(str(place / name) for name in reading.programs())
    return Project(folder, build, binaries, mpi, tuple(remarks))


def _inner(makefile: Makefile) -> Makefile | None:
    """Return the first Makefile that this one calls, or that lies in a folder below, and that links a program."""
    folder = makefile.path.parent
    below = [path for path in sorted(folder.iterdir()) if path.is_dir()]
    for place in (*(folder / name for name in makefile.calls_in_folders()), *below):
        path = makefile_in(place)
        if path is not None:
            inner = read_makefile(path)
            if inner.programs():
                return inner
    return None


def _setting(makefile: Makefile, name: str, language: Language) -> str:
    more = makefile.extra_words(name)
    if not more or "$" in more or "'" in more:
        return f"{name}={{{language.value}}}"
    return f"{name}='{{{language.value}}} {more.replace('{', '{{').replace('}', '}}')}'"


def _replaced(by_name: dict[str, Language], path: Path) -> str:
    edits = " ".join(
        rf"-e 's|^\(\t[@-]*\){re.escape(name)} |\1{{{language.value}}} |'" for name, language in by_name.items()
    )
    return f"sed -i {edits} {path}"
