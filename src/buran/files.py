"""Reading and writing small files so that no reader ever sees half of one."""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

from buran.budget import read_text
from buran.errors import FormatError, StorageError, UsageError

if TYPE_CHECKING:
    from pydantic import TypeAdapter

_NEXT_STEPS = {
    errno.ENOSPC: "make room there",
    errno.EDQUOT: "make room there, or ask for a larger quota",
    errno.EROFS: "have it mounted for writing, or name another folder in the campaign's key `results`",
    errno.EACCES: "make it writable for you, or name another folder in the campaign's key `results`",
    errno.EPERM: "make it writable for you, or name another folder in the campaign's key `results`",
    errno.EIO: "have the file system checked",
    errno.ESTALE: "have the file system mounted again",
}
_OTHER_NAMES = {
    errno.EISDIR: "name a file, not a folder",
    errno.ENOTDIR: "name a folder, not a file",
    errno.ENAMETOOLONG: "give it a shorter name",
}

JsonObject = Mapping[str, Any]
"""An object of a JSON, YAML or TOML file as it stands there: before a class reads it, or where it only passes."""

_T = TypeVar("_T")
_canonical = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False).encode
MADE_AGAIN = "delete it: `buran run` makes it again from what was measured"
_is_synced = True
_decoders: dict[Any, TypeAdapter[Any]] = {}


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
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except (FileNotFoundError, FileExistsError) as error:
        why = f"{error.filename}: {error.strerror}"
        raise StorageError("a folder cannot be made", where=path.parent, why=why, hint="name another one") from error
    temporary = _temporary(path)
    try:
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            sync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        error.filename = str(path)  # writing does not say where, and nobody knows the temporary name
        with suppress(OSError):
            temporary.unlink(missing_ok=True)  # half of a file would fill a disk even more
        raise


def make_folder(folder: Path) -> None:
    """Make a folder of results and those above it.

    Raises
    ------
    StorageError
        It cannot be made, for whatever reason.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        at = next((each for each in (folder, *folder.parents) if os.path.lexists(each)), folder)
        why = f"{at} is a link to {at.readlink()}, which is not there" if at.is_symlink() and not at.exists() else None
        raise StorageError(
            "the folder of results cannot be made",
            where=folder,
            why=why or error.strerror,
            hint=_NEXT_STEPS.get(error.errno or 0, "make it yourself, or name another folder in the key `results`"),
        ) from error


def try_folder(folder: Path) -> None:
    """Make a folder of results, write a file into it, and leave everything as it was.

    Raises
    ------
    StorageError
        Nothing can be written there.
    """
    made = [each for each in (folder, *folder.parents) if not os.path.lexists(each)]
    try:
        make_folder(folder)
        check_room(folder)
    except OSError as error:
        raise storage_error(error) or StorageError(
            "nothing can be written into the folder of results", where=folder, why=error.strerror
        ) from error
    finally:
        for each in made:
            with suppress(OSError):
                each.rmdir()


def storage_error(error: OSError) -> StorageError | None:
    """Return what a user can do about a file system that does not take files; None if it is something else."""
    number = error.errno or 0
    if number not in _NEXT_STEPS | _OTHER_NAMES:
        return None
    hint = _OTHER_NAMES.get(number) or f"{_NEXT_STEPS[number]}; what is finished stays, and `buran run` goes on"
    return StorageError(
        "a file or folder cannot be read or written", where=error.filename, why=error.strerror, hint=hint
    )


def check_room(folder: Path) -> None:
    """Write a file of 256 KiB and remove it again.

    Raises
    ------
    OSError
        There is no room, or nothing can be written.
    """
    probe = folder / f".probe.{os.getpid()}"
    try:
        write_bytes(probe, bytes(1 << 18))
    finally:
        for path in (probe, _temporary(probe)):
            path.unlink(missing_ok=True)


def _temporary(path: Path) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}.tmp")


def remove_half_written(folders: Iterable[Path]) -> None:
    """Remove what killed processes of this machine left of files that they were writing, in folders and below them."""
    for folder, _, names in chain.from_iterable(map(os.walk, folders)):
        for name in names:
            if name.startswith(".") and name.endswith(".tmp"):
                pid = name.split(".")[-2]
                if pid.isdecimal() and not Path("/proc", pid).exists():
                    Path(folder, name).unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write UTF-8 text atomically."""
    write_bytes(path, text.encode())


def write_json(path: Path, value: Any, depth: int | None = None) -> None:
    """Write indented JSON atomically; NaN is refused because it is no JSON.

    What lies deeper than `depth` stands on one line: large files become a third as long, five times as fast.
    """
    write_text(path, indented(value, depth) + "\n")


