"""The compiler wrappers: buran-cc, buran-cxx and buran-fc, and for MPI buran-mpicc, buran-mpicxx and buran-mpifort.

They call the toolchain's compiler, directly or through the MPI's own wrapper, and add what the build mode needs. A
target's build system only has to be told another compiler name; everything else comes from the environment:

BURAN_MODE
    ``vanilla`` (default; the same compiler, nothing added), ``time`` or ``effort``.
BURAN_WRAPPER
    ``off``: as in mode ``vanilla``, for checks of a configure step. Anything else, or nothing: on.
BURAN_TOOLCHAIN
    File with the JSON of a `buran.measurement.toolchain.toolchain.Toolchain`. Without it the machine is searched
    each time.
BURAN_FILTER
    Score-P filter file that selects functions.

Started once per source file: standard library only, and only what is needed.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NoReturn

from buran.errors import BuranError, ToolError, UsageError
from buran.measurement.toolchain.wrappers.translate import (
    CC,
    CXX,
    FC,
    MPICC,
    MPICXX,
    MPIFORT,
    VANILLA,
    Wrapper,
    translate,
)


def run(arguments: Sequence[str], *, wrapper: Wrapper, environment: Mapping[str, str]) -> NoReturn:
    """Replace this process by the real compiler."""
    from buran.measurement.toolchain.toolchain import Toolchain, environment_for

    try:
        if path := environment.get("BURAN_TOOLCHAIN"):
            toolchain = Toolchain.load(path)
        else:
            from buran.measurement.toolchain.runtime import find_toolchain

            toolchain = find_toolchain()
        mode = environment.get("BURAN_MODE") or VANILLA
        if environment.get("BURAN_WRAPPER") == "off":
            mode = VANILLA
        filter_file = environment.get("BURAN_FILTER") or None
        _refuse_ccache()
        command = translate(arguments, wrapper=wrapper, mode=mode, toolchain=toolchain, filter_file=filter_file)
        if "--help" in arguments:
            print(f"{wrapper.name}: {' '.join(command[:1])} with Buran's instrumentation.\n{__doc__}", flush=True)
        new_environment = {**environment, **environment_for(toolchain, mode)}
        try:
            os.execve(command[0], command, new_environment)
        except OSError as error:
            raise ToolError("the compiler cannot be started", where=command[0], why=error.strerror) from None
    except BuranError as error:
        print(f"{wrapper.name}: {error}", file=sys.stderr)
        sys.exit(int(error.exit_code))


def _refuse_ccache() -> None:
    """Raise `UsageError` under ccache, which then calls the compiler once more on its own account and keeps nothing."""
    with contextlib.suppress(OSError):
        parent = Path(f"/proc/{os.getppid()}/comm").read_text(encoding="utf-8").strip()
        if parent in ("ccache", "sccache"):
            raise UsageError(
                f"{parent} cannot keep what Buran's wrappers compile",
                why="it would take objects of one mode or filter for those of another",
                hint="build without it: export CCACHE_DISABLE=1",
            )


def _main(wrapper: Wrapper) -> NoReturn:
    run(sys.argv[1:], wrapper=wrapper, environment=os.environ)


# The programs of these names.
cc, cxx, fc, mpicc, mpicxx, mpifort = (partial(_main, wrapper) for wrapper in (CC, CXX, FC, MPICC, MPICXX, MPIFORT))
