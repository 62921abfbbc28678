"""The frame of all evaluations: shards are worked on once, summaries say everything."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from buran.cli import main
from buran.errors import UsageError
from buran_studies.evaluation import study as studies
from buran_studies.evaluation.evaluation import Beside, Curve, Evaluation, Figure, Plot, Table, Verdict
from buran_studies.evaluation.run import Run
from buran_studies.evaluation.study import Settings, Shard
from buran_studies.evaluation.text import judged, text_of


class Squares(ModuleType):
    """A study that squares numbers and remembers how often."""

    def __init__(self) -> None:
        super().__init__("buran_studies.squares.study")
        self.worked: list[int] = []

    def shards(self, settings: Settings) -> Sequence[Shard]:
        return [{"number": number, "seed": settings.seed} for number in range(2 if settings.quick else 4)]

    def run_shard(self, shard: Shard, settings: Settings) -> Any:
        self.worked.append(shard["number"])
        return {"square": shard["number"] ** 2}

    def summarise(self, results: Sequence[Any], settings: Settings) -> Evaluation:
        squares = [result["square"] for result in results]
        return Evaluation(
            "Squares",
            figures=(Figure("sum", float(sum(squares)), "s", 0.5, len(squares), goal="at least 5"),),
            tables=(Table("All", ("number", "square", "never"), tuple((i, s, "") for i, s in enumerate(squares))),),
            plots=(Plot("squares", "Squares", "x", "y", (Curve("y", tuple(range(len(squares))), tuple(squares)),)),),
        )


@pytest.fixture
def squares(monkeypatch: pytest.MonkeyPatch) -> Iterator[Squares]:
    module = Squares()
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(studies, "STUDIES", {"squares": "numbers"})
    yield module


def test_shards_are_worked_on_once(squares: Squares, tmp_path: Path) -> None:
    run = Run.create(Settings("squares"), tmp_path)
    seen: list[tuple[int, int]] = []
    run.work_on_all(lambda done, of: seen.append((done, of)))
    assert squares.worked == [0, 1, 2, 3] and seen[-1] == (4, 4)
    lost = run.result(list(run.shards)[2])
    lost.unlink()
    again = Run.open(run.folder)
    again.work_on_all(lambda done, of: None)
    assert squares.worked == [0, 1, 2, 3, 2]


def test_shards_are_made_from_others(squares: Squares, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = squares.shards(Settings("squares"))
    total = {"number": -1, "needs": [plain[3], plain[1]]}
    seen: list[Any] = []

    def run_shard(shard: Shard, settings: Settings) -> Any:
        seen.append(shard.get("results"))
        return {"square": shard["number"] ** 2}

    monkeypatch.setattr(squares, "shards", lambda settings: [*plain, total])
    monkeypatch.setattr(squares, "run_shard", run_shard)
    run = Run.create(Settings("squares"), tmp_path)
    names = list(run.shards)
    assert run.needed(names[4]) == [run.result(names[3]), run.result(names[1])] and not run.needed(names[0])
    run.work_on_all(lambda done, of: None)
    assert seen == [None] * 4 + [[{"square": 9}, {"square": 1}]]


def test_shards_that_measure_times_run_alone(squares: Squares, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = squares.shards(Settings("squares"))
    timed = {"number": 5, "alone": True}
    monkeypatch.setattr(squares, "shards", lambda settings: [timed, *plain, {"number": 7, "needs": [plain[0]]}])
    run = Run.create(Settings("squares"), tmp_path)
    seen: list[tuple[int, int]] = []
    run.work_on_all(lambda done, of: seen.append((done, of)), cores=2)
    assert squares.worked == [5, 7] and seen == [(done, 6) for done in range(7)]
    assert run.summarise().figures[0].value == 25 + 0 + 1 + 4 + 9 + 49


def test_other_settings_have_other_results(squares: Squares, tmp_path: Path) -> None:
    folders = {
        Run.create(Settings("squares", quick=quick, seed=seed), tmp_path).folder
        for quick in (False, True)
        for seed in (0, 1)
    }
    assert len(folders) == 4


def test_the_summary_has_everything(squares: Squares, tmp_path: Path) -> None:
    run = Run.create(Settings("squares", quick=True, seed=7), tmp_path)
    run.work_on_all(lambda done, of: None)
    found = run.summarise()
    read = json.loads(run.summary.read_text())
    assert read["settings"]["seed"] == 7 and read["figures"][0]["value"] == 1.0
    assert read["figures"][0]["samples"] == 2 and read["figures"][0]["standard_error"] == 0.5
    text = text_of(found)
    assert "1 ± 0.5 s" in text and "at least 5" in text and "never" not in text
    assert (run.folder / "squares.svg").read_text().startswith("<?xml")


def test_the_command_prints_figures_with_their_errors(
    squares: Squares, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["evaluate", "squares", "--quick", "--cores", "1", "--json", "--seed", "3", "-o", str(tmp_path)]) == 0
    found = json.loads(capsys.readouterr().out)
    keys = ("name", "value", "unit", "standard_error", "samples", "kind")
    assert [found["figures"][0][key] for key in keys] == ["sum", 1.0, "s", 0.5, 2, "simulated"]
    assert found["settings"]["quick"] and found["settings"]["seed"] == 3 and squares.worked == [0, 1]


def test_an_unknown_study_is_named_and_nothing_is_written(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no study 'nonsense'"):
        Run.create(Settings("nonsense"), tmp_path)
    assert not list(tmp_path.iterdir())


def test_missing_data_are_asked_for(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--data"):
        Settings("squares").data_folder()
    with pytest.raises(UsageError, match="does not exist"):
        Settings("squares", data=str(tmp_path / "none")).data_folder()


def test_a_number_is_reproduced_within_two_standard_errors_of_the_difference() -> None:
    wide = Beside("x", 10.0, 12.0, standard_error=0.8, published_error=0.7, why="chance")
    apart = Beside("x", 77.8, 74.6, standard_error=1.5, unit="%", why="noise of other seeds")
    unknown = Beside("x", 10.0, 10.4)
    absent, alone = Beside("x", 3.0, None, why="no data"), Beside("x", None, 3.0)
    assert [row.verdict for row in (wide, apart, unknown, absent, alone)] == [
        Verdict.REPRODUCED,
        Verdict.DIFFERS,
        Verdict.DIFFERS,  # without standard errors only the same number is
        Verdict.MISSING,
        Verdict.ALONE,
    ]
    assert Beside("x", 0.0, 0.0).verdict is Verdict.REPRODUCED
    assert [judged(row) for row in (wide, apart, unknown, absent, alone)] == [
        "reproduced",
        "differs by -3.2 points: noise of other seeds",
        "differs by +4.0 %: reason not known",
        "not available: no data",
        "not in the paper",
    ]
    text = text_of(Evaluation("Title", beside=(wide, apart, absent), modeller="Extra-P 4.2.5", cpu_s=3.0))
    assert "modeller: Extra-P 4.2.5; 3 s of CPU time" in text and "12 ± 0.8" in text
