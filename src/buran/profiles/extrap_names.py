"""Parameter names and values as Extra-P reads them from the names of run folders.

Extra-P takes what stands between the first ``.`` and the first ``.r`` of a folder's name and splits it at
numbers, as in ``sweep.n1000p4.r1``. So a name consists of letters only and does not begin with ``r``, and a
number has neither sign nor exponent.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal

from buran.errors import UsageError

_NOT_A_LETTER = re.compile(r"[^A-Za-z]")
_NUMBER = re.compile(r"([0-9.,]+)")


def extrap_names(parameters: Sequence[str]) -> dict[str, str]:
    """Return the name that each parameter has in an Extra-P folder name.

    All but ASCII letters is left out; a leading ``r`` gets an ``n`` in front (``ranks`` is ``nranks``).

    Raises
    ------
    UsageError
        Two parameters end up with one name, or nothing is left of a name.
    """
    names: dict[str, str] = {}
    owner: dict[str, str] = {}
    for parameter in parameters:
        name = _NOT_A_LETTER.sub("", parameter)
        if name.startswith("r"):
            name = "n" + name
        if not name:
            raise UsageError(
                "a parameter has no name that Extra-P can read",
                where=f"parameter {parameter!r}",
                why="Extra-P reads only letters of parameter names, and this one has none of a to z",
                hint="give it a name with letters",
            )
        if name in owner:
            raise UsageError(
                "two parameters have the same name in Extra-P",
                where=f"parameters {owner[name]!r} and {parameter!r}",
                why=f"Extra-P reads only letters of parameter names, so both become {name!r}",
                hint="rename one, so that they differ in their letters",
            )
        owner[name] = parameter
        names[parameter] = name
    return names


def _decimal(value: float, parameter: str) -> str:
    if not math.isfinite(value) or value < 0:
        raise UsageError(
            "a parameter value cannot be part of an Extra-P folder name",
            where=f"parameter {parameter!r}",
            why=f"the value is {value!r}; Extra-P reads finite numbers without a sign",
            hint="export JSON Lines instead",
        )
    text = format(Decimal(repr(value)), "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def folder_name(prefix: str, point: Mapping[str, float], repetition: int, names: Mapping[str, str]) -> str:
    """Return the name of a run's folder, as in ``sweep.n1000p4.r1``.

    Parameters
    ----------
    prefix
        What the campaign is called; dots become underscores.
    point
        Value of each parameter; written in the order of `names`.
    repetition
        Number of the repetition.
    names
        What `extrap_names` returned.

    Raises
    ------
    UsageError
        A value is negative or not finite.
    """
    values = "".join(name + _decimal(point[parameter], parameter) for parameter, name in names.items())
    safe = re.sub(r"[^A-Za-z0-9_+-]", "_", prefix) or "run"
    return f"{safe}.{values}.r{repetition}"


def parse_folder_name(name: str) -> tuple[dict[str, float], int | None]:
    """Return the point and the number of the repetition in a run folder's name.

    The rules are Extra-P's, but what it misreads is refused: a repetition with a suffix (``r1_old``) and text
    behind the last number. The repetition is ``None`` where the name ends with the last parameter.

    Raises
    ------
    ValueError
        The name follows no such scheme; the message says why.
    """
    head, marker, tail = name.partition(".r")
    _, _, text = head.partition(".")
    if not text:
        raise ValueError("no parameters behind the first dot")
    if marker and not re.fullmatch(r"[0-9]+", tail):
        raise ValueError(f"the repetition is {'r' + tail!r}, not r and a number")
    parts = _NUMBER.split(text)
    if len(parts) < 3 or parts[-1]:
        raise ValueError(f"{text!r} is no sequence of names and numbers")
    point: dict[str, float] = {}
    for parameter, number in zip(parts[0::2], parts[1::2], strict=False):
        if not parameter or parameter in point:
            raise ValueError(f"a name is missing or given twice in {text!r}")
        try:
            point[parameter] = float(number.replace(",", ".").rstrip("."))
        except ValueError:
            raise ValueError(f"{number!r} is not a number") from None
    return point, int(tail) if marker else None
