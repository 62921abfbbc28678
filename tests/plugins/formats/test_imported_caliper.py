"""Campaigns that go on from files of Caliper, and from profiles of TAU."""

from __future__ import annotations

from pathlib import Path

import pytest
from caliper_files import cali
from profiles_of_tools import tau

from buran.errors import BuranError
from buran.files import not_synced
from buran.modeling.pmnf.model_set import read_models
from buran.workflow.import_runs import changed_sources
from buran.workflow.imported import imports_of
from buran_studies.simulate.in_process import carry_out
from simulated_campaigns import opened

pytest.importorskip("caliperreader")


def test_a_folder_of_caliper_is_imported_with_its_parameters(tmp_path: Path) -> None:
    folder = tmp_path / "measured"
    folder.mkdir()
    for ranks in (4, 8, 16, 32):
        for size in (20, 30, 40, 50):
            rows = [((), {"avg#sum#time.duration": 0.1}), (("solve",), {"avg#sum#time.duration": 0.01 * size**2})]
            cali(folder / f"{ranks}-{size}.cali", rows, {"jobsize": ranks, "edge": size, "executablepath": "/x/main"})
    entry = {"path": str(folder), "names": {"jobsize": "p", "edge": "n"}}
    changes = {"refinement": {"enabled": False}, "metrics": ["time", "visits"], "warmup": False}
    with not_synced():
        session = opened(tmp_path / "campaign", measurements=[entry], **changes)
        (source,) = imports_of(session.campaign, session.layout)
        assert len(source.runs) == 16
        assert not source.problems
        carry_out(session)
        (imported,) = sorted(session.layout.root.rglob("imported-*.json"))[:1]
        (times,) = read_models(imported)
        solve = times.models[times.call_paths.index("main->solve")]
        assert solve is not None
        assert solve.function.lead(1)[0] == 2
        assert not list(changed_sources(session.layout))
        cali(folder / "4-20.cali", [((), {"avg#sum#time.duration": 0.2})], {"jobsize": 4, "edge": 20})
        assert list(changed_sources(session.layout))


def test_parameters_that_the_metadata_do_not_have_are_named(tmp_path: Path) -> None:
    folder = tmp_path / "measured"
    folder.mkdir()
    for ranks in (4, 8):
        cali(folder / f"{ranks}.cali", [(("a",), {"sum#time.duration": 1})], {"jobsize": ranks})
    with not_synced(), pytest.raises(BuranError, match="do not say the value of n"):
        session = opened(tmp_path / "campaign", measurements=[{"path": str(folder), "names": {"jobsize": "p"}}])
        imports_of(session.campaign, session.layout)


def test_profiles_of_tau_are_imported_with_the_parameters_of_their_names(tmp_path: Path) -> None:
    pytest.importorskip("hatchet")
    for ranks in (4, 8):
        for size in (20, 30):
            times = {("main",): 100.0, ("main", "solve"): 10.0 * size**2}
            tau(tmp_path / f"measured/tau.p{ranks}n{size}.r1", [times] * ranks)
    changes = {"refinement": {"enabled": False}, "metrics": ["time", "visits"], "warmup": False}
    with not_synced():
        session = opened(tmp_path / "campaign", measurements=[{"path": str(tmp_path / "measured")}], **changes)
        (source,) = imports_of(session.campaign, session.layout)
    assert len(source.runs) == 4
    assert not source.problems
    assert source.table is not None
    solve = source.table.tree.names.index(".TAU application->main->solve")
    assert source.table.over_locations("time")[solve, :, 0] == pytest.approx([0.004, 0.009] * 2)
