"""A campaign whose disk fills while models are written, or whose results cannot be written at all."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from buran.errors import BuranError
from buran.files import not_synced
from buran.workflow.history import History
from buran.workflow.model import make_models
from buran_studies.simulate.in_process import carry_out
from simulated_campaigns import opened

BURAN = [sys.executable, "-m", "buran.cli"]
NAMES = ("models.json", "findings.json", "experiment.jsonl.gz")


def mounted(*options: str) -> bool:
    return subprocess.run(["mount", *options], capture_output=True).returncode == 0


def fill(path: Path, left: int) -> None:
    """Write a file that takes all of its disk but `left` bytes."""
    free = os.statvfs(path.parent)
    path.write_bytes(b"x" * (free.f_bavail * free.f_bsize - left // free.f_bsize * free.f_bsize))


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own, small enough to fill."""
    place = tmp_path / "disk"
    place.mkdir()
    if not mounted("-t", "tmpfs", "-o", "size=16m", "tmpfs", str(place)):
        pytest.skip("nobody may mount a file system here")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


def test_a_disk_that_fills_while_models_are_written_leaves_no_half_file(tmp_path: Path, disk: Path) -> None:
    with not_synced():
        session = opened(tmp_path)
        carry_out(session)
        history = History.open(session, 2)
        whole = tmp_path / "whole"
        make_models(history, *(whole / name for name in NAMES))
        again = disk / "again"
        again.mkdir()
        fill(disk / "other", left=(whole / NAMES[0]).stat().st_size // 2)
        with pytest.raises((BuranError, OSError)) as stopped:
            make_models(history, *(again / name for name in NAMES))
        assert "space" in str(stopped.value).lower()
        for name in NAMES:
            if (again / name).exists() and (again / name).stat().st_size:
                assert (again / name).read_bytes() == (whole / name).read_bytes(), f"{name} is half written"
        (disk / "other").unlink()
        make_models(history, *(again / name for name in NAMES))
        assert (again / NAMES[0]).read_bytes() == (whole / NAMES[0]).read_bytes()


@pytest.mark.slow
def test_results_that_cannot_be_written_are_an_error_in_words(disk: Path) -> None:
    with not_synced():
        session = opened(disk)
        carry_out(session)
        assert mounted("-o", "remount,ro", str(disk))
        done = subprocess.run(
            [*BURAN, "run", str(session.campaign.path)], capture_output=True, text=True, timeout=120, cwd=disk
        )
        assert done.returncode not in (0, 70), done.stderr
        assert "Traceback" not in done.stderr and "read-only" in done.stderr.lower()
        report = subprocess.run(
            [*BURAN, "report", str(session.campaign.path)], capture_output=True, text=True, cwd=disk
        )
        assert report.returncode != 70 and "Traceback" not in report.stderr
