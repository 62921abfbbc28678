"""Measurements in CSV files: columns of variables and one of times."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from buran.campaign.mistakes import did_you_mean
from buran.errors import FormatError, UsageError
from buran.modeling.correction.formula import Array

USUAL = ("time", "runtime", "seconds", "time_s", "value")
"""Names of the column of times, where none is chosen."""


def read_table(path: Path, variables: Sequence[str], value: str | None = None) -> tuple[dict[str, Array], Array]:
    """Read a CSV file whose first row names the columns.

    Parameters
    ----------
    path
        The file.
    variables
        Columns that must be there.
    value
        Column of the times; by default one of `USUAL`.

    Returns
    -------
    points, values
        Columns by name, and times; an empty time is NaN.

    Raises
    ------
    FormatError
        If a row has another number of fields than the header, or something is no number.
    UsageError
        If a column is missing.
    """
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = [row for row in csv.reader(file) if row]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise FormatError("the measurements cannot be read", where=path, why=str(error)) from None
    if len(rows) < 2:
        raise FormatError("the measurements have no rows", where=path, hint="a header, then one row for each run")
    header = [name.strip() for name in rows[0]]
    for line, row in enumerate(rows[1:], 2):
        if len(row) != len(header):
            why = f"the header has {len(header)} fields, this row {len(row)}"
            raise FormatError("a row does not fit its header", where=f"{path}:{line}", why=why)
    chosen = value or next((name for name in USUAL if name in header), None)
    if chosen is None:
        hint = f"name it with --value: {', '.join(header)}"
        raise UsageError("the column of the times is unknown", where=path, hint=hint)
    for name in (*variables, chosen):
        if name not in header:
            hint = did_you_mean(name, header) or f"the file has {', '.join(header)}"
            raise UsageError(f"the measurements have no column {name!r}", where=path, hint=hint)
    points = {name: _numbers(path, rows, header.index(name), name) for name in variables}
    return points, _numbers(path, rows, header.index(chosen), chosen, missing=True)


def _numbers(path: Path, rows: list[list[str]], column: int, name: str, missing: bool = False) -> Array:
    out = np.full(len(rows) - 1, np.nan)
    for i, row in enumerate(rows[1:]):
        text = row[column].strip()
        if missing and not text:
            continue
        try:
            out[i] = float(text)
        except ValueError:
            why = f"column {name}: {text!r}"
            raise FormatError("this is no number", where=f"{path}:{i + 2}", why=why) from None
    return out
