"""``buran suggest``."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from simulated import plain, space

from buran.cli import main
from buran.planning.advise import core_counts, parse_budget
from buran.planning.base import base_indices
from buran.planning.strategies import base_of
from data_of_others import file_of


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Measurements of the base, one of them outside the space."""
    return write(tmp_path, np.vstack([space().points[base_indices(space())], [[64.0, 50.0]]]))


def write(folder: Path, points: np.ndarray[tuple[int, int], np.dtype[np.float64]], repetitions: int = 2) -> Path:
    values = plain(points)
    lines = []
    for (p, n), value in zip(points.tolist(), values.tolist(), strict=True):
        for repetition in range(repetitions):
            for path, share in (("main", 0.1), ("main->solve", 0.9)):
                record = {
                    "params": {"p": p, "n": n},
                    "callpath": path,
                    "metric": "time",
                    "value": share * value * (1 + 0.01 * repetition),
                }
                lines.append(json.dumps(record))
    path = folder / "data.jsonl"
    path.write_text("\n".join(lines) + "\n")
    return path


def suggest(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    code = main(["suggest", *map(str, words)])
    shown = capsys.readouterr()
    return code, shown.out, shown.err


def test_suggestions_name_points_costs_and_reasons(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--values", "p=4,8,16,32", "--values", "n=10,20,30,40,50", "--processes", "p", "--at", "p=128,n=60")
    code, out, _ = suggest(capsys, data, *words, "--budget", "200%", "-n", 5, "--json")
    assert code == 0
    found = json.loads(out)
    assert 0 < len(found["suggestions"]) <= 5
    assert found["target"] == {"p": 128, "n": 60}
    assert found["budget_core_hours"] == pytest.approx(2 * found["full_matrix_core_hours"])
    assert any("outside the space" in note for note in found["notes"])
    for suggestion in found["suggestions"]:
        assert suggestion["point"]["p"] <= 32
        assert suggestion["cost_core_hours"] > 0 and suggestion["reason"]
    code, out, _ = suggest(capsys, data, "--processes", "p", "--budget", "80%", "--at", "p=128,n=60")
    assert code == 0 and "variance removed" in out and "expected error" in out


@pytest.mark.parametrize("strategy", ["cpf", "gpr", "hybrid", "bayes", "ucb", "random", "grid", "full", "tensor"])
def test_every_strategy_can_be_asked(tmp_path: Path, strategy: str, capsys: pytest.CaptureFixture[str]) -> None:
    data = write(tmp_path, space().points[base_of(strategy).indices(space())])
    code, out, _ = suggest(capsys, data, "--processes", "p", "--strategy", strategy, "-n", 3, "--json")
    assert code == 0 and len(json.loads(out)["suggestions"]) == 3


def test_a_spent_budget_is_said(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = suggest(capsys, data, "--processes", "p", "--budget", "0.0001")
    assert code == 4 and "nothing to measure" in out and "budget" in out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--processes", "q"], "no parameter 'q'"),
        (["--values", "q=1,2"], "no parameter 'q'"),
        (["--values", "p=1,x"], "is no list"),
        (["--at", "p=3"], "is no point"),
        (["--at", "p=3,n=x"], "is no point"),
        (["--at", "p=3,n=4,p=5"], "'p=5' is not"),
        (["--at", "p=3,n=0"], "n is 0: logarithms and negative powers"),
        (["--budget", "much"], "is no budget"),
        (["--budget=-3%"], "is no budget"),
        (["--metric", "cycles"], "no metric 'cycles'"),
        (["-n", "0"], "at least one"),
        (["--strategy", "best"], "unknown strategy 'best'"),
        (["--exclude", "p=3"], "is no point"),
        (["--exclude", "p=3,p=4"], "--exclude p=3,p=4 is no point"),
    ],
)
def test_wrong_words_are_refused(data: Path, words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = suggest(capsys, data, *words)
    assert code == 2 and said in err and "Traceback" not in err


def test_excluded_points_are_not_suggested(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [data, "--processes", "p", "--strategy", "cpf", "-n", 1, "--json"]
    first = json.loads(suggest(capsys, *words)[1])["suggestions"][0]["point"]
    text = ",".join(f"{name}={value:g}" for name, value in first.items())
    second = json.loads(suggest(capsys, *words, "--exclude", text)[1])["suggestions"][0]["point"]
    assert first != second


def test_unusual_measurements_are_commented(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    once = write(tmp_path, space().points[base_indices(space())], 1)
    notes = json.loads(suggest(capsys, once, "--processes", "p", "--json")[1])["notes"]
    assert any("measured twice" in note for note in notes)
    few = write(tmp_path, space().points[np.isin(space().points[:, 0], (4, 8))])
    notes = json.loads(suggest(capsys, few, "--processes", "p", "--json")[1])["notes"]
    assert any("p has 2 values" in note for note in notes)


def test_budgets_are_core_hours_or_shares() -> None:
    assert parse_budget("2.5") == (2.5, False)
    assert parse_budget(" 10 % ") == (10.0, True)


def test_without_processes_a_run_takes_one_core() -> None:
    assert core_counts(np.ones((3, 1)), ("n",), None).tolist() == [1, 1, 1]


def test_measurements_of_the_stencil_have_suggestions(capsys: pytest.CaptureFixture[str]) -> None:
    path = Path(__file__).parents[1] / "data" / "extrap" / "stencil.txt"
    code, out, _ = suggest(capsys, path, "--processes", "p", "--budget", "300%", "--json")
    assert code == 0 and (json.loads(out)["suggestions"] or json.loads(out)["stop"])


def test_real_data_have_suggestions(capsys: pytest.CaptureFixture[str]) -> None:
    path = file_of("relearn", "relearn.txt")
    assert suggest(capsys, path, "--processes", "p", "--budget", "300%")[0] == 0
