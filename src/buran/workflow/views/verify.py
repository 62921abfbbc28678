"""Whether a results folder is what the store says: every difference, and what can be made again from the store.

The store is the truth. Of each folder in it: are the files those that were sealed, and does its record belong to its
folder? From the records follow the ledger and what became of each build and bundle; from these, which plans there are.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from buran.campaign.layout import Layout
from buran.campaign.plan import BuildSpec, Bundle, Plan, Run
from buran.campaign.records import (
    RECORD,
    BuildOutcome,
    BuildRecord,
    BundleOutcome,
    Record,
    RunKey,
    RunRecord,
    read_record,
)
from buran.errors import FormatError
from buran.measurement.store import ledger, store
from buran.modeling.pmnf.model_set import read_models
from buran.profiles.experiment import TABLE
from buran.workflow.findings import Findings

_AGAIN = "`buran run` makes it again from the store"


@dataclass(frozen=True)
class Deviation:
    """Something that is not what it should be.

    Attributes
    ----------
    path
        Relative to the results folder.
    repair
        Rebuilds it, or removes what `buran run` rebuilds, and says so; None for what only the store had.
    """

    path: Path
    what: str
    repair: partial[str] | None = None

    def __str__(self) -> str:
        return f"{self.path}: {self.what}"


def folders_of(layout: Layout) -> list[Path]:
    """Return the folders of all builds, runs and attempts."""
    return [*store.run_folders(layout.store), *store.build_folders(layout.store)]


def differences(layout: Layout) -> list[Deviation]:
    """Compare everything with what the store says it must be."""
    found: list[Deviation] = []
    known: dict[str, Path] = {}
    for folder in folders_of(layout):
        found += _of_folder(layout, folder)
        relative = folder.relative_to(layout.root)
        earlier = known.setdefault(ledger.key_in(layout.store, folder), relative)
        if earlier != relative:
            found.append(Deviation(earlier, f"it was made twice, and what counts is {relative}"))
    found += _without_record(layout)
    found += _of_ledger(layout)
    for pointer in layout.made_pointers("builds"):
        found += _of_pointer(layout, pointer, _build_in_words)
    for pointer in layout.made_pointers("bundles"):
        found += _of_pointer(layout, pointer, _bundle_in_words)
    for campaign in sorted((layout.root / "iterations").glob("*")):
        found += _of_iterations(layout, campaign)
    return found


def repair(found: Iterable[Deviation]) -> list[str]:
    """Repair what can be, only while nobody drives the campaign; return what was done, as text."""
    ways: dict[tuple[object, ...], tuple[Path, Callable[[], str]]] = {}
    for difference in found:
        if difference.repair is not None:
            ways.setdefault((difference.repair.func, *difference.repair.args), (difference.path, difference.repair))
    return [f"{path}: {way()}" for path, way in ways.values()]


def _of_folder(layout: Layout, folder: Path) -> Iterator[Deviation]:
    """Yield what is wrong with a sealed folder and with its name."""
    path = folder.relative_to(layout.root)
    try:
        record = read_record(folder)
    except FormatError as error:
        yield Deviation(path / RECORD, error.line)
        record = None
    yield from (Deviation(path / name, what) for name, what in store.damage(folder))
    key = RunKey.parse(folder.relative_to(layout.store))
    if record is not None and (what := _misplaced(key, record)):
        yield Deviation(path, what)
    where = [layout.store / relative / key.inside for relative in key.folders]
    if folder not in where:
        yield Deviation(path, f"nobody looks for it there: move it to {where[-1].relative_to(layout.root)}")


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


def _of_ledger(layout: Layout) -> Iterator[Deviation]:
    """Yield how the ledger differs from the records that it adds up."""
    path = ledger.ledger_path(layout.store)
    if not layout.store.is_dir():
        return
    difference = partial(Deviation, path.relative_to(layout.root), repair=partial(_rebuild_ledger, layout))
    booked: dict[str, ledger.Entry] = {}
    lines = path.read_text(errors="replace", encoding="utf-8").splitlines() if path.is_file() else []
    for number, line in enumerate(lines, 1):
        try:
            entry = ledger.Entry(**json.loads(line)) if line else None
        except (ValueError, TypeError, RecursionError):
            yield difference(f"line {number} is no entry")
            continue
        if entry is not None:
            booked[entry.run] = entry
    due: dict[str, ledger.Entry] = {}
    for folder in folders_of(layout):
        try:
            found = ledger.entry_of(layout.store, folder)
        except FormatError:  # said of the folder
            booked.pop(ledger.key_in(layout.store, folder), None)
            continue
        if found is not None:
            due[found.run] = found
    for run in sorted(booked.keys() | due.keys()):
        if booked.get(run) == due.get(run):
            continue
        what = (
            "is not in it" if run not in booked else "is in it, but not in the store" if run not in due else "differs"
        )
        yield difference(f"{run} {what}")


def _rebuild_ledger(layout: Layout) -> str:
    ledger.rebuild(layout.store)
    return "written again from the records in the store"


def _of_pointer(
    layout: Layout, pointer: Path, in_words: Callable[[Layout, Path], Iterable[str]]
) -> Iterator[Deviation]:
    try:
        problems = list(in_words(layout, pointer))
    except FormatError as error:
        problems = [error.line]
    for what in problems:
        yield Deviation(pointer.relative_to(layout.root), what, partial(_remove, pointer))


def _remove(path: Path) -> str:
    path.unlink(missing_ok=True)
    return f"removed: {_AGAIN}"


def _build_in_words(layout: Layout, pointer: Path) -> Iterator[str]:
    """Yield how the pointer to a build differs from its record and its specification."""
    outcome = BuildOutcome.read(pointer)
    if BuildSpec.read(layout.build_spec(pointer.stem)).hash != pointer.stem:
        yield "its specification is another build's"
    yield from _at(layout, outcome.folder, outcome.build, pointer.stem, "", outcome)


def _bundle_in_words(layout: Layout, pointer: Path) -> Iterator[str]:
    """Yield how the pointer to a bundle differs from its runs' records and its specification."""
    outcome, bundle = BundleOutcome.read(pointer), Bundle.read(layout.bundle_spec(pointer.stem))
    planned = [(run.build, run.repetition) for run in bundle.runs]
    has = [(run.build, run.repetition) for run in outcome.runs]
    if bundle.id != pointer.stem or outcome.id != pointer.stem:
        yield "it, or its specification, is another bundle's"
    elif sorted(planned) != sorted(has):
        yield f"it has {len(has)} runs, and its specification asks for {len(planned)}, or for others"
    for run in outcome.runs:
        if run.folder is not None:
            name = "/".join((outcome.point.key, Run(run.build, run.mode, run.repetition).name))
            yield from _at(layout, run.folder, run.build, run.build, name, run)


