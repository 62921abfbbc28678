"""Tables of measurements and points in CSV and TSV files."""

from __future__ import annotations

import csv
from pathlib import Path

from buran.errors import FormatError


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
