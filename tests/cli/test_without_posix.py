"""Analysis where there is no POSIX, as on Windows: models and reports of what was measured elsewhere."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from buran.cli import main
from buran.errors import Exit

DATA = Path(__file__).parents[1] / "data" / "extrap" / "stencil.txt"
WITHOUT = """
import os, signal, sys
import multiprocessing, platform, shutil, socket, subprocess, tempfile  # the standard library knows its own system

class NotHere:
    def find_spec(self, name, path=None, target=None):
        if name in ("fcntl", "grp", "pty", "pwd", "resource", "syslog", "termios", "tty"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

for name in ("fcntl", "grp", "pwd", "resource", "termios"):
    sys.modules.pop(name, None)
sys.meta_path.insert(0, NotHere())
for name in ("O_DIRECTORY", "fork", "geteuid", "getuid", "killpg", "memfd_create", "sched_getaffinity", "setsid"):
    delattr(os, name)
for name in ("SIGHUP", "SIGKILL", "SIGSTOP", "SIGUSR1"):
    delattr(signal, name)
from buran.cli import main
sys.exit(main(sys.argv[1:]))
"""


def without_posix(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", WITHOUT, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_models_are_made_and_written(tmp_path):
    done = without_posix("model", DATA, "--at", "p=64,n=48", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)
    assert without_posix("convert", DATA, tmp_path / "out.jsonl").returncode == 0
    assert (tmp_path / "out.jsonl").read_text()


def test_next_points_are_suggested():
    done = without_posix("suggest", DATA, "--budget", "50%", "--json")
    assert done.returncode == 0, done.stderr
    assert "expected_error" in done.stdout or json.loads(done.stdout)


@pytest.mark.parametrize("verb", [("report", "--json"), ("status",), ("filter",)])
def test_a_campaign_measured_elsewhere_is_reported(finished, verb):
    done = without_posix(verb[0], finished.file, *verb[1:])
    assert done.returncode == 0, done.stderr + done.stdout
    assert done.stdout


def test_a_campaign_is_refused_in_words(finished, monkeypatch, capsys):
    monkeypatch.setattr(sys, "platform", "win32")
    assert main(["run", str(finished.file)]) == Exit.USAGE
    assert "Linux" in capsys.readouterr().err
