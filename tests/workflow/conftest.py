"""Fixtures of the campaign tests."""

from __future__ import annotations

from pathlib import Path

import pytest
from workbench import Workbench, new_workbench


@pytest.fixture
def workbench(tmp_path: Path) -> Workbench:
    """A folder with a program and a campaign file."""
    return new_workbench(tmp_path)
