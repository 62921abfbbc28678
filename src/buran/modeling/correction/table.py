"""Measurements in CSV files: columns of variables and one of times."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from buran.campaign.mistakes import did_you_mean
from buran.errors import FormatError, UsageError
from buran.modeling.correction.formula import Array
from buran.modeling.table import read_table

USUAL = ("time", "runtime", "seconds", "time_s", "value")
"""Names of the column of times, where none is chosen."""


def read_times(path: Path, variables: Sequence[str], value: str | None = None) -> tuple[dict[str, Array], Array]:
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
    header, rows = read_table(path)
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
    out = np.full(len(rows), np.nan)
    for i, row in enumerate(rows):
        text = row[column]
        if missing and not text:
            continue
        try:
            out[i] = float(text)
        except ValueError:
            why = f"column {name}: {text!r}"
            raise FormatError("this is no number", where=f"{path}:{i + 2}", why=why) from None
    return out
