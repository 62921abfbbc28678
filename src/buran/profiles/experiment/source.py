"""Text of measurement files, and the errors that name a line in it."""

from __future__ import annotations

import gzip
import math
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from buran import budget
from buran.errors import FormatError
from buran.profiles.profile import CallTree


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


def as_number(value: object) -> float | None:
    """Return a JSON value as a number, NaN for null, or None if it is neither or infinite."""
    if value is None:
        return math.nan
    if type(value) not in (int, float):
        return None
    try:
        number = float(value)  # type: ignore[arg-type]
    except OverflowError:
        return None
    return None if math.isinf(number) else number


def export_names(tree: CallTree, *, one_line: bool = False) -> list[str]:
    """Return call-path names that are unique, as formats need them that know call paths by their names.

    Two regions may have one name, as the constructors have that a compiler makes of one: later ones get their
    mangled name in brackets, or a number.

    Parameters
    ----------
    tree
        The call paths.
    one_line
        Make every white space one blank.
    """
    names: dict[str, None] = {}
    for plain, region in zip(tree.names, tree.region.tolist(), strict=True):
        name = " ".join(plain.split()) if one_line else plain
        if name in names:
            name += f" [{tree.regions[region].mangled or tree.regions[region].name}]"
            if one_line:
                name = " ".join(name.split())
        unique, number = name, 2
        while unique in names:
            unique = f"{name} #{number}"
            number += 1
        names[unique] = None
    return list(names)


def coordinates(point: Sequence[float]) -> list[float]:
    """Return a point with whole numbers as integers, so that files show 4 and not 4.0."""
    return [int(value) if value.is_integer() else value for value in np.asarray(point, dtype=float).tolist()]
