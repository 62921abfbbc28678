"""Results folders that an earlier version has made are read, and continued without measuring anything again."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from buran.campaign.records import Status, read_run
from buran.cli import main
from buran.files import file_sha256, not_synced
from buran.loop.in_process import carry_out
from buran.loop.session import open_session
from buran.measure.store import store

DATA = Path(__file__).parents[1] / "data" / "earlier-version"


@pytest.fixture(autouse=True)
def quick() -> Iterator[None]:
    with not_synced():
        yield


def unpacked(name: str, folder: Path) -> Path:
    """Unpack a results folder; return the campaign file beside it."""
    with tarfile.open(DATA / f"{name}.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    return folder / "campaign.yaml"


def finished_runs(folder: Path) -> dict[str, str]:
    """Checksum of every file of every finished run."""
    runs = [path for name in ("rep-*", "warmup*") for path in store.finished(folder, name=name)]
    return {str(path.relative_to(folder)): file_sha256(path) for run in runs for path in run.iterdir()}


def test_what_was_simulated_is_shown_and_continued(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = unpacked("simulated", tmp_path)
    assert main(["status", str(file)]) == 0
    shown = capsys.readouterr().out
    assert "core hours: 0.03117 spent" in shown

    session = open_session(file)
    runs = session.layout.store
    before = finished_runs(runs)
    assert len(list(store.run_folders(runs))) == 59
    last = carry_out(session)
    assert last.done and last.iteration == 3
    assert last.spent_core_hours == pytest.approx(0.1061, rel=1e-3)  # as the earlier version ends it
    after = finished_runs(runs)
    assert {path: after[path] for path in before} == before
    assert len(list(store.run_folders(runs))) == 82


def test_what_was_measured_is_read(tmp_path: Path) -> None:
    session = open_session(unpacked("real", tmp_path))
    runs = session.layout.store
    records = [read_run(folder) for folder in store.run_folders(runs)]
    assert [each.status for each in records] == [Status.MEASURED] * 6
    assert not any(store.damage(folder) for folder in store.run_folders(runs))
