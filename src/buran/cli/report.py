"""``buran report``: what the campaign found out, alone or compared with another one."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from buran.cli.arguments import OF_RESULTS, add_campaign_file, add_loudness, open_to_read
from buran.cli.terminal import is_quiet, note, printable
from buran.errors import UsageError

if TYPE_CHECKING:
    from buran.workflow.views.changes import FoundReport

_MORE = "All of it: buran report --full, or --open for the page\n"
HELP = "print the report of a finished campaign, or compare it with an earlier one"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_campaign_file(parser, OF_RESULTS)
    parser.add_argument("--full", action="store_true", help="all tables, through the pager on a terminal")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--html", action="store_true", help="print the path of the page")
    parser.add_argument("--open", action="store_true", help="open the page in a browser")
    add_loudness(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the report, or show its page."""
    from buran.workflow.report import report_so_far
    from buran.workflow.views.changes import find_report, kept_report

    report = kept_report(arguments.file) if arguments.file.is_dir() else None
    if report is None:
        session = open_to_read(arguments.file)
        report = report_so_far(session) or find_report(session)
    say_remarks(report)
    screen = report.folder / "summary.txt"  # reports of earlier versions have none
    try:
        if screen.is_file() and not (arguments.full or arguments.json or arguments.html or arguments.open):
            print(screen.read_text(encoding="utf-8") + ("" if is_quiet() else _MORE), end="", flush=True)
        else:
            show_file(report.folder, "report", arguments)
    except FileNotFoundError as error:
        raise UsageError(
            "a file of the report is missing",
            where=error.filename,
            why="it was removed, or `buran run` makes the campaign's results again now",
            hint="buran status says whether it runs; else buran run",
        ) from error
    return 0


def say_remarks(report: FoundReport) -> None:
    """Say what is to be known of a report before it is read."""
    for remark in report.remarks:
        note(remark)


def show_file(folder: Path, name: str, arguments: argparse.Namespace) -> None:
    """Print a file of a report as text or JSON, or show it as a page."""
    import pydoc
    import webbrowser

    as_page = arguments.html or arguments.open
    path = folder / f"{name}.{'html' if as_page else 'json' if arguments.json else 'txt'}"
    if not as_page:
        text = path.read_text(encoding="utf-8")
        print(text, end="") if arguments.json or not sys.stdout.isatty() else pydoc.pager(printable(text))
        return
    print(path)
    if arguments.open and not webbrowser.open(path.as_uri()):
        raise UsageError("there is no browser here", where=path, hint="open the file on a machine that has one")
