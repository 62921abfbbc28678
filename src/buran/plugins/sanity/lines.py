"""Conditions on lines of output; a program of its own, on the standard library alone, that `violations` starts."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

_SHOWN = 100  # characters of a line


def violation(conditions: Mapping[str, Any], lines: Sequence[str]) -> str | None:
    """Return which condition lines do not meet; None where they meet all.

    Parameters
    ----------
    conditions
        As `SanityKeys` has them: `found`, `not_found`, `references`.
    """
    for pattern in conditions.get("not_found", ()):
        for number, line in enumerate(lines, start=1):
            if re.search(pattern, line):
                return f"{pattern!r} is in line {number} of the output: {_short(line)}"
    for pattern in conditions.get("found", ()):
        if not any(re.search(pattern, line) for line in lines):
            return _nowhere(pattern, lines)
    for reference in conditions.get("references", ()):
        value, tolerance = reference["value"], reference.get("tolerance", 0.0)
        printed = [
            (number, line, match[1])
            for number, line in enumerate(lines, start=1)
            for match in re.finditer(reference["pattern"], line)
        ]
        if not printed:
            return _nowhere(reference["pattern"], lines)
        for number, line, text in printed:
            if not abs(_number(text) - value) <= tolerance * (abs(value) or 1.0):  # what is no number is not near
                near = f"{value:g} within {100 * tolerance:g} %" if value else f"0 within {tolerance:g}"
                return f"{text} in line {number} of the output is not {near}: {_short(line)}"
    return None


def _nowhere(pattern: str, lines: Sequence[str]) -> str:
    last = next((line for line in reversed(lines) if line.strip()), "")
    return f"{pattern!r} is in none of the {len(lines)} lines of the output; the last is {_short(last)}"


def _short(line: str) -> str:
    text = line.strip()
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}...")


def _number(text: str | None) -> float:
    try:
        return float((text or "").replace("D", "E").replace("d", "e"))  # Fortran's
    except ValueError:
        return math.nan


def _lines(files: Sequence[str]) -> list[str]:
    texts = [Path(path).read_text(errors="replace") if Path(path).is_file() else "" for path in files]
    return [line for text in texts for line in text.splitlines()]


if __name__ == "__main__":
    task = json.load(sys.stdin)
    json.dump([violation(task["conditions"], _lines(files)) for files in task["outputs"]], sys.stdout)
