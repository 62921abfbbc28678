"""``buran filter``: the list of functions worth instrumenting, in Score-P's format."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

HELP = "print the Score-P filter list that the models suggest"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("file", type=Path, help="campaign file")
    parser.add_argument("-o", "--output", type=Path, help="write it there instead of printing it")
    parser.add_argument("--json", action="store_true", help="for programs")


def run(arguments: argparse.Namespace) -> int:
    """Print or write the newest filter."""
    from buran.errors import UsageError
    from buran.files import write_text
    from buran.steps.report import commented_filter
    from buran.steps.session import open_session

    session = open_session(arguments.file)
    text = commented_filter(session)
    if not text:
        raise UsageError(
            "no filter was decided yet",
            where=session.layout.root,
            why="the campaign has not refined its instrumentation, or refinement is off",
            hint=f"buran run {arguments.file}",
        )
    if arguments.output:
        write_text(arguments.output, text)
        print(f"written: {arguments.output}")
    elif arguments.json:
        print(json.dumps({"filter": text}))
    else:
        print(text, end="")
    return 0
