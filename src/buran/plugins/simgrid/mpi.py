"""SimGrid's MPI: programs are compiled for it as for any other MPI, and run on a simulated machine in one process."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from buran.errors import ToolError
from buran.measurement.finding import Finding, Health
from buran.measurement.toolchain.elf import Elf
from buran.measurement.toolchain.installed import InOneProcess, Mpi, find_tool, run_tool

FLAVOUR = "smpi"
PACKAGE_HINT = "apt install libsimgrid-dev"

# Declared by its mpi.h, but a call ends the simulation: what SimGrid 3.32's library has of "Not yet implemented", and
# files, which need a disk in the description of the machine.
_MISSING = re.compile(
    r"MPI_(File_\w+|Register_datarep|Comm_(spawn\w*|accept|connect|get_parent|idup|join|remote_group|remote_size)"
    r"|Intercomm_\w+|(Open|Close)_port|(Lookup|Publish|Unpublish)_name|Dist_graph_\w+|Graph_\w+|Graphdims_get|Cart_map"
    r"|I?neighbor_\w+|Neighbor_\w+|I?mprobe|Mprobe|I?mrecv|Mrecv|Get_elements(_x)?|Topo_test|Win_(sync|test)|Pcontrol"
    r"|(Unpack|Pack)_external(_size)?|Type_create_(darray|f90_\w+)|Type_match_size|Add_error_\w+)"
)


def is_missing(function: str) -> bool:
    """Return whether SimGrid declares an MPI function but cannot carry it out."""
    return _MISSING.fullmatch(function) is not None


def find_simgrid() -> Mpi:
    """Find SimGrid's MPI in PATH; raise `ToolError` if a part of it is missing.

    Its compiler wrappers always use one compiler, so their options are taken, and the compiler is that of the campaign.
    """
    missing = [name for name in ("smpicc", "smpirun") if find_tool(name) is None]
    if missing:
        why = f"there is no {' and no '.join(missing)} in PATH"
        raise ToolError("no SimGrid found, which simulates machines", why=why, hint=PACKAGE_HINT)
    smpicc, smpirun = (str(find_tool(name)) for name in ("smpicc", "smpirun"))
    words = shlex.split(run_tool([smpicc, "-show", "any.c"], what="SimGrid's compiler wrapper does not work"))
    folders = tuple(word for word in words if word.startswith("-I") and word != "-I/usr/include")
    helpers = [words[at + 1] for at, word in enumerate(words[:-1]) if word == "-include"]
    if not folders or not helpers:
        raise ToolError("SimGrid's compiler wrapper is of an unknown kind", where=smpicc, why=shlex.join(words))
    # Its own malloc is for arrays that ranks share, and its macro breaks classes that have a member `free`.
    # Of a library, gcc inlines and counts as of a program only where nobody may replace its functions.
    compiling = ("-DSMPI_NO_OVERRIDE_MALLOC", "-include", helpers[0], *folders, "-fPIC", "-fno-semantic-interposition")
    linking = (*(word for word in words if word.startswith("-L")), "-lsimgrid", "-lm")
    version = run_tool([smpicc, "--version"], what="SimGrid's compiler wrapper does not work").split()[-1]
    header = run_tool(
        ["cc", "-E", "-dD", *folders, "-x", "c", "-"], what="SimGrid's mpi.h cannot be read", stdin="#include <mpi.h>\n"
    )
    folder = Path(__file__).parent
    parts = InOneProcess(folder / "simulated.c", folder / "node_groups.c", is_missing)
    return Mpi(smpicc, smpicc, smpirun, None, FLAVOUR, version, header, compiling, linking, parts)


def findings() -> Iterator[Finding]:
    """Tell whether machines can be simulated."""
    try:
        simgrid = find_simgrid()
    except ToolError as error:
        costs = "campaigns on a simulated machine, environments.NAME.machine, cannot run"
        yield Finding("simulated machines", Health.MISSING, error.line, costs, PACKAGE_HINT)
        return
    yield Finding("simulated machines", Health.WORKS, f"SimGrid {simgrid.version} ({simgrid.mpiexec})")


def missing_functions(program: Path) -> tuple[str, ...]:
    """Return the MPI functions that a program calls and SimGrid does not have, by its symbols."""
    symbols = Elf.read(program).undefined
    of_fortran = {f"MPI_{name[4:-1].capitalize()}" for name in symbols if re.fullmatch(r"mpi_\w+_", name)}
    return tuple(sorted(filter(is_missing, of_fortran.union(symbols))))
