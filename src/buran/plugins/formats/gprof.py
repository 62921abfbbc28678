"""The flat profile of ``gprof -b -p``: seconds and calls of each function of a program built with ``-pg``."""

from __future__ import annotations

import re
from pathlib import Path

from buran.errors import FormatError
from buran.plugins.formats.rank_files import CallPath, Kind, RankFiles, RankValues, reader_of
from buran.profiles.experiment.formats import Sample, read_text
from buran.profiles.profile import Region

_PERIOD = re.compile(r"^Each sample counts as ([0-9.e+-]+) seconds\.$", re.MULTILINE)
_CALLS = r"(?:(?P<calls>\d{1,30}) +(?:[0-9.]+ +[0-9.]+ +)?)?"
_FUNCTION = re.compile(rf"^ *[0-9.]+ +[0-9.]+ +(?P<time>\d{{1,30}}(?:\.\d{{1,30}})?) +{_CALLS}(?P<name>\S.*)$")
_ROOT = Region("program", paradigm="measurement", role="artificial")


def recognises(sample: Sample) -> bool:
    """Tell whether a text begins with a flat profile."""
    return sample.first_line == "Flat profile:"


def read_gprof(path: Path) -> tuple[RankValues]:
    """Read seconds and calls of functions, below a root for the whole program; gprof knows no call paths.

    Raises
    ------
    FormatError
        There is no function in it, or a function is there twice.
    """
    text = read_text(path)
    period = _PERIOD.search(text)
    rows = [row for line in text[period.end() :].splitlines() if (row := _FUNCTION.match(line))] if period else []
    if not rows:
        why = "no time accumulated: the program ended before a sample was taken" if period is None else "no function"
        hint = "let it run for longer, or look whether it was built with -pg"
        raise FormatError("gprof's profile is empty", where=path, why=why, hint=hint)
    seconds: dict[CallPath, float] = {(_ROOT,): 0.0}
    visits: dict[CallPath, float] = {(_ROOT,): 1.0}
    for row in rows:
        name = row["name"].strip()
        call_path = (_ROOT, Region(name))
        if call_path in seconds:
            raise FormatError(
                f"gprof's profile has {name!r} twice",
                where=path,
                why="two functions of a name, in two files of the program",
                hint="give one of them another name",
            )
        seconds[call_path], visits[call_path] = float(row["time"]), float(row["calls"] or "1")
    return (RankValues({"time": seconds, "visits": visits}, {}),)


READER = reader_of("a flat profile of gprof -b -p", RankFiles((Kind((".txt",), recognises, read_gprof),)))
