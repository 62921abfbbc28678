"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def atomic_file(path: Path) -> Iterator[BinaryIO]:
    """Open a hidden neighbour of `path` for writing and rename it to `path` at the end.

    A reader sees the old file or the whole new one; on an exception nothing is left behind.
    """
    temporary = path.with_name(f".{path.name[:150]}.{secrets.token_hex(6)}.tmp")
    try:
        with temporary.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
