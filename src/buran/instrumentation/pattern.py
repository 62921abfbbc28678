"""Patterns of functions and files, matched by the C library's fnmatch without flags, as Score-P does."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterable, Sequence

from buran.profiles.names import spellings, unspaced

SPECIAL = "*?[]\\"
_fnmatch = ctypes.CDLL(None).fnmatch


def matches(pattern: str, text: str) -> bool:
    """Tell whether a pattern matches a text: ``*`` matches slashes and leading dots, too."""
    as_bytes = (each.encode(errors="surrogateescape") for each in (pattern, text))
    return bool(_fnmatch(*as_bytes, 0) == 0)


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
