"""Words for numbers, and tables that fit into a line or stand in a notebook."""

from __future__ import annotations

import hashlib
import re
import textwrap
from collections.abc import Collection, Iterable, Mapping, Sequence
from html import escape
from itertools import zip_longest
from typing import Any

_NARROWEST = 16  # characters: no column of numbers is wider


_words: dict[float, Category] = {}


class Category(float):
    """A value of a parameter that is a word: for models a number, the same everywhere, and for readers the word.

    The number lies between 1 and 2, where models compute well, and has more digits than any that somebody writes.
    """

    label: str

    def __new__(cls, label: str) -> Category:
        """Make the word's number from its letters."""
        number = 1 + (int.from_bytes(hashlib.sha256(label.encode()).digest()[:6], "big") + 0.5) / 2**48
        word = super().__new__(cls, number)
        word.label = label
        if _words.setdefault(number, word).label != label:  # will not happen in the life of the universe
            raise ValueError(f"the words {label} and {_words[number].label} have the same number: rename one")
        return word

    def __repr__(self) -> str:
        return self.label

    def __format__(self, _: str) -> str:
        return self.label

    def __reduce__(self) -> tuple[Any, ...]:
        return Category, (self.label,)

    def __deepcopy__(self, _: object) -> Category:
        return self


def word_of(value: float | str) -> Category | None:
    """Return the word with a number or a spelling that was met before; None where there is none."""
    if isinstance(value, str):
        return next((word for word in _words.values() if word.label == value), None)
    return _words.get(value)


def shown_value(value: float | str) -> str:
    """Return a value of a parameter as readers see it."""
    return value if isinstance(value, str) else f"{word_of(value) or value:g}"


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, as in ``1 run`` and ``2 runs``; nouns whose plural is irregular come elsewhere."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def named(point: Mapping[str, float | str]) -> str:
    """Return a point as ``p=4, n=100``."""
    return ", ".join(f"{name}={shown_value(value)}" for name, value in point.items())


def aligned(rows: Sequence[Sequence[str]], width: int, right: Collection[int] = (), rule: bool = False) -> list[str]:
    """Return the lines of a table that is no wider than a line; text that does not fit goes on in the next one.

    Parameters
    ----------
    rows
        The first one is the header.
    width
        Width of a line; columns of numbers keep theirs, whatever it is.
    right
        Columns that are aligned to the right.
    rule
        Whether a rule follows the header.
    """
    natural = [max(map(len, column)) for column in zip(*rows, strict=True)]
    # The widest columns give way, all to the same width.
    cap = max(natural)
    while cap > _NARROWEST and sum(min(each, cap) for each in natural) + 2 * len(natural) - 2 > width:
        cap -= 1
    widths = [min(each, cap) for each in natural]
    lines = []
    for row in rows:
        cells = [_wrapped(cell, room) for cell, room in zip(row, widths, strict=True)]
        for i in range(max(map(len, cells))):
            parts = [cell[i] if i < len(cell) else "" for cell in cells]
            aligned = (
                part.rjust(room) if at in right else part.ljust(room)
                for at, (part, room) in enumerate(zip(parts, widths, strict=True))
            )
            lines.append("  ".join(aligned).rstrip())
        if rule and row is rows[0]:
            lines.append("  ".join("-" * room for room in widths))
    return lines


class _Wrapper(textwrap.TextWrapper):
    """Divides a text into lines, after an arrow or a blank where there is one; later lines are indented."""

    wordsep_re = re.compile(r"(\s+)|(?<=->)|(?<=::)|(?<=,)")


def _wrapped(text: str, width: int) -> list[str]:
    return [text] if len(text) <= width else _Wrapper(width, subsequent_indent="  ").wrap(text)


def distinct(short: Sequence[str], full: Sequence[str], limit: int) -> list[str]:
    """Return shortened names such that those of different full ones differ: where they would not, by what differs."""
    meant: dict[str, list[str]] = {}
    for name, whole in dict(zip(full, short, strict=True)).items():
        meant.setdefault(whole, []).append(name)
    renamed = {names[0]: whole for whole, names in meant.items() if len(names) == 1}
    taken = set(renamed.values())
    for names in (group for group in meant.values() if len(group) > 1):
        same = next(i for i, letters in enumerate(zip_longest(*names)) if len(set(letters)) > 1)
        for name in names:
            start = max(min(same - limit // 4, len(name) - limit), 0)
            rest = name[start:]
            middle = rest if len(rest) <= limit else f"{rest[: limit // 2]}...{rest[len(rest) - limit // 2 + 3 :]}"
            said = f"...{middle}" if start else middle
            free = (said, *(f"{said} ({number})" for number in range(2, len(full) + 2)))
            renamed[name] = next(text for text in free if text not in taken)
            taken.add(renamed[name])
    return [renamed[name] for name in full]


_MOST_ROWS = 20
"""Of a table in a notebook."""


def table_html(title: str, header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return what notebooks show of an object, a title and a table; of many rows the first, and how many there are."""
    taken = list(rows)
    lines = [f"<p><strong>{escape(title)}</strong></p>", "<table>", _line("th", header)]
    lines += [*(_line("td", row) for row in taken[:_MOST_ROWS]), "</table>"]
    if len(taken) > _MOST_ROWS:
        lines.append(f"<p>and {len(taken) - _MOST_ROWS} more</p>")
    return "\n".join(lines)


def _line(cell: str, texts: Sequence[object]) -> str:
    return "<tr>" + "".join(f"<{cell}>{escape(str(text))}</{cell}>" for text in texts) + "</tr>"
