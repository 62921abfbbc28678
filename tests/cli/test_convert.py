from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from buran.cli import main
from buran.profiles.experiment.extrap_tree import write_extrap_tree
from buran.profiles.experiment.read import read_experiment
from buran.profiles.metrics import METRICS
from buran.profiles.profile import CallTree, Location, Profile, Region


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    tree = CallTree((Region("main", "main"), Region("f", "_Zf")), np.array([0, 1]), np.array([-1, 0]))
    metrics = {"time": METRICS["time"], "visits": METRICS["visits"]}

    def profile(p: int, r: int) -> Profile:
        values = {
            "time": np.array([[9.0, p], [1, r]]),
            "visits": np.array([[1, 1], [p, 3 * p]], dtype=np.uint64),
        }
        return Profile(tree, (Location(0), Location(1)), metrics, values, {})

    folder = tmp_path / "runs"
    write_extrap_tree(folder, [({"p": p}, r, profile(p, r)) for p in (2, 4, 8) for r in (1, 2)])
    return folder


def test_from_runs_to_every_format_and_on(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["convert", str(runs), str(tmp_path / "a.jsonl")]) == 0
    out = capsys.readouterr().out
    assert re.findall(r"(\d+) \w", out) == ["3", "2", "2", "2"] and str(tmp_path / "a.jsonl") in out
    assert main(["convert", str(runs), str(tmp_path / "again")]) == 0
    source = read_experiment(runs)
    for name in ("a.jsonl", "again"):
        table = read_experiment(tmp_path / name)
        for metric in source.metrics:
            assert np.array_equal(table.values[metric], source.values[metric])
    for before, after in (("a.jsonl", "b.txt"), ("b.txt", "c.json"), ("c.json", "d.jsonl")):
        assert main(["convert", str(tmp_path / before), str(tmp_path / after)]) == 0
        table = read_experiment(tmp_path / after)
        assert np.array_equal(table.over_locations("time"), source.over_locations("time"))
    assert main(["convert", str(runs), str(tmp_path / "sum.txt"), "--aggregate", "sum"]) == 0
    summed = read_experiment(tmp_path / "sum.txt").over_locations("visits")
    assert np.array_equal(summed, source.over_locations("visits", "sum"))


def test_a_broken_run_is_left_out_and_named(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    broken = runs / "buran.p4.r2/profile.cubex"
    broken.write_bytes(b"")
    assert main(["convert", str(runs), str(tmp_path / "a.jsonl")]) == 1
    assert str(broken) in capsys.readouterr().err
    assert np.isnan(read_experiment(tmp_path / "a.jsonl").over_locations("time")[:, 1, 1]).all()


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["{tmp}/none", "{tmp}/a.txt"], "no such file"),
        (["{runs}", "{tmp}/a.csv"], "'.csv'"),
        (["{tmp}/there.txt", "{tmp}/tree"], "single ranks"),
        (["{runs}", "{tmp}/there.txt"], "--force"),
        (["{runs}", "{runs}"], "not empty"),
        (["{runs}", "{tmp}/a.jsonl", "--aggregate", "sum"], "leave it out"),
        (["{tmp}/there.txt", "{tmp}/a.txt", "--aggregate", "sum"], "all locations"),
        (["{runs}", "{tmp}/dir.txt"], "folder of"),
        (["{tmp}/there.txt", "{tmp}/a.json", "--from", "jsonl"], "JSON"),
    ],
)
def test_what_cannot_be_done_is_said(
    arguments: list[str], reason: str, runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "there.txt").write_text("PARAMETER x\nPOINTS 1 2\nREGION a\nMETRIC m\nDATA 1\nDATA 2\n")
    (tmp_path / "dir.txt").mkdir()
    before = sorted(tmp_path.rglob("*"))
    assert main(["convert", *(text.format(tmp=tmp_path, runs=runs) for text in arguments)]) == 2
    assert reason in capsys.readouterr().err
    assert sorted(tmp_path.rglob("*")) == before


def test_force_replaces_and_gaps_are_noted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "a.txt"
    source.write_text("PARAMETER x\nPOINTS 1 2\nREGION a\nMETRIC m\nDATA 1\n")
    (tmp_path / "b.json").touch()
    assert main(["convert", str(source), str(tmp_path / "b.json"), "--force"]) == 0
    assert "1 pairs" in capsys.readouterr().err
    assert read_experiment(tmp_path / "b.json").points.tolist() == [[1]]


def test_the_module_is_light() -> None:
    code = "import sys, buran.cli.convert; assert not {'numpy', 'pycubexr'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