def _at(layout: Layout, folder: str, build: str, wanted: str, name: str, outcome: object) -> Iterator[str]:
    """Yield what is wrong with a folder that a pointer names."""
    if not (layout.root / folder / RECORD).is_file():
        yield f"points to {folder}, which is gone"
        return
    key, record = RunKey.parse((layout.root / folder).relative_to(layout.store)), read_record(layout.root / folder)
    relative = "/".join(key.question[1:]) if not key.is_build else ""
    if build != wanted or key.build != wanted or relative != name:
        yield f"points to {folder}, which is of something else"
    if record.status != getattr(outcome, "status", None):
        yield f"says {getattr(outcome, 'status', None)}, and the record in {folder} says {record.status}"


def _of_iterations(layout: Layout, campaign: Path) -> Iterator[Deviation]:
    """Yield what is wrong with the plans of a campaign and what follows from them."""
    numbers = sorted(int(path.name) for path in campaign.iterdir() if path.name.isdecimal())
    last = numbers[-1] if numbers else -1
    for number in range(last + 1):
        readers: dict[str, Callable[[Path], object]] = {"plan.json": Plan.read}
        if number < last:
            readers |= {"models.json": read_models, "findings.json": Findings.read, f"{TABLE}.gz": _has_text}
        for name, read in readers.items():
            path = campaign / str(number) / name
            try:
                read(path)
            except (FormatError, OSError) as error:
                what = error.line if isinstance(error, FormatError) else str(error.strerror)
                repair = partial(_forget, layout, campaign.name)
                yield Deviation(path.relative_to(layout.root), what, repair)


def _has_text(path: Path) -> None:
    if not path.stat().st_size:
        raise FormatError("it is empty", where=path)


def _forget(layout: Layout, campaign: str) -> str:
    for folder in (layout.root / "iterations" / campaign, layout.results(campaign)):
        shutil.rmtree(folder, ignore_errors=True)
    return f"plans, models and reports of {campaign} removed: `buran run` makes them again from the store"
