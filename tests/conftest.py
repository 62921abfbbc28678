"""Fixtures of the campaign tests."""

from __future__ import annotations

import fcntl
import os
import shutil
from pathlib import Path

import pytest

from workbench import Workbench, new_workbench

os.environ["BURAN_HISTORY"] = "off"  # campaigns of tests are not in the history of who runs them


@pytest.fixture
def workbench(tmp_path: Path) -> Workbench:
    """A folder with a program and a campaign file."""
    return new_workbench(tmp_path)


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Workbench:
    """The same after its campaign, measured once for all processes of the tests: they only look."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "finished"
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        made = folder / "made"
        if not made.exists():
            new_workbench(folder / "bench").buran("run", "campaign.yaml")
            made.touch()
    return Workbench.at(folder / "bench")


@pytest.fixture
def copy(finished: Workbench, tmp_path: Path) -> Workbench:
    """The finished campaign, to be changed."""
    folder = tmp_path / "copy"
    shutil.copytree(finished.folder, folder, symlinks=True)
    return Workbench.at(folder)
