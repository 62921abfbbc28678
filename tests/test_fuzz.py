"""Damaged files for every reader: each is read, or refused in words."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [0, pytest.param(60, marks=pytest.mark.thorough)])
def test_no_reader_falls(seconds: int) -> None:
    command = [sys.executable, str(ROOT / "tools" / "fuzz"), "--seconds", str(seconds)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert ": 0 ended with a traceback" in done.stdout
