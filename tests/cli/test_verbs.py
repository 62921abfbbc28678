"""Verbs that other distributions bring: found by name, and what is said of those that are not there or do not work."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from buran import extensions
from buran.cli import EXTENSION_POINT, main

GOOD = """
HELP = "greet somebody"
def add_arguments(parser): parser.add_argument("name")
def run(arguments): print("hello", arguments.name); return 0
"""


@pytest.fixture(autouse=True)
def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "greeter", raising=False)
    extensions._load.cache_clear()


def bring(folder: Path, monkeypatch: pytest.MonkeyPatch, code: str, verb: str = "greet") -> None:
    """Install a distribution with one verb."""
    info = folder / "greeter-1.5.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: greeter\nVersion: 1.5\n")
    (info / "entry_points.txt").write_text(f"[buran.verbs]\n{verb} = greeter\n")
    (folder / "greeter.py").write_text(code)
    monkeypatch.syspath_prepend(folder)


def test_a_verb_of_another_distribution_is_one_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bring(tmp_path, monkeypatch, GOOD)
    assert main(["help", "all"]) == 0
    assert "greet somebody" in capsys.readouterr().out
    assert main(["greet", "world"]) == 0
    assert capsys.readouterr().out == "hello world\n"


@pytest.mark.parametrize("verb", EXTENSION_POINT.elsewhere)
def test_a_verb_that_is_not_installed_names_its_package(
    verb: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(extensions, "_installed", lambda group, path: ())
    assert main([verb, "--some", "thing"]) == 2
    assert "buran-studies" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("code", "why"), [("import nonsense_of_greeter", "nonsense_of_greeter"), ('HELP = "greet"', "no run")]
)
def test_a_verb_that_does_not_work_is_named_and_the_others_work(
    code: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bring(tmp_path, monkeypatch, code)
    assert main(["--help"]) == 0
    assert "greet" in capsys.readouterr().out
    assert main(["doctor", "--help"]) == 0
    capsys.readouterr()
    assert main(["greet", "--quick", "world"]) == 3
    said = capsys.readouterr().err
    assert why in said and "greeter 1.5" in said and "pip uninstall greeter" in said


def test_a_verb_with_the_name_of_ours_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bring(tmp_path, monkeypatch, GOOD, verb="run")
    assert main(["run", "--help"]) == 3
    said = capsys.readouterr().err
    assert "greeter 1.5" in said
