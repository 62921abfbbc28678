"""Two versions of a bundled example, really built and measured: what grew is told by exact counts."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from workbench import Workbench

pytestmark = [pytest.mark.mpi, pytest.mark.thorough]
STENCIL = Path(__file__).parents[3] / "examples" / "stencil"
LOOP = "    for (int k = 0; k < count; ++k) {\n        buffer[k] ="
PASSES = 4


def version(folder: Path, **changes: Any) -> Workbench:
    shutil.copytree(STENCIL, folder / "source")
    bench = Workbench(folder)
    bench.write(
        name="small",
        program={
            "source": "source",
            "build": "make MPICXX={mpicxx} CXXFLAGS='{flags}'",
            "binary": "stencil",
            "run": "{binary} {n} 10",
        },
        parameters={"n": {"role": "size", "values": [8, 12, 16, 20, 24]}},
        repetitions=2,
        effort_repetitions=1,
        warmup=False,
        refinement={"enabled": False},
        resources={"ranks": 2, "time_limit": 60},
        **changes,
    )
    return bench


def plans_of(bench: Workbench) -> list[dict[str, Any]]:
    found = sorted(bench.results.glob("iterations/*/*/plan.json"), key=lambda path: int(path.parent.name))
    return [json.loads(path.read_text()) for path in found]


def test_a_change_of_the_source_is_told_by_counts_and_reported(tmp_path: Path) -> None:
    old = version(tmp_path / "old")
    old.buran("run", "campaign.yaml")
    new = version(tmp_path / "new", compare_with="../old/campaign.yaml")
    source = new.folder / "source" / "stencil.cpp"
    text = source.read_text()
    assert text.count(LOOP) == 1
    again = f"    for (int pass = 0; pass < {PASSES}; ++pass)\n{LOOP}"
    source.write_text(text.replace(LOOP, again.replace("buffer[k] =", "static_cast<volatile double *>(buffer)[k] =")))
    new.buran("run", "campaign.yaml")
    phases = [plan["phase"] for plan in plans_of(new)]
    assert phases[:2] == ["first look", "times"]
    reason = plans_of(new)[1]["reason"]
    assert reason.startswith("changed since")
    assert "pack_faces" in reason
    assert "unpack_faces" not in reason
    new.buran("report", "campaign.yaml", "--compare", "../old/campaign.yaml", "--fail-on", "effort:50%", expect=5)
    found = json.loads((new.results / "latest" / "comparison.json").read_text())
    assert {each["call_path"].rpartition("->")[2].partition("(")[0] for each in found["broken"]} == {"pack_faces"}
    rows = [
        each
        for each in found["differences"]
        if each["metric"] == "basic_blocks" and "->pack_faces" in each["call_path"]
    ]
    assert len(rows) > 1
    assert all(each["exact"] and each["measured"]["ratio"] == pytest.approx(PASSES, rel=0.2) for each in rows)


def test_a_comment_changes_no_count(tmp_path: Path) -> None:
    old = version(tmp_path / "old")
    old.buran("run", "campaign.yaml")
    new = version(tmp_path / "new", compare_with="../old/campaign.yaml")
    source = new.folder / "source" / "stencil.cpp"
    source.write_text(source.read_text() + "// another version\n")
    new.buran("run", "campaign.yaml")
    plans = plans_of(new)
    assert plans[0]["phase"] == "first look"
    # Of times this machine decides.
    assert re.search(r"^no change seen|^changed since .*\(time, ", plans[1]["reason"])
