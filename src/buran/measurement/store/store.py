"""The write-once store: a finished run is never lost, never overwritten and never made twice.

A run's folder appears complete, by one rename, or not at all. It holds ``run.json``, the logs, the
profile if there is one, and ``SHA256SUMS`` over all of them. Failures are kept next to it with their logs::

    store/<build>/<shard>/<point>~<configuration>/rep-00/
                                                  rep-00-g1/          second generation, after `buran run --remeasure`
                                                  failed/rep-00.a0/   first failed attempt

The shard is two hexadecimal digits, so that no folder has hundreds of thousands of entries. Earlier versions left it
out. What lies there stays there and counts, and what else is measured at the same point is put next to it.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from buran.campaign.plan import SCHEMA
from buran.campaign.records import BUILD, FAILED, RECORD, Record, RunKey, RunRecord, Status, read_record
from buran.errors import FormatError, RunError
from buran.files import file_sha256, read_document, sync, sync_folder, write_json
from buran.measurement.store.claims import claimed

SUMS = "SHA256SUMS"
OUTPUT = "output"
"""Folder of the files that a run wrote and that are kept, key `program.keep_output`."""
_SHARD = re.compile("[0-9a-f]{2}")
_GENERATION = "generation.json"
_RETRY = "RETRY"


def finished(store: Path, build: str | None = None) -> Iterator[Path]:
    """Yield the folders of the finished runs in a store, or of one build; warm-ups are left out."""
    folders = run_folders(store, build)
    return (folder for folder in folders if folder.name.startswith("rep-") and folder.parent.name != FAILED)


def run_folders(store: Path, build: str | None = None) -> Iterator[Path]:
    """Yield the folders of all finished runs and all attempts in a store, or of one build.

    Of a run that lies in two places, the last one counts.
    """
    for of_build in _folders(store) if build is None else [store / build]:
        flat = list[str]()
        for folder in _folders(of_build):
            name = folder.rpartition("/")[2]
            if "~" in name:
                flat.append(folder)
            elif _SHARD.fullmatch(name):
                for point in _folders(folder):
                    yield from _with_record(point)
        for point in flat:
            yield from _with_record(point)


def _with_record(point: str) -> Iterator[Path]:
    for run in _folders(point):
        name = run.rpartition("/")[2]
        if name == FAILED:
            yield from _with_record(run)
        elif name.startswith(("rep-", "warmup")) and Path(run, RECORD).is_file():
            yield Path(run)


def _folders(folder: Path | str) -> list[str]:
    """Return the folders in a folder; a walk through large stores is many times faster than patterns."""
    try:
        with os.scandir(folder) as entries:
            return [entry.path for entry in entries if entry.is_dir()]
    except FileNotFoundError:
        return []


def build_folders(store: Path) -> Iterator[Path]:
    """Yield the folders of all builds and all attempts at them."""
    for name in (BUILD, f"{FAILED}/{BUILD}.a*"):
        yield from (record.parent for record in store.glob(f"*/{name}/{RECORD}"))


def folder_of(store: Path, key: RunKey) -> Path:
    """Return where a run, a build or an attempt lies, or is to lie: next to other runs of its point, if there are."""
    points = [store / folder for folder in key.folders]
    made = (point for point in points if Path(point, key.inside, RECORD).is_file())
    there_already = (point for point in points if point.is_dir())
    return Path(next(made, None) or next(there_already, points[-1]), key.inside)


@dataclass(frozen=True)
class Slot:
    """The place of one run or build."""

    store: Path
    key: RunKey

    @classmethod
    def of_build(cls, store: Path, build: str) -> Slot:
        """Return the place of a build."""
        return cls(store, RunKey(build, "", "", BUILD))

    @property
    def point(self) -> Path:
        """Folder to which runs of its build at its point are added."""
        return next((folder for folder in self._folders if folder.is_dir()), self._folders[-1])

    @property
    def _folders(self) -> list[Path]:
        return [self.store / folder for folder in self.key.folders]

    @property
    def folder(self) -> Path:
        """Where the finished run lies."""
        return folder_of(self.store, self.key)

    @property
    def claim(self) -> Path:
        """Claim of whoever measures it now."""
        return self.point / f"{self.key.slot}.claim"

    def attempts(self) -> list[Path]:
        """Return the failed and interrupted attempts, oldest first."""
        paths = (path for folder in self._folders for path in (folder / FAILED).glob(f"{self.key.slot}.a*"))
        return sorted(paths, key=lambda path: RunKey.parse(path.relative_to(self.store)).attempt or 0)

    def leftovers(self) -> list[Path]:
        """Return what processes that vanished had begun, or others have in hand, oldest first."""
        return sorted(path for folder in self._folders for path in folder.glob(f".tmp-{self.key.slot}-*"))

    def failures(self) -> list[Path]:
        """Return the attempts that failed, oldest first."""
        return [path for path in self.attempts() if read_record(path).status is Status.FAILED]

    def is_measured(self) -> bool:
        """Tell whether the run is finished."""
        return (self.folder / RECORD).is_file()

    def verdict(self) -> Path | None:
        """Return the folder that settles the run: the finished one, else a failure that counts."""
        if self.is_measured():
            return self.folder
        for attempt in reversed(self.attempts()):
            if counts(attempt):
                return attempt
        return None


def counts(attempt: Path) -> bool:
    """Tell whether an attempt failed and is to stay so: nobody has requested another try."""
    return not (attempt / _RETRY).exists() and read_record(attempt).status is Status.FAILED


def current_generation(store: Path, key: RunKey) -> int:
    """Return 0 unless `new_generation` was called for the point of a run."""
    paths = (store / folder / _GENERATION for folder in key.folders)
    return max((_generation_in(path) for path in paths if path.is_file()), default=0)


def _generation_in(path: Path) -> int:
    hint = "write the highest number behind -g of the neighbouring folders into it"
    return read_document(path, SCHEMA, lambda data: int(data["generation"]), what="number of a generation", hint=hint)


def new_generation(store: Path, key: RunKey) -> int:
    """Ask for all runs at the point of a run to be made again, next to the old ones; return the new generation."""
    generation = current_generation(store, key) + 1
    write_json(Slot(store, key).point / _GENERATION, {"generation": generation})
    return generation


def allow_retry(slot: Slot) -> bool:
    """Let a failed run be tried once more; return whether there was a failure to forgive."""
    verdict = slot.verdict()
    if verdict is None or verdict == slot.folder:
        return False
    (verdict / _RETRY).touch()
    return True


@contextmanager
def reserve(slot: Slot, *, wait: bool = True) -> Iterator[Path | None]:
    """Hold a run's place; yields a temporary folder to fill, or None if the run is settled by now.

    What a predecessor that vanished left behind is kept as an interrupted attempt.

    Parameters
    ----------
    wait
        Wait while somebody else measures it; without it, that is an error.
    """
    if slot.verdict():
        yield None
        return
    with claimed(slot.claim, wait=wait):
        if slot.verdict():
            yield None
            return
        for leftover in slot.leftovers():
            _last_words(leftover).write(leftover)
            keep_failure(slot, leftover)
        temporary = slot.point / f".tmp-{slot.key.slot}-{os.getpid()}-{os.urandom(4).hex()}"
        temporary.mkdir(parents=True)
        try:
            yield temporary
        finally:
            if temporary.exists() and not any(temporary.iterdir()):
                temporary.rmdir()


def _last_words(leftover: Path) -> Record:
    """Complete the record of an attempt whose process vanished, with what it has cost as far as is known."""
    record = Record(status=Status.INTERRUPTED)
    with contextlib.suppress(FormatError):
        record = read_record(leftover)
    if isinstance(record, RunRecord):
        # All by the file system's clock: this host's and that of the vanished process may differ.
        started = (leftover / RECORD).stat().st_mtime
        wall_s = max(path.stat().st_mtime for path in leftover.iterdir()) - started
        wall_s = 0.0 if record.clock in ("virtual", "elsewhere") else wall_s
        record = replace(
            record, wall_s=wall_s, cost_core_hours=wall_s * (record.charged_cores or record.cores) / 3600.0
        )
    return replace(record, status=Status.INTERRUPTED, reason="the measuring process vanished")


def commit(slot: Slot, temporary: Path) -> Path:
    """Seal a filled folder and move it to its final place.

    Raises
    ------
    RunError
        The place is taken: nothing is overwritten.
    """
    _seal(temporary)
    if slot.folder.exists():
        raise RunError("a finished run is in the way and stays as it is", where=slot.folder)
    target = temporary.parent / slot.key.slot
    temporary.rename(target)
    sync_folder(target.parent)
    return target


def keep_failure(slot: Slot, temporary: Path) -> Path:
    """Move a failed or interrupted attempt, with its record and logs, next to the finished runs."""
    _seal(temporary)
    number = len(slot.attempts())
    while True:
        target = temporary.parent / replace(slot.key, attempt=number).inside
        target.parent.mkdir(exist_ok=True)
        if not target.exists():
            with contextlib.suppress(FileExistsError):
                temporary.rename(target)
                sync_folder(target.parent)
                return target
        number += 1


def _sealed(folder: Path) -> list[Path]:
    """Return the files of a folder that have checksums, sorted."""
    paths = (*folder.iterdir(), *(folder / OUTPUT).rglob("*"))
    return sorted(path for path in paths if path.is_file() and path.name not in (SUMS, _RETRY))


def _seal(folder: Path) -> None:
    files = _sealed(folder)
    sums = "".join(f"{file_sha256(path)}  {path.relative_to(folder).as_posix()}\n" for path in files)
    (folder / SUMS).write_text(sums, encoding="utf-8")
    for path in (*files, folder / SUMS):
        with path.open("rb") as file:
            sync(file.fileno())
        path.chmod(0o444)
    sync_folder(folder)


def damage(folder: Path) -> Iterator[tuple[str, str]]:
    """Compare a sealed folder with its checksums; yield names of files, and what is wrong with them, as text."""
    path = folder / SUMS
    lines = path.read_text(errors="replace", encoding="utf-8").splitlines() if path.is_file() else None
    if lines is None:
        yield SUMS, "missing"
        return
    sums = {name: expected for expected, _, name in (line.partition("  ") for line in lines)}
    found = {path.relative_to(folder).as_posix() for path in _sealed(folder)}
    for name in sorted(sums.keys() | found):
        if name not in found:
            yield name, "missing"
        elif name not in sums:
            yield name, f"{SUMS} has no checksum of it"
        elif file_sha256(folder / name) != sums[name]:
            yield name, "content differs from its checksum"
