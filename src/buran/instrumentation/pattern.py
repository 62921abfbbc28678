"""Patterns as POSIX fnmatch reads them without flags, and lists of rules whose last match decides."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
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


class Decider:
    """Ordered rules (pattern, about the linker symbol, include): exact ones are looked up, not tried in turn."""

    def __init__(self, rules: Sequence[tuple[str, bool, bool]]) -> None:
        self._verdicts = [include for _, _, include in rules]
        self._exact: tuple[dict[str, int], dict[str, int]] = ({}, {})
        self._globs: list[tuple[int, bool, re.Pattern[str]]] = []
        for number, (pattern, mangled, _) in enumerate(rules):
            exact = plain(pattern)
            if exact is None:
                self._globs.append((number, mangled, glob(pattern)))
            else:
                self._exact[mangled][exact] = number
        self._globs.reverse()  # the last rule first

    def decide(self, name: str, mangled: str) -> bool:
        """Tell what the last match says; without one, True."""
        best = max(self._exact[0].get(name, -1), self._exact[1].get(mangled, -1))
        for number, about_symbol, pattern in self._globs:
            if number < best:
                break
            if pattern.match(mangled if about_symbol else name):
                best = number
                break
        return best < 0 or self._verdicts[best]


def matches_any(pattern: str, subjects: Collection[str]) -> bool:
    """Tell whether a pattern matches any of some texts."""
    exact = plain(pattern)
    return exact in subjects if exact is not None else any(map(glob(pattern).match, subjects))


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
        if pattern in by_spelling:
            out.append(set(by_spelling[pattern]))
            continue
        matches = glob(pattern).match
        out.append({number for spelling, numbers in by_spelling.items() if matches(spelling) for number in numbers})
    return out


def named_by_any(patterns: Sequence[str], functions: Iterable[tuple[str, str]]) -> list[int]:
    """Return which functions any of some patterns names, ascending; see `named_by`."""
    return sorted(set().union(*named_by(patterns, functions))) if patterns else []


def literal(name: str) -> str:
    """Return the pattern that matches exactly this name."""
    return "".join(f"\\{char}" if char in SPECIAL else char for char in name)


def plain(pattern: str) -> str | None:
    """Return the one text that a pattern matches; None if it may match several."""
    out = []
    i = 0
    while i < len(pattern):
        char = pattern[i]
        if char == "\\" and i + 1 < len(pattern):
            i += 1
            char = pattern[i]
        elif char in "*?[":
            return None
        out.append(char)
        i += 1
    return "".join(out)


@lru_cache(maxsize=4096)
def glob(pattern: str) -> re.Pattern[str]:
    """Compile a pattern as POSIX fnmatch reads it without flags: ``*`` matches slashes, leading dots too.

    What stands between two stars has one length, so its first place is as good as any later one: it is never tried
    again, and matching takes time proportional to the text, whatever the pattern.
    """
    parts = [""]  # between stars
    i = 0
    while i < len(pattern):
        char = pattern[i]
        i += 1
        if char == "*":
            parts.append("")
        elif char == "?":
            parts[-1] += "."
        elif char == "\\" and i < len(pattern):
            parts[-1] += re.escape(pattern[i])
            i += 1
        elif char == "[" and (end := _bracket_end(pattern, i)):
            parts[-1] += _bracket(pattern[i:end])
            i = end + 1
        else:
            parts[-1] += re.escape(char)
    first, *others = parts
    between = "".join(f"(?>.*?{part})" for part in others[:-1] if part)
    last = f".*{others[-1]}" if others else ""
    return re.compile(f"{first}{between}{last}\\Z", re.DOTALL)


def _bracket_end(pattern: str, start: int) -> int:
    """Place of the closing bracket, 0 if there is none; a bracket right at the start is a member."""
    i = start + (pattern[start : start + 1] in ("!", "^"))
    i += pattern[i : i + 1] == "]"
    while i < len(pattern) and pattern[i] != "]":
        close = pattern.find(":]", i + 2) if pattern.startswith("[:", i) else -1
        i = close + 2 if close >= 0 else i + (2 if pattern[i] == "\\" else 1)
    return i if i < len(pattern) else 0


def _bracket(inner: str) -> str:
    negated = inner[0] in "!^"
    members: list[tuple[str, bool]] = []  # character, whether it was escaped
    i = int(negated)
    classes = []
    while i < len(inner):
        close = inner.find(":]", i + 2) if inner.startswith("[:", i) else -1
        if close >= 0 and inner[i + 2 : close] in _CLASSES:
            classes.append(_CLASSES[inner[i + 2 : close]])
            i = close + 2
            continue
        escaped = inner[i] == "\\" and i + 1 < len(inner)
        i += escaped
        members.append((inner[i], escaped))
        i += 1
    parts = classes
    i = 0
    while i < len(members):
        low = members[i][0]
        if i + 2 < len(members) and members[i + 1] == ("-", False):
            high = members[i + 2][0]
            if low <= high:  # POSIX: an empty range matches nothing
                parts.append(f"{re.escape(low)}-{re.escape(high)}")
            i += 3
        else:
            parts.append(re.escape(low))
            i += 1
    if not parts:
        return "." if negated else "(?!)"
    return f"[{'^' if negated else ''}{''.join(parts)}]"
