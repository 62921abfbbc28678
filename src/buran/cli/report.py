"""``buran report``: what the campaign found out."""

from __future__ import annotations

import argparse

from buran.cli.arguments import add_campaign_file

HELP = "print the report of a finished campaign"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_campaign_file(parser)
    parser.add_argument("--json", action="store_true", help="for programs")
    parser.add_argument("--html", action="store_true", help="print where the page lies instead")
    parser.add_argument("--open", action="store_true", help="open the page in a browser")


def run(arguments: argparse.Namespace) -> int:
    """Print the report, or show its page."""
    import webbrowser

    from buran.errors import UsageError
    from buran.steps.session import open_session

    session = open_session(arguments.file)
    as_page = arguments.html or arguments.open
    name = "report.html" if as_page else "report.json" if arguments.json else "report.txt"
    path = session.layout.results(session.id) / name
    if not path.is_file():
        raise UsageError(
            "this campaign has no report yet",
            where=path,
            why="the campaign is not finished, or its file, sources or compiler changed since",
            hint=f"buran run {arguments.file}",
        )
    if not as_page:
        print(path.read_text(), end="")
        return 0
    print(path)
    if arguments.open and not webbrowser.open(path.as_uri()):
        raise UsageError("there is no browser here", where=path, hint="open the file on a machine that has one")
    return 0
