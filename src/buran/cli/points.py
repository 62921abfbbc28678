"""Points as they are written on the command line."""

from __future__ import annotations

from buran.errors import UsageError


def no_point(text: str, part: str, example: str) -> UsageError:
    """Return the error of a point with a part that cannot be read."""
    return UsageError(f"--at {text} is no point", why=f"{part.strip()!r} is not", hint=f"write it as {example}")


def named_values(text: str, example: str) -> dict[str, str]:
    """Split ``p=4096,solver=amg`` into names and values.

    Raises
    ------
    UsageError
        A part lacks its name or its value, or names a parameter again.
    """
    out: dict[str, str] = {}
    for part in text.split(","):
        name, _, value = (each.strip() for each in part.partition("="))
        if not (name and value) or name in out:
            raise no_point(text, part, example)
        out[name] = value
    return out
