"""Sentences that a newcomer can read at once: none is longer than forty words."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LONGEST = 40
PAGES = [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
# Blocks of code and comments, then spans of code as one word, then links as their text.
NOT_READ = ((r"```.*?```|<!--.*?-->", "\n\n"), (r"`[^`]*`", "code"), (r"\]\([^)]*\)", "]"))
BLOCKS = re.compile(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )|\n(?=[|#])")
ENDS = re.compile(r"(?<=[.!?:])\s+|\s·\s")


def sentences(text: str) -> list[str]:
    """Return the sentences of a page; tables and headings have none. A colon ends a sentence: a list may follow."""
    for pattern, instead in NOT_READ:
        text = re.sub(pattern, instead, text, flags=re.DOTALL)
    blocks = (block.strip() for block in BLOCKS.split(text))
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
