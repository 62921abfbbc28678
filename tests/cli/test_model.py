"""``buran model``."""

import argparse
import json
import subprocess
import sys
from pathlib import Path

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


def test_predictions_at_a_point(file, capsys):
    run(file, "--metric", "time", "--at", "n=128")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith("at n = 128")
    assert "90 % from" in lines[1]
    assert lines[3].split()[-6:] == ["0.00", "4.915e+04", "4.915e+04", "4.915e+04", "100.0", "%"]
    run(file, "--metric", "time", "--at", "n=128", "--json")
    found = json.loads(capsys.readouterr().out)["predictions"]
    assert found["at"] == {"n": 128}
    assert found["metrics"]["time"][0]["value"] == pytest.approx(3 * 128**2)


def test_a_file_with_predictions_is_still_a_models_file(file, tmp_path, capsys):
    run(file, "--at", "n=128", "--json", "-o", tmp_path / "m.json")
    run(tmp_path / "m.json", "--at", "n=256", "--metric", "time")
    assert "1.966e+05" in capsys.readouterr().out


@pytest.mark.parametrize("text", ["n", "n=", "n=x", "n=-1", "n=inf", "m=3", "n=2,n=3", "n=2,p=3", "=2"])
def test_points_that_are_none(file, text):
    with pytest.raises(BuranError, match="no point"):
        run(file, "--at", text)


@pytest.mark.parametrize("value", ["0", "-1", "0.0"])
def test_nothing_is_said_at_a_value_of_zero(file, value):
    with pytest.raises(BuranError) as caught:
        run(file, "--at", f"n={value}")
    text = str(caught.value)
    assert f"n is {float(value):g}:" in text and "above 0" in text


def test_sums_over_the_call_tree(file, capsys):
    run(file, "--metric", "time", "--over", "inclusive")
    assert "5 + 3 n^2" in capsys.readouterr().out
    run(file, "--metric", "time", "--over", "program")
    assert "whole program  5 + 3 n^2" in capsys.readouterr().out


def test_space_of_a_file(file, tmp_path, capsys):
    space = tmp_path / "space.txt"
    space.write_text("1 0\n")
    run(file, "--metric", "time", "--space", space)
    assert "n^2" not in capsys.readouterr().out
    with pytest.raises(BuranError, match="absent"):
        run(file, "--space", tmp_path / "absent")


def test_criteria_and_terms_of_a_parameter(file, capsys):
    for criterion in ("error", "smape"):
        run(file, "--metric", "time", "--criterion", criterion, "--terms-per-parameter", "1")
        assert "n^2" in capsys.readouterr().out
    with pytest.raises(BuranError, match="term"):
        run(file, "--terms-per-parameter", "0")


def test_a_sum_has_an_interval(file, capsys):
    run(file, "--metric", "time", "--over", "program", "--at", "n=128")
    numbers = capsys.readouterr().out.splitlines()[-1].split()[-5:-2]
    assert float(numbers[1]) <= float(numbers[0]) <= float(numbers[2]) < float("inf")
    assert float(numbers[1]) == pytest.approx(float(numbers[0]), rel=1e-3)  # the values are exact
