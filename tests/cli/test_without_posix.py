"""Analysis where there is no POSIX, as on Windows: models and reports of what was measured elsewhere.

Nothing but the file system is Linux's here: modules, functions and signals are gone, text that is read or written
without naming its encoding is an error, and the terminal knows 256 characters.
"""

import json
import os
import subprocess
import sys
from pathlib import Path, PureWindowsPath

import pytest

from buran.campaign.records import RunKey
from buran.cli import main
from buran.errors import Exit

pytestmark = pytest.mark.slow

DATA = Path(__file__).parents[1] / "data" / "extrap" / "stencil.txt"
WITHOUT = """
import os, signal, sys, warnings
import concurrent.futures.process, multiprocessing.connection, platform, shutil, subprocess, tempfile, webbrowser
import jinja2, numpy, pydantic, scipy, yaml  # others know their own system

MODULES = "crypt curses fcntl grp nis posix_ipc pty pwd readline resource spwd syslog termios tty".split()

class NotHere:
    def find_spec(self, name, path=None, target=None):
        if name in MODULES:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

for name in MODULES:
    sys.modules.pop(name, None)
sys.meta_path.insert(0, NotHere())
for name in '''O_CLOEXEC O_DIRECTORY O_NOFOLLOW O_NONBLOCK chown chroot confstr copy_file_range ctermid fchmod
    fchown fdatasync fork forkpty fstatvfs getegid geteuid getgid getgroups getloadavg getpgid getpgrp getpriority
    getsid getuid killpg lchown memfd_create mkfifo mknod nice openpty posix_fadvise posix_fallocate pread pwrite
    sched_getaffinity sched_setaffinity sendfile setpgid setpriority setsid statvfs sync sysconf tcgetpgrp ttyname uname
    wait3 wait4 waitid'''.split():
    delattr(os, name)
for name in '''SIGALRM SIGCHLD SIGCONT SIGHUP SIGKILL SIGPIPE SIGQUIT SIGSTOP SIGTSTP SIGUSR1 SIGUSR2 alarm pause
    pthread_sigmask setitimer siginterrupt sigpending sigwait'''.split():
    delattr(signal, name)
warnings.filterwarnings("error", category=EncodingWarning, module="buran")
from buran.cli import main
sys.platform = "elsewhere"
sys.exit(main(sys.argv[1:]))
"""


def without_posix(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-X", "warn_default_encoding", "-c", WITHOUT, *map(str, arguments)]
    environment = {**os.environ, "PYTHONIOENCODING": "cp1252"}
    return subprocess.run(command, capture_output=True, text=True, encoding="cp1252", check=False, env=environment)


def test_models_are_made_and_written(tmp_path):
    done = without_posix("model", DATA, "--at", "p=64,n=48", "--json", "-o", tmp_path / "models.json")
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "models.json").read_text())
    assert without_posix("convert", DATA, tmp_path / "out.jsonl").returncode == 0
    assert (tmp_path / "out.jsonl").read_text()


def test_next_points_are_suggested():
    done = without_posix("suggest", DATA, "--budget", "50%", "--json")
    assert done.returncode == 0, done.stderr
    assert "expected_error" in done.stdout or json.loads(done.stdout)


@pytest.mark.parametrize(
    "words", [("report", "--json"), ("report", "--full"), ("report", "-q"), ("status", "-v"), ("filter",)]
)
def test_a_campaign_measured_elsewhere_is_reported(finished, words):
    done = without_posix(words[0], finished.file, *words[1:])
    assert done.returncode == 0, done.stderr + done.stdout
    assert done.stdout


def test_what_a_campaign_knows_is_asked_at_other_points(finished):
    (models,) = finished.file.parent.glob("**/latest/run-time.json")
    done = without_posix("predict", models, "--at", "p=2,n=48", "--json")
    assert done.returncode == 0, done.stderr


def test_paths_of_the_store_are_read_with_their_backslashes():
    key = RunKey.parse("0123456789ab/4d/n=8,p=1~abc/failed/rep-00-g1.a0")
    assert RunKey.parse(PureWindowsPath("0123456789ab", "4d", "n=8,p=1~abc", "failed", "rep-00-g1.a0")) == key


def test_a_campaign_is_refused_in_words(finished, monkeypatch, capsys):
    monkeypatch.setattr(sys, "platform", "win32")
    assert main(["run", str(finished.file)]) == Exit.USAGE
    assert "Linux" in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["run", "check"])
def test_what_needs_linux_says_so(finished, verb):
    done = without_posix(verb, finished.file)
    assert done.returncode == Exit.USAGE and "Linux" in done.stderr and "bug" not in done.stderr
