"""Whether a campaign's store is as it was sealed, and the ledger what its records add up to.

The store is the truth: plans, models and reports follow from it, and `buran run` makes them again.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from buran.campaign.layout import Layout
from buran.campaign.plan import Run
from buran.campaign.records import RECORD, BuildRecord, Record, RunKey, RunRecord, read_record
from buran.errors import FormatError
from buran.measurement.store import ledger, store


@dataclass(frozen=True)
class Deviation:
    """Something that is not what it should be; its path is relative to the results folder."""

    path: Path
    what: str
    is_of_ledger: bool = False

    def __str__(self) -> str:
        return f"{self.path}: {self.what}"


def folders_of(layout: Layout) -> list[Path]:
    """Return the folders of all builds, runs and attempts."""
    return [*store.run_folders(layout.store), *store.build_folders(layout.store)]


def differences(layout: Layout) -> list[Deviation]:
    """Return what of the store is not as it was measured, and where the ledger is wrong."""
    found: list[Deviation] = []
    known: dict[str, Path] = {}
    for folder in folders_of(layout):
        found += _of_folder(layout, folder)
        relative = folder.relative_to(layout.root)
        earlier = known.setdefault(ledger.key_in(layout.store, folder), relative)
        if earlier != relative:
            found.append(Deviation(earlier, f"it was made twice, and what counts is {relative}"))
    found += _without_record(layout)
    return [*found, *_of_ledger(layout)]


def _of_ledger(layout: Layout) -> list[Deviation]:
    """Return how the ledger differs from the records that it adds up."""
    path = ledger.ledger_path(layout.store)
    if not layout.store.is_dir():
        return []
    booked: dict[str, ledger.Entry] = {}
    problems: list[str] = []
    lines = path.read_text(errors="replace", encoding="utf-8").splitlines() if path.is_file() else []
    for number, line in enumerate(filter(None, lines), 1):
        try:
            entry = ledger.Entry(**json.loads(line))
            booked[entry.run] = entry
        except (ValueError, TypeError, RecursionError):
            problems.append(f"line {number} is no entry")
    due: dict[str, ledger.Entry] = {}
    for folder in folders_of(layout):
        try:
            found = ledger.entry_of(layout.store, folder)
        except FormatError:  # it is damaged
            booked.pop(ledger.key_in(layout.store, folder), None)
            continue
        if found is not None:
            due[found.run] = found
    for run in sorted({*booked, *due}):
        if booked.get(run) != due.get(run):
            how = "is not in it" if run not in booked else "differs" if run in due else "is gone from the store"
            problems.append(f"{run} {how}")
    return [Deviation(path.relative_to(layout.root), problem, is_of_ledger=True) for problem in problems]


def repair(layout: Layout) -> None:
    """Write the ledger again and forget what follows from the store, only while nobody drives the campaign."""
    ledger.rebuild(layout.store)
    for pointer in (*layout.made_pointers("builds"), *layout.made_pointers("bundles")):
        pointer.unlink(missing_ok=True)
    for campaign in (layout.root / "iterations").glob("*"):
        for folder in (campaign, layout.results(campaign.name)):
            shutil.rmtree(folder, ignore_errors=True)


def _of_folder(layout: Layout, folder: Path) -> Iterator[Deviation]:
    """Yield what is wrong with a sealed folder and with its name."""
    path, key = folder.relative_to(layout.root), RunKey.parse(folder.relative_to(layout.store))
    where = [layout.store / relative / key.inside for relative in key.folders]
    if folder not in where:
        yield Deviation(path, f"nobody looks for it there: move it to {where[-1].relative_to(layout.root)}")
    try:
        if what := _misplaced(key, read_record(folder)):
            yield Deviation(path, what)
    except FormatError as error:
        yield Deviation(path / RECORD, error.line)
    yield from (Deviation(path / name, what) for name, what in store.damage(folder))


def _misplaced(key: RunKey, record: Record) -> str | None:
    """Say why a record does not belong to its folder."""
    if isinstance(record, BuildRecord) and key.is_build:
        of_record, of_folder = record.spec.hash, key.build
    elif isinstance(record, RunRecord) and not key.is_build:
        name = Run(record.build, record.mode, record.repetition).name
        of_record, of_folder = f"{record.build}/{record.point.key}/{name}", "/".join(key.question)
    elif type(record) is Record:  # an attempt whose process vanished before it wrote more
        return None
    else:
        return "its record is not of what its folder is for"
    return None if of_record == of_folder else f"its record is of {of_record}, its folder is for {of_folder}"


def _without_record(layout: Layout) -> Iterator[Deviation]:
    """Yield the folders of runs and builds that have no record."""
    of_point = [f"*/{shard}*~*/{name}" for shard in ("", "??/") for name in ("rep-*", "warmup*", "failed/*")]
    for pattern in (*of_point, "*/build", "*/failed/*"):
        for folder in sorted(layout.store.glob(pattern)):
            if folder.is_dir() and not (folder / RECORD).is_file():
                yield Deviation(folder.relative_to(layout.root), "it has no record")
