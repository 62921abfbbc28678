"""Running and finding the tools of a machine."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from buran.errors import ToolError


def run_tool(command: Sequence[str | Path], *, what: str, stdin: str = "", env: Mapping[str, str] | None = None) -> str:
    """Run a tool and return its output; raise `ToolError` with the end of its messages if it fails."""
    words = [str(word) for word in command]
    try:
        done = subprocess.run(
            words,
            input=stdin,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            env={**os.environ, "LC_ALL": "C", **(env or {})},
        )
    except OSError as error:
        raise ToolError(what, where=words[0], why=error.strerror) from None
    if done.returncode:
        messages = "\n".join((done.stderr or done.stdout).strip().splitlines()[-12:])
        raise ToolError(what, where=" ".join(words), why=messages or f"exit code {done.returncode}")
    return done.stdout


def find_tool(name: str) -> str | None:
    """Find a program in PATH, or next to the Python that runs (where pip puts an MPI)."""
    sibling = Path(sys.executable).parent / name
    return shutil.which(name) or (str(sibling) if os.access(sibling, os.X_OK) else None)
