"""``buran doctor --write-system``: propose a system file for this machine."""

from __future__ import annotations

import argparse

from buran.errors import Exit, UsageError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the argument."""
    parser.add_argument(
        "--write-system", metavar="NAME", help="propose a system file for this machine instead, which campaigns name"
    )


def run(arguments: argparse.Namespace) -> int | None:
    """Write the file of a system that is named; without one, leave the rest to `buran doctor`."""
    name = arguments.write_system
    if name is None:
        return None
    from buran.plugins.systems.feature import is_name, user_folder
    from buran.plugins.systems.proposal import proposal

    if not is_name(name):
        raise UsageError(f"{name!r} cannot be the name of a system", hint="use letters, digits, -, . and _")
    path = user_folder() / f"{name}.yaml"
    if path.exists():
        raise UsageError("the system has a file already", where=path, hint="edit it, or move it away")
    text = proposal(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    print(f"{text}\nwrote {path}: correct it, then write `system: {name}` in a campaign")
    return int(Exit.DONE)
