"""Reading measurements of any format."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from itertools import chain
from pathlib import Path
from typing import Literal

from buran.errors import BuranError, FormatError, UsageError
from buran.experiment.build import experiment_from_profiles
from buran.experiment.extrap_json import read_extrap_json
from buran.experiment.extrap_text import read_extrap_text
from buran.experiment.extrap_tree import read_runs
from buran.experiment.jsonl import read_jsonl, read_talpas, talpas_to_json
from buran.experiment.source import read_text, wrong
from buran.experiment.table import Experiment

Format = Literal["cubex", "text", "json", "jsonl", "talpas"]
FORMATS: tuple[Format, ...] = ("cubex", "text", "json", "jsonl", "talpas")

_READERS: Mapping[str, Callable[[Path], Experiment]] = {
    "text": read_extrap_text,
    "json": read_extrap_json,
    "jsonl": read_jsonl,
    "talpas": read_talpas,
}
_KEYWORDS = ("PARAMETER", "POINTS", "REGION", "METRIC", "DATA", "#")


def _object(line: str) -> object:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def detect_format(path: Path) -> Format:
    """Tell the format of a file or folder from its content.

    Raises
    ------
    FormatError
        It is none of `FORMATS`.
    """
    expected = "a folder of runs with cubex files, or a file in Extra-P's text, JSON, JSON Lines or TaLPas format"
    if path.is_dir():
        return "cubex"
    if path.suffix == ".cubex":
        raise UsageError(
            "a single profile is no series of measurements",
            where=path,
            why="it says nothing about parameters",
            hint="give the folder that holds the folders of all runs, named like prefix.n1000p4.r1",
        )
    text = read_text(path)
    first = next(line.strip() for line in text.split("\n") if line.strip())
    if first.startswith(_KEYWORDS):
        return "text"
    if first.startswith("{"):
        data = _object(first)
        if data is None:
            data = _object(talpas_to_json(first))
        if isinstance(data, dict) and "params" in data:
            return "jsonl"
        if isinstance(data, dict) and "value" in data:
            return "talpas"
        return "json"
    raise wrong(path, f"it begins with {first[:40]!r}", line=1, expected=expected)


def read_experiment(path: Path, format: str | None = None, problems: list[BuranError] | None = None) -> Experiment:
    """Read measurements from a file or a folder of runs.

    Parameters
    ----------
    path
        What to read.
    format
        One of `FORMATS`; found out from the content by default.
    problems
        Takes the errors of single runs that cannot be read, and the others make the table; without it the
        first one is raised.

    Raises
    ------
    FormatError
        The content is not what it should be; names file, line or key, and what is expected.
    UsageError
        There is no such format.
    """
    chosen = detect_format(path) if format is None else format
    if chosen == "cubex":
        runs = read_runs(path, problems)
        first = next(runs, None)
        if first is None:
            raise FormatError("no profile can be read", where=path, why=str(problems[0]) if problems else None)
        return experiment_from_profiles(chain([first], runs))
    if chosen not in _READERS:
        raise UsageError(f"there is no format {chosen!r}", why=f"there are {', '.join(FORMATS)}")
    return _READERS[chosen](path)
