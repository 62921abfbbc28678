"""The MPI layer beside its bytes: threads, callbacks, errors, sessions, and MPIs that do not fit."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from native_programs import HOOK_ALL, build, launch, table, write_filter
from test_mpi_operations import functions_of, mpis, toolchain_of

from buran.errors import ToolError
from buran.measurement.merge_dumps import read_dumps
from buran.measurement.toolchain.mpi_operations import (
    OPERATIONS,
    POLLING,
    ROLES,
    declared_functions,
    names_of,
    wrappers_for,
)
from buran.measurement.toolchain.runtime import find_toolchain
from buran.profiles.profile import Profile
from mpi_operations import reference

REPOSITORY = Path(__file__).parents[2]


def test_the_reference_page_is_current() -> None:
    page = (REPOSITORY / "docs" / "reference" / "mpi.md").read_text()
    assert page == reference(), "python tools/reference/mpi_operations.py > docs/reference/mpi.md"


def test_roles_are_those_of_score_p() -> None:
    assert set(ROLES.values()) == {
        *("point2point", "one2all", "all2one", "all2all", "other collective", "barrier"),
        *("rma", "atomic", "allocate", "function"),
    }
    assert {"MPI_Test", "MPI_Testsome", "MPI_Iprobe", "MPI_Improbe", "MPI_Waitsome"} < POLLING
    assert not {"MPI_Wait", "MPI_Probe", "MPI_Waitall"} & POLLING


# ---- headers


def header(*, without: str = "") -> str:
    """A header that declares every operation as its wrapper does, so far as the generator cares."""
    names = [name for operation in OPERATIONS for name in names_of(operation)]
    lines = [f"int {name}(void);\nint P{name}(void);" for name in names if name != without]
    return "\n".join([*lines, f"int {without}(void);" if without else ""])


def test_an_mpi_without_the_profiling_interface_is_refused() -> None:
    with pytest.raises(ToolError) as caught:
        wrappers_for(header(without="MPI_Bcast"), "/opt/mpi/bin/mpicc")
    assert "no profiling interface" in str(caught.value)
    assert "PMPI_Bcast" in str(caught.value)
    assert "/opt/mpi/bin/mpicc" in str(caught.value)


def test_an_old_mpi_is_refused() -> None:
    with pytest.raises(ToolError, match="too old") as caught:
        wrappers_for("int MPI_Send(void);\nint PMPI_Send(void);", "mpicc")
    assert "MPI_Mrecv" in str(caught.value)


def test_only_what_an_mpi_has_is_wrapped() -> None:
    text = header().replace("int MPI_Isendrecv(void);\nint PMPI_Isendrecv(void);", "")
    code = wrappers_for(text, "mpicc")
    assert "int MPI_Isendrecv_replace(" in code
    assert "int MPI_Isendrecv(" not in code


def test_declarations_are_read_from_real_headers() -> None:
    text = """
# 1 "mpi.h"
 __attribute__((visibility("default"))) int MPI_Send(const void *buf, int count,
     MPI_Datatype type) __attribute__((__pointer_with_type_tag__(MPI,1,3)));
int PMPI_Send(const void *buf, int count, MPI_Datatype type);
typedef int (MPI_Copy_function)(MPI_Comm, int);
"""
    parameters = ("const void *buf", "int count", "MPI_Datatype type")
    assert declared_functions(text) == {"MPI_Send": parameters, "PMPI_Send": parameters}


@pytest.mark.mpi
@pytest.mark.slow
def test_a_library_without_the_profiling_interface_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The header declares it, but linking finds nothing."""
    real = mpis()[0]
    fake = tmp_path / "bin"
    fake.mkdir()
    for name in ("mpicxx", "mpiexec"):
        (fake / name).symlink_to(shutil.which(name) or "/bin/false")
    (fake / "mpicc").write_text(
        f'#!/bin/sh\ncase " $* " in *" -c "*|*" -E "*) exec {real} "$@" ;;\n'
        '*) echo "x.c: undefined reference to PMPI_Send" >&2; exit 1 ;; esac\n'
    )
    (fake / "mpicc").chmod(0o755)
    monkeypatch.setenv("BURAN_MPICC", str(fake / "mpicc"))
    monkeypatch.setenv("BURAN_CACHE", str(tmp_path / "cache"))
    with pytest.raises(ToolError) as caught:
        find_toolchain(compiler="gcc-fallback")
    assert "no profiling interface" in str(caught.value)
    assert "PMPI_Send" in str(caught.value)
    assert not list((tmp_path / "cache").glob("*/toolchain.json"))


