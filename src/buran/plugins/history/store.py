"""The file of the history, an SQLite database; also a program, on the standard library alone, that writes it.

Campaigns never wait long for it: the program has a time limit, since a file system without working locks may hang.
"""

from __future__ import annotations

import json
import sqlite3
import sys
import zlib
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

SCHEMA = 1
_TEXTS = ("name", "environment", "version", "machine", "recorded", "target")
_NUMBERS = ("run_time", "lower", "upper", "core_hours")
COLUMNS = (*_TEXTS, *_NUMBERS)
"""What `buran history` lists; the rest of an entry is its content."""
_MOST_WAIT_S = 5.0  # for another campaign that writes
_TABLE = f"""CREATE TABLE IF NOT EXISTS campaigns (id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE,
{" TEXT, ".join(_TEXTS)} TEXT, {" REAL, ".join(_NUMBERS)} REAL, content BLOB NOT NULL)"""
_INDEX = "CREATE INDEX IF NOT EXISTS by_name ON campaigns (name, environment, id)"


def _checked(connection: sqlite3.Connection) -> bool:
    """Return whether there is a history in the file; raise `sqlite3.DatabaseError` if there is something else."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version > SCHEMA:
        raise sqlite3.DatabaseError(f"a newer version of Buran wrote it (schema {version}, this one knows {SCHEMA})")
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if tables and "campaigns" not in tables:
        raise sqlite3.DatabaseError("it is the database of another program")
    return bool(tables)


def write(path: Path, key: str, columns: Mapping[str, object], content: Mapping[str, object]) -> None:
    """Enter a campaign; what has the key already is replaced, but for when it was recorded first.

    Raises
    ------
    OSError, sqlite3.Error
        The file cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    packed = zlib.compress(json.dumps(content).encode())
    names = (*COLUMNS, "content")
    updates = ", ".join(f"{name} = excluded.{name}" for name in names if name != "recorded")
    with closing(sqlite3.connect(path, timeout=_MOST_WAIT_S, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")  # a lock for reading could not become one for writing later
        if not _checked(connection):
            connection.execute(_TABLE)
            connection.execute(_INDEX)
            connection.execute(f"PRAGMA user_version = {SCHEMA}")
        connection.execute(
            f"INSERT INTO campaigns (key, {', '.join(names)}) VALUES (?{', ?' * len(names)}) "
            f"ON CONFLICT (key) DO UPDATE SET {updates}",
            (key, *(columns[name] for name in COLUMNS), packed),
        )
        connection.execute("COMMIT")


def read(path: Path, query: str, values: tuple[Any, ...] = ()) -> list[dict[str, Any]]:
    """Return rows of a history; none where nothing was entered yet. Contents are unpacked.

    Raises
    ------
    sqlite3.Error
        The file cannot be read, or is damaged.
    """
    address = f"file:{quote(str(path.absolute()))}?mode=ro"
    with closing(sqlite3.connect(address, uri=True, timeout=_MOST_WAIT_S)) as connection:
        if not _checked(connection):
            return []
        connection.row_factory = sqlite3.Row
        rows = [dict(row) for row in connection.execute(query, values)]
    try:
        return [row | json.loads(zlib.decompress(row.pop("content"))) if "content" in row else row for row in rows]
    except (zlib.error, TypeError, ValueError) as error:
        raise sqlite3.DatabaseError(f"an entry is damaged: {error}") from error


if __name__ == "__main__":
    task = json.load(sys.stdin)
    try:
        write(Path(task["path"]), task["key"], task["columns"], task["content"])
    except (OSError, sqlite3.Error) as error:
        sys.exit(str(error))
