"""Templates, styles and scripts of pages."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from pathlib import Path

import jinja2

_TEMPLATES = Path(__file__).parent / "templates"
_NUMBER = re.compile(r"([-+–≤≥] ?)?([\d.]+(e[-+]?\d+)?)?( \S{1,3})?( [\[(].*[\])])?")  # with its unit and interval


def environment(folder: Path = _TEMPLATES) -> jinja2.Environment:
    """Return where templates come from; names of call paths are never markup."""
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def asset(name: str) -> str:
    """Return a file that pages carry within them."""
    return (_TEMPLATES / name).read_text(encoding="utf-8")


def table_section(
    name: str,
    title: str,
    words: Sequence[str],
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    at_target: Collection[int] = (),
) -> str:
    """Return a section of the page with sentences and a table; rows `at_target` are marked."""
    numbers = [at for at in range(1, len(header)) if all(_NUMBER.fullmatch(row[at]) for row in rows)]
    return (
        environment()
        .get_template("section.html.j2")
        .render(name=name, title=title, words=words, header=header, rows=rows, at_target=at_target, numbers=numbers)
    )
