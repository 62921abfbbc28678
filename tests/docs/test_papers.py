"""The page of papers is what the records and the packages say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import papers
from papers import PAPERS, Paper


def test_the_page_is_current() -> None:
    assert papers.PAGE.read_text(encoding="utf-8") == papers.page(), "python tools/reference/papers.py"


@pytest.mark.parametrize("paper", PAPERS, ids=lambda paper: paper.study)
def test_each_paper_has_a_record_with_its_command_and_numbers(paper: Paper) -> None:
    record = json.loads((papers.RECORDS / f"{paper.study}.json").read_text(encoding="utf-8"))
    assert record["study"] == paper.study and "--preset published" in record["command"]
    assert record["cpu_s"] > 0 and record["beside"]
    for row in record["beside"]:
        assert "verdict" not in row, "it is computed"
        assert row["here"] is not None or row["why"], row["element"]


@pytest.mark.parametrize("paper", PAPERS, ids=lambda paper: paper.study)
def test_each_element_of_a_package_has_a_file_and_each_reservation_an_element(paper: Paper) -> None:
    found = dict(papers.elements(paper))
    assert set(paper.reserved) <= set(found)
    for element, text in found.items():
        found_in = papers.sources(paper, text)
        assert found_in and all(path.exists() for path in found_in.values()), element


def test_citations_are_those_of_the_citation_file() -> None:
    cited = {paper.study: papers.citation(paper) for paper in PAPERS}
    assert "Marcus Ritter" in cited["selection"] and "arXiv:2504.10996" in cited["priors"]
    assert cited["correction"].startswith("Authors, venue and year are missing")


def test_a_record_keeps_what_the_page_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    row = {"element": "Fig. 1", "published": 1.0, "here": 1.23456789, "unit": "s", "standard_error": 0.1}
    row |= {"samples": 3, "published_error": None, "why": "another machine"}
    settings = {"study": "tensor", "quick": True, "seed": 4, "preset": "published", "draws": 2, "data": "somewhere"}
    found = {"settings": settings, "cpu_s": 2.6, "modeller": "Extra-P 4.2.5", "notes": ["a note"], "beside": [row]}
    (tmp_path / "summary.json").write_text(json.dumps(found | {"tables": [1]}))
    monkeypatch.setattr(papers, "RECORDS", tmp_path / "records")
    record = json.loads(papers.keep(tmp_path).read_text())
    assert record["command"] == "buran evaluate tensor --preset published --quick --draws 2 --data DIR --seed 4"
    assert record["beside"][0]["here"] == 1.235 and "tables" not in record
    lines = papers._numbers(record)
    assert "| Fig. 1 | 1 s | 1.235 ± 0.1 s | 3 | differs by +23.5 %: another machine |" in lines
    assert lines[0].startswith("3 s of CPU time. Modeller: Extra-P 4.2.5. A note.")
