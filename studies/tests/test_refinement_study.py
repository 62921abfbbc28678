"""The study of refinement, with tiny draws."""

from __future__ import annotations

from pathlib import Path

import pytest

from buran.errors import UsageError
from buran_studies.evaluation.evaluation import Verdict
from buran_studies.evaluation.run import Run
from buran_studies.evaluation.study import Settings
from buran_studies.refinement import published
from buran_studies.refinement import study as refinement
from buran_studies.refinement.lab import PROGRAMS, source_of, target_of


def test_programs_that_nobody_brought_are_left_out(tmp_path: Path) -> None:
    own = refinement.shards(Settings("refinement"))
    assert {shard["program"] for shard in own} == {"stencil", "sweep", "treesort", "stencil-pn"}
    methods = [method for shard in own if shard["program"] == "stencil" for method in shard["methods"]]
    assert sorted(methods) == sorted(
        ["everything", "inline-filtered", "PIRA I", "filter-only", "filter-and-expand", "ours"]
    )
    (tmp_path / "LULESH").mkdir()
    more = refinement.shards(Settings("refinement", data=str(tmp_path)))
    assert {shard["program"] for shard in more} - {shard["program"] for shard in own} == {"LULESH"}
    assert source_of(PROGRAMS["HPCG"], tmp_path) is None
    assert target_of(PROGRAMS["stencil-pn"]).tolist() == [16.0, 80.0]


def trail(**changes: object) -> dict[str, object]:
    text = "SCOREP_REGION_NAMES_BEGIN\nEXCLUDE *\nINCLUDE MANGLED main\nINCLUDE MANGLED work\nSCOREP_REGION_NAMES_END\n"
    plain = {
        "filters": [text], "iterations": 2, "converged": True, "spent_s": 3.0, "finding_s": 1.0, "again": True,
        "coverage": 0.97, "executed": 2, "functions": 15, "kernels": ["work"], "constants": [], "throttled": 0,
        "brief": [],
        "hooked_s": [1.02, 1.04, 1.03], "vanilla_s": [1.0, 1.0, 1.0], "marked": ["main", "work"], "pass_s": 2.06,
    }  # fmt: skip
    return {**plain, **changes}


def test_figures_and_tables() -> None:
    reference = trail(spent_s=4.0, kernels=["work", "lost", "tiny"], brief=["tiny"], hooked_s=[], pass_s=8.0)
    results = [
        {"program": "sweep", "repetitions": 2, "methods": {"everything": reference, "ours": trail()}},
        {"program": "sweep", "repetitions": 2, "methods": {"PIRA I": trail(converged=False)}},
    ]
    found = refinement.summarise(results, Settings("refinement"))
    values = {figure.name: figure for figure in found.figures}
    overhead = values["sweep ours overhead"]
    assert overhead.value == pytest.approx(3.0) and overhead.samples == 3 and overhead.goal == "at most 5"
    assert overhead.standard_error == pytest.approx(1.2533 / 3**0.5)
    assert values["sweep ours recall"].value == 50.0 and "lost" in values["sweep ours recall"].note
    brief = values["sweep ours recall with brief functions"]
    assert brief.value == pytest.approx(100 / 3) and brief.note == "lost: lost, tiny" and brief.samples == 3
    assert values["sweep ours cost of refinement"].value == pytest.approx(75.0)
    assert values["sweep ours cost of finding the filter"].value == pytest.approx(25.0)
    assert values["sweep ours filter after running again"].value == 0
    slow = values["sweep everything overhead"]
    assert slow.value == pytest.approx(300.0) and slow.samples == 1 and slow.standard_error is None
    assert values["sweep ours coverage"].value == pytest.approx(97.0)
    assert found.tables[1].rows[1] == ("sweep", "ours", 15, 2, 2)
    rows = [row[1] for row in found.tables[0].rows]
    assert rows == ["vanilla", "everything", "ours", "PIRA I"] and found.tables[0].rows[0][2] == pytest.approx(2.0)


def test_the_published_preset_has_the_rules_of_the_paper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BURAN_EXTRAP_PYTHON", raising=False)
    (tmp_path / "LULESH").mkdir()
    own = refinement.shards(Settings("refinement", preset="published", data=str(tmp_path)))
    assert [shard["program"] for shard in own] == ["sweep", "stencil", "treesort", "LULESH"]
    assert {shard["repetitions"] for shard in own} == {5} and not any(shard["extrap"] for shard in own)
    rules = published.rules_of(own[0])
    assert rules.target(PROGRAMS["LULESH"]).tolist() == [28.0]  # 8, 12, ..., 24
    assert rules.target(PROGRAMS["stencil-pn"]).tolist() == [5.5, 24.0]
    assert (rules.threshold_s, rules.extrap) == (published.THRESHOLD_S, None)
    with pytest.raises(UsageError, match="no preset 'best'"):
        refinement.shards(Settings("refinement", preset="best"))


def test_overheads_and_recall_stand_beside_the_paper() -> None:
    everything = trail(kernels=["work", "lost", "tiny"], brief=["tiny"], hooked_s=[], pass_s=8.0)
    methods = {"everything": everything, "filter-and-expand": trail()}
    results = [{"program": "sweep", "repetitions": 2, "methods": methods}]
    found = refinement.summarise(results, Settings("refinement", preset="published"))
    rows = {row.element: row for row in found.beside}
    assert rows["Table I: overhead, SU2, PIRA II, final"].published == 10.9
    assert rows["Table I: overhead, SU2, PIRA II, final"].verdict is Verdict.MISSING
    own = rows["Table I: overhead, sweep, PIRA II, final"]
    assert own.here == pytest.approx(3.0) and own.published is None and "0 to 312 %" in own.why
    kept = rows["section VI: relevant functions kept, sweep, PIRA II, final"]
    assert kept.here == 50.0 and kept.verdict is Verdict.ALONE
    assert [table.title[:9] for table in found.tables] == ["CPU time ", "Functions"]


@pytest.mark.mpi
@pytest.mark.thorough
def test_a_quick_run(tmp_path: Path) -> None:
    run = Run.create(Settings("refinement", quick=True, draws=1), tmp_path)
    run.work_on_all(lambda done, of: None)
    found = run.summarise()
    values = {figure.name: figure.value for figure in found.figures}
    assert values["sweep ours coverage"] is not None and values["sweep ours recall"] is not None
    assert "PIRA" in found.tables[0].note
