"""What the terminal shows: tables, colours where they are wanted, one line of progress."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TextIO

_CODES = {"red": "31", "green": "32", "yellow": "33", "bold": "1", "dim": "2"}


def wants_colour(stream: TextIO) -> bool:
    """Honour NO_COLOR and pipes."""
    return not os.environ.get("NO_COLOR") and stream.isatty() and os.environ.get("TERM") != "dumb"


def style(text: str, name: str, stream: TextIO | None = None) -> str:
    """Colour a text if the stream shows colours."""
    return f"\x1b[{_CODES[name]}m{text}\x1b[0m" if wants_colour(stream or sys.stdout) else text


def table(header: Sequence[str], rows: Sequence[Sequence[object]], right: Sequence[int] = ()) -> str:
    """Align columns; those in `right` to the right."""
    cells = [[str(cell) for cell in row] for row in (header, *rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    lines = [
        "  ".join(
            cell.rjust(width) if i in right else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    ]
    return "\n".join([lines[0], "  ".join("-" * width for width in widths), *lines[1:]])


def duration(seconds: float) -> str:
    """Spell a time span for people: ``42 s``, ``7 min``, ``3.5 h``."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


class ProgressLine:
    """One line that is rewritten on a terminal; elsewhere a line only when something was finished."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self.live = stream.isatty()
        self.last = ""

    def show(self, text: str, *, always: bool = False) -> None:
        """Show the newest state."""
        if text == self.last:
            return
        self.last = text
        if self.live:
            width = os.get_terminal_size(self.stream.fileno()).columns or 80
            self.stream.write(f"\r\x1b[K{text[: max(width - 1, 20)]}")
        elif always:
            self.stream.write(text + "\n")
        self.stream.flush()

    def close(self) -> None:
        """Leave the line behind."""
        if self.live and self.last:
            self.stream.write("\n")
            self.stream.flush()
