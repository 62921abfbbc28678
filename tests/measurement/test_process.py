"""Running a program under a time limit, and cleaning up behind it."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from buran.errors import ToolError
from buran.measurement.machine.machine import exclusive_machine, free_marker, new_marker
from buran.measurement.machine.process import (
    MARKER,
    Interrupted,
    Outcome,
    interruptible,
    marked_processes,
    run_limited,
    stops_held_back,
)
from patience import PATIENCE_S


def execute(tmp_path: Path, script: str, limit_s: float = PATIENCE_S) -> tuple[Outcome, str]:
    marker = new_marker()
    outcome = run_limited(
        ["bash", "-c", script],
        cwd=tmp_path,
        environment=os.environ,
        marker=marker,
        stdout=tmp_path / "out",
        stderr=tmp_path / "err",
        time_limit_s=limit_s,
    )
    return outcome, marker


def test_a_clean_end_has_no_failure(tmp_path: Path) -> None:
    outcome, _ = execute(tmp_path, "echo hello")
    assert outcome.failure is None
    assert (tmp_path / "out").read_text() == "hello\n"
    assert outcome.wall_s > 0


@pytest.mark.parametrize(
    ("script", "reason"),
    [("exit 3", "exit code 3"), ("kill -SEGV $$", "SIGSEGV"), ("exit 134", "killed by SIGABRT (exit code 134)")],
)
def test_a_failure_is_named(tmp_path: Path, script: str, reason: str) -> None:
    outcome, _ = execute(tmp_path, script)
    assert outcome.failure is not None
    assert reason in outcome.failure


def test_cpu_time_of_children_is_counted(tmp_path: Path) -> None:
    outcome, _ = execute(tmp_path, "(i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done)")
    assert outcome.user_s > 0.05


def test_the_time_limit_ends_the_whole_tree_even_in_other_sessions(tmp_path: Path) -> None:
    outcome, marker = execute(tmp_path, "setsid sleep 100 & trap '' TERM; sleep 100 & wait; sleep 100", limit_s=0.5)
    assert outcome.timed_out
    assert outcome.failure is not None and "time limit" in outcome.failure
    assert marked_processes(marker) == []


def test_what_a_program_leaves_behind_is_ended(tmp_path: Path) -> None:
    outcome, marker = execute(tmp_path, "setsid sleep 100 & exit 0")
    assert outcome.failure is None
    assert marked_processes(marker) == []


def test_a_stop_while_a_process_is_started_comes_afterwards() -> None:
    ended = False
    with interruptible(), pytest.raises(Interrupted, match="SIGTERM"), stops_held_back():
        os.kill(os.getpid(), signal.SIGTERM)
        ended = True
    assert ended


def test_a_program_that_stops_its_parent_at_once_is_ended(tmp_path: Path) -> None:
    for _ in range(20):  # so that some come while the process is still being started
        with interruptible(), pytest.raises(Interrupted, match="SIGTERM"):
            execute(tmp_path, "echo $$ > pid; kill -TERM $PPID; sleep 100")
        pid = (tmp_path / "pid").read_text().strip()
        assert not Path(f"/proc/{pid}").exists()


def test_the_machine_is_cleared_of_orphans(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BURAN_LOCK_FOLDER", str(tmp_path))
    orphan = subprocess.Popen(
        ["sleep", str(10 * PATIENCE_S)], env={**os.environ, MARKER: new_marker()}, start_new_session=True
    )
    with exclusive_machine():
        assert orphan.wait(PATIENCE_S) != 0


def test_builds_go_on_beside_measurements(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BURAN_LOCK_FOLDER", str(tmp_path))
    build = subprocess.Popen(["sleep", "100"], env={**os.environ, MARKER: free_marker()})
    try:
        with exclusive_machine():
            time.sleep(0.05)
            assert build.poll() is None
    finally:
        build.kill()
        build.wait()


def test_runs_of_other_lock_folders_are_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BURAN_LOCK_FOLDER", str(tmp_path / "a"))
    other = subprocess.Popen(["sleep", "100"], env={**os.environ, MARKER: new_marker()})
    monkeypatch.setenv("BURAN_LOCK_FOLDER", str(tmp_path / "b"))
    try:
        with exclusive_machine():
            time.sleep(0.05)
            assert other.poll() is None
    finally:
        other.kill()
        other.wait()


def test_two_measurements_never_overlap(tmp_path: Path) -> None:
    script = (
        "import time\nfrom pathlib import Path\nfrom buran.measurement.machine.machine import exclusive_machine\n"
        f"log = Path({str(tmp_path / 'log')!r})\n"
        "for _ in range(5):\n"
        "    with exclusive_machine():\n"
        "        with log.open('a') as file: file.write('in\\n')\n"
        "        time.sleep(0.01)\n"
        "        with log.open('a') as file: file.write('out\\n')\n"
    )
    environment = {**os.environ, "BURAN_LOCK_FOLDER": str(tmp_path)}
    import sys

    workers = [subprocess.Popen([sys.executable, "-c", script], env=environment) for _ in range(3)]
    assert [worker.wait() for worker in workers] == [0, 0, 0]
    assert (tmp_path / "log").read_text().split() == ["in", "out"] * 15


def test_a_lock_that_cannot_be_used_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("BURAN_LOCK_FOLDER", str(tmp_path / "file"))
    with pytest.raises(ToolError, match="lock"), exclusive_machine():
        pass


def test_what_is_printed_stays_up_to_a_limit(tmp_path: Path) -> None:
    outcome = run_limited(
        ["bash", "-c", "echo first; head -c 30000000 /dev/zero; echo; echo last; echo short >&2"],
        cwd=tmp_path,
        environment=os.environ,
        marker=new_marker(),
        stdout=tmp_path / "out",
        stderr=tmp_path / "err",
        time_limit_s=PATIENCE_S,
        output_limit=10_000,
    )
    text = (tmp_path / "out").read_bytes()
    assert outcome.failure is None
    assert text.startswith(b"first\n") and text.endswith(b"\nlast\n") and len(text) < 10_100
    assert outcome.left_out == {"out": 30_000_012 - 10_000} and b"[29990012 bytes are left out here]" in text
    assert (tmp_path / "err").read_text() == "short\n"


def test_standard_input_is_closed(tmp_path: Path) -> None:
    outcome, _ = execute(tmp_path, "cat; read line || echo nothing to read")
    assert outcome.failure is None and (tmp_path / "out").read_text() == "nothing to read\n"


def test_a_process_that_is_left_behind_and_holds_the_output_is_ended(tmp_path: Path) -> None:
    outcome, marker = execute(tmp_path, "sleep 1000 & echo done")
    assert outcome.failure is None and (tmp_path / "out").read_text() == "done\n"
    assert marked_processes(marker) == []


def test_a_program_whose_output_cannot_be_written_does_not_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "err").mkdir()
    with pytest.raises(IsADirectoryError, match="err"):
        execute(tmp_path, f"touch {tmp_path}/started")
    assert not (tmp_path / "started").exists() and not capsys.readouterr().err
