"""What the campaign has cost: one line per run, written when the run ends, rebuilt from the store on demand."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Collection, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from buran.campaign.records import BuildRecord, RunKey, RunRecord, read_record
from buran.errors import FormatError
from buran.files import write_text
from buran.measure.store.store import build_folders, run_folders

_SAMPLE = 200  # bytes before the place where reading stopped, to tell the same file from a new one


@dataclass(frozen=True)
class Entry:
    """Cost of one run or build, finished or not.

    Attributes
    ----------
    run
        Its `RunKey`, written out.
    target
        Identity of the target; a changed target starts a new account.
    program_core_hours
        Of the program alone; None where that is the cost.
    """

    run: str
    target: str
    mode: str
    status: str
    cost_core_hours: float
    program_core_hours: float | None = None

    @property
    def key(self) -> RunKey:
        """Place in the store."""
        return RunKey.parse(self.run)


def ledger_path(store: Path) -> Path:
    """Return the ledger's file."""
    return store / "ledger.jsonl"


def append(store: Path, entry: Entry) -> None:
    """Add a line; concurrent writers do not mix."""
    # A line begins on its own, whatever a crash has left of the one before.
    line = "\n" + json.dumps(asdict(entry)) + "\n"
    handle = os.open(ledger_path(store), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        os.write(handle, line.encode())
    finally:
        os.close(handle)


class LedgerReader:
    """Reads the ledger on from where it stopped last, and from the start again when it was rebuilt."""

    def __init__(self, store: Path) -> None:
        self._path = ledger_path(store)
        self._file = 0
        self._offset = 0
        self._last = b""
        self._entries: dict[str, Entry] = {}

    def read(self) -> Collection[Entry]:
        """Return all entries, in the order of booking; a run that was booked twice counts once."""
        if not self._path.is_file():
            return ()
        with self._path.open("rb") as file:
            number = os.fstat(file.fileno()).st_ino
            file.seek(self._offset - len(self._last))
            if number != self._file or file.read(len(self._last)) != self._last:
                self._file, self._offset, self._entries = number, 0, {}
                file.seek(0)
            new = file.read()
        whole = new[: new.rfind(b"\n") + 1]  # a line that is being written is left for the next time
        if whole:
            self._offset += len(whole)
            self._last = whole[-_SAMPLE:]
            # One document for the parser: many times faster than line by line.
            lines = b",".join(line for line in whole.split(b"\n") if line.endswith(b"}"))
            try:
                for fields in json.loads(b"[" + lines + b"]"):
                    self._entries[fields["run"]] = Entry(**fields)
            except (ValueError, TypeError, KeyError, RecursionError) as error:
                hint = "`buran verify --repair` writes it anew from the store"
                raise FormatError("the ledger is damaged", where=self._path, why=str(error), hint=hint) from error
        return self._entries.values()


def read(store: Path) -> list[Entry]:
    """Read all lines; a run that was booked twice counts once."""
    return list(LedgerReader(store).read())


def spent_core_hours(entries: Iterable[Entry], target: str) -> float:
    """Add up what a target has cost so far, the same in whatever order it was booked."""
    return math.fsum(entry.cost_core_hours for entry in entries if entry.target == target)


def program_core_hours(entries: Iterable[Entry], target: str) -> float:
    """Add up what a target's programs had of what it has cost."""
    own = (entry for entry in entries if entry.target == target)
    return math.fsum(e.cost_core_hours if e.program_core_hours is None else e.program_core_hours for e in own)


def entry_of(store: Path, folder: Path) -> Entry | None:
    """Return the ledger line of a run's or a build's folder; None if it was not charged."""
    record = read_record(folder)
    if record.cost_core_hours is None or not isinstance(record, BuildRecord | RunRecord):
        return None
    what = record.spec if isinstance(record, BuildRecord) else record
    key = RunKey.parse(folder.relative_to(store))
    program = record.program_core_hours if isinstance(record, RunRecord) else None
    return Entry(str(key), what.target, what.mode, record.status, record.cost_core_hours, program)


def rebuild(store: Path) -> None:
    """Write the ledger anew from the records in the store, which are the truth."""
    if not store.is_dir():
        return
    folders = sorted([*build_folders(store), *run_folders(store)])
    entries = (entry_of(store, folder) for folder in folders)
    write_text(ledger_path(store), "".join(json.dumps(asdict(entry)) + "\n" for entry in entries if entry))
