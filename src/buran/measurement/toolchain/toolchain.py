"""A compiler, an MPI and the measurement runtime for both, and the options with which programs are built with them.

The compiler wrappers, started once per source file, import this module: standard library only.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from buran.errors import FormatError, ToolError, UsageError

MODES = ("time", "effort", "memory")

EXPORTS = "exports.list"  # symbols of a program that shared libraries may need
WEAK = "weak-"  # objects of the MPI layer for programs that may be without an MPI

CLANG_PLUGIN = "clang-plugin"
GCC_PLUGIN = "gcc-plugin"
GCC_FALLBACK = "gcc-fallback"
FOR_A_PLUGIN = "apt install clang-16 llvm-16-dev, or gcc-12-plugin-dev for gcc 12; or leave out metrics of memory runs"

CLANG_FLAGS = ("-gline-tables-only",)
FALLBACK_FLAGS = (
    "-finstrument-functions",
    "-finstrument-functions-exclude-file-list=/usr/include/,/usr/lib/,/c++/,/include/openmpi/",
    "-fno-omit-frame-pointer",
)
LINK_FLAGS = ("-Wl,--build-id=sha1", "-pthread", "-ldl")


@dataclass(frozen=True)
class Toolchain:
    """Compiler, MPI and the measurement runtime that was built for both.

    Attributes
    ----------
    kind
        ``clang-plugin``, ``gcc-plugin``, or ``gcc-fallback`` where headers for plugins are missing.
    cc, cxx
        Paths of the compilers.
    compiler_version
        First line of what the compiler says of itself.
    plugin
        Path of the compiler plugin; None for the fallback.
    objects
        By mode (``time``, ``effort``, ``memory``): object files that go on the link line of a program.
    mpicc, mpicxx, mpiexec
        Paths of the MPI's compiler wrappers and launcher.
    mpi
        ``openmpi``, ``mpich`` (and what derives from it), or that of a plug-in.
    mpi_version
        As in its header, ``4.1.4``.
    notes
        What is missing on this machine, and what that costs.
    fingerprint
        Hash of compiler version, MPI version and of what the runtime and the plugin are compiled from; a part of every
        build's identity. The same on every machine that has the same.
    fc
        Path of gfortran; None if Fortran programs cannot be measured here.
    fortran_version
        First line of what it says of itself; a part of the identity of builds that use it.
    fortran_plugin
        Its compiler plugin; None for the fallback.
    mpifort
        The MPI's compiler wrapper for Fortran; None if it has none.
    fortran_missing
        Why there is no `fc`; empty if there is one.
    mpi_compiling, mpi_linking
        The MPI's options for the compilers, where these stand for its own wrappers.
    """

    kind: str
    cc: str
    cxx: str
    compiler_version: str
    plugin: str | None
    objects: Mapping[str, tuple[str, ...]]
    mpicc: str
    mpicxx: str
    mpiexec: str
    mpi: str
    mpi_version: str
    notes: tuple[str, ...]
    fingerprint: str
    fc: str | None = None
    fortran_version: str | None = None
    fortran_plugin: str | None = None
    mpifort: str | None = None
    fortran_missing: str = ""
    mpi_compiling: tuple[str, ...] = ()
    mpi_linking: tuple[str, ...] = ()

    def to_json(self) -> str:
        """Return the JSON text that `from_json` reads."""
        return json.dumps(asdict(self), indent=2, sort_keys=True) + "\n"

    @classmethod
    def from_json(cls, text: str, where: str | Path = "toolchain") -> Toolchain:
        """Read what `to_json` wrote; raise `FormatError` for anything else."""
        try:
            data = json.loads(text)
            data["objects"] = {mode: tuple(paths) for mode, paths in data["objects"].items()}
            for name in ("notes", "mpi_compiling", "mpi_linking"):
                data[name] = tuple(data.get(name, ()))
            return cls(**data)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise FormatError("this is not a toolchain description", where=where, why=str(error)) from None

    @classmethod
    def load(cls, path: str | Path) -> Toolchain:
        """Read a toolchain file."""
        try:
            text = Path(path).read_text(encoding="utf-8")
        except OSError as error:
            raise ToolError("the toolchain description cannot be read", where=path, why=error.strerror) from None
        return cls.from_json(text, path)


def flags_for_compiling(toolchain: Toolchain, mode: str, *, fortran: bool = False) -> tuple[str, ...]:
    """Return the flags of a build mode for the C and C++ compilers, or for Fortran's.

    They stand before the user's, which so win.

    Raises
    ------
    UsageError
        If accesses to memory cannot be sampled, for want of a compiler plugin.
    """
    if mode == "memory" and toolchain.kind == GCC_FALLBACK:
        raise UsageError(
            "accesses to memory cannot be sampled",
            where="BURAN_MODE=memory",
            why=f"{toolchain.compiler_version} has no plugin of buran, which does that",
            hint=FOR_A_PLUGIN,
        )
    if fortran and toolchain.fortran_plugin:
        of_mpi = (word for word in toolchain.mpi_compiling if word.startswith(("-I", "-f")))  # the rest is for C
        return (*of_mpi, f"-fplugin={toolchain.fortran_plugin}")
    if toolchain.kind == GCC_PLUGIN:
        return (*toolchain.mpi_compiling, f"-fplugin={toolchain.plugin}")
    if toolchain.kind == CLANG_PLUGIN:
        return (*toolchain.mpi_compiling, *CLANG_FLAGS, f"-fpass-plugin={toolchain.plugin}")
    return (*FALLBACK_FLAGS, "-fsanitize-coverage=trace-pc") if mode == "effort" else FALLBACK_FLAGS


def runtime_objects(toolchain: Toolchain, mode: str, *, mpi: bool) -> tuple[str, ...]:
    """Return the objects that go into a program, and only there: its shared libraries use the program's.

    Without `mpi` nothing says that the program uses MPI. It may still do so through a shared library of its own, so the
    MPI layer is there, but all it needs of the MPI may be missing.
    """
    objects = [Path(path) for path in toolchain.objects[mode]]
    if not mpi:
        objects = [path.with_name(WEAK + path.name) if path.name.startswith("mpi") else path for path in objects]
    return tuple(map(str, objects))


def flags_for_linking(
    toolchain: Toolchain, mode: str, filter_file: str | None = None, *, mpi: bool = True
) -> tuple[str, ...]:
    """Return the options for linking a program, in addition to `runtime_objects`; they stand behind the user's.

    The fallback applies the filter while the program runs: there the file becomes a part of the program. What uses the
    MPI of a simulated machine is a library, of which each rank gets a copy.
    """
    if toolchain.mpi_linking:
        return (*(("-shared", "-Wl,-z,defs") if mpi else ()), *LINK_FLAGS, *toolchain.mpi_linking)
    exports = Path(toolchain.objects[mode][0]).with_name(EXPORTS)
    flags = (f"-Wl,--dynamic-list={exports}", *LINK_FLAGS)
    if toolchain.kind != GCC_FALLBACK:
        return flags
    return (*flags, "-rdynamic", *(_embedded(filter_file) if filter_file else ()))


def _embedded(filter_file: str) -> tuple[str, ...]:
    """Return linker options that put a file into the program, between two symbols that the runtime knows."""
    path = str(Path(filter_file).resolve())
    if "," in path:
        raise UsageError("the path of a filter file must not contain a comma", where=path)
    if not os.access(path, os.R_OK):
        raise UsageError("the filter file cannot be read", where=path)
    symbol = "_binary_" + re.sub(r"[^0-9A-Za-z]", "_", path)
    return (
        f"-Wl,--format=binary,{path},--format=default",
        f"-Wl,--defsym=buran_embedded_filter={symbol}_start,--defsym=buran_embedded_filter_end={symbol}_end",
        "-Wl,-z,noexecstack",
    )


def environment_for(toolchain: Toolchain, mode: str) -> dict[str, str]:
    """Return the variables that make the MPI wrappers use the toolchain's compiler in a mode."""
    variables = {
        "OMPI_CC": toolchain.cc,
        "OMPI_CXX": toolchain.cxx,
        "MPICH_CC": toolchain.cc,
        "MPICH_CXX": toolchain.cxx,
    }
    if toolchain.fc:
        variables |= {"OMPI_FC": toolchain.fc, "MPICH_FC": toolchain.fc}
    if mode in MODES:
        variables["BURAN_PLUGIN_MODE"] = mode
    return variables


def cache_folder() -> Path:
    """Return where built runtimes are kept: BURAN_CACHE, XDG_CACHE_HOME/buran or ~/.cache/buran."""
    if chosen := os.environ.get("BURAN_CACHE"):
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "buran"
