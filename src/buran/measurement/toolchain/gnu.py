"""gcc and gfortran, and the headers for their plugins."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from buran.errors import ToolError
from buran.measurement.toolchain.tool import run_tool

OLDEST_GCC = 10
DOES_NOT_WORK = "does not work"


@dataclass(frozen=True)
class Gcc:
    """A pair of gcc and g++.

    Attributes
    ----------
    version
        First line of what gcc says of itself.
    number
        ``12.2.0``.
    """

    cc: str
    cxx: str
    version: str
    number: str


@dataclass(frozen=True)
class Fortran:
    """A gfortran.

    Attributes
    ----------
    version
        First line of what it says of itself.
    number
        ``12.2.0``.
    """

    fc: str
    version: str
    number: str


def is_gcc_name(name: str) -> bool:
    """Whether a compiler's name is one of gcc's: ``gcc``, ``gcc-11``, ``/opt/gcc/bin/x86_64-linux-gnu-gcc``."""
    return "gcc" in Path(name).name


def find_gcc(name: str = "gcc") -> Gcc:
    """Find gcc and the g++ that belongs to it; raise `ToolError` if one is not there."""
    cc, cxx = shutil.which(name), shutil.which(_sibling(name, "g++"))
    if not cc or not cxx:
        raise ToolError(
            "no C and C++ compiler found",
            why=f"no {name if not cc else _sibling(name, 'g++')} in PATH",
            hint="apt install build-essential, or clang-16 llvm-16-dev",
        )
    return Gcc(cc, cxx, _version(cc), _number(cc))


def find_fortran(gcc: Gcc | None) -> Fortran:
    """Find gfortran; of the version of a gcc, if one is given. Raise `ToolError` if there is none."""
    sibling = "gfortran" if gcc is None else _sibling(gcc.cc, "gfortran")
    names = [sibling, Path(sibling).name, "gfortran"]
    if gcc is not None:
        names.append(f"gfortran-{gcc.number.split('.')[0]}")
    reason, hint = "no gfortran in PATH", "apt install gfortran"
    for name in dict.fromkeys(names):
        path = shutil.which(name)
        if path is None:
            continue
        number = _number(path)
        if gcc is None or number == gcc.number:
            return Fortran(path, _version(path), number)
        reason, hint = f"{path} has version {number}, {gcc.cc} has {gcc.number}", "install the gfortran of that gcc"
    raise ToolError("no Fortran compiler found", why=reason, hint=hint)


def plugin_headers(compiler: str, number: str) -> Path:
    """Return the folder of the headers for plugins of a gcc or gfortran; raise `ToolError` if they are not there."""
    major = number.split(".")[0]
    if int(major) < OLDEST_GCC:
        raise ToolError("is too old for the compiler plugin", where=compiler, why=f"{number}, at least {OLDEST_GCC}")
    folder = Path(run_tool([compiler, "-print-file-name=plugin"], what=DOES_NOT_WORK).strip()) / "include"
    if not (folder / "gcc-plugin.h").is_file():
        raise ToolError(
            "has no headers for compiler plugins", where=compiler, hint=f"apt install gcc-{major}-plugin-dev"
        )
    return folder


def _sibling(name: str, language: str) -> str:
    path = Path(name)
    return str(path.with_name(language.join(path.name.rsplit("gcc", 1))))


def _version(compiler: str) -> str:
    return run_tool([compiler, "--version"], what=f"{compiler} {DOES_NOT_WORK}").splitlines()[0].strip()


def _number(compiler: str) -> str:
    return run_tool([compiler, "-dumpfullversion"], what=f"{compiler} {DOES_NOT_WORK}").strip()
