"""One controller a campaign, and an engine that ends with it, however it is ended or stuck."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from buran.campaign.layout import Layout
from buran.errors import ToolError
from buran.files import storage_error
from buran.measurement.machine.machine import exclusive_machine
from buran.measurement.store import claims
from buran.measurement.store.claims import Owner
from buran.workflow.engine import controller, supervisor
from patience import PATIENCE_S

SLEEP = "import time, sys; print('up', flush=True); time.sleep(100000)"
IGNORE = "signal.signal(signal.{0}, signal.SIG_IGN); "
STUCK = "import signal; " + IGNORE.format("SIGINT") + IGNORE.format("SIGTERM") + SLEEP
NEVER = "1e9"  # a grace that no test waits for


def supervised(code: str, grace_s: str) -> subprocess.Popen[bytes]:
    """Start an engine as a script does that starts `buran run` in the background; wait until it is up."""
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", supervisor.__file__, grace_s, sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
    )
    assert process.stdout is not None and process.stdout.readline() == b"up\n"
    return process


def ends(process: subprocess.Popen[bytes]) -> int:
    code = process.wait(PATIENCE_S)
    assert process.stdout is not None
    assert process.stdout.read() == b""  # nobody has the pipe any more: the engine is gone
    process.stdout.close()
    if process.stdin is not None:
        process.stdin.close()
    return code


def ask(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    process.stdin.write(b".")
    process.stdin.flush()


def test_an_engine_is_asked_to_stop_even_where_interrupts_are_ignored() -> None:
    process = supervised(SLEEP, NEVER)
    ask(process)
    assert ends(process) in (1, 128 + signal.SIGINT)  # as Python ends on an interrupt


def test_an_engine_ends_with_its_controller() -> None:
    process = supervised(SLEEP, NEVER)
    assert process.stdin is not None
    process.stdin.close()
    process.stdin = None
    assert ends(process) in (1, 128 + signal.SIGINT)


def test_an_engine_that_is_stuck_is_killed_when_its_controller_is_gone() -> None:
    process = supervised(STUCK, "0.2")
    assert process.stdin is not None
    process.stdin.close()
    process.stdin = None
    assert ends(process) == 128 + signal.SIGKILL


def test_who_asks_twice_does_not_wait() -> None:
    process = supervised(STUCK, NEVER)
    ask(process)
    ask(process)
    assert ends(process) == 128 + signal.SIGKILL


def test_without_a_grace_it_is_killed_at_once() -> None:
    process = supervised(SLEEP, "0")
    ask(process)
    assert ends(process) == 128 + signal.SIGKILL


def test_an_engine_ends_with_its_supervisor() -> None:
    process = supervised(STUCK, NEVER)
    process.kill()
    assert ends(process) == -signal.SIGKILL


def test_the_code_of_the_engine_is_passed_on() -> None:
    process = supervised("import sys; print('up', flush=True); sys.exit(7)", NEVER)
    assert ends(process) == 7


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    (tmp_path / "results").mkdir()
    return Layout(tmp_path / "results")


@pytest.fixture
def holder(layout: Layout) -> Iterator[subprocess.Popen[bytes]]:
    """Start a process that holds the campaign's lock, as an engine that a controller left behind."""
    handle = os.open(layout.controller_lock, os.O_RDWR | os.O_CREAT)
    fcntl.flock(handle, fcntl.LOCK_EX)
    process = subprocess.Popen([sys.executable, "-c", STUCK], pass_fds=(handle,), start_new_session=True)
    os.close(handle)
    yield process
    process.kill()
    process.wait()


def test_what_a_dead_controller_left_behind_is_waited_for(layout: Layout, holder: subprocess.Popen[bytes]) -> None:
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    layout.controller_lock.write_text(json.dumps(asdict(replace(Owner.this_process(), pid=dead.pid))))
    said: list[str] = []

    def say(text: str) -> None:
        said.append(text)
        holder.kill()

    with controller.sole_controller(layout, say):
        assert json.loads(layout.controller_lock.read_text())["pid"] == os.getpid()
    (text,) = said
    assert f"process {dead.pid} on" in text and "which is gone" in text and "fuser -k" in text


def test_a_live_controller_is_waited_for_by_name(layout: Layout, holder: subprocess.Popen[bytes]) -> None:
    owner = Owner.this_process()
    layout.controller_lock.write_text(json.dumps(asdict(owner)))
    said: list[str] = []

    def say(text: str) -> None:
        said.append(text)
        assert holder.poll() is None  # it was left alone
        holder.kill()

    with controller.sole_controller(layout, say):
        pass
    today = time.strftime("%Y-%m-%d")
    (text,) = said
    assert f"process {owner.pid} on {owner.host}, since {today[:4]}" in text and f"`kill {owner.pid}` on" in text


def test_an_unreadable_lock_is_waited_for(layout: Layout, holder: subprocess.Popen[bytes]) -> None:
    said: list[str] = []

    def say(text: str) -> None:
        said.append(text)
        holder.kill()

    with controller.sole_controller(layout, say):
        pass
    assert f"fuser {layout.controller_lock}" in said[0]


@pytest.mark.parametrize("code", [errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK])
def test_without_locks_a_claim_keeps_others_away(layout: Layout, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    def fail(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(fcntl, "flock", fail)
    with controller.sole_controller(layout, print):
        assert claims.is_alive(layout.lockless_claim)
    assert not layout.lockless_claim.exists()


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.EROFS])
def test_a_lock_that_fails_is_no_lock(layout: Layout, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    def fail(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(fcntl, "flock", fail)
    with (
        pytest.raises(OSError, match=re.escape(os.strerror(code))) as failure,
        controller.sole_controller(layout, print),
    ):
        pytest.fail("nobody may drive the campaign")
    assert storage_error(failure.value) is not None  # which the command line says in words
    with pytest.raises(ToolError, match="measurement lock"), exclusive_machine():
        pytest.fail("nobody may measure")


@pytest.mark.parametrize("home", ["/proc/none", "/dev/null"])
def test_who_has_no_home_has_a_cache_in_the_results(home: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", home)
    said = tmp_path / "logs" / "said"
    program = "import os; print(os.environ['XDG_CACHE_HOME'])"
    with (tmp_path / "lock").open("w") as lock:
        controller.run_engine([sys.executable, "-c", program], said, lock.fileno(), lambda: None)
    assert said.read_text().strip() == str(tmp_path / ".snakemake" / "cache")
    monkeypatch.setenv("HOME", str(tmp_path))
    with (tmp_path / "lock").open("w") as lock:
        assert controller.run_engine([sys.executable, "-c", program], said, lock.fileno(), lambda: None).code == 1


def test_what_killed_jobs_had_half_written_is_removed(layout: Layout) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    plan, record = layout.plan("c", 0), layout.store / "b" / "p" / "rep-00" / "run.json"
    stay = [plan, plan.with_name(f".plan.json.{os.getpid()}.tmp"), plan.with_name(".plan.json.tmp")]
    stay += [
        record,
        record.with_name(f".run.json.{ended.pid}.tmp"),
    ]  # a program's own, in the checksums
    litter = [plan, layout.build_pointer("b"), layout.store / "nodes" / "n.json"]
    litter = [path.with_name(f".{path.name}.{ended.pid}.tmp") for path in litter]
    for path in (*stay, *litter):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    controller.forget_dead_engine(layout)
    assert [path for path in (*stay, *litter) if path.exists()] == stay
