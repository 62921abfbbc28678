"""The formats that measurements are read from and written to: what is built in, and what other packages bring."""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from buran import budget
from buran.errors import FormatError, PluginError, UsageError
from buran.extensions import ExtensionPoint

if TYPE_CHECKING:
    from buran.errors import BuranError
    from buran.profiles.experiment.build import Run
    from buran.profiles.experiment.extrap_tree import RunFile
    from buran.profiles.experiment.table import Aggregate, Experiment

_HEAD = 4096


@dataclass(frozen=True)
class Sample:
    """What identifies the format of a file or folder.

    Attributes
    ----------
    path
        It exists.
    """

    path: Path

    @cached_property
    def head(self) -> bytes:
        """The first bytes of a file, 4 KiB at most; nothing of a folder."""
        if not self.path.is_file():
            return b""
        with self.path.open("rb") as file:
            return file.read(_HEAD)

    @cached_property
    def first_line(self) -> str:
        """The first line of a text that is not blank, without blanks around it; empty if there is no text."""
        if not self.path.is_file():
            return ""
        try:
            opened = gzip.open if self.path.name.endswith(".jsonl.gz") else open
            with opened(self.path, "rt", encoding="utf-8-sig") as file:
                return next((line.strip() for line in file if line.strip()), "")
        except (UnicodeDecodeError, gzip.BadGzipFile, EOFError):
            return ""

    @cached_property
    def first_key(self) -> str:
        """The first key of a file with one JSON object; empty for others."""
        key = re.match(rb'\s*\{\s*"(\w+)"\s*:', self.head)
        return key[1].decode() if key else ""


@dataclass(frozen=True)
class Reader:
    """Reads a format.

    Attributes
    ----------
    what
        Files or folders of this format, as text.
    recognises
        Tells whether a file or folder is of this format; where another format may look alike, it must say no.
    read
        Returns the table. Errors of single runs go to the list, if there is one, and the others make the table.
    list_runs
        For folders of cubex profiles, which have values of single ranks: returns the profiles.
    is_last
        Whether it is tried only where no other reader recognises a file.
    """

    what: str
    recognises: Callable[[Sample], bool]
    read: Callable[[Path, list[BuranError] | None], Experiment]
    list_runs: Callable[[Path, list[BuranError] | None], Sequence[RunFile]] | None = None
    is_last: bool = False


@dataclass(frozen=True)
class Writer:
    """Writes a format.

    Attributes
    ----------
    suffix
        What names of its files end with, such as ``.json``; empty for folders.
    what
        Its files or folders, as text.
    write
        Writes a table; the aggregate is the value over locations that is wanted. None if it takes profiles.
    write_runs
        Writes profiles into a folder and returns their number.
    all_locations
        Whether it keeps all aggregates over locations, so that none is chosen.
    """

    suffix: str
    what: str
    write: Callable[[Experiment, Path, Aggregate], None] | None = None
    write_runs: Callable[[Path, Iterable[Run]], int] | None = None
    all_locations: bool = False


READERS: ExtensionPoint[Reader] = ExtensionPoint(
    "format",
    "buran.readers",
    Reader,
    {
        "cubex": "buran.profiles.experiment.extrap_tree:READER",
        "text": "buran.profiles.experiment.extrap_files:TEXT_READER",
        "json": "buran.profiles.experiment.extrap_files:JSON_READER",
        "jsonl": "buran.profiles.experiment.jsonl:READER",
    },
)
WRITERS: ExtensionPoint[Writer] = ExtensionPoint(
    "writer",
    "buran.writers",
    Writer,
    {
        "jsonl": "buran.profiles.experiment.jsonl:WRITER",
        "json": "buran.profiles.experiment.extrap_files:JSON_WRITER",
        "text": "buran.profiles.experiment.extrap_files:TEXT_WRITER",
        "tree": "buran.profiles.experiment.extrap_tree:WRITER",
    },
)


def writer_for(path: Path) -> Writer:
    """Return the writer that the end of a name asks for.

    Raises
    ------
    UsageError
        There is none, or it belongs to a plug-in that is not installed.
    PluginError
        There are several.
    """
    if (name := path.suffix.removeprefix(".")) in WRITERS.missing:
        WRITERS.load(name)
    fitting = {name: writer for name in WRITERS.names if (writer := WRITERS.load(name)).suffix == path.suffix}
    if not fitting:
        raise UsageError(
            f"no format belongs to the name {path.name!r}",
            where=path,
            why=f"OUT ends with {path.suffix!r}",
            hint="use " + ", ".join(f"{writer.suffix or 'no suffix'} ({writer.what})" for writer in WRITERS),
        )
    if len(fitting) > 1:
        raise PluginError(
            f"the writers {' and '.join(fitting)} have the same suffix {path.suffix!r}",
            where="entry point group buran.writers",
            hint="uninstall the package that brings one of them",
        )
    return next(iter(fitting.values()))


def wrong(path: Path, why: str, *, line: int | None = None, key: str | None = None, expected: str) -> FormatError:
    """Return the error for a file whose content is not as expected."""
    where = str(path) + (f", line {line}" if line is not None else "") + (f", {key}" if key else "")
    return FormatError("the measurement file cannot be read", where=where, why=why, hint=f"expected: {expected}")


def read_text(path: Path) -> str:
    r"""Return the content of a text file, with ``\n`` at the ends of lines.

    Raises
    ------
    FormatError
        The file is missing, empty or no UTF-8.
    """
    expected = "a text file with measurements, in UTF-8"
    try:
        if path.suffix == ".gz":
            with gzip.open(path, "rt", encoding="utf-8-sig") as compressed:
                text = compressed.read()
        else:
            text = budget.read_text(path, "utf-8-sig")
    except OSError as error:
        raise wrong(path, error.strerror or str(error), expected=expected) from error
    except (EOFError, zlib.error) as error:
        raise wrong(path, f"it cannot be decompressed: {error}", expected=expected) from error
    except UnicodeDecodeError as error:
        raise wrong(path, f"it is no text: {error}", expected=expected) from error
    if not text.strip():
        raise wrong(path, "it is empty", expected=expected)
    return text
