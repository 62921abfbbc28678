"""`ci/reframe_campaign.py` in a real ReFrame, where there is one; `buran` is played by a script."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

CHECK = Path(__file__).resolve().parents[3] / "ci" / "reframe_campaign.py"
BURAN = """#!/bin/sh
case "$*" in
    *--json*) echo '{"at_target": {"whole_s": 2.5}, "spent_core_hours": 0.125}' ;;
    *--fail-on*) exit CODE ;;
esac
"""


@pytest.mark.skipif(shutil.which("reframe") is None, reason="ReFrame is not installed")
@pytest.mark.parametrize(("code", "passes"), [(0, True), (5, False)])
def test_a_campaign_is_a_test_of_reframe(code: int, passes: bool, tmp_path: Path) -> None:
    played = tmp_path / "bin" / "buran"
    played.parent.mkdir()
    played.write_text(BURAN.replace("CODE", str(code)))
    played.chmod(0o755)
    words = ["reframe", "--prefix", str(tmp_path), "-c", str(CHECK), "-r"]
    words += ["-S", "campaign=/new/campaign.yaml", "-S", "before=/old/campaign.yaml"]
    environment = {**os.environ, "PATH": f"{played.parent}{os.pathsep}{os.environ['PATH']}", "HOME": str(tmp_path)}
    done = subprocess.run(words, capture_output=True, text=True, env=environment, cwd=tmp_path)
    assert (done.returncode == 0) is passes, done.stdout
    if passes:
        (log,) = (tmp_path / "perflogs").rglob("*.log")
        assert "|2.5|s|" in log.read_text() and "|0.125|core hours|" in log.read_text()
    else:
        assert "exit code 5" in done.stdout + done.stderr
