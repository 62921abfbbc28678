"""Words for users: what documentation, change log and help texts avoid is listed in one page, which is read here."""

from __future__ import annotations

import argparse
import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from snippets import ROOT, name_of, prose

from buran.cli import command_parser

PAGE = ROOT / "docs" / "development" / "wording.md"
# Written from records of published evaluations.
GENERATED = {ROOT / "docs" / "papers.md"}
PAGES = [
    *(ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")),
    *sorted({*(ROOT / "docs").rglob("*.md")} - GENERATED - {PAGE}),
]


def table() -> Iterator[tuple[list[str], str, list[str]]]:
    """Yield each row of the page: what is not written, what is written instead, and phrases that are allowed."""
    for line in PAGE.read_text().splitlines():
        if line.startswith("| ") and not line.startswith("| not |"):
            forms, instead, phrases = (cell.strip() for cell in line.strip("|").split("|"))
            yield forms.split(", "), instead, [phrase for phrase in phrases.split("; ") if phrase]


ROWS = list(table())


def wrong_words(text: str) -> list[str]:
    """Return each wrong word with its surroundings and what to write instead."""
    text = " ".join(text.split())
    found = []
    for forms, instead, phrases in ROWS:
        allowed = [at.span() for phrase in phrases for at in re.finditer(re.escape(phrase), text, re.IGNORECASE)]
        for at in re.finditer(rf"\b(?:{'|'.join(map(re.escape, forms))})\b", text, re.IGNORECASE):
            if not any(start <= at.start() and at.end() <= end for start, end in allowed):
                found.append(f"{at[0]!r} in '{text[max(at.start() - 40, 0) : at.end() + 40]}': write {instead}")
    return found


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_pages_have_the_words_of_the_field(page: Path) -> None:
    assert wrong_words(prose(page.read_text())) == []


def test_help_texts_have_the_words_of_the_field() -> None:
    parser = command_parser()
    verbs = next(action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    texts = {"buran": parser.format_help()} | {name: verb.format_help() for name, verb in verbs.choices.items()}
    assert {name: found for name, text in texts.items() if (found := wrong_words(text))} == {}


def messages(module: Path) -> Iterator[str]:
    """Yield the texts of a module that users may read: those of several words, without docstrings; code left out."""
    tree = ast.parse(module.read_text())
    unread = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    formatted = [node for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)]
    unread |= {id(part) for node in formatted for part in node.values}
    for node in formatted:
        yield "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in unread:
            yield node.value


# The words of schedulers are theirs; what numbers were tuned by is no message.
MODULES = sorted(
    path
    for path in (ROOT / "src" / "buran").rglob("*.py")
    if path.name != "tuning.py" and path.parent.name != "schedulers"
)


def test_messages_have_the_words_of_the_field() -> None:
    found = {
        name_of(module): wrong
        for module in MODULES
        if (wrong := [each for text in messages(module) if " " in text for each in wrong_words(prose(text))])
    }
    assert found == {}


def test_wrong_words_are_seen_and_allowed_phrases_are_not() -> None:
    assert wrong_words(prose("It takes place in\nplace; the doors of `door` are outdoors.")) == [
        "'doors' in 'It takes place in place; the doors of code are outdoors.': write extension point, entry point"
    ]
    assert wrong_words(prose("```text\ntold\n```\nSee `told` and [this](told.md).")) == []
    assert len(ROWS) > 30 and all(forms and instead for forms, instead, _ in ROWS)
