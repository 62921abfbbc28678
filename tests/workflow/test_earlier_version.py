"""Results folders that an earlier version has made are read, and continued without measuring anything again."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from buran.campaign.layout import Layout
from buran.campaign.load import load_campaign
from buran.campaign.plan import Mode
from buran.campaign.records import FAILED, BuildRecord, read_build, read_run
from buran.cli import main
from buran.files import file_sha256, not_synced
from buran.measurement.source import SourceTree, local_source
from buran.measurement.store import store
from buran.measurement.target import Target
from buran.workflow.session import open_session
from buran.workflow.views.changes import differences
from buran_studies.simulate.in_process import carry_out

DATA = Path(__file__).parents[1] / "data" / "earlier-version"


@pytest.fixture(autouse=True)
def quick() -> Iterator[None]:
    with not_synced():
        yield


def unpacked(name: str, folder: Path) -> Path:
    """Unpack a results folder; return the campaign file beside it, with today's names of its keys."""
    with tarfile.open(DATA / f"{name}.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    file = folder / "campaign.yaml"
    data = yaml.safe_load(file.read_text())
    if data.get("backend") == "simulated":
        data["simulated"] = data.pop("program")
        data["target"] = data["refinement"].pop("target")
    else:
        data["program"] = data.pop("target")
        data["resources"]["time_limit"] = data["resources"].pop("time_limit_s")
    file.write_text(yaml.safe_dump(data, sort_keys=False))
    return file


def finished_runs(folder: Path) -> dict[str, str]:
    """Checksum of every file of every finished run."""
    runs = [path for path in store.run_folders(folder) if path.parent.name != FAILED]
    return {str(path.relative_to(folder)): file_sha256(path) for run in runs for path in run.iterdir()}


def test_what_was_simulated_is_shown_and_continued(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = unpacked("simulated", tmp_path)
    assert main(["status", str(file)]) == 0
    shown = capsys.readouterr().out
    assert "core hours: 0.03117 spent" in shown
    assert "59 finished runs" in shown

    session = open_session(file)
    runs = session.layout.store
    before = finished_runs(runs)
    assert len(list(store.run_folders(runs))) == 59
    last = carry_out(session)
    assert last.done and last.iteration > 1
    assert 0.03117 < last.spent_core_hours <= last.budget_core_hours  # with other points off the lines than it had
    after = finished_runs(runs)
    assert {path: after[path] for path in before} == before
    assert len(list(store.run_folders(runs))) > 59


def test_what_was_measured_is_read(tmp_path: Path) -> None:
    layout = Layout(unpacked("real", tmp_path).parent / "results" / "small")
    folders = list(store.run_folders(layout.store))
    assert [read_run(folder).status for folder in folders] == ["measured"] * 6
    assert not any(list(store.damage(folder)) for folder in folders)


@pytest.mark.mpi
@pytest.mark.parametrize("verb", ["status", "plan"])
def test_a_campaign_that_measures_again_says_why(verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = unpacked("real", tmp_path)
    before = finished_runs(tmp_path / "results" / "small" / "store")
    assert main([verb, str(file)]) == 0
    shown = capsys.readouterr().out
    assert "6 finished runs" in shown and "buran run --adopt" in shown
    assert "the sources" not in shown and "the flags" not in shown and "the build command" not in shown
    assert finished_runs(tmp_path / "results" / "small" / "store") == before


@dataclass
class Today:
    """A backend that has not changed since a build, but for some words."""

    record: BuildRecord
    changed: dict[str, str]

    @property
    def identity(self) -> str:
        return self.changed.get("identity", self.record.backend)

    @property
    def description(self) -> dict[str, Any]:
        return {**self.record.toolchain, **self.changed}

    def tools(self, mode: Mode) -> dict[str, str]:
        return {"mpicc": "/where it is now/bin/buran-mpicc"}


RUNTIME = {"identity": "embedded-0123456789abcdef"}


@pytest.mark.parametrize(
    ("changes", "backend", "words"),
    [
        ({"program.flags": "-O3"}, {}, ("the flags ('-O2' then, '-O3' now)",)),
        ({"program.build": "make -j2 MPICC={mpicc} CFLAGS='{flags}'"}, {}, ("the build command, the path",)),
        ({"environments": {"here": {"modules": ["gcc"]}}}, {}, ("the modules",)),
        ({"environments": {"here": {"variables": {"A": 1}}}}, {}, ("the build command, the path",)),
        ({}, RUNTIME, ("the measurement system, or what it measures (embedded-",)),
        ({}, {**RUNTIME, "mpi": "mpich 5"}, ("the MPI ('openmpi 4.1.4' then, 'mpich 5' now)",)),
        ({"program.flags": "-O3"}, {**RUNTIME, "compiler": "gcc"}, ("the flags", "the compiler ('Debian clang")),
        ({}, {**RUNTIME, "fc": "/somewhere/gfortran"}, ("the measurement system",)),
    ],
)
def test_what_has_changed_is_named(
    tmp_path: Path, changes: dict[str, Any], backend: dict[str, str], words: tuple[str, ...]
) -> None:
    file = unpacked("real", tmp_path)
    record = read_build(next((tmp_path / "results" / "small" / "store").glob("*/build")))
    data = yaml.safe_load(file.read_text())
    for key, value in changes.items():
        section, _, name = key.partition(".")
        if name:
            data[section][name] = value
        else:
            data[section] = value
    file.write_text(yaml.safe_dump(data))
    source = SourceTree(tmp_path / "source", str(record.source["identity"]), None)
    found = differences(record, Target(load_campaign(file), source, Today(record, backend), ()))  # type: ignore[arg-type]
    assert len(found) == len(words)
    for text, expected in zip(found, words, strict=True):
        assert text.startswith(expected)


def test_changed_sources_are_named(tmp_path: Path) -> None:
    file = unpacked("real", tmp_path)
    record = read_build(next((tmp_path / "results" / "small" / "store").glob("*/build")))
    campaign = load_campaign(file)
    assert local_source(tmp_path / "source").identity == record.source["identity"]
    (tmp_path / "source" / "program.c").write_text("int main(void) { return 0; }\n")
    target = Target(campaign, local_source(tmp_path / "source"), Today(record, {}), ())  # type: ignore[arg-type]
    assert differences(record, target) == ("the sources",)
