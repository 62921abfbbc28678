"""Looking through output; a program of its own, on the standard library alone, that `check.ask` starts."""

from __future__ import annotations

import json
import math
import re
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

_SHOWN = 100  # characters of a line
_CUT = re.compile(r"\[[0-9]+ bytes are left out here\]")


def violation(conditions: Mapping[str, Sequence[Any]], lines: Sequence[str]) -> str | None:
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
        printed = list(_printed(reference["pattern"], lines))
        if not printed:
            return _nowhere(reference["pattern"], lines)
        for number, line, text in printed:
            if not abs(_number(text) - value) <= tolerance * (abs(value) or 1.0):  # what is no number is not near
                near = f"{value:g} within {100 * tolerance:g} %" if value else f"0 within {tolerance:g}"
                return f"{text} in line {number} of the output is not {near}: {_short(line)}"
    return None


def figure(pattern: str, lines: Sequence[str]) -> float | str:
    """Return the number that a pattern finds last, or why there is none.

    Lines next to the cut of a long output may be without digits, and do not count.
    """
    cut = {near for position, line in enumerate(lines) if _CUT.fullmatch(line) for near in (position - 1, position + 1)}
    printed = list(_printed(pattern, [line * (position not in cut) for position, line in enumerate(lines)]))
    if not printed:
        return _nowhere(pattern, lines)
    number, line, text = printed[-1]
    if math.isfinite(value := _number(text)):
        return value
    numeric = re.match(r"\s*[-+]?[0-9][0-9.,' ]*", text or "")
    hint = "; the group must be around digits alone, without units and separators" if numeric else ""
    return f"{text!r} in line {number} of the output is no finite number{hint}: {_short(line)}"


def _printed(pattern: str, lines: Sequence[str]) -> Iterator[tuple[int, str, str | None]]:
    """Yield what the group of a pattern matches, with the number of its line and the line."""
    for number, line in enumerate(lines, start=1):
        for match in re.finditer(pattern, line):
            yield number, line, match[1]


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
    texts = [Path(path).read_text(errors="replace", encoding="utf-8") if Path(path).is_file() else "" for path in files]
    return [line for text in texts for line in text.splitlines()]


def _answers(questions: Sequence[Any], outputs: Sequence[Sequence[str]], limit_s: float) -> list[list[Any]]:
    """Return the answers to all questions for each output; what once takes too long is not evaluated again."""
    late = set[int]()
    why = f"its patterns took more than {limit_s:g} s, as repetitions inside of repetitions do: (a+)+"
    answers: list[list[Any]] = []
    for files in outputs:
        lines = _lines(files)
        answers.append([])
        for number, question in enumerate(questions):
            try:
                if number in late:
                    raise TimeoutError
                signal.setitimer(signal.ITIMER_REAL, limit_s)
                is_figure = isinstance(question, str)
                answers[-1].append(figure(question, lines) if is_figure else violation(question, lines))
            except TimeoutError:
                late.add(number)
                answers[-1].append(why)
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
    return answers


def _stop(*_: object) -> None:
    raise TimeoutError


if __name__ == "__main__":
    signal.signal(signal.SIGALRM, _stop)
    json.dump(_answers(**json.load(sys.stdin)), sys.stdout)
