"""Mistakes in a campaign file: collected first, then reported together."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from buran.errors import ConfigError

KeyPath = tuple[str | int, ...]
ANY = "NAME"
"""In key paths, each name that a file gives in this place."""


def spelled(path: KeyPath) -> str:
    """Write a key path as in ``parameters.p.values[2]``."""
    out = ""
    for part in path:
        out += f"[{part}]" if isinstance(part, int) else f".{part}" if out else part
    return out


def nearest(word: str, valid: Iterable[str]) -> str | None:
    """Return the valid word that is most like a mistyped one, or nothing if none is close."""
    by_lower = {other.lower(): other for other in valid}
    close = difflib.get_close_matches(word.lower(), by_lower, n=1, cutoff=0.6)
    begun = [other for other in by_lower if len(word) > 2 and other.startswith(word.lower())]
    found = close or (begun if len(begun) == 1 else [])
    return by_lower[found[0]] if found else None


def did_you_mean(word: str, valid: Iterable[str]) -> str | None:
    """Return a hint that names the nearest valid word, or nothing if none is close."""
    close = nearest(word, valid)
    return None if close is None else f"did you mean {close!r}?"


def listed(words: Iterable[object], limit: int = 12) -> str:
    """Join words with commas; the tail of a long list is counted instead."""
    texts = [str(word) for word in words]
    more = len(texts) - limit
    return ", ".join(texts) if more <= 0 else ", ".join(texts[:limit]) + f" and {more} more"


class TextError(ValueError):
    """A piece of text in a campaign file that is not well formed; becomes a `Mistake` where its key is known.

    Parameters
    ----------
    what
        What is wrong.
    hint
        What to write instead.
    """

    def __init__(self, what: str, hint: str | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.hint = hint


@dataclass(frozen=True)
class Mistake:
    """One thing that is wrong, and where.

    Attributes
    ----------
    path
        Key path in the campaign file; empty for the file as a whole.
    what
        What is wrong, with the offending value.
    why
        What is allowed, or why it cannot work.
    hint
        What to write instead.
    file, line
        Where it stands; line 0 for a file as a whole.
    """

    path: KeyPath
    what: str
    why: str | None = None
    hint: str | None = None
    file: Path | None = None
    line: int = 0

    @property
    def where(self) -> str:
        """File, line and key."""
        location = str(self.file or "")
        if self.line:
            location += f":{self.line}"
        if self.path:
            location += f", key {spelled(self.path)}"
        return location

    def as_json(self) -> dict[str, object]:
        """Return the mistake for programs to read."""
        return {
            "file": str(self.file) if self.file else None,
            "line": self.line or None,
            "key": spelled(self.path) or None,
            "what": self.what,
            "why": self.why,
            "hint": self.hint,
        }


def missing(path: Path) -> str:
    """Say what stands where a file is wanted."""
    return "a folder" if path.is_dir() else "missing"


def no_parameter(path: KeyPath, name: str, parameters: Sequence[str]) -> Mistake:
    """Return the mistake of a name that no parameter has."""
    why = f"the parameters are: {listed(parameters)}"
    return Mistake(path, f"{name!r} is no parameter", why, did_you_mean(name, parameters))


class CampaignError(ConfigError):
    """All mistakes found in a campaign file.

    Parameters
    ----------
    mistakes
        At least one, in the order of reporting.
    """

    def __init__(self, mistakes: Sequence[Mistake]) -> None:
        self.mistakes = tuple(mistakes)
        first = self.mistakes[0]
        if len(self.mistakes) == 1:
            super().__init__(first.what, where=first.where, why=first.why, hint=first.hint)
            return
        blocks = []
        for mistake in self.mistakes:
            details = (mistake.why, mistake.hint)
            blocks.append("\n  ".join([f"{mistake.where}: {mistake.what}", *(text for text in details if text)]))
        super().__init__(f"{len(self.mistakes)} mistakes in the campaign file", why="\n".join(blocks))
