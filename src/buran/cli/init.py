"""``buran init``: a campaign file to start from: a template, or one with a bundled program."""

from __future__ import annotations

import argparse
import re
import shutil
from pathlib import Path

from buran.cli.arguments import CAMPAIGN_FILE
from buran.errors import Exit, UsageError

HELP = (
    "write a commented campaign file, for a project that has build files or from a template, or copy a bundled example"
)
# Where each example's campaign file lies below config/, and what it calls its source folder.
_FILES = {
    "bodies": "campaign.yaml",
    **{name: f"examples/{name}.yaml" for name in ("stencil", "sweep", "treesort")},
}
EXAMPLES = tuple(_FILES)
_TEMPLATE = "examples/template.yaml"
_SOURCES = ("*.c", "*.cpp", "*.h", "*.hpp", "Makefile", "*.md", "*.yaml")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("folder", type=Path, metavar="DIR", help="folder to write to")
    parser.add_argument("--example", choices=EXAMPLES, help="copy this bundled program, ready to run")


def run(arguments: argparse.Namespace) -> int:
    """Write the files; refuse to overwrite any."""
    folder: Path = arguments.folder
    refuse_existing(folder, [folder / CAMPAIGN_FILE, *([folder / arguments.example] if arguments.example else [])])
    from_assets(folder, arguments.example)
    if arguments.example:
        print(f"next: cd {folder} && buran run")
    else:
        print(f"next: fill in the program and the parameters, then: cd {folder} && buran check")
    return int(Exit.DONE)


def from_assets(folder: Path, example: str | None) -> None:
    """Write the template, or an example with its campaign."""
    from buran.assets import folder as assets

    text = (assets("config") / (_FILES[example] if example else _TEMPLATE)).read_text(encoding="utf-8")
    if example:
        write_campaign(folder, _relocated(text, example), assets("examples") / example)
    else:
        write_campaign(folder, text)
    print(f"wrote {folder / CAMPAIGN_FILE}" + (f" and {folder / example}/" if example else ""))


def write_campaign(folder: Path, text: str, sources: Path | None = None) -> None:
    """Write a campaign file, with the sources of an example; raise `UsageError` where that is impossible."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if sources is not None:
            _copy_sources(sources, folder / sources.name)
        with (folder / CAMPAIGN_FILE).open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise UsageError(
            "cannot write the files", where=error.filename or folder, why=error.strerror, hint="name another folder"
        ) from None


def refuse_existing(folder: Path, targets: list[Path]) -> None:
    """Raise `UsageError` if one of the files or folders that are to be written is there."""
    if folder.exists() and not folder.is_dir():
        raise UsageError("cannot write there", where=folder, why="it is a file", hint="name a folder")
    if folder.suffix in (".yaml", ".yml") and not folder.exists():
        why = f"init makes a folder with a {CAMPAIGN_FILE} in it, and this is the name of a file"
        raise UsageError("cannot write there", where=folder, why=why, hint=f"buran init {folder.with_suffix('')}")
    existing = [path for path in targets if path.exists() or path.is_symlink()]
    if existing:
        raise UsageError(
            "existing files are not overwritten",
            where=", ".join(map(str, existing)),
            hint="name another folder, or move them away",
        )


# -- bundled examples ------------------------------------------------------------------------------------


def _copy_sources(source: Path, destination: Path) -> None:
    """Copy what belongs to an example; products of earlier builds stay behind."""
    destination.mkdir()
    for pattern in _SOURCES:
        for path in sorted(source.glob(pattern)):
            shutil.copyfile(path, destination / path.name)


def _relocated(text: str, example: str) -> str:
    """Point the campaign file at the copies next to it, and drop what only holds in the source tree."""
    text = re.sub(r"(?m)^# yaml-language-server:.*\n", "", text)
    text = re.sub(rf"(?m)^(\s*source:\s*)\S*examples/{example}\b", rf"\1{example}", text)
    return re.sub(r"(?m)^(results:\s*)\S*results\b", r"\1results", text)
