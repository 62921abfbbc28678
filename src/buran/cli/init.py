"""``buran init``: a campaign file to start from, alone or with one of the bundled programs."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from buran.errors import Exit, UsageError

HELP = "write a commented campaign file to start from, or copy a bundled example"
EXAMPLES = ("stencil", "sweep", "treesort")
# Where each example's campaign file lies below config/, and what it calls its source folder.
_FILES = {
    "stencil": "campaign.yaml",
    "sweep": "examples/sweep.yaml",
    "treesort": "examples/treesort.yaml",
}
_TEMPLATE = "examples/template.yaml"
_SOURCES = ("*.c", "*.cpp", "*.h", "*.hpp", "Makefile", "*.md", "*.yaml")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("folder", type=Path, metavar="DIR", help="folder to write to; made if it is missing")
    parser.add_argument("--example", choices=EXAMPLES, help="bring this bundled program along, ready to run")


def run(arguments: argparse.Namespace) -> int:
    """Write the files; refuse to overwrite any."""
    from buran.assets import folder as assets

    folder: Path = arguments.folder
    campaign, example = folder / "campaign.yaml", arguments.example
    targets = [campaign] + ([folder / example] if example else [])
    _refuse_existing(folder, targets)
    text = (assets("config") / (_FILES[example] if example else _TEMPLATE)).read_text(encoding="utf-8")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if example:
            _copy_sources(assets("examples") / example, folder / example)
            text = _relocated(text, example)
        with campaign.open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise UsageError("cannot write the files", where=error.filename or folder, why=error.strerror) from None
    print(f"wrote {campaign}" + (f" and {folder / example}/" if example else ""))
    if example:
        print(f"next: buran run {campaign}")
    else:
        print(f"next: fill in the target and the parameters, then: buran check {campaign}")
    return int(Exit.DONE)


def _refuse_existing(folder: Path, targets: list[Path]) -> None:
    if folder.exists() and not folder.is_dir():
        raise UsageError("cannot write there", where=folder, why="it is a file, not a folder")
    existing = [path for path in targets if path.exists() or path.is_symlink()]
    if existing:
        raise UsageError(
            "existing files are not overwritten",
            where=", ".join(map(str, existing)),
            hint="name another folder, or move them away",
        )


def _copy_sources(source: Path, destination: Path) -> None:
    """Copy what belongs to an example; products of earlier builds stay behind."""
    destination.mkdir()
    for pattern in _SOURCES:
        for path in sorted(source.glob(pattern)):
            shutil.copyfile(path, destination / path.name)


def _relocated(text: str, example: str) -> str:
    """Point the campaign file at the copies beside it, and drop what only holds in the source tree."""
    paths = {"source": (f"examples/{example}", example), "results": ("results", "results")}
    lines = []
    for line in text.splitlines(keepends=True):
        if line.startswith("# yaml-language-server:"):
            continue
        key, _, value = line.partition(":")
        old = value.partition("#")[0].strip()
        ending, new = paths.get(key.strip(), ("", ""))
        if new and old.endswith(ending):
            line = f"{key}:{value.replace(old, new, 1)}"
        lines.append(line)
    return "".join(lines)
