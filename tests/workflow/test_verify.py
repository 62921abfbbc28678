"""Verifying compares the store with its checksums and the ledger with the store, and repairs the latter."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from buran.campaign.layout import Layout
from buran.workflow.views.verify import differences, repair
from workbench import Workbench

Damage = Callable[[Path], object]


def one(results: Path, pattern: str) -> Path:
    path = next(path for path in sorted(results.glob(pattern)) if not path.name.endswith(".spec.json"))
    if path.is_file():
        path.chmod(0o644)
    return path


def emptied(pattern: str) -> Damage:
    return lambda results: one(results, pattern).write_bytes(b"")


def removed(pattern: str) -> Damage:
    return lambda results: one(results, pattern).unlink()


def run_copied(results: Path) -> None:
    run = one(results, "store/*/*/*~*/rep-00")
    shutil.copytree(run, run.with_name("rep-07"))


def ledger_garbled(results: Path) -> None:
    lines = (results / "store/ledger.jsonl").read_text().splitlines()
    (results / "store/ledger.jsonl").write_text("\n".join([*lines[2:], "{garbled}", "[" * 2000, ""]))


@pytest.mark.parametrize(
    ("damage", "named", "is_repaired"),
    [
        (emptied("store/*/*/*~*/rep-00/SHA256SUMS"), "has no checksum of it", False),
        (removed("store/*/*/*~*/rep-00/SHA256SUMS"), "SHA256SUMS: missing", False),
        (removed("store/*/*/*~*/rep-00/stdout.log"), "stdout.log: missing", False),
        (emptied("store/*/*/*~*/rep-00/run.json"), "does not hold JSON", False),
        (removed("store/*/*/*~*/rep-00/run.json"), "has no record", False),
        (run_copied, "its folder is for", False),
        (ledger_garbled, "is no entry", True),
        (removed("store/ledger.jsonl"), "is not in it", True),
    ],
)
def test_every_difference_is_named_and_what_the_store_tells_is_rebuilt(
    copy: Workbench, damage: Damage, named: str, is_repaired: bool
) -> None:
    layout = Layout(copy.results)
    assert differences(layout) == []
    damage(copy.results)
    found = differences(layout)
    assert any(named in str(difference) for difference in found), list(map(str, found))
    store = {path: path.read_bytes() for path in layout.store.rglob("*") if path.is_file() and path.suffix != ".jsonl"}
    if is_repaired:
        repair(layout)
    assert (differences(layout) == []) == is_repaired
    assert store == {path: path.read_bytes() for path in store}  # what was measured is never touched


def test_a_repair_is_said(copy: Workbench) -> None:
    removed("store/ledger.jsonl")(copy.results)
    assert "buran verify --repair" in copy.buran("verify", "campaign.yaml", expect=1)
    said = copy.buran("verify", "campaign.yaml", "--repair")
    assert "`buran run` makes" in said and "0 problems" in said


@pytest.mark.thorough
def test_what_was_derived_is_made_again(copy: Workbench) -> None:
    """Without iterations the engine finds a report and nothing to do."""
    runs = copy.started()
    emptied("iterations/*/0/models.json")(copy.results)
    copy.buran("verify", "campaign.yaml", "--repair")
    assert "12 runs measured" in copy.buran("run", "campaign.yaml")
    assert copy.started() == runs
    assert (copy.results / "latest" / "report.txt").is_file() and list(copy.results.glob("iterations/*/0/models.json"))
