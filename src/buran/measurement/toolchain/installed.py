"""The compilers and the MPI that a machine has."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from buran.errors import ToolError
from buran.measurement.toolchain import gnu
from buran.measurement.toolchain.tool import find_tool, run_tool
from buran.measurement.toolchain.toolchain import CLANG_PLUGIN, GCC_FALLBACK, GCC_PLUGIN

NEWEST_CLANG, OLDEST_CLANG = 25, 14
NO_MPI_HINT = "install an MPI: apt install libopenmpi-dev openmpi-bin, or: pip install mpich"


@dataclass(frozen=True)
class Compiler:
    """A compiler pair and gfortran, with the headers for their plugins where there are any."""

    kind: str
    cc: str
    cxx: str
    version: str
    headers: str | None
    fortran: gnu.Fortran | None = None
    fortran_headers: str | None = None
    fortran_missing: str = ""


@dataclass(frozen=True)
class InOneProcess:
    """What an MPI has whose ranks are copies of the program in one process, on a machine that is simulated.

    Attributes
    ----------
    clock
        Source of the runtime's clock.
    library
        Source of a library that is there with the runtime, for whoever starts programs.
    is_missing
        Returns whether a function that is declared cannot be called.
    """

    clock: Path
    library: Path
    is_missing: Callable[[str], bool]


@dataclass(frozen=True)
class Mpi:
    """An MPI installation.

    Attributes
    ----------
    header
        Its ``mpi.h``, preprocessed, with the macros that it defines.
    compiling, linking
        Options for the compilers themselves, where `mpicc` and `mpicxx` cannot be told which compiler to use.
    in_one_process
        What is another where machines are simulated; None elsewhere.
    """

    mpicc: str
    mpicxx: str
    mpiexec: str
    mpifort: str | None
    flavour: str
    version: str
    header: str = field(repr=False)
    compiling: tuple[str, ...] = ()
    linking: tuple[str, ...] = ()
    in_one_process: InOneProcess | None = field(default=None, repr=False)


def find_mpi() -> Mpi:
    """Find the MPI of BURAN_MPICC, in PATH or in Python's folder; raise `ToolError` if a part of it is missing."""
    named = os.environ.get("BURAN_MPICC") or "mpicc"
    mpicc = named if os.sep in named else find_tool(named)
    if not mpicc:
        raise ToolError("no MPI found", why=f"there is no {named} in PATH or in Python's folder", hint=NO_MPI_HINT)
    folder = Path(mpicc).parent
    ending = Path(mpicc).name.removeprefix("mpicc")  # of several MPIs in one folder, as in mpicc.mpich

    def in_folder(name: str) -> str | None:
        paths = [folder / known for known in (f"{name}{ending}", name)]
        return next((str(path) for path in paths if os.access(path, os.X_OK)), None)

    def sibling(*names: str) -> str:
        for name in names:
            if path := in_folder(name) or find_tool(name):
                return path
        raise ToolError("this MPI is not complete", where=mpicc, why=f"no {names[0]}", hint=NO_MPI_HINT)

    header = run_tool(
        [mpicc, "-E", "-dD", "-x", "c", "-"], what="the MPI compiler wrapper does not work", stdin="#include <mpi.h>\n"
    )
    flavour, version = _mpi_from_macros(header, mpicc)
    mpifort = in_folder("mpifort") or in_folder("mpif90")
    return Mpi(mpicc, sibling("mpicxx", "mpic++"), sibling("mpiexec", "mpirun"), mpifort, flavour, version, header)


def _mpi_from_macros(macros: str, where: str) -> tuple[str, str]:
    """Tell the MPI's flavour and version from the macros its header defines."""
    values = dict(re.findall(r"^#define (\w+) (.*)$", macros, flags=re.MULTILINE))
    if "OMPI_MAJOR_VERSION" in values:
        parts = (values[f"OMPI_{part}_VERSION"] for part in ("MAJOR", "MINOR", "RELEASE"))
        return "openmpi", ".".join(parts)
    for macro in ("MPICH_VERSION", "MVAPICH2_VERSION", "I_MPI_VERSION"):
        if macro in values:
            return "mpich", values[macro].strip('"')
    raise ToolError("unknown kind of MPI", where=where, why="neither Open MPI nor derived from MPICH", hint=NO_MPI_HINT)


def clang_names(compiler: str) -> Iterator[str]:
    """Yield the names under which a clang may be found, the newest first."""
    if compiler not in ("auto", "clang"):
        yield compiler
        return
    if chosen := os.environ.get("BURAN_CLANG"):
        yield chosen
        return
    for version in range(NEWEST_CLANG, OLDEST_CLANG - 1, -1):
        if shutil.which(f"clang-{version}"):
            yield f"clang-{version}"
    if shutil.which("clang"):
        yield "clang"


def inspect_clang(name: str) -> Compiler:
    """Return the compiler pair with its LLVM headers; raise `ToolError` if something is missing."""
    path = shutil.which(name)
    if not path:
        raise ToolError("not found in PATH")
    macros = run_tool([path, "-E", "-dM", "-x", "c", "-"], what="does not work")
    match = re.search(r"#define __clang_major__ (\d+)", macros)
    if not match:
        raise ToolError("is not a clang")
    major = int(match[1])
    version = run_tool([path, "--version"], what="does not work").splitlines()[0].strip()
    binaries = Path(path).resolve().parent
    cxx = next((p for p in (binaries / "clang++", Path(path).with_name(f"clang++-{major}")) if p.exists()), None)
    if cxx is None:
        raise ToolError("has no clang++ in its folder")
    configs = (str(binaries / "llvm-config"), f"llvm-config-{major}", f"/usr/lib/llvm-{major}/bin/llvm-config")
    for config in configs:
        if not shutil.which(config):
            continue
        out = run_tool([config, "--version", "--includedir"], what="llvm-config does not work").split()
        headers = Path(out[1]) / "llvm"
        if out[0].split(".")[0] == str(major) and (headers / "Passes").is_dir():
            return _with_fortran(Compiler(CLANG_PLUGIN, path, str(cxx), version, out[1]), None)
    raise ToolError("has no LLVM headers of its version", why=f"apt install llvm-{major}-dev")


def inspect_gcc(name: str, *, plugin: bool) -> Compiler:
    """Return gcc as it will be used; raise `ToolError` if something is missing."""
    gcc = gnu.find_gcc(name)
    headers = str(gnu.plugin_headers(gcc.cc, gcc.number)) if plugin else None
    kind = GCC_PLUGIN if plugin else GCC_FALLBACK
    return _with_fortran(Compiler(kind, gcc.cc, gcc.cxx, gcc.version, headers), gcc)


def _with_fortran(compiler: Compiler, gcc: gnu.Gcc | None) -> Compiler:
    """Add gfortran. It goes with any C compiler if it has its plugin, and without one only with the fallback."""
    try:
        fortran = gnu.find_fortran(gcc)
        headers = compiler.headers if gcc else str(gnu.plugin_headers(fortran.fc, fortran.number))
    except ToolError as error:
        return replace(compiler, fortran_missing=in_one_line(error))
    return replace(compiler, fortran=fortran, fortran_headers=headers)


def in_one_line(error: ToolError) -> str:
    """Return an error in one line, with what to do about it."""
    parts = (str(error.where) if error.where else "", error.what)
    tail = "".join(f" ({text})" for text in (error.why, error.hint) if text)
    return ": ".join(filter(None, parts)) + tail