# ---- programs


@pytest.fixture(scope="module", params=[pytest.param(path, marks=pytest.mark.mpi) for path in mpis()])
def built(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    folder = tmp_path_factory.mktemp("layer")
    tools, rules = toolchain_of(request.param), write_filter(folder, HOOK_ALL)
    return build("mpi_layer.c", folder / "layer", mode="time", filter_file=rules, tools=tools), request.param


def record(built: tuple[Path, str], folder: Path, what: str, ranks: int) -> Profile:
    binary, mpicc = built
    done = launch(binary, folder, what, ranks=ranks, tools=toolchain_of(mpicc))
    if done.returncode == 77:
        pytest.skip(f"this MPI does not support {what}")
    assert done.returncode == 0, done.stdout + done.stderr
    return read_dumps(folder, ranks)


def test_threads_do_not_lose_or_mix_up_requests(built: tuple[Path, str], tmp_path: Path) -> None:
    p, threads, rounds = 2, 4, 200
    profile = record(built, tmp_path, "threads", p)

    def total(metric: str, operation: str) -> float:
        rows = table(profile, metric)
        return float(sum(np.sum(row) for name, row in rows.items() if name.endswith(f"->talk->{operation}")))

    messages = threads * p * sum(1 + i % 8 for i in range(rounds)) * 4
    reduced = threads * p * rounds * p * 4
    assert total("bytes_sent", "MPI_Isend") == messages
    completed = ("MPI_Waitall", "MPI_Testall")
    assert sum(total("bytes_received", name) for name in completed) == messages + reduced
    assert sum(total("bytes_sent", name) for name in completed) == reduced
    assert total("visits", "MPI_Irecv") == threads * p * rounds


def test_operations_of_callbacks_belong_to_the_program(built: tuple[Path, str], tmp_path: Path) -> None:
    visits = table(record(built, tmp_path, "callback", 2), "visits")
    called = [name for name in visits if name.startswith("main->callback->MPI_Allreduce->add")]
    assert "main->callback->MPI_Allreduce->add->MPI_Iprobe" in called
    assert not [name for name in visits if "MPI_Allreduce->MPI_" in name]


def test_errors_do_not_stop_the_recording(built: tuple[Path, str], tmp_path: Path) -> None:
    profile = record(built, tmp_path, "jump", 2)
    visits, sent = table(profile, "visits"), table(profile, "bytes_sent")
    assert visits["main->jump->MPI_Send"] == [2, 2]
    assert sent["main->jump->MPI_Send"] == [0, 0]
    assert sent["main->jump->MPI_Sendrecv"] == [4, 4]
    assert visits["main->MPI_Finalize"] == [1, 1]


def test_programs_of_sessions_know_their_rank(built: tuple[Path, str], tmp_path: Path) -> None:
    if "MPI_Session_init" not in functions_of(built[1]):
        pytest.skip("this MPI has no sessions")
    profile = record(built, tmp_path, "sessions", 3)
    assert [location.rank for location in profile.locations] == [0, 1, 2]
    name = next(name for name in table(profile, "visits") if name.endswith("MPI_Allreduce"))
    assert table(profile, "bytes_sent")[name] == [12, 12, 12]


def test_polls_and_their_callers_are_named(built: tuple[Path, str], tmp_path: Path) -> None:
    profile = record(built, tmp_path / "a", "threads", 1)
    assert json.loads(profile.attributes["polling_regions"]) == ["MPI_Testall", "talk"]
    profile = record(built, tmp_path / "b", "jump", 1)
    assert json.loads(profile.attributes["polling_regions"]) == []


def test_generated_code_compiles_without_warnings(built: tuple[Path, str], tmp_path: Path) -> None:
    mpicc = built[1]
    text = subprocess.run(
        [mpicc, "-E", "-x", "c", "-"], input="#include <mpi.h>\n", capture_output=True, text=True, check=True
    ).stdout
    (tmp_path / "mpi_wrappers.inc").write_text(wrappers_for(text, mpicc))
    native = REPOSITORY / "src" / "buran" / "measurement" / "native"
    flags = ["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", f"-I{native}", f"-I{tmp_path}", "-fsyntax-only"]
    done = subprocess.run([mpicc, *flags, native / "mpi.c"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
