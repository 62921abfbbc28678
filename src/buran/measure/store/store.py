"""The write-once store: a finished run is never lost, never overwritten and never made twice.

A run's folder appears complete, by one rename, or not at all. It holds ``run.json``, the logs, the
profile if there is one, and ``SHA256SUMS`` over all of them. Failures are kept beside it with their logs::

    store/<build>/<point>~<configuration>/rep-00/
                                          rep-00-g1/          second generation, after `buran remeasure`
                                          failed/rep-00.a0/   first failed attempt
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from buran.errors import FormatError, RunError
from buran.files import file_sha256, read_json, sync, sync_folder, write_json
from buran.measure.store.claims import claimed

RECORD = "run.json"
SUMS = "SHA256SUMS"
_GENERATION = "generation.json"
_RETRY = "RETRY"


class Status(StrEnum):
    """What became of a run."""

    MEASURED = "measured"
    FAILED = "failed"
    INTERRUPTED = "interrupted"  # no verdict on the program: measured again without being asked
    OVER_BUDGET = "over budget"  # not started


def finished(store: Path, build: str = "*", place: str = "*", name: str = "rep-*") -> Iterator[Path]:
    """Yield the folders of finished runs, of all builds and on all machines by default.

    Parameters
    ----------
    place
        Configuration of the machine, as it stands behind the point in a folder's name.
    name
        Pattern of the runs' names: warm-ups are called otherwise.
    """
    for record in store.glob(f"{build}/*~{place}/{name}/{RECORD}"):
        yield record.parent


@dataclass(frozen=True)
class Slot:
    """The place of one run: its point's folder and its name in the current generation."""

    point: Path
    name: str

    @classmethod
    def of(cls, point: Path, name: str, generation: int | None = None) -> Slot:
        """Return the place of a run in a generation of its point; by default the current one."""
        generation = current_generation(point) if generation is None else generation
        return cls(point, f"{name}-g{generation}" if generation else name)

    @property
    def folder(self) -> Path:
        """Where the finished run lies."""
        return self.point / self.name

    @property
    def claim(self) -> Path:
        """Claim of whoever measures it now."""
        return self.point / f"{self.name}.claim"

    def attempts(self) -> list[Path]:
        """Return the failed and interrupted attempts, oldest first."""
        found = (self.point / "failed").glob(f"{self.name}.a*")
        return sorted(found, key=lambda path: int(path.name.rpartition(".a")[2]))

    def failures(self) -> list[Path]:
        """Return the attempts that failed, oldest first."""
        return [path for path in self.attempts() if read_json(path / RECORD)["status"] == Status.FAILED]

    def is_measured(self) -> bool:
        """Tell whether the run is finished."""
        return (self.folder / RECORD).is_file()

    def verdict(self) -> Path | None:
        """Return the folder that settles the run: the finished one, else a failure that counts."""
        if self.is_measured():
            return self.folder
        for attempt in reversed(self.attempts()):
            if not (attempt / _RETRY).exists() and read_json(attempt / RECORD)["status"] == Status.FAILED:
                return attempt
        return None


def current_generation(point: Path) -> int:
    """Return 0 unless `new_generation` was called."""
    path = point / _GENERATION
    return int(read_json(path)["generation"]) if path.is_file() else 0


def new_generation(point: Path) -> int:
    """Ask for all runs of a point to be made again, beside the old ones; return the new generation."""
    generation = current_generation(point) + 1
    write_json(point / _GENERATION, {"generation": generation})
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
        for leftover in sorted(slot.point.glob(f".tmp-{slot.name}-*")):
            write_json(leftover / RECORD, _last_words(leftover))
            keep_failure(slot, leftover)
        temporary = slot.point / f".tmp-{slot.name}-{os.getpid()}-{os.urandom(4).hex()}"
        temporary.mkdir(parents=True)
        try:
            yield temporary
        finally:
            if temporary.exists() and not any(temporary.iterdir()):
                temporary.rmdir()


def _last_words(leftover: Path) -> dict[str, Any]:
    """Complete the record of an attempt whose process vanished, with what it has cost as far as is known."""
    try:
        data = record(leftover)
        # All by the file system's clock: this host's and that of the vanished process may differ.
        started = (leftover / RECORD).stat().st_mtime
        data["wall_s"] = max(path.stat().st_mtime for path in leftover.iterdir()) - started
        if data.get("clock") in ("virtual", "elsewhere"):
            data["wall_s"] = 0.0
        data["cost_core_hours"] = data["wall_s"] * data["cores"] / 3600.0
    except (FormatError, KeyError):
        data = {}
    return {**data, "status": Status.INTERRUPTED, "reason": "the measuring process vanished"}


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
    temporary.rename(slot.folder)
    sync_folder(slot.point)
    return slot.folder


def keep_failure(slot: Slot, temporary: Path) -> Path:
    """Move a failed or interrupted attempt, with its record and logs, beside the finished runs."""
    _seal(temporary)
    failed = slot.point / "failed"
    failed.mkdir(exist_ok=True)
    number = len(slot.attempts())
    while True:
        target = failed / f"{slot.name}.a{number}"
        if not target.exists():
            with contextlib.suppress(FileExistsError):
                temporary.rename(target)
                sync_folder(failed)
                return target
        number += 1


def _seal(folder: Path) -> None:
    files = sorted(path for path in folder.iterdir() if path.is_file() and path.name != SUMS)
    sums = "".join(f"{file_sha256(path)}  {path.name}\n" for path in files)
    (folder / SUMS).write_text(sums)
    for path in (*files, folder / SUMS):
        with path.open("rb") as file:
            sync(file.fileno())
        path.chmod(0o444)
    sync_folder(folder)


def damage(folder: Path) -> list[str]:
    """Compare a sealed folder with its checksums; return what is wrong, in words."""
    sums = folder / SUMS
    if not sums.is_file():
        return [f"{sums}: missing"]
    problems = []
    for line in sums.read_text().splitlines():
        expected, _, name = line.partition("  ")
        path = folder / name
        if not path.is_file():
            problems.append(f"{path}: missing")
        elif file_sha256(path) != expected:
            problems.append(f"{path}: content differs from its checksum")
    return problems


def record(folder: Path) -> dict[str, Any]:
    """Read the record of a finished run or an attempt."""
    data: dict[str, Any] = read_json(folder / RECORD)
    return data


def discard(folder: Path) -> None:
    """Remove a working folder that holds nothing measured."""
    shutil.rmtree(folder, ignore_errors=True)
