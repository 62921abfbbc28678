"""The fenced blocks of the documentation, and what the comments before them say about running them.

A comment is invisible on the forge and on the pages. It stands before the block it is about:

``<!-- not run: REASON -->``
    The block cannot be run here. Its ``buran`` commands must still be ones that the parser takes.
``<!-- file: NAME -->``
    The block is the content of a file.
``<!-- exit code: N -->``
    The last command ends with N.
``<!-- given: campaign -->``
    The page begins in the folder in which the tutorial ends: a campaign file, its program and what was measured.
``<!-- first: COMMANDS -->``
    Run before the block: what the page takes for granted.

Blocks of one page share a folder, a shell environment and Python names. ``sh`` blocks are run. So are the lines with
``$`` of ``console`` blocks, whose other lines are what must be printed: any number stands for any other, ``...`` for
anything. ``python`` blocks are executed. ``yaml`` blocks are keys of a campaign file, and must be right in one. Other
languages are only shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
COMMANDS = ("sh", "console")
SHOWN = ("text", "json", "toml", "csv", "c", "cpp", "make", "bibtex")
LANGUAGES = (*COMMANDS, "python", "yaml", *SHOWN)

# Blocks of code and comments, then spans of code as one word, then links as their text.
_NOT_READ = ((r"```.*?```|<!--.*?-->", "\n\n"), (r"`[^`]*`", "code"), (r"\]\([^)]*\)", "]"))
_COMMENT = re.compile(r"<!--\s*(not run|file|exit code|given|first):\s*(.*?)\s*-->", re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A code block of a page.

    Attributes
    ----------
    language
        As fenced; None if the block is indented instead.
    said
        What comments before it say, by their first words.
    """

    page: Path
    line: int
    language: str | None
    text: str
    said: Mapping[str, str]

    @property
    def place(self) -> str:
        """Page and line, as editors read it."""
        return f"{name_of(self.page)}:{self.line}"

    @property
    def is_run(self) -> bool:
        """Whether a shell or Python runs it."""
        return self.language in (*COMMANDS, "python") and not self.said.keys() & {"not run", "file"}

    @property
    def commands(self) -> str:
        """What is typed, without what is printed."""
        if self.language != "console":
            return self.text
        return "".join(typed for typed, _ in sessions(self.text))


def name_of(page: Path) -> str:
    """Path of a page in the repository."""
    return page.relative_to(ROOT).as_posix()


def prose(text: str) -> str:
    """Return what of a page is read as sentences."""
    for pattern, instead in _NOT_READ:
        text = re.sub(pattern, instead, text, flags=re.DOTALL)
    return text


def blocks_of(page: Path) -> Iterator[Block]:
    """Yield a page's blocks in their order."""
    said: dict[str, str] = {}
    for token in MarkdownIt("commonmark").enable("table").parse(page.read_text(encoding="utf-8")):
        if token.type == "html_block":
            said.update(_COMMENT.findall(token.content))
        if token.type in ("fence", "code_block"):
            assert token.map is not None
            language = token.info.strip() if token.type == "fence" else None
            if language is None or not language.startswith("{"):  # a directive of the generator is no snippet
                yield Block(page, token.map[0] + 1, language, token.content, said)
            said = {}
    assert not said, f"{name_of(page)}: a comment without a block behind it: {said}"


def sessions(text: str) -> Iterator[tuple[str, str]]:
    """Yield the commands of a console block, each with what it prints."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        lines = part.splitlines(keepends=True)
        end = 1
        while lines[end - 1].endswith("\\\n"):
            end += 1
        yield "".join(lines[:end]), "".join(lines[end:])
