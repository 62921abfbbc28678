"""Sentences that a newcomer can read at once: none is longer than forty words."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from snippets import ROOT, prose

LONGEST = 40
PAGES = [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
BLOCKS = re.compile(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )|\n(?=[|#])")
ENDS = re.compile(r"(?<=[.!?:])\s+|\s·\s")


def sentences(text: str) -> list[str]:
    """Return the sentences of a page; tables and headings have none. A colon ends a sentence: a list may follow."""
    blocks = (block.strip() for block in BLOCKS.split(prose(text)))
    return [sentence for block in blocks if not block.startswith(("|", "#")) for sentence in ENDS.split(block)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_sentence_is_too_long(page: Path) -> None:
    assert [said for said in sentences(page.read_text()) if len(said.split()) > LONGEST] == []


def test_long_sentences_are_seen() -> None:
    assert [len(said.split()) for said in sentences(f"# Title\n\n{'word ' * 41}.\n\n- one `two three` four. Five")] == [
        42,
        4,
        1,
    ]
