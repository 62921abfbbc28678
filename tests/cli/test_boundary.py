"""Whatever happens inside, the user gets words, an exit code, and text that a terminal shows as it is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from buran.cli import main
from buran.cli.terminal import print_data, printable, printable_output, style
from buran.errors import Exit, FormatError
from buran.files import read_document

NAME = "\x1b[31mred\x1b[0m\u202eevil\x07\u200b\x9b2J"


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """Write measurements whose names steer terminals."""
    path = tmp_path / "hostile.jsonl"
    name = f"main->{NAME}\nerror: no"
    lines = ({"params": {"x": x}, "callpath": name, "metric": "time", "value": x} for x in range(1, 6))
    path.write_text("\n".join(map(json.dumps, lines)))
    return path


def test_names_are_printable_in_output_and_errors(
    hostile: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "300")  # no cell is folded
    assert main(["model", str(hostile)]) == Exit.DONE
    assert main(["model", f"/no/{NAME}"]) == Exit.USAGE
    out, err = capsys.readouterr()
    assert NAME.encode("unicode_escape").decode() + r"\nerror: no" in out
    assert r"\x1b[31mred" in err
    assert all(char.isprintable() or char == "\n" for char in out + err)
    assert not any(line.startswith("error: no") for line in out.splitlines())


@pytest.mark.parametrize("verb", ["help", "check", "model"])
def test_a_terminal_without_utf_8_and_60_columns_wide(verb: str, tmp_path: Path) -> None:
    """A user's own process: its encoding is not that of the tests."""
    (tmp_path / "größe").mkdir()
    (tmp_path / "größe" / "program.c").touch()
    program = {"source": "größe", "build": "make CC={mpicc}", "binary": "program", "run": "{binary} {p}"}
    campaign = {"name": "small", "program": program, "parameters": {"p": [1, 2, 4, 8, 16]}}
    (tmp_path / "campaign.yaml").write_text(json.dumps(campaign))
    lines = ({"params": {"x": x}, "callpath": "main->größe", "metric": "time", "value": x} for x in range(1, 6))
    (tmp_path / "data.jsonl").write_text("\n".join(map(json.dumps, lines)))
    words = {"help": ["--help"], "check": ["check"], "model": ["model", "data.jsonl", "--at", "x=10"]}[verb]
    environment = os.environ | {"LC_ALL": "C", "PYTHONIOENCODING": "ascii", "COLUMNS": "60"}
    done = subprocess.run(
        [sys.executable, "-m", "buran.cli", *words], cwd=tmp_path, env=environment, capture_output=True, check=False
    )
    said = done.stdout.decode("ascii")
    assert done.returncode == Exit.DONE and b"Traceback" not in done.stderr
    if verb == "model":
        assert r"gr\xf6\xdfe" in said
    if verb == "help":  # columns of numbers are as wide as they are
        assert max(map(len, said.splitlines())) <= 60


@given(st.text())
def test_what_is_printable_can_be_seen(text: str) -> None:
    shown = printable(text)
    assert all(char.isprintable() or char in "\n\t" or char.isspace() for char in shown)
    assert "\x1b" not in shown and "\r" not in shown and "\x9b" not in shown
    assert not text.isprintable() or shown == text
    shown.encode()


class Terminal:
    encoding = "latin-1"

    def __init__(self) -> None:
        self.text = ""

    def write(self, text: str) -> int:
        self.text += text.encode("latin-1").decode("latin-1")
        return len(text)

    def isatty(self) -> bool:
        return True

    def flush(self) -> None:
        """Do nothing."""


def test_colours_are_ours_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    with printable_output():
        print(style("done", "green"), "\x1b[31mname", "\u2192")
        print_data("\x1b")
    assert terminal.text == "\x1b[32mdone\x1b[0m \\x1b[31mname \\u2192\n\\x1b"


def test_data_for_programs_are_exact(capsys: pytest.CaptureFixture[str]) -> None:
    with printable_output():
        print_data("EXCLUDE a\x1bb\n")
    assert capsys.readouterr().out == "EXCLUDE a\x1bb\n"


@pytest.mark.parametrize("error", [RuntimeError("lost"), RecursionError(), MemoryError(), OSError("odd")])
def test_what_nobody_foresaw_is_written_down(
    error: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def fails(*_: object) -> int:
        raise error

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("buran.cli.doctor.run", fails)
    assert main(["doctor"]) == Exit.CRASHED == 70
    err = capsys.readouterr().err
    (report,) = tmp_path.glob("buran-crash-*.txt")
    assert "Traceback" not in err and str(report) in err and "next:" in err and type(error).__name__ in err
    text = report.read_text()
    assert "Traceback" in text and "command: " in text and "buran 0" in text


def test_without_room_for_a_report_the_words_remain(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(*_: object) -> int:
        raise RuntimeError

    monkeypatch.setattr("tempfile.tempdir", "/proc/nowhere")
    monkeypatch.setattr("buran.cli.doctor.run", fails)
    assert main(["doctor"]) == Exit.CRASHED
    assert "RuntimeError" in capsys.readouterr().err


# -- inputs that used to end with a traceback ------------------------------------------------------------


@pytest.mark.parametrize("value", ["mean", "[1]", "{a: 1}", "-1", "true"])
def test_a_threshold_of_a_wrong_kind_is_a_mistake_in_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], value: str
) -> None:
    assert main(["init", "--example", "stencil", str(tmp_path / "c")]) == 0
    path = tmp_path / "c" / "campaign.yaml"
    kept = path.read_text().partition("\nrefinement:")[0]
    path.write_text(f"{kept}\nrefinement: {{start_threshold: {value}}}\n")
    assert main(["check", str(path)]) == Exit.USAGE
    assert "start_threshold" in capsys.readouterr().err


@pytest.mark.parametrize("number", ["1" + "0" * 400, "1e999", "-1" + "0" * 5000])
def test_numbers_that_no_float_holds_are_damage(tmp_path: Path, number: str) -> None:
    path = tmp_path / "models.json"
    path.write_text(f'{{"schema": 1, "a": {number}}}')
    with pytest.raises(FormatError, match=r"damaged|JSON"):
        read_document(path, 1, lambda data: int(float(data["a"])), what="model file")


def test_damaged_tensor_files_are_no_models(tmp_path: Path) -> None:
    from buran.modeling.tensor.model import load_model

    path = tmp_path / "m.npz"
    header = json.dumps({"format": "buran", "version": 1, "axes": [], "free": [], "observations": 10**400})
    np.savez_compressed(path, header=np.frombuffer(header.encode(), dtype=np.uint8), a=np.arange(50.0))
    whole = path.read_bytes()
    for place in range(0, len(whole), 3):
        for byte in (0x00, 0xFF, whole[place] ^ 0x10):
            path.write_bytes(whole[:place] + bytes([byte]) + whole[place + 1 :])
            with pytest.raises(FormatError):
                load_model(path)
