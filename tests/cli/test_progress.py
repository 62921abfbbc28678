"""How a running campaign is shown: a bar in a real pseudo terminal, lines of text where there is none."""

from __future__ import annotations

import io
import os
import pty
import re
import subprocess
import sys
import termios
from dataclasses import replace

import pytest

from buran.cli import main, progress
from buran.cli.progress import Display, ProgressState
from buran.cli.terminal import hushed, loudness, note

_SHOW = """
import sys, time
from buran.cli.progress import ProgressState, Display
shown = Display(sys.stdout)
shown.show(ProgressState(0, "first look", 0, 8, 0.0, 2.0))
shown.show(ProgressState(0, "first look", 3, 8, 0.25, 2.0, 0.4, 90.0))
shown.tick()
shown.show(ProgressState(1, "times", 8, 8, 0.5, None))
shown.close()
print("after")
"""


def on_terminal(code: str, columns: int, **variables: str) -> str:
    """Run Python code in a pseudo terminal and return what it wrote there."""
    leader, follower = pty.openpty()
    termios.tcsetwinsize(follower, (40, columns))
    environment = {**os.environ, "TERM": "xterm", **variables}
    environment.pop("COLUMNS", None)
    with subprocess.Popen([sys.executable, "-c", code], stdout=follower, stderr=follower, env=environment) as process:
        os.close(follower)
        out = b""
        while True:
            try:
                part = os.read(leader, 65536)
            except OSError:  # the other end is closed
                break
            if not part:
                break
            out += part
    os.close(leader)
    assert process.returncode == 0, out.decode()
    return out.decode()


@pytest.mark.parametrize("columns", [120, 70])
def test_a_terminal_gets_a_bar(columns: int) -> None:
    text = on_terminal(_SHOW, columns, NO_COLOR="1")
    assert "━" in text and "3/8 runs" in text
    assert "\x1b[?25l" not in text  # the cursor stays visible: who is killed cannot bring it back
    last, after = text.replace("\r\n", "\n").splitlines()[-2:]
    assert after == "after"  # the bar ends with its line
    assert "8/8 runs" in last
    if columns == 120:
        assert "iteration 0, first look" in text and "0.25 of 2 core hours" in text and "90 s left" in text


def test_dumb_terminals_get_lines() -> None:
    text = on_terminal(_SHOW, 120, TERM="dumb")
    assert "━" not in text
    assert "iteration 1, times: 8/8 runs" in text
    assert text.replace("\r\n", "\n").endswith("\nafter\n")


def test_a_log_gets_lines() -> None:
    done = subprocess.run([sys.executable, "-c", _SHOW], capture_output=True, text=True, check=True)
    lines = [line.partition(":") for line in done.stdout.splitlines()]
    assert [where for where, _, _ in lines] == ["iteration 0, first look", "iteration 1, times", "after"]
    assert [re.findall(r"[\d.]+", numbers) for _, _, numbers in lines] == [["0", "8", "0", "2"], ["8", "8", "0.5"], []]


def test_a_log_gets_a_line_each_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    stream = io.StringIO()
    lines = Display(stream)
    for settled in range(10):
        lines.show(ProgressState(0, "times", settled, 10, 0.0, None))
        now[0] += 25.0
    assert [line.split()[3] for line in stream.getvalue().splitlines()] == ["0/10", "3/10", "6/10", "9/10"]


def test_what_is_quiet_prints_errors_and_results_alone(capsys: pytest.CaptureFixture[str]) -> None:
    for quiet in (True, False):
        with loudness(quiet=quiet):
            with hushed():
                print("said")
                print("wrong", file=sys.stderr)
            print("result")
            note("good to know", sys.stdout)
    assert capsys.readouterr() == ("result\nsaid\nresult\nnote: good to know\n", "wrong\nwrong\n")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("-q", "-n"), "leave one"),
        (("--verb",), "unrecognized"),
        (("--qui",), "unrecognized"),
    ],
)
def test_loudness_is_one_or_the_other_and_not_abbreviated(
    words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "campaign.yaml", *words]) == 2
    assert said in capsys.readouterr().err


def test_rich_is_loaded_on_terminals_only() -> None:
    code = _SHOW + "assert 'rich' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)


def test_a_state_in_words() -> None:
    state = ProgressState(2, "times", 5, 20, 0.125, 1.0, 0.5, 300.0)
    assert state.where == "iteration 2, times" and state.runs == "5/20 runs"
    assert state.cost.startswith("0.125 of 1 core hours")
    assert re.findall(r"[\d.]+ \w+", state.ahead) == ["0.5 core", "5 min"]
    short = replace(state, budget_core_hours=state.spent_core_hours + 0.2)
    assert "0.2 core hours" in short.ahead and "0.5" not in short.ahead


def test_a_log_says_every_minute_that_it_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    stream = io.StringIO()
    lines = Display(stream)
    lines.show(ProgressState(0, "times", 77, 77, 0.0, None))
    now[0] += 5.0
    lines.show(ProgressState(0, "times, making models", 77, 77, 0.0, None))
    for _ in range(26):
        now[0] += 5.0
        lines.tick()
    assert [line.partition(": ")[2].partition(",")[0] for line in stream.getvalue().splitlines()] == [
        "77/77 runs",
        "77/77 runs",
        "for 60 s now",
        "for 2 min now",
    ]
