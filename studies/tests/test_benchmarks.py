"""The scripts that measure Buran itself: all can be loaded, and their figures become one table."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

import pytest

FOLDER = Path(__file__).resolve().parents[1] / "benchmarks"
SCRIPTS = sorted(path.stem for path in FOLDER.glob("*.py"))


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(FOLDER))

    def imported(name: str) -> ModuleType:
        sys.modules.pop(name, None)
        return importlib.import_module(name)

    return imported


@pytest.mark.parametrize("name", SCRIPTS)
def test_scripts_load(name: str, load) -> None:
    assert load(name).__doc__


def test_a_round_is_timed_beyond_the_base_alone(load) -> None:
    rounds = load("gpr_round")
    assert rounds.round_s(2, 0, "gpr") > 0
    with pytest.raises(SystemExit, match="nothing beyond the base"):
        rounds.round_s(2, 0, "lines")


def test_versions_of_an_example_differ_where_they_should(load) -> None:
    source_of, text = load("history_of_bodies").source_of, (FOLDER.parents[1] / "examples/bodies/bodies.c").read_text()
    assert source_of(text, 0, False) == text
    assert len({text, source_of(text, 1, False), source_of(text, 2, False), source_of(text, 2, True)}) == 4
    with pytest.raises(ValueError, match="has changed"):
        source_of(text.replace("energy(", "e("), 0, False)


@pytest.mark.parametrize("short", [True, False])
def test_commands_of_the_table_exist(short: bool, load) -> None:
    from buran.cli import command_parser

    everything = load("everything")
    parts = everything.parts(short, "python-of-extrap", Path("data"))
    areas = {"modeller", "selection", "tensor", "correction", "overhead", "orchestration", "priors", "refinement"}
    assert areas <= {part.area for part in parts}
    for part in parts:
        words = [word.format(out="out") for word in part.command]
        if words[0] == "buran":
            command_parser().parse_args(words[1:])
        else:
            source = (FOLDER.parents[1] / words[1]).read_text()
            assert all(f'"{word}"' in source for word in words if word.startswith("--"))


def figure(name: str, value: float | None, goal: str = "", error: float | None = None, note: str = "") -> dict:
    return {"name": name, "value": value, "unit": "%", "standard_error": error, "goal": goal, "note": note}


def test_methods_of_a_study_stand_side_by_side(load) -> None:
    everything = load("everything")
    figures = [
        figure("within 5 %: design, m = 2, B = 10 %", 91.25, "at least 95", 1.5),
        figure("within 5 %: cpf, m = 2, B = 10 %", 80.0),
        figure("within 5 %: gpr, m = 2, B = 10 %", None, note="not run"),
        figure("within 5 %: design, terms known, m = 2", 99.0, "as the full matrix"),
        figure("no goal and no contest", 1.0),
    ]
    rows = list(everything.study_rows("selection")({"figures": figures}))
    assert rows[0].what == "within 5 %: m = 2, B = 10 % (design)"
    assert rows[1].what == "within 5 %: design, terms known, m = 2" and len(rows) == 2
    assert rows[0].ours == "91.2 ± 2 %" and rows[0].goal == "at least 95"
    assert rows[0].peers == {"CPF": "80 %", "GPR": "none: not run"}


def test_methods_that_are_not_ours_are_peers(load) -> None:
    names = ("default, 100 kB", "paper, mean", "MARS")
    figures = [figure(f"broadcast 4096 {name}", i + 1.0) for i, name in enumerate(names)]
    (row,) = load("everything").study_rows("tensor")({"figures": figures})
    assert row.what == "broadcast 4096 (100 kB)" and row.peers == {"paper, mean": "2 %", "MARS": "3 %"}


def test_a_part_that_fails_is_a_row(load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    everything = load("everything")
    monkeypatch.setattr(everything, "WORK", tmp_path)
    monkeypatch.setattr(everything, "ROOT", tmp_path)
    (tmp_path / "fails.py").write_text("import sys; sys.exit('no compiler')")
    (tmp_path / "works.py").write_text("import sys; open(sys.argv[1], 'w').write('{}')")
    rows = {}

    def one_row(found):
        return iter([everything.Row("a|b", "1")])

    for name in ("fails", "works"):
        part = everything.Part("area", name, ["python", f"{name}.py", "{out}"], one_row)
        rows[name], _ = everything.run(part, resume=False)
    assert rows["fails"][0].what == "failed: no compiler"
    text = everything.page([(part, rows["works"], 1.0)], True, 0.5)
    assert "## Works\n\n`python works.py`, 1 s\n" in text and "| a/b | 1 |  |  |" in text
    (tmp_path / "works.py").unlink()
    assert everything.run(part, resume=True)[0] == rows["works"]


@pytest.mark.thorough
@pytest.mark.mpi
def test_separate_jobs_are_handed_over_as_arrays(load, tmp_path: Path) -> None:
    found = load("size").graph(tmp_path, 2500, 1)
    assert (found["runs"], found["jobs"]) == (2500, 500)
    scripts = list((tmp_path / "results" / "scale" / "jobs").glob("*.sh"))
    assert 100 <= len(scripts) < 500, "an array for each shape, cut where the queue is full"
