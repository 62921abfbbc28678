"""Open MPI's own files: each run keeps them apart from those of all others, and nothing of them stays."""

from __future__ import annotations

import os
import socket
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from buran.campaign.launcher import Placement, launch, session_variable
from buran.campaign.plan import Mode
from buran.campaign.point import Point
from buran.measurement.machine.machine import Machine, RunJob, exclusive_machine, free_marker, new_marker
from buran.measurement.machine.provenance import environment_of
from buran.measurement.toolchain.installed import find_mpi
from patience import PATIENCE_S

BASE = "OMPI_MCA_orte_tmpdir_base"


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder for temporary files, and have the locks beside it."""
    folder = tmp_path / "t"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setenv("BURAN_LOCK_FOLDER", str(tmp_path))
    return folder


def job_of(folder: Path, *argv: str) -> RunJob:
    return RunJob(
        argv=argv, cwd=folder, environment=dict(os.environ), stdout=folder / "out", stderr=folder / "err",
        time_limit_s=PATIENCE_S, binary=Path(argv[0]), mode=Mode.TIME, point=Point.of({"p": 2}), ranks=2,
        raw=folder / "raw", filter_file=None, key="", beat=lambda: None, session_variable=BASE,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("flavour", "nodes", "variables", "expected"),
    [
        ("openmpi", 1, {"PATH"}, BASE),
        ("openmpi", 2, set(), None),  # the other nodes have no such folder
        ("openmpi", 1, {BASE}, None),
        ("openmpi", 1, {"OMPI_MCA_orte_local_tmpdir_base"}, None),
        ("mpich", 1, set(), None),
        ("none", 1, set(), None),
    ],
)
def test_who_is_told_where(flavour: str, nodes: int, variables: set[str], expected: str | None) -> None:
    assert session_variable(flavour, nodes, variables) == expected


def test_each_run_has_a_folder_while_it_runs(tmp_path: Path, temporary: Path) -> None:
    job = job_of(tmp_path, "sh", "-c", f'touch "${BASE}/socket" && echo "${BASE}"')
    said = []
    for _ in range(2):
        assert Machine().run(job).failure is None
        said.append(job.stdout.read_text().strip())
    assert {Path(name).parent for name in said} == {temporary} and len(set(said)) == 2
    assert list(temporary.iterdir()) == []
    assert BASE not in environment_of(job.environment)  # a name that changes with each run is in no record


def test_a_run_that_need_not_be_told_has_none(tmp_path: Path, temporary: Path) -> None:
    job = replace(job_of(tmp_path, "sh", "-c", f'echo "${{{BASE}-none}}"; ls {temporary}'), session_variable=None)
    assert Machine().run(job).failure is None
    assert job.stdout.read_text() == "none\n"


def test_folders_of_killed_runs_are_removed_by_who_measures_next(temporary: Path) -> None:
    mine, others = (temporary / f"buran-{marker}" for marker in (new_marker(), free_marker()))
    for folder in (mine, others):
        (folder / "ompi.host.0").mkdir(parents=True)
    with exclusive_machine():
        assert list(temporary.iterdir()) == [others]


@pytest.mark.mpi
def test_the_folder_that_all_runs_share_is_not_used(
    tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file stands where Open MPI wants it; so a run that used it would die at its start."""
    mpi = find_mpi()
    if mpi.flavour != "openmpi":
        pytest.skip("Open MPI alone has such a folder")
    monkeypatch.setenv("TMPDIR", str(temporary))
    (temporary / f"ompi.{socket.gethostname().partition('.')[0]}.{os.geteuid()}").touch()
    placement = Placement(2)
    started = launch("openmpi", ["true"], placement, program=mpi.mpiexec, oversubscribe=True, as_root=os.geteuid() == 0)
    job = job_of(tmp_path, *started.argv)
    job = replace(job, environment={**job.environment, **started.variables})
    assert Machine().run(replace(job, session_variable=None)).failure is not None
    assert Machine().run(job).failure is None
