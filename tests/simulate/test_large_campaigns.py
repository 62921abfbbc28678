"""What is read of a campaign does not grow with its runs, and what saves reading is never trusted over the store."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from buran import files
from buran.campaign.plan import Bundle
from buran.campaign.records import RECORD
from buran.cli import progress
from buran.errors import FormatError
from buran.files import not_synced, write_json
from buran.measurement.build import build
from buran.measurement.bundle import slots_of
from buran.measurement.store import ledger, store
from buran.reporting.summary import CampaignSummary
from buran.workflow.history import History
from buran.workflow.measure import measure_jobs, plan_in_force, write_plan
from buran.workflow.plan import first_plan
from buran.workflow.report import write_results
from buran.workflow.session import Session, open_session
from buran.workflow.views.summary import summarize
from buran_studies.simulate.in_process import carry_out
from simulated_campaigns import opened


@pytest.fixture(autouse=True)
def quick() -> Iterator[None]:
    with not_synced():
        yield


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Session:
    """A campaign that is done."""
    with not_synced():
        session = opened(tmp_path_factory.mktemp("large"), refinement={"enabled": False})
        carry_out(session)
        write_results(History.open(session), session.layout.results(session.id))
    return session


@pytest.fixture
def copied(made: Session, tmp_path: Path) -> Session:
    """The same, to be changed."""
    shutil.copytree(made.campaign.path.parent, tmp_path / "campaign", symlinks=True)
    return open_session(tmp_path / "campaign" / made.campaign.path.name)


def looked(session: Session) -> CampaignSummary:
    return summarize(History.open(session))


def test_status_reads_neither_records_nor_pointers_of_what_is_measured(
    copied: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = looked(copied)
    assert before.measured == before.runs > 20
    read, read_text = list[Path](), files.read_text

    def noted(path: Path) -> str:
        read.append(path)
        return read_text(path)

    monkeypatch.setattr(files, "read_text", noted)
    assert looked(copied) == before
    assert len([path for path in read if path.name == "plan.json"]) == len(History.open(copied).plans)
    assert not [path for path in read if path.name == RECORD or "bundles" in path.parts]


def test_who_wants_runs_again_is_seen_although_the_ledger_has_them(copied: Session) -> None:
    before, bundle = looked(copied), History.open(copied).plans[0].bundles[0]
    for _, slot in slots_of(copied.target, copied.layout, bundle):
        store.new_generation(slot.store, slot.key)
    copied.layout.bundle_pointer(bundle.id).unlink()
    assert looked(copied).measured == before.measured - len(bundle.runs)


@pytest.mark.parametrize("damage", ["gone", "none of its runs"])
def test_without_pointers_or_a_ledger_status_looks_into_the_store(copied: Session, damage: str) -> None:
    before = looked(copied)
    if damage == "gone":
        shutil.rmtree(copied.layout.root / "pointers")
    else:
        ledger.ledger_path(copied.layout.store).write_text("")
    assert looked(copied).rows == before.rows


def test_looking_takes_a_small_part_of_the_time(made: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    watcher, now_s, looks = progress.Watcher(made), [0.0], list[float]()

    def look() -> None:
        looks.append(now_s[0])
        now_s[0] += 1.0

    monkeypatch.setattr(progress.time, "monotonic", lambda: now_s[0])
    monkeypatch.setattr(watcher, "_look", look)
    while now_s[0] < 100.0:
        watcher.look()
        now_s[0] += 0.5
    assert looks == [0.0, 21.0, 42.0, 63.0, 84.0]
    watcher.close()
    assert len(looks) == 6, "the end is shown"


def test_specifications_that_a_power_cut_left_empty_are_made_again(copied: Session) -> None:
    plan = History.open(copied).plans[0]
    path = copied.layout.bundle_spec(plan.bundles[0].id)
    path.write_text("")
    plan_in_force(copied.layout, copied.id, 0)
    assert Bundle.read(path) == plan.bundles[0]


def test_bundles_share_their_runs(made: Session) -> None:
    """In memory, where a million of them would take gigabytes."""
    for plan in (first_plan(made), History.open(made).plans[0]):
        runs = [run for bundle in plan.bundles for run in bundle.runs]
        assert len({id(run) for run in runs}) == len(set(runs)) < len(runs) / 4
    text = made.layout.plan(made.id, 0).read_text()
    assert all(f'{{"id": "{bundle.id}", ' in text for bundle in first_plan(made).bundles), "a bundle on a line"


def test_jobs_of_a_batch_are_measured_one_after_the_other(tmp_path: Path) -> None:
    session = opened(tmp_path, refinement={"enabled": False})
    layout, plan = session.layout, first_plan(session)
    write_plan(layout, session.id, plan)
    for spec in plan.builds:
        build(session.target, layout, spec).write(layout.build_pointer(spec.hash))
    first, second, third, fourth = (bundle.id for bundle in plan.bundles[:4])
    batch = "b" * 16
    write_json(layout.batch_spec(batch), [[first], [second, third], [fourth]])
    measure_jobs(session, first)
    before = layout.bundle_pointer(first).stat().st_mtime_ns
    layout.bundle_spec(second).write_text("damaged")
    with pytest.raises(FormatError):
        measure_jobs(session, batch)
    assert layout.made("bundles") == sorted([first, third, fourth]), "the others were carried out"
    assert layout.bundle_pointer(first).stat().st_mtime_ns == before, "what is measured is left as it is"
    assert layout.made("jobs") == []
    layout.bundle_spec(second).unlink()
    plan_in_force(layout, session.id, 0)
    measure_jobs(session, batch)
    assert layout.made("jobs") == [batch] and second in layout.made("bundles")
    assert [layout.job_pointer(name) for name in (first, batch)] == [
        layout.bundle_pointer(first), layout.batch_pointer(batch)
    ]  # fmt: skip
    layout.batch_spec(batch).write_text('["a list of bundles"]')
    with pytest.raises(FormatError, match=layout.batch_spec(batch).name):
        measure_jobs(session, batch)