def indented(value: Any, depth: int | None, margin: str = "\n") -> str:
    """Return JSON as text, what lies deeper than `depth` on one line; `margin` begins a line."""
    if depth is None:
        return json.dumps(value, indent=2, allow_nan=False)
    if not (depth and value and isinstance(value, (dict, list, tuple))):
        return json.dumps(value, allow_nan=False)
    inner = margin + "  "
    if isinstance(value, dict):
        lines = [f"{json.dumps(key)}: {indented(item, depth - 1, inner)}" for key, item in value.items()]
        return f"{{{inner}{f',{inner}'.join(lines)}{margin}}}"
    return f"[{inner}{f',{inner}'.join(indented(item, depth - 1, inner) for item in value)}{margin}]"


def read_json(path: Path, hint: str | None = None) -> Any:
    """Read JSON; `hint` says what to do about a file that is damaged.

    Raises
    ------
    FormatError
        The file is missing or does not hold JSON.
    """
    try:
        return json.loads(read_text(path))
    except OSError as error:
        raise FormatError("cannot read a file", where=path, why=error.strerror) from error
    except (ValueError, RecursionError) as error:
        raise FormatError("a file does not hold JSON", where=path, why=str(error), hint=hint) from error


def decode(kind: type[_T], data: Any) -> _T:
    """Make an object of plain data; its keys and the types of its values are checked.

    Raises
    ------
    ValueError
        With the key, and what is wrong with it.
    """
    from pydantic import TypeAdapter, ValidationError

    if kind not in _decoders:
        _decoders[kind] = TypeAdapter(kind)
    try:
        made: _T = _decoders[kind].validate_python(data)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = ".".join(map(str, first["loc"]))
        reasons = {"missing": f"missing key {key!r}", "unexpected_keyword_argument": f"unknown key {key!r}"}
        raise ValueError(reasons.get(first["type"], f"key {key!r}: {first['msg']}")) from None
    return made


def read_document(
    path: Path, schema: str | int, parse: Callable[[dict[str, Any]], _T], *, what: str, hint: str = MADE_AGAIN
) -> _T:
    """Read a JSON object that names its schema: the one way in which files of ours are read.

    Parameters
    ----------
    schema
        ``kind/number``; a number alone for records, the first of which did not say it.
    parse
        Makes something of the object's other keys.
    what
        The file is called that.
    hint
        What to do about a file that is damaged or none of ours.

    Raises
    ------
    FormatError
        The file cannot be read, has another schema or is damaged.
    """
    data = read_json(path, hint)
    if not isinstance(data, dict):
        raise FormatError(f"this is no {what}", where=path, why="it does not hold a JSON object", hint=hint)
    written = data.get("schema", schema if isinstance(schema, int) else None)
    if written != schema:
        why = f"schema is {written!r}, wanted is {schema!r}"
        if _is_newer(written, schema):
            hint = "upgrade Buran, and leave the file as it is: nothing is lost"
            raise FormatError(f"a newer version of Buran wrote this {what}", where=path, why=why, hint=hint)
        raise FormatError(f"this is no {what} of this version", where=path, why=why, hint=hint)
    try:
        return parse({key: value for key, value in data.items() if key != "schema"})
    except (AttributeError, LookupError, TypeError, ValueError, ArithmeticError, RecursionError, UsageError) as error:
        why = f"missing key {error}" if isinstance(error, KeyError) else str(error)
        if why.startswith("unknown key"):
            hint = f"if a newer version of Buran wrote it, upgrade; else {hint}"
        raise FormatError(f"the {what} is damaged", where=path, why=why, hint=hint) from error


def _is_newer(written: object, schema: str | int) -> bool:
    if isinstance(schema, int):
        return isinstance(written, int) and written > schema
    (kind, _, number), (written_kind, _, written_number) = schema.partition("/"), str(written).partition("/")
    return kind == written_kind and written_number.isdecimal() and int(written_number) > int(number)


class Stored:
    """Base of data classes that are read from files of their own: a key that they do not have is a mistake.

    Attributes
    ----------
    kind_of_file
        Their files are called that.
    schema_read
        Schema of the files; a number alone for records, the first of which did not say it.
    derived
        Keys that are written for those who read the files: they follow from the others.
    formerly
        Keys of older files, and what they are called now.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid"}
    kind_of_file: ClassVar[str] = "file"
    schema_read: ClassVar[str | int] = 1
    derived: ClassVar[frozenset[str]] = frozenset()
    formerly: ClassVar[Mapping[str, str]] = {}

    @classmethod
    def from_json(cls, data: JsonObject) -> Self:
        """Rebuild from plain data; raise `ValueError` for anything else."""
        kept = {cls.formerly.get(key, key): value for key, value in data.items() if key not in cls.derived}
        return decode(cls, kept)

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a file; raise `FormatError` if it is damaged, foreign or of a newer version."""
        return read_document(path, cls.schema_read, cls.from_json, what=cls.kind_of_file)


def finite_or_none(value: float) -> float | None:
    """Return a number as JSON has it, which has neither infinite ones nor NaN."""
    return float(value) if math.isfinite(value) else None


def digest(value: Any, length: int = 12) -> str:
    """Return the first hex digits of the SHA-256 of a value's canonical JSON."""
    return hashlib.sha256(_canonical(value).encode()).hexdigest()[:length]


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
