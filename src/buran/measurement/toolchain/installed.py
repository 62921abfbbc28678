"""The compilers and the MPI that a machine has, and how its tools are run."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from buran.errors import ToolError
from buran.measurement.toolchain.toolchain import CLANG_PLUGIN, GCC_FALLBACK, GCC_PLUGIN

OLDEST_GCC = 10
NEWEST_CLANG, OLDEST_CLANG = 25, 14
NO_MPI_HINT = "install an MPI: apt install libopenmpi-dev openmpi-bin, or: pip install mpich"
_DOES_NOT_WORK = "does not work"


def run_tool(command: Sequence[str | Path], *, what: str, stdin: str = "", env: Mapping[str, str] | None = None) -> str:
    """Run a tool and return its output; raise `ToolError` with the end of its messages if it fails."""
    words = [str(word) for word in command]
    try:
        done = subprocess.run(
            words,
            input=stdin,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            env={**os.environ, "LC_ALL": "C", **(env or {})},
        )
    except OSError as error:
        raise ToolError(what, where=words[0], why=error.strerror) from None
    if done.returncode:
        messages = "\n".join((done.stderr or done.stdout).strip().splitlines()[-12:])
        raise ToolError(what, where=" ".join(words), why=messages or f"exit code {done.returncode}")
    return done.stdout


def find_tool(name: str) -> str | None:
    """Find a program in PATH, or next to the Python that runs (where pip puts an MPI)."""
    sibling = Path(sys.executable).parent / name
    return shutil.which(name) or (str(sibling) if os.access(sibling, os.X_OK) else None)


@dataclass(frozen=True)
class Gnu:
    """A gcc or a gfortran.

    Attributes
    ----------
    version
        First line of what it says of itself.
    number
        ``12.2.0``.
    cxx
        The g++ that belongs to it.
    """

    path: str
    version: str
    number: str
    cxx: str = ""

    @classmethod
    def at(cls, path: str, cxx: str = "") -> Gnu:
        """Ask a compiler for its version."""
        what = f"{path} {_DOES_NOT_WORK}"
        version = run_tool([path, "--version"], what=what).splitlines()[0].strip()
        return cls(path, version, run_tool([path, "-dumpfullversion"], what=what).strip(), cxx)


def is_gcc_name(name: str) -> bool:
    """Whether a compiler's name is one of gcc's: ``gcc``, ``gcc-11``, ``/opt/gcc/bin/x86_64-linux-gnu-gcc``."""
    return "gcc" in Path(name).name


def find_gcc(name: str = "gcc") -> Gnu:
    """Find gcc and the g++ that belongs to it; raise `ToolError` if one is not there."""
    cc, cxx = shutil.which(name), shutil.which(_sibling(name, "g++"))
    if not cc or not cxx:
        raise ToolError(
            "no C and C++ compiler found",
            why=f"no {name if not cc else _sibling(name, 'g++')} in PATH",
            hint="apt install build-essential, or clang-16 llvm-16-dev",
        )
    return Gnu.at(cc, cxx)


def find_fortran(gcc: Gnu | None) -> Gnu:
    """Find gfortran; of the version of a gcc, if one is given. Raise `ToolError` if there is none."""
    sibling = "gfortran" if gcc is None else _sibling(gcc.path, "gfortran")
    names = [sibling, Path(sibling).name, "gfortran"]
    if gcc is not None:
        names.append(f"gfortran-{gcc.number.split('.')[0]}")
    reason, hint = "no gfortran in PATH", "apt install gfortran"
    for name in dict.fromkeys(names):
        path = shutil.which(name)
        if path is None:
            continue
        fortran = Gnu.at(path)
        if gcc is None or fortran.number == gcc.number:
            return fortran
        reason, hint = (
            f"{path} has version {fortran.number}, {gcc.path} has {gcc.number}",
            "install the gfortran of that gcc",
        )
    raise ToolError("no Fortran compiler found", why=reason, hint=hint)


def plugin_headers(compiler: Gnu) -> Path:
    """Return the folder of the headers for plugins of a gcc or gfortran; raise `ToolError` if they are not there."""
    where, major = compiler.path, compiler.number.split(".")[0]
    if int(major) < OLDEST_GCC:
        why = f"{compiler.number}, at least {OLDEST_GCC}"
        raise ToolError("is too old for the compiler plugin", where=where, why=why)
    folder = Path(run_tool([where, "-print-file-name=plugin"], what=_DOES_NOT_WORK).strip()) / "include"
    if not (folder / "gcc-plugin.h").is_file():
        raise ToolError("has no headers for compiler plugins", where=where, hint=f"apt install gcc-{major}-plugin-dev")
    return folder


def _sibling(name: str, language: str) -> str:
    path = Path(name)
    return str(path.with_name(language.join(path.name.rsplit("gcc", 1))))


@dataclass(frozen=True)
class Compiler:
    """A compiler pair and gfortran, with the headers for their plugins where there are any."""

    kind: str
    cc: str
    cxx: str
    version: str
    headers: str | None
    fortran: Gnu | None = None
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
    macros = run_tool([path, "-E", "-dM", "-x", "c", "-"], what=_DOES_NOT_WORK)
    match = re.search(r"#define __clang_major__ (\d+)", macros)
    if not match:
        raise ToolError("is not a clang")
    major = int(match[1])
    version = run_tool([path, "--version"], what=_DOES_NOT_WORK).splitlines()[0].strip()
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
    gcc = find_gcc(name)
    headers = str(plugin_headers(gcc)) if plugin else None
    kind = GCC_PLUGIN if plugin else GCC_FALLBACK
    return _with_fortran(Compiler(kind, gcc.path, gcc.cxx, gcc.version, headers), gcc)


def _with_fortran(compiler: Compiler, gcc: Gnu | None) -> Compiler:
    """Add gfortran. It goes with any C compiler if it has its plugin, and without one only with the fallback."""
    try:
        fortran = find_fortran(gcc)
        headers = compiler.headers if gcc else str(plugin_headers(fortran))
    except ToolError as error:
        return replace(compiler, fortran_missing=in_one_line(error))
    return replace(compiler, fortran=fortran, fortran_headers=headers)


def in_one_line(error: ToolError) -> str:
    """Return an error in one line, with what to do about it."""
    parts = (str(error.where) if error.where else "", error.what)
    tail = "".join(f" ({text})" for text in (error.why, error.hint) if text)
    return ": ".join(filter(None, parts)) + tail
