"""Tables of measurements and points in CSV and TSV files."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from buran.campaign.mistakes import did_you_mean
from buran.errors import FormatError, UsageError

if TYPE_CHECKING:
    from buran.modeling.correction.formula import Array


USUAL = ("time", "runtime", "seconds", "time_s", "value")
"""Names of the column of times, where none is chosen."""


def read_table(path: Path) -> tuple[list[str], list[list[str]]]:
    """Read a CSV or TSV file whose first row names the columns.

    Raises
    ------
    FormatError
        It cannot be read, or a row has another number of fields.
    """
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = [row for row in csv.reader(file, delimiter="\t" if path.suffix == ".tsv" else ",") if row]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise FormatError("cannot read a table", where=path, why=str(error)) from error
    if len(rows) < 2:
        raise FormatError("a table has a row of names and at least one row of values", where=path)
    header = [name.strip() for name in rows[0]]
    if len(set(header)) < len(header) or not all(header):
        raise FormatError("a table's columns need different names", where=path, why=", ".join(header))
    for number, row in enumerate(rows[1:], start=2):
        if len(row) != len(header):
            raise FormatError(
                "a row has another number of fields than the first one",
                where=f"{path}:{number}",
                why=f"{len(row)} instead of {len(header)}",
            )
    return header, [[text.strip() for text in row] for row in rows[1:]]


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
    import numpy as np

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
