"""From a command line of a wrapper to the command of the real compiler."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from buran.errors import ToolError, UsageError
from buran.measurement.toolchain.wrappers.command_line import CommandLine, inspect

if TYPE_CHECKING:
    from buran.measurement.toolchain.toolchain import Toolchain

VANILLA = "vanilla"


@dataclass(frozen=True)
class Wrapper:
    """One of the wrappers.

    Attributes
    ----------
    name
        As users type it.
    tool
        Field of the toolchain that holds the program it stands for.
    mpi
        Whether that program is the MPI's own wrapper, which finds headers and libraries itself.
    fortran
        Whether that program compiles Fortran.
    """

    name: str
    tool: str
    mpi: bool
    fortran: bool = False


CC = Wrapper("buran-cc", "cc", mpi=False)
CXX = Wrapper("buran-cxx", "cxx", mpi=False)
FC = Wrapper("buran-fc", "fc", mpi=False, fortran=True)
MPICC = Wrapper("buran-mpicc", "mpicc", mpi=True)
MPICXX = Wrapper("buran-mpicxx", "mpicxx", mpi=True)
MPIFORT = Wrapper("buran-mpifort", "mpifort", mpi=True, fortran=True)


def translate(
    arguments: Sequence[str], *, wrapper: Wrapper, mode: str, toolchain: Toolchain, filter_file: str | None = None
) -> list[str]:
    """Return the command of the real compiler for a command line of ours.

    Parameters
    ----------
    arguments
        Without the program's name.
    wrapper
        Which of the wrappers it is.
    mode
        ``vanilla``, ``time`` or ``effort``.
    filter_file
        Score-P filter file.

    Raises
    ------
    UsageError
        If the mode is unknown, or if code cannot be instrumented with these options.
    ToolError
        If there is no such compiler.
    """
    from buran.measurement.toolchain.toolchain import MODES, flags_for_compiling, flags_for_linking, runtime_objects

    program = program_of(wrapper, toolchain)
    if mode == VANILLA:
        return [program, *arguments]
    if mode not in MODES:
        raise UsageError(
            f"unknown build mode `{mode}`", where="BURAN_MODE", why=f"allowed: {VANILLA}, {', '.join(MODES)}"
        )
    does = inspect(arguments)
    refuse(does, arguments)
    # Our objects stand first: behind the user's a `-x` would make sources of them, and what begins first ends last, so
    # that the profile holds the destructors of static objects.
    mpi = wrapper.mpi or does.names_mpi
    before = runtime_objects(toolchain, mode, mpi=mpi) if does.links else ()
    if does.compiles:
        before = (*before, *flags_for_compiling(toolchain, mode, fortran=wrapper.fortran))
    if does.reads:
        before = (*before, *toolchain.mpi_compiling)
    after: tuple[str, ...] = flags_for_linking(toolchain, mode, filter_file, mpi=mpi) if does.links else ()
    if does.shares and does.refuses_undefined:
        after = ("-Wl,--unresolved-symbols=ignore-all",)  # the runtime is in the executable, and only there
    return [program, *before, *arguments, *after]


def program_of(wrapper: Wrapper, toolchain: Toolchain) -> str:
    """Return the program a wrapper stands for; raise `ToolError` if this machine has none."""
    program: str | None = getattr(toolchain, wrapper.tool)
    if wrapper.fortran and not toolchain.fc:
        raise ToolError("Fortran programs cannot be measured here", where=wrapper.name, why=toolchain.fortran_missing)
    if program is None:
        hint = "Open MPI's package of Debian has one: apt install libopenmpi-dev openmpi-bin"
        raise ToolError("this MPI has no compiler wrapper for Fortran", where=toolchain.mpicc, hint=hint)
    return program


def refuse(does: CommandLine, arguments: Sequence[str]) -> None:
    """Raise `UsageError` for what an instrumented build cannot do."""
    if does.lto and (does.compiles or does.links or does.shares):
        raise UsageError(
            "instrumented builds do not work with link-time optimisation",
            where=" ".join(arguments),
            why="code is changed again after instrumentation and counters were inserted",
            hint="build the target without -flto, or with -fno-lto as the last option; CMake: "
            "-DCMAKE_INTERPROCEDURAL_OPTIMIZATION=OFF",
        )
    if does.precompiles:
        raise UsageError(
            "instrumented builds do not work with precompiled headers",
            where=" ".join(arguments),
            why="code in a precompiled header belongs to the build mode it was made for, and nothing checks that",
            hint="switch them off; CMake: -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON",
        )
