"""Reading and writing small files so that no reader ever sees half of one."""

from __future__ import annotations

import errno
import hashlib
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from buran.errors import FormatError, StorageError, UsageError

_NEXT_STEPS = {
    errno.ENOSPC: "make room there",
    errno.EDQUOT: "make room there, or ask for a larger quota",
    errno.EROFS: "have it mounted for writing, or name another folder in the campaign's key `results`",
    errno.EACCES: "make it writable for you, or name another folder in the campaign's key `results`",
    errno.EPERM: "make it writable for you, or name another folder in the campaign's key `results`",
    errno.EIO: "have the file system checked",
    errno.ESTALE: "have the file system mounted anew",
}

_T = TypeVar("_T")
_is_synced = True


@contextmanager
def not_synced() -> Iterator[None]:
    """Leave it to the system when files reach the disk: for what can be made again after a power cut."""
    global _is_synced
    before, _is_synced = _is_synced, False
    try:
        yield
    finally:
        _is_synced = before


def sync(handle: int) -> None:
    """Make a file or a folder durable."""
    if _is_synced:
        os.fsync(handle)


def write_bytes(path: Path, data: bytes) -> None:
    """Write a file by way of a temporary name, synced to disk before it takes its place."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = _temporary(path)
    try:
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            sync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        error.filename = error.filename or str(path)  # writing does not say where
        raise


def storage_error(error: OSError) -> StorageError | None:
    """Return what a user can do about a file system that does not take files; None if it is something else."""
    step = _NEXT_STEPS.get(error.errno or 0)
    if step is None:
        return None
    return StorageError(
        "files cannot be written",
        where=error.filename,
        why=error.strerror,
        hint=f"{step}; what is finished stays, and `buran run` goes on",
    )


def check_room(folder: Path, size: int = 1 << 18) -> None:
    """Write a file and remove it again.

    Raises
    ------
    OSError
        There is no room, or nothing can be written.
    """
    probe = folder / f".probe.{os.getpid()}"
    try:
        write_bytes(probe, bytes(size))
    finally:
        for path in (probe, _temporary(probe)):
            path.unlink(missing_ok=True)


def _temporary(path: Path) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}.tmp")


def write_text(path: Path, text: str) -> None:
    """Write UTF-8 text atomically."""
    write_bytes(path, text.encode())


def write_json(path: Path, value: Any) -> None:
    """Write indented JSON atomically; NaN is refused because it is no JSON."""
    write_text(path, json.dumps(value, indent=2, allow_nan=False) + "\n")


def read_json(path: Path) -> Any:
    """Read JSON.

    Raises
    ------
    FormatError
        The file is missing or does not hold JSON.
    """
    try:
        return json.loads(path.read_text())
    except OSError as error:
        raise FormatError("cannot read a file", where=path, why=error.strerror) from error
    except ValueError as error:
        raise FormatError("a file does not hold JSON", where=path, why=str(error)) from error


def read_document(path: Path, schema: str, parse: Callable[[Any], _T], *, other: str, damaged: str, hint: str) -> _T:
    """Read a JSON object that names its schema.

    Parameters
    ----------
    parse
        Makes something of the object's values.
    other, damaged
        What to say of a file of another schema, and of one that `parse` cannot read.

    Raises
    ------
    FormatError
        The file cannot be read, has another schema or is damaged.
    """
    data = read_json(path)
    found = data.get("schema") if isinstance(data, dict) else None
    if found != schema:
        raise FormatError(other, where=path, why=f"schema is {found!r}, wanted is {schema!r}", hint=hint)
    try:
        return parse(data)
    except (AttributeError, KeyError, IndexError, TypeError, ValueError, ZeroDivisionError, UsageError) as error:
        why = f"missing key {error}" if isinstance(error, KeyError) else str(error)
        raise FormatError(damaged, where=path, why=why, hint=hint) from error


def digest(value: Any, length: int = 12) -> str:
    """Return the first hex digits of the SHA-256 of a value's canonical JSON."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:length]


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file's content as hex digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sync_folder(path: Path) -> None:
    """Make a folder's entries durable."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        sync(handle)
    finally:
        os.close(handle)
