"""Points, call paths and tables as plain text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from buran.profiles.experiment.collect import split_call_path
from buran.profiles.names import plain_name, without_arguments
from buran.profiles.profile import SEPARATOR
from buran.wording import aligned, distinct

WIDTH = 120
"""Width of tables in files."""
Reach = tuple[float, float | None, float | None]
"""A prediction and the bounds of its interval, None where these are not known."""


def sentence(text: str, names: Sequence[str]) -> str:
    """Begin with a capital letter, unless a name of a parameter or a command comes first."""
    word = text.partition(" ")[0]
    return text if word in names or not word.isalpha() else text[:1].upper() + text[1:]


def section(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return an underlined title with a table; nothing without rows."""
    if not rows:
        return ""
    return "\n".join([title, "-" * len(title), *aligned((header, *rows), WIDTH)])


def brief(call_path: str, limit: int = 64) -> str:
    """Shorten a call path for a table: no arguments of functions, then none of templates, then its end alone."""
    parts = split_call_path(call_path)
    short = SEPARATOR.join(map(without_arguments, parts))
    if len(short) > limit:
        short = SEPARATOR.join(map(plain_name, parts))
    return short if len(short) <= limit else "..." + short[-(limit - 3) :]


def briefs(call_paths: Sequence[str]) -> list[str]:
    """Shorten call paths; different ones that would be called the same show where they differ."""
    return distinct([brief(path) for path in call_paths], call_paths, 64)


def reach_text(reach: Reach | None) -> str:
    """Return a prediction and its interval as ``12.3 [11.8, 13.1]``."""
    if reach is None:
        return "–"
    value, low, high = reach
    return f"{value:.4g}" if low is None or high is None else f"{value:.4g} [{low:.3g}, {high:.3g}]"


def name_of(call_path: str, callers: int = 0) -> str:
    """Return the function, and of an MPI operation the caller too, as many call the same; after further `callers`."""
    parts = split_call_path(call_path)
    last = parts[-2 - callers :] if parts[-1].startswith("MPI_") else parts[-1 - callers :]
    return " → ".join(brief(plain_name(part), 40) for part in last)


def names_of(call_paths: Iterable[str]) -> dict[str, str]:
    """Return names of call paths; those of one name begin at the callers that distinguish them."""
    names, callers = {path: name_of(path) for path in call_paths}, 0
    counts = Counter(names.values())
    while max(counts.values(), default=1) > 1 and callers < max(map(len, map(split_call_path, names))):
        callers += 1
        names = {path: name_of(path, callers) if counts[name] > 1 else name for path, name in names.items()}
        counts = Counter(names.values())
    return names
