"""The ledger: what runs have cost, and that the store can always say it again."""

from __future__ import annotations

import json
import multiprocessing
from dataclasses import asdict
from pathlib import Path

import pytest

from buran.campaign.plan import Mode
from buran.campaign.point import Point
from buran.campaign.records import RunRecord, Status
from buran.files import write_json
from buran.measurement.store import ledger
from buran.measurement.store.ledger import Entry


def run_record(store: Path, folder: str, cost: float, status: str = "measured", target: str = "t") -> None:
    path = store / folder
    path.mkdir(parents=True)
    RunRecord(
        status=Status(status), cost_core_hours=cost, build="b", target=target, mode=Mode.TIME,
        point=Point.of({"n": 1}), repetition=0, clock="wall", cores=1,
    ).write(path)  # fmt: skip


def test_it_is_rebuilt_from_the_records(tmp_path: Path) -> None:
    run_record(tmp_path, "b/n=1~c/rep-00", 1.0)
    run_record(tmp_path, "b/n=1~c/rep-00-g1", 2.0)
    run_record(tmp_path, "b/n=1~c/warmup", 4.0)
    run_record(tmp_path, "b/n=1~c/failed/rep-01.a0", 8.0, "failed")
    run_record(tmp_path, "b/n=2~c/rep-00", 16.0, target="other")
    write_json(tmp_path / "b" / "build" / "run.json", {"status": "measured"})
    ledger.rebuild(tmp_path)
    entries = ledger.read(tmp_path)
    assert len(entries) == 5
    assert ledger.spent_core_hours(entries, "t") == 15.0
    assert ledger.spent_core_hours(entries, "other") == 16.0


def test_a_run_that_is_booked_twice_counts_once(tmp_path: Path) -> None:
    for _ in range(2):
        ledger.append(tmp_path, Entry("b/n=1~c/rep-00", "t", "time", "measured", 1.5))
    assert ledger.spent_core_hours(ledger.read(tmp_path), "t") == 1.5


def test_a_line_cut_short_by_a_crash_is_left_out(tmp_path: Path) -> None:
    ledger.append(tmp_path, Entry("a", "t", "time", "measured", 1.0))
    with ledger.ledger_path(tmp_path).open("a") as file:
        file.write('{"run": "b", "target": "t", "mo')
    assert [entry.run for entry in ledger.read(tmp_path)] == ["a"]
    ledger.append(tmp_path, Entry("c", "t", "time", "measured", 1.0))
    assert [entry.run for entry in ledger.read(tmp_path)] == ["a", "c"]


def test_a_reader_reads_on_and_starts_again_when_the_ledger_was_rebuilt(tmp_path: Path) -> None:
    reader = ledger.LedgerReader(tmp_path)
    assert not reader.read()
    run_record(tmp_path, "b/n=1~c/rep-00", 1.0)
    ledger.append(tmp_path, Entry("b/n=1~c/rep-00", "t", "time", "measured", 1.0))
    ledger.append(tmp_path, Entry("gone", "t", "time", "measured", 2.0))
    assert ledger.spent_core_hours(reader.read(), "t") == 3.0
    with ledger.ledger_path(tmp_path).open("a") as file:
        file.write('{"run": "half", "tar')
    ledger.append(tmp_path, Entry("more", "t", "time", "measured", 4.0))
    assert ledger.spent_core_hours(reader.read(), "t") == 7.0
    ledger.rebuild(tmp_path)
    assert [entry.run for entry in reader.read()] == ["b/n=1~c/rep-00"]


def test_a_reader_leaves_a_line_that_is_being_written_for_the_next_time(tmp_path: Path) -> None:
    reader = ledger.LedgerReader(tmp_path)
    line = json.dumps(asdict(Entry("a", "t", "time", "measured", 1.0)))
    path = ledger.ledger_path(tmp_path)
    path.write_text(f"\n{line}")
    assert not reader.read()
    path.write_text(f"\n{line}\n")
    assert [entry.run for entry in reader.read()] == ["a"]


def book(store: Path, writer: int) -> None:
    for number in range(200):
        ledger.append(store, Entry(f"{writer}/{number}", "t", "time", "measured", 0.5))


@pytest.mark.slow
def test_writers_at_the_same_time_do_not_mix_lines(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=book, args=(tmp_path, writer)) for writer in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert ledger.spent_core_hours(ledger.read(tmp_path), "t") == 400.0


def test_it_is_completed_with_what_nobody_booked(tmp_path: Path) -> None:
    run_record(tmp_path, "b/n=1~c/rep-00", 1.0)
    ledger.complete(tmp_path)
    before = ledger.ledger_path(tmp_path).read_text()
    ledger.complete(tmp_path)
    assert ledger.ledger_path(tmp_path).read_text() == before
    run_record(tmp_path, "b/n=1~c/failed/rep-01.a0", 2.0, "interrupted")
    ledger.complete(tmp_path)
    assert ledger.spent_core_hours(ledger.read(tmp_path), "t") == 3.0
    ledger.append(tmp_path, Entry("b/n=9~c/rep-00", "t", "time", "measured", 64.0))  # of no run in the store
    ledger.complete(tmp_path)
    assert ledger.spent_core_hours(ledger.read(tmp_path), "t") == 3.0
    ledger.ledger_path(tmp_path).write_text('{"run": 1, "no": "entry"}\n')
    ledger.complete(tmp_path)
    assert ledger.spent_core_hours(ledger.read(tmp_path), "t") == 3.0
