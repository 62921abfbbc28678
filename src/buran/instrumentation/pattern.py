"""Patterns of functions and files, as POSIX fnmatch reads them without flags, which Score-P calls."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

from buran.profiles.names import spellings, unspaced

SPECIAL = "*?[]\\"
_CLASSES = {
    "alnum": "a-zA-Z0-9",
    "alpha": "a-zA-Z",
    "blank": " \\t",
    "cntrl": "\\x00-\\x1f\\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": "!-/:-@\\[-`{-~",
    "space": " \\t-\\r",
    "upper": "A-Z",
    "xdigit": "0-9A-Fa-f",
}
_INNER = r"\[:[a-z]+:\]|\\.|[^]\\]"  # of a bracket: a class, an escape, a character
_PIECE = re.compile(rf"(\*)|(\?)|\\(.)|\[([!^]?+)((?:\]|{_INNER})(?:{_INNER})*)\]|(.)", re.DOTALL)
_MEMBER = re.compile(r"\[:([a-z]+):\]|(\\?.)(?:-(\\?.))?", re.DOTALL)


def matches(pattern: str, text: str) -> bool:
    """Tell whether a pattern matches a text: ``*`` matches slashes and leading dots, too."""
    return _compiled(pattern).match(text) is not None


@lru_cache(maxsize=4096)
def _compiled(pattern: str) -> re.Pattern[str]:
    """Compile a pattern.

    What stands between two stars has one length, so its first position is as good as any later one: it is never tried
    again, and matching takes time proportional to the text, whatever the pattern.
    """
    parts = [""]  # between stars
    for star, one, escaped, negation, members, char in _PIECE.findall(pattern):
        if star:
            parts.append("")
        elif members:
            parts[-1] += _bracket(negation, members)
        else:
            parts[-1] += "." if one else re.escape(escaped or char)
    first, *others = parts
    between = "".join(f"(?>.*?{part})" for part in others[:-1] if part)
    last = f".*{others[-1]}" if others else ""
    return re.compile(f"{first}{between}{last}\\Z", re.DOTALL)


def _bracket(negation: str, members: str) -> str:
    allowed = ""
    for name, low, high in _MEMBER.findall(members):
        if name:
            allowed += _CLASSES.get(name, "")
        elif not high:
            allowed += re.escape(low[-1])
        elif low[-1] <= high[-1]:  # an empty range matches nothing
            allowed += f"{re.escape(low[-1])}-{re.escape(high[-1])}"
    if not allowed:
        return "." if negation else "(?!)"
    return f"[{'^' if negation else ''}{allowed}]"


def named_by(patterns: Sequence[str], functions: Iterable[tuple[str, str]]) -> list[set[int]]:
    """Return, for each pattern, which functions it names.

    A pattern that is literally a spelling of a function names that one alone, so that ``operator*`` and ``f(char*)``
    can be written as they are; else it is one of fnmatch's.

    Parameters
    ----------
    functions
        Name and linker symbol of each; the symbol may be empty.
    """
    by_spelling: dict[str, set[int]] = {}
    for number, (name, mangled) in enumerate(functions):
        for spelling in spellings(name, mangled):
            by_spelling.setdefault(spelling, set()).add(number)
    out = []
    for pattern in map(unspaced, patterns):
        found = [pattern] if pattern in by_spelling else [each for each in by_spelling if matches(pattern, each)]
        out.append(set[int]().union(*(by_spelling[each] for each in found)))
    return out


def named_by_any(patterns: Sequence[str], functions: Iterable[tuple[str, str]]) -> list[int]:
    """Return which functions any of some patterns names, ascending; see `named_by`."""
    return sorted(set().union(*named_by(patterns, functions))) if patterns else []


def literal(name: str) -> str:
    """Return the pattern that matches exactly this name."""
    return "".join(f"\\{char}" if char in SPECIAL else char for char in name)


def plain(pattern: str) -> str | None:
    """Return the one text that a pattern matches; None if it may match several."""
    if re.search(r"[*?\[]", re.sub(r"\\.", "", pattern, flags=re.DOTALL)):
        return None
    return re.sub(r"\\(.)", r"\1", pattern, flags=re.DOTALL)
