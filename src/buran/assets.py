"""Where the workflow files, profiles, campaign files and examples lie."""

from __future__ import annotations

from pathlib import Path

from buran.errors import ToolError

_PACKAGE = Path(__file__).resolve().parent


def root() -> Path:
    """Return the folder with the Snakefile: of the installed package, else of the source tree."""
    for candidate in (_PACKAGE / "assets", _PACKAGE.parents[1]):
        if (candidate / "Snakefile").is_file():
            return candidate
    raise ToolError(
        "the workflow files are missing",
        where=_PACKAGE,
        why="neither an installed copy nor a source tree with a Snakefile was found",
        hint="install buran again, from its source tree or a complete wheel",
    )


def folder(name: str) -> Path:
    """Return one of the folders next to the Snakefile: ``config``, ``examples``, ``profiles``, ..."""
    return root() / name
