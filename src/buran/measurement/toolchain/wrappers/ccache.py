"""Keeping ccache honest: what an object depends on in addition to its source and its command line.

ccache never asks the wrapper when it finds an object by the source and the command line; mode and filter are in
neither. So they go into a key file, which ccache is told to look at (CCACHE_EXTRAFILES). Without that nothing may be
cached, not even plain objects: they would be taken for instrumented ones.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from buran.errors import ToolError, UsageError
from buran.files import write_text

if TYPE_CHECKING:
    from buran.measurement.toolchain.toolchain import Toolchain

VARIABLE = "CCACHE_EXTRAFILES"
REQUIREMENTS = "BURAN_REQUIREMENTS"
QUESTION = "-print-ccache-key"


def key_file(toolchain: Toolchain, mode: str, filter_file: str | None, requirements: str) -> Path:
    """Return a file whose name and contents stand for what an object depends on; it is written if it is not there."""
    from buran.measurement.toolchain.toolchain import cache_folder

    try:
        rules = Path(filter_file).read_bytes() if filter_file else b""
    except OSError as error:
        raise UsageError("the filter file cannot be read", where=filter_file, why=error.strerror) from None
    counter = os.environ.get("BURAN_PLUGIN_COUNTER", "")
    digest = hashlib.sha256(rules).hexdigest()
    text = f"{toolchain.fingerprint}\n{mode}\n{requirements}\n{counter}\n{digest}\n"
    path = cache_folder() / "ccache" / f"{hashlib.sha256(text.encode()).hexdigest()[:24]}.key"
    if not path.exists():
        try:
            write_text(path, text)
        except OSError as error:
            raise ToolError(
                "the cache folder cannot be written", where=path, why=error.strerror, hint="set BURAN_CACHE"
            ) from None
    return path


def variables(toolchain: Toolchain, mode: str, filter_file: str | None, requirements: str) -> dict[str, str]:
    """Return the environment with which ccache keeps objects of different modes and filters apart."""
    present = os.environ.get(VARIABLE, "")
    key = str(key_file(toolchain, mode, filter_file, requirements))
    return {VARIABLE: f"{present}{os.pathsep}{key}" if present else key}


def refuse_unless_keyed(
    environment: Mapping[str, str], toolchain: Toolchain, mode: str, filter_file: str | None
) -> None:
    """Raise `UsageError` if a ccache that does not look at the key file is about to keep what we compile.

    ccache then calls the compiler once more on its own account and keeps nothing.
    """
    if _parent() not in ("ccache", "sccache"):
        return
    if str(key_file(toolchain, mode, filter_file, environment.get(REQUIREMENTS, ""))) in environment.get(
        VARIABLE, ""
    ).split(os.pathsep):
        return
    raise UsageError(
        "ccache does not know of build mode and filter",
        where=VARIABLE,
        why="it would take objects of one mode or filter for those of another",
        hint=f"export {VARIABLE}=$(buran-cc {QUESTION}) whenever BURAN_MODE or BURAN_FILTER has changed",
    )


def _parent() -> str:
    name = ""
    with contextlib.suppress(OSError):
        name = Path(f"/proc/{os.getppid()}/comm").read_text(encoding="utf-8").strip()
    return name
