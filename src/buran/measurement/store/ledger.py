"""What the campaign has cost: one line per run, written when the run ends, rebuilt from the store on demand."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Collection, Iterable
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path

from buran.campaign.plan import Question
from buran.campaign.records import BUILD, BuildRecord, RunKey, RunRecord, key_of, question_of, read_record
from buran.errors import FormatError
from buran.files import decode, write_text
from buran.measurement.store.store import build_folders, run_folders

_SAMPLE = 200  # bytes before the position where reading stopped, to tell the same file from a new one


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
        Cost of the program alone; None where that is the cost.
    """

    run: str
    target: str
    mode: str
    status: str
    cost_core_hours: float
    program_core_hours: float | None = None

    @cached_property
    def key(self) -> RunKey:
        """Place in the store."""
        return RunKey.parse(self.run)

    @cached_property
    def question(self) -> Question:
        """What it answers: build, point and name."""
        return question_of(self.run)

    @property
    def is_of_build(self) -> bool:
        """Whether it is what a build has cost."""
        return self.question[2] == BUILD


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
    """Reads the ledger on from where it stopped last, and from the start again when it was rebuilt: another file."""

    def __init__(self, store: Path) -> None:
        self._path = ledger_path(store)
        self._file, self._offset, self._last = 0, 0, b""
        self._entries: dict[str, Entry] = {}

    def read(self) -> Collection[Entry]:
        """Return all entries, in the order of booking; a run that was booked twice counts once.

        A line that is being written is left for the next time.

        Raises
        ------
        FormatError
            The ledger is damaged.
        """
        if not self._path.is_file():
            return ()
        offset, known = self._offset, self._entries
        with self._path.open("rb") as file:
            number = os.fstat(file.fileno()).st_ino
            file.seek(offset - len(self._last))
            if number != self._file or file.read(len(self._last)) != self._last:
                offset, known = file.seek(0), {}
            new = file.read()
        whole = new[: new.rfind(b"\n") + 1]
        # One document for the parser: many times faster than line by line.
        lines = b",".join(line for line in whole.split(b"\n") if line.endswith(b"}"))
        try:
            entries = decode(list[Entry], json.loads(b"[" + lines + b"]"))
        except (ValueError, RecursionError) as error:
            hint = "`buran verify --repair` writes it again from the store"
            raise FormatError("the ledger is damaged", where=self._path, why=str(error), hint=hint) from error
        self._file, self._offset = number, offset + len(whole)
        self._last = whole[-_SAMPLE:] or (self._last if offset else b"")
        self._entries = known | {entry.run: entry for entry in entries}
        return self._entries.values()


_readers: dict[Path, LedgerReader] = {}


def read(store: Path) -> list[Entry]:
    """Return all lines; a run that was booked twice counts once. What this process has read is not read again."""
    return list(_readers.setdefault(store, LedgerReader(store)).read())


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
    program = record.program_core_hours if isinstance(record, RunRecord) else None
    return Entry(key_in(store, folder), what.target, what.mode, record.status, record.cost_core_hours, program)


def book(store: Path, folder: Path) -> None:
    """Add what the run or the build in a folder has cost, if it was charged."""
    if entry := entry_of(store, folder):
        append(store, entry)


def key_in(store: Path, folder: Path) -> str:
    """Return what a build, a run or an attempt in a store is called; see `RunKey`."""
    return key_of(folder.as_posix()[len(str(store)) + 1 :])


def _folders(store: Path) -> dict[str, Path]:
    """Return the folders of all builds, runs and attempts by what they are called."""
    return {key_in(store, folder): folder for folder in (*build_folders(store), *run_folders(store))}


def complete(store: Path) -> None:
    """Book what is in the store and not in the ledger; a ledger with anything else in it is written again.

    Records are written once: what is booked is not read again.
    """
    if not store.is_dir():
        return
    try:
        booked = {entry.run for entry in read(store)}
    except FormatError:
        return rebuild(store)
    folders = _folders(store)
    if booked - folders.keys():
        return rebuild(store)
    for run in sorted(folders.keys() - booked):
        book(store, folders[run])
    return None


def rebuild(store: Path) -> None:
    """Write the ledger again from the records in the store, which are the truth."""
    if not store.is_dir():
        return
    entries = (entry_of(store, folder) for _, folder in sorted(_folders(store).items()))
    write_text(ledger_path(store), "".join(json.dumps(asdict(entry)) + "\n" for entry in entries if entry))
