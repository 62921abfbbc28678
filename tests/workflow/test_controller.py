"""One controller a campaign, and an engine that ends with it, however it is ended or stuck."""

from __future__ import annotations

import errno
import fcntl
import json
import os
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
def other() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", SLEEP], stdout=subprocess.DEVNULL)
    yield process
    process.kill()
    process.wait()


def claim_of(layout: Layout, pid: int) -> None:
    layout.controller_claim.parent.mkdir()
    owner = replace(Owner.this_process(), pid=pid, started=claims._start_ticks(pid) or 0)
    layout.controller_claim.write_text(json.dumps(asdict(owner)))


def test_a_live_controller_is_waited_for_by_name(layout: Layout, other: subprocess.Popen[bytes]) -> None:
    claim_of(layout, other.pid)
    said: list[str] = []

    def say(text: str) -> None:
        said.append(text)
        assert other.poll() is None, "it was left alone"
        other.kill()
        other.wait()

    with controller.sole_controller(layout, say):
        assert (owner := claims.owner_of(layout.controller_claim)) is not None and owner.pid == os.getpid()
    (text,) = said
    assert f"process {other.pid} on" in text and f"`kill {other.pid}` on" in text
    assert not claims.is_alive(layout.controller_claim)


def test_nobody_waits_for_a_controller_that_is_gone(layout: Layout, other: subprocess.Popen[bytes]) -> None:
    claim_of(layout, other.pid)
    other.kill()
    other.wait()
    said: list[str] = []
    with controller.sole_controller(layout, said.append):
        pass
    assert said == []


def test_an_engine_that_is_left_is_waited_for(layout: Layout, tmp_path: Path) -> None:
    program = tmp_path / "snakemake"
    program.write_text(SLEEP)
    engine = subprocess.Popen([sys.executable, str(program)], cwd=layout.root, stdout=subprocess.DEVNULL)
    said: list[str] = []

    def say(text: str) -> None:
        said.append(text)
        engine.kill()
        engine.wait()

    while not controller.engines(layout.root):
        time.sleep(0.01)
    with controller.sole_controller(layout, say):
        pass
    assert f"snakemake, process {engine.pid}" in said[0]


def test_a_controller_gives_signs_of_life(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controller, "_BEAT_S", 0.01)
    with controller.sole_controller(layout, print):
        os.utime(layout.controller_claim, (1, 1))
        while layout.controller_claim.stat().st_mtime < 2:
            time.sleep(0.01)


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.EROFS])
def test_a_lock_of_the_machine_that_fails_is_no_lock(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    def fail(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(fcntl, "flock", fail)
    with pytest.raises(ToolError, match="measurement lock"), exclusive_machine():
        pytest.fail("nobody may measure")


@pytest.mark.parametrize("home", ["/proc/none", "/dev/null"])
def test_who_has_no_home_has_a_cache_in_the_results(home: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", home)
    said = tmp_path / "logs" / "said"
    program = "import os; print(os.environ['XDG_CACHE_HOME'])"
    controller.run_engine([sys.executable, "-c", program], said)
    assert said.read_text().strip() == str(tmp_path / ".snakemake" / "cache")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert controller.run_engine([sys.executable, "-c", program], said).code == 1


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
