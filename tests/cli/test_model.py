"""``buran model``."""

import argparse
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from buran.cli import model as verb
from buran.errors import BuranError

TEXT = """PARAMETER n
POINTS 4 8 16 32 64
METRIC time
REGION main->work<int>_x
DATA 48
DATA 192
DATA 768
DATA 3072
DATA 12288
REGION main
DATA 5
DATA 5
DATA 5
DATA 5
DATA 5
METRIC visits
REGION main
DATA 1
DATA 1
DATA 1
DATA 1
DATA 1
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "input.txt"
    path.write_text(TEXT)
    return path


def run(*arguments: object) -> int:
    parser = argparse.ArgumentParser()
    verb.add_arguments(parser)
    return verb.run(parser.parse_args([str(argument) for argument in arguments]))


def test_text_is_sorted_by_share(file, capsys):
    assert run(file, "--metric", "time") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("time")
    assert lines[1].split() == ["call", "path", "model", "SMAPE", "%", "share"]
    assert lines[3].split() == ["main->work<int>_x", "3", "n^2", "0.00", "100.0", "%"]
    assert lines[4].split() == ["main", "5", "0.00", "0.0", "%"]
    assert len(lines) == 5


def test_all_metrics_by_default(file, capsys):
    run(file)
    out = capsys.readouterr().out
    assert "time" in out
    assert "visits" in out


def test_json_is_a_models_file_that_can_be_shown(file, tmp_path, capsys):
    out = tmp_path / "models.json"
    assert run(file, "--json", "-o", out) == 0
    assert capsys.readouterr().out == ""
    assert json.loads(out.read_text())["schema"] == "buran-models/1"
    run(file)
    direct = capsys.readouterr().out
    run(out)
    assert capsys.readouterr().out == direct
    run(out, "--metric", "visits")
    assert "time" not in capsys.readouterr().out


def test_python_can_be_run(file, capsys):
    run(file, "--format", "python")
    scope: dict[str, dict] = {}
    exec(capsys.readouterr().out, scope)
    assert scope["models"]["time"]["main->work<int>_x"](n=100) == pytest.approx(30000)
    assert scope["models"]["visits"]["main"](np.array([4.0, 8.0])) == 1


def test_latex_escapes_names(file, capsys):
    run(file, "--format", "latex", "--metric", "time")
    out = capsys.readouterr().out
    assert r"main $\to$ work\textless{}int\textgreater{}\_x & $3 \cdot n^{2}$ & 0.00 \\" in out


def test_errors_are_for_users(file, tmp_path):
    with pytest.raises(BuranError, match="no metric 'flops'"):
        run(file, "--metric", "flops")
    run(file, "--json", "-o", tmp_path / "m.json")
    with pytest.raises(BuranError, match="no metric 'flops'"):
        run(tmp_path / "m.json", "--metric", "flops")
    with pytest.raises(BuranError):
        run(tmp_path / "absent.txt")


def test_the_front_does_not_import_numpy():
    code = "import sys, buran.cli.model; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
