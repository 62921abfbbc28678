"""``buran report``: what the campaign found out."""

from __future__ import annotations

import argparse
from pathlib import Path

HELP = "print the report of a finished campaign"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("file", type=Path, help="campaign file")
    parser.add_argument("--json", action="store_true", help="for programs")


def run(arguments: argparse.Namespace) -> int:
    """Print the report."""
    from buran.errors import UsageError
    from buran.steps.session import open_session

    session = open_session(arguments.file)
    path = session.layout.results(session.id) / ("report.json" if arguments.json else "report.txt")
    if not path.is_file():
        raise UsageError(
            "this campaign has no report yet",
            where=path,
            why="the campaign is not finished, or its file, sources or compiler changed since",
            hint=f"buran run {arguments.file}",
        )
    print(path.read_text(), end="")
    return 0
