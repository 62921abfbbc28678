"""Every intercepted MPI operation, with every MPI of this machine: visits, bytes and communicator sizes, by formula.

The expectations are in `mpi_cases`. MPIs are the one in PATH, one beside the Python that runs, and what
``BURAN_TEST_MPICC`` names (paths of mpicc, separated by colons).
"""

from __future__ import annotations

import os
import subprocess
import sys
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest
from mpi_cases import Case, all_cases, program
from native_programs import HOOK_ALL, build, launch, table, write_filter

from buran.measurement.merge_dumps import read_dumps
from buran.measurement.toolchain.installed import find_tool
from buran.measurement.toolchain.mpi_operations import ONE_SIDED, OPERATIONS, declared_functions, names_of
from buran.measurement.toolchain.runtime import find_toolchain
from buran.measurement.toolchain.toolchain import Toolchain

# They have programs of their own, or need two sets of processes.
UNTESTED_HERE = {
    *("MPI_Init", "MPI_Init_thread", "MPI_Finalize", "MPI_Abort", "MPI_Session_init", "MPI_Session_finalize"),
    "MPI_Intercomm_create_from_groups",
}


def mpis() -> list[str]:
    beside = Path(sys.executable).parent / "mpicc"
    found = [find_tool("mpicc"), str(beside) if beside.exists() else None]
    found += os.environ.get("BURAN_TEST_MPICC", "").split(":")
    return list(dict.fromkeys(path for path in found if path))


@lru_cache
def toolchain_of(mpicc: str) -> Toolchain:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BURAN_MPICC", mpicc)
        return find_toolchain()


@lru_cache
def functions_of(mpicc: str) -> frozenset[str]:
    done = subprocess.run(
        [mpicc, "-E", "-x", "c", "-"], input="#include <mpi.h>\n", capture_output=True, text=True, check=True
    )
    return frozenset(declared_functions(done.stdout))


def cases_for(mpicc: str) -> list[Case]:
    """Cases whose functions the MPI has."""
    every = all_cases(isendrecv_tells=toolchain_of(mpicc).mpi != "mpich")
    return [case for case in every if case.functions <= functions_of(mpicc)]


def test_every_operation_has_a_case() -> None:
    tested = {f"MPI_{name}" for case in all_cases() for name in case.expected(4, 1)}
    known = {name for operation in OPERATIONS for name in names_of(operation)}
    assert tested <= known
    assert known - tested == UNTESTED_HERE


def test_cases_have_names_of_their_own() -> None:
    names = [case.name for case in all_cases()]
    assert len(set(names)) == len(names)


@pytest.fixture(scope="module", params=[pytest.param(path, marks=pytest.mark.mpi) for path in mpis()])
def built(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    folder = tmp_path_factory.mktemp("mpi")
    source = folder / "cases.c"
    source.write_text(program(cases_for(request.param)))
    rules = write_filter(folder, HOOK_ALL)
    flags = ("-O1", "-Wno-unused-parameter")
    tools = toolchain_of(request.param)
    return build(source, folder / "cases", mode="time", flags=flags, filter_file=rules, tools=tools), request.param


@pytest.mark.parametrize("p", [pytest.param(1, marks=pytest.mark.slow), 2, 3, pytest.param(4, marks=pytest.mark.slow)])
def test_operations_record_what_the_formulas_say(built: tuple[Path, str], tmp_path: Path, p: int) -> None:
    binary, mpicc = built
    done = launch(binary, tmp_path, ranks=p, tools=toolchain_of(mpicc))
    assert done.returncode == 0, done.stdout + done.stderr
    profile = read_dumps(tmp_path, p)
    metrics = ("visits", "bytes_sent", "bytes_received", "communicator_size_sum", "bytes_put", "bytes_get")
    columns = [table(profile, metric) for metric in metrics]
    wrong = []
    for case in cases_for(mpicc):
        if p < case.least_ranks:
            continue
        above = f"main->run->case_{case.name}->"
        below = {name.removeprefix(above) for name in columns[0] if name.startswith(above)}
        for me in range(p):
            expected = {f"MPI_{name}": row for name, row in case.expected(p, me).items()}
            if below != set(expected):
                wrong.append((case.name, below ^ set(expected)))
                break
            for name, (visits, sent, received, comm) in expected.items():
                got = [column[above + name][me] for column in columns]
                one_sided = name in ONE_SIDED
                if visits is None:
                    assert got[0] >= 1
                    visits, comm = got[0], got[3]
                bytes_moved = (0, 0, sent, received) if one_sided else (sent, received, 0, 0)
                want = [visits, *bytes_moved[:2], comm, *bytes_moved[2:]]
                if got != want:
                    wrong.append((case.name, name, f"rank {me} of {p}", got, want))
    assert not wrong, "\n".join(map(str, wrong[:20]))
    assert np.asarray(profile.values["visits"]).shape[1] == p
