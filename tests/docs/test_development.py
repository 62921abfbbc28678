"""The pages on adding something: their one-file examples are installed and used."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from snippets import ROOT, blocks_of

from buran.files import not_synced
from buran.loop.in_process import carry_out
from buran.loop.report import gather
from buran.loop.session import open_session
from buran.model.model_set import read_models
from buran.profile.metrics import asked_for_by, metric_of
from buran.report.text import render

Install = Callable[[str], Path]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Write the files of a page to a folder that Python looks into, as pip does with a distribution."""
    before = set(sys.modules)

    def install(page: str) -> Path:
        for block in blocks_of(ROOT / "docs" / "development" / page):
            if "file" in block.said:
                (tmp_path / block.said["file"]).write_text(block.text)
        info = tmp_path / "example-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: example\nVersion: 1.0\n")
        (tmp_path / "entry_points.txt").rename(info / "entry_points.txt")
        monkeypatch.syspath_prepend(tmp_path)
        return tmp_path

    yield install
    for module in set(sys.modules) - before:
        del sys.modules[module]


def test_a_metric_is_one_file(install: Install) -> None:
    assert "flops" not in asked_for_by("metrics")
    assert metric_of("flops").role == "sampled"
    folder = install("add-a-metric.md")
    assert asked_for_by("metrics")[-1] == "flops"
    assert metric_of("flops").noise_resilient
    with not_synced():
        session = open_session(folder / "campaign.json")
        last = carry_out(session)
    models = {each.metric: each for each in read_models(session.layout.models(session.id, last.iteration - 1))}
    counted = models["flops"]
    solve = counted.models[counted.call_paths.index("simulated->main->solve")]
    assert solve is not None
    assert solve.function.lead(counted.parameters.index("p")) == (2, 0)
    assert counted.unit == "occ"
    said = render(gather(session))
    assert "\nFloating-point operations (occ, exclusive, mean over ranks)\n" in said
    assert "Counts were identical in all repetitions of every point." in said
