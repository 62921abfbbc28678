"""Lists of nodes in brackets, as several schedulers write them."""

from __future__ import annotations

import re


def expand_nodes(text: str) -> tuple[str, ...]:
    """Write a list such as ``n[01-03,7],login`` out, name by name."""
    nodes: list[str] = []
    for part in re.findall(r"(?:[^,\[]|\[[^\]]*\])+", text):
        nodes.extend(_expand(part))
    return tuple(nodes)


def _expand(part: str) -> list[str]:
    match = re.search(r"\[([^\]]*)\]", part)
    if match is None:
        return [part]
    names = []
    for span in match[1].split(","):
        first, dash, last = span.partition("-")
        numbers = [str(number).zfill(len(first)) for number in range(int(first), int(last) + 1)] if dash else [first]
        for number in numbers:
            names.extend(_expand(part[: match.start()] + number + part[match.end() :]))
    return names
