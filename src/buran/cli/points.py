"""Points as they are written on the command line."""

from __future__ import annotations

import math
from collections.abc import Collection

from buran.errors import UsageError
from buran.wording import Category


def no_point(text: str, part: str, example: str, option: str = "--at") -> UsageError:
    """Return the error of a point with a part that cannot be read."""
    return UsageError(
        f"{option} {text} is no point", why=f"{part.strip()!r} is not NAME=NUMBER", hint=f"write it as {example}"
    )


def named_values(text: str, example: str, option: str = "--at") -> dict[str, str]:
    """Split ``p=4096,solver=amg`` into names and values.

    Raises
    ------
    UsageError
        A part has no name or no value, or names a parameter again.
    """
    out: dict[str, str] = {}
    for part in text.split(","):
        name, _, value = (word.strip() for word in part.partition("="))
        if not (name and value) or name in out:
            raise no_point(text, part, example, option)
        out[name] = value
    return out


def named_numbers(
    text: str, example: str, option: str = "--at", *, positive: bool = True, known: Collection[float] | None = ()
) -> dict[str, float]:
    """Read ``p=4096,n=48000,solver=cg``.

    Parameters
    ----------
    known
        Numbers that were measured, among them those of words that may be given; None takes every word.

    Raises
    ------
    UsageError
        As for `named_values`, or a value is no finite number, or not above 0 where it has to be.
    """
    out: dict[str, float] = {}
    for name, number in named_values(text, example, option).items():
        try:
            out[name] = float(number)
        except ValueError:
            word = Category(number)
            out[name] = word if known is None or word in known else math.nan
        if positive and out[name] <= 0:
            raise UsageError(
                f"{option} {text} is no point of models",
                why=f"{name} is {out[name]:g}: logarithms and negative powers have no value at 0 and below",
                hint=f"give a {name} above 0, best one that was measured or a larger one",
            )
        if not math.isfinite(out[name]):
            raise no_point(text, f"{name}={number}", example, option)
    return out
