"""What the terminal shows: tables, colours where they are wanted, one line of progress."""

from __future__ import annotations

import os
import shutil
import sys
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, redirect_stdout
from contextvars import ContextVar
from io import StringIO
from typing import Any, TextIO

from buran.wording import aligned

_CODES = {"red": "31", "green": "32", "yellow": "33", "bold": "1", "dim": "2"}
_ESCAPE = f"<escape {os.urandom(8).hex()}>"  # no text of others has it; becomes the character that begins a colour


def wants_colour(stream: TextIO) -> bool:
    """Honour NO_COLOR and pipes."""
    return not os.environ.get("NO_COLOR") and stream.isatty() and os.environ.get("TERM") != "dumb"


def style(text: str, name: str, stream: TextIO | None = None) -> str:
    """Colour a text, for `printable_output`, if the stream shows colours."""
    return f"{_ESCAPE}[{_CODES[name]}m{text}{_ESCAPE}[0m" if wants_colour(stream or sys.stdout) else text


def printable(text: str) -> str:
    """Return a text with characters that steer terminals, or that nobody sees, spelled out: a backslash and a code."""
    lines = text.split("\n")
    return "\n".join(line if line.isprintable() else "".join(map(_spelled, line)) for line in lines)


def _spelled(char: str) -> str:
    # kinds of blanks have the category Zs
    if char.isprintable() or char == "\t" or unicodedata.category(char) == "Zs":
        return char
    return char.encode("unicode_escape").decode()


class _PrintableStream:
    """A stream that makes printable all that is written to it, whosever name it is, but for colours of `style`."""

    def __init__(self, stream: TextIO) -> None:
        self.exact = stream

    def write(self, text: str) -> int:
        encoding = self.exact.encoding or "utf-8"
        shown = printable(text).encode(encoding, "backslashreplace").decode(encoding)
        return self.exact.write(shown.replace(_ESCAPE, "\x1b"))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.exact, name)


@contextmanager
def printable_output() -> Iterator[None]:
    """Make printable all that is printed meanwhile: names of functions and files are anybody's."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (_PrintableStream(stream or StringIO()) for stream in before)  # None: closed, as by `>&-`
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


_QUIET: ContextVar[bool] = ContextVar("quiet", default=False)


@contextmanager
def loudness(*, quiet: bool) -> Iterator[None]:
    """Let `note`, `hushed` and lines of progress know meanwhile whether --quiet is given."""
    before = _QUIET.set(quiet)
    try:
        yield
    finally:
        _QUIET.reset(before)


def is_quiet() -> bool:
    """Return whether errors and results alone are wanted."""
    return _QUIET.get()


def note(text: object, stream: TextIO | None = None) -> None:
    """Print what is good to know next to a result, by default as an error is printed, unless --quiet is given."""
    if not is_quiet():
        stream = stream or sys.stderr
        print(f"{style('note:', 'yellow', stream)} {text}", file=stream)


@contextmanager
def hushed() -> Iterator[None]:
    """Print nothing but errors meanwhile if --quiet is given."""
    with redirect_stdout(StringIO()) if is_quiet() else nullcontext():
        yield


def exact(stream: TextIO) -> TextIO:
    """Return the stream itself, for a display that steers the terminal."""
    return stream.exact if isinstance(stream, _PrintableStream) else stream


def print_data(text: str) -> None:
    """Print what a program reads: as it is, except on a terminal."""
    stream = sys.stdout if sys.stdout.isatty() else exact(sys.stdout)
    stream.write(text)


def table(header: Sequence[str], rows: Sequence[Sequence[object]], right: Sequence[int] = ()) -> str:
    """Align columns, those in `right` to the right, within the terminal's width."""
    cells = [[printable(str(cell)).replace("\n", "\\n") for cell in row] for row in (header, *rows)]
    return "\n".join(aligned(cells, shutil.get_terminal_size().columns, right, rule=True))


def duration(seconds: float) -> str:
    """Spell a time span for people: ``42 s``, ``7 min``, ``3.5 h``."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


class ProgressLine:
    """One line that is rewritten on a terminal; nothing elsewhere."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = exact(stream) if stream.isatty() and not is_quiet() else None

    def show(self, text: str) -> None:
        """Show the newest state."""
        if self._stream is not None:
            width = os.get_terminal_size(self._stream.fileno()).columns or 80
            self._stream.write(f"\r\x1b[K{printable(text)[: max(width - 1, 20)]}")
            self._stream.flush()

    def close(self) -> None:
        """Leave the line behind."""
        if self._stream is not None:
            self._stream.write("\n")
            self._stream.flush()
