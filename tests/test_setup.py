"""Setting up where another program holds apt's lock."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LOCKED = "E: Could not get lock /var/lib/apt/lists/lock. It is held by process 1 (apt)"


@pytest.mark.parametrize(("message", "calls", "code"), [(LOCKED, 3, 0), ("E: Unable to locate package x", 1, 1)])
def test_a_lock_of_apt_is_waited_for(tmp_path: Path, message: str, calls: int, code: int) -> None:
    program = tmp_path / "apt-get"
    program.write_text(
        f'#!/bin/sh\necho "$@" >> {tmp_path}/calls\n[ $(wc -l < {tmp_path}/calls) -ge 3 ] && exit 0\n'
        f'echo "{message}" >&2\nexit 100\n'
    )
    program.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "BURAN_APT_POLL_S": "0"}
    script = "set -euo pipefail; . tools/apt.sh; wait_for_apt install -y x || exit 1; echo went on"
    done = subprocess.run(["bash", "-c", script], cwd=ROOT, env=environment, capture_output=True, text=True)
    lines = (tmp_path / "calls").read_text().splitlines()
    assert (len(lines), done.returncode) == (calls, code)
    assert all(line == "-o DPkg::Lock::Timeout=600 install -y x" for line in lines)
    assert ("waiting for it to end" in done.stdout) == (calls == 3)
    assert done.stdout.endswith("went on\n") if code == 0 else message in done.stderr
