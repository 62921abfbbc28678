"""Verifying recomputes what a results folder must hold from the store, names what differs, and repairs the rest."""

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


def pointers_swapped(results: Path) -> None:
    first, second, *_ = (p for p in sorted(results.glob("pointers/bundles/*/*.json")) if ".spec" not in p.name)
    shutil.copy(first, second)


def status_changed(results: Path) -> None:
    pointer = one(results, "pointers/bundles/*/*.json")
    pointer.write_text(pointer.read_text().replace('"status": "measured"', '"status": "failed"', 1))


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
        (emptied("iterations/*/0/plan.json"), "plan.json", True),
        (removed("iterations/*/0/plan.json"), "plan.json", True),
        (emptied("iterations/*/0/models.json"), "models.json", True),
        (removed("iterations/*/0/experiment.jsonl.gz"), "experiment.jsonl.gz", True),
        (emptied("pointers/bundles/*/*.json"), "does not hold JSON", True),
        (emptied("pointers/builds/*.json"), "does not hold JSON", True),
        (pointers_swapped, "is another bundle's", True),
        (status_changed, "says failed, and the record", True),
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
    done = repair(found)
    assert bool(done) or not is_repaired
    assert (differences(layout) == []) == is_repaired
    assert store == {path: path.read_bytes() for path in store}  # what was measured is never touched


def test_a_repair_is_said(copy: Workbench) -> None:
    removed("iterations/*/0/models.json")(copy.results)
    assert "buran verify --repair" in copy.buran("verify", "campaign.yaml", expect=1)
    said = copy.buran("verify", "campaign.yaml", "--repair")
    assert "repaired: iterations/" in said and "0 problems" in said


@pytest.mark.thorough
def test_what_was_derived_is_made_again(copy: Workbench) -> None:
    """Without iterations the engine finds a report and nothing to do."""
    runs = copy.started()
    shutil.rmtree(copy.results / "iterations")
    assert "12 runs measured" in copy.buran("run", "campaign.yaml")
    assert copy.started() == runs
    assert (copy.results / "latest" / "report.txt").is_file() and list(copy.results.glob("iterations/*/0/models.json"))
