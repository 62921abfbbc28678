"""``buran report``: what the campaign found out, alone or beside another one."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from buran.cli.arguments import OF_RESULTS, add_campaign_file
from buran.cli.reading import open_to_read
from buran.cli.terminal import printable
from buran.errors import Exit, UsageError

if TYPE_CHECKING:
    from buran.loop.session import Session
    from buran.views.latest import FoundReport

HELP = "print the report of a finished campaign, or compare it with an earlier one"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_campaign_file(parser, OF_RESULTS)
    parser.add_argument("--full", action="store_true", help="all tables, through the pager on a terminal")
    parser.add_argument("--json", action="store_true", help="for programs")
    parser.add_argument("--html", action="store_true", help="print where the page lies instead")
    parser.add_argument("--open", action="store_true", help="open the page in a browser")
    beside = parser.add_argument_group("comparison with an earlier campaign")
    beside.add_argument(
        "--compare",
        type=Path,
        metavar="OTHER",
        help="campaign file, folder of results (such as results/NAME/latest), or report.json of the earlier one",
    )
    beside.add_argument(
        "--fail-on",
        action="append",
        default=[],
        metavar="CONDITION,...",
        help="exit code 5 if something certainly grew: grown, runtime, effort (each also with a tolerance, as in "
        "grown:10%%), class, counts, new",
    )
    beside.add_argument(
        "--share", type=float, help="call paths matter from this share of their metric on (default 0.01)"
    )
    beside.add_argument(
        "--level", type=float, help="probability that nothing is called different that is not (default 0.95)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the report, or show its page."""
    from buran.loop.report import report_so_far
    from buran.views.latest import find_report, kept_report

    if arguments.compare is None:
        for name in ("fail_on", "share", "level"):
            if getattr(arguments, name) not in (None, []):
                option = f"--{name.replace('_', '-')}"
                raise UsageError(f"{option} needs a campaign to compare with", hint="name it with --compare OTHER")
    if arguments.compare is not None:
        session = open_to_read(arguments.file)
        _say(find_report(session, earlier=False))
        return _compare(session, arguments)
    report = kept_report(arguments.file) if arguments.file.is_dir() else None
    if report is None:
        session = open_to_read(arguments.file)
        report = report_so_far(session) or find_report(session)
    _say(report)
    screen = report.folder / "summary.txt"  # reports of earlier versions have none
    try:
        if screen.is_file() and not (arguments.full or arguments.json or arguments.html or arguments.open):
            print(screen.read_text() + "All of it: buran report --full, or --open for the page", flush=True)
        else:
            _show(report.folder, "report", arguments)
    except FileNotFoundError as error:
        raise UsageError(
            "a file of the report is missing",
            where=error.filename,
            why="it was removed, or `buran run` makes the campaign's results again now",
            hint="buran status says whether it runs; else buran run",
        ) from error
    return 0


def _say(report: FoundReport) -> None:
    for remark in report.remarks:
        print(f"note: {remark}", file=sys.stderr)


def _show(folder: Path, name: str, arguments: argparse.Namespace) -> None:
    import pydoc
    import webbrowser

    as_page = arguments.html or arguments.open
    path = folder / f"{name}.{'html' if as_page else 'json' if arguments.json else 'txt'}"
    if not as_page:
        text = path.read_text()
        print(text, end="") if arguments.json or not sys.stdout.isatty() else pydoc.pager(printable(text))
        return
    print(path)
    if arguments.open and not webbrowser.open(path.as_uri()):
        raise UsageError("there is no browser here", where=path, hint="open the file on a machine that has one")


def _compare(session: Session, arguments: argparse.Namespace) -> int:
    from buran.compare.condition import broken_by, parse_conditions
    from buran.compare.tuning import COMPARED
    from buran.views.comparison import NAME, compare_with, write_comparison

    level = COMPARED.level if arguments.level is None else arguments.level
    share = COMPARED.share if arguments.share is None else arguments.share
    for option, value, fits in (("--level", level, 0 < level < 1), ("--share", share, 0 <= share < 1)):
        if not fits:
            raise UsageError(f"{option} is a share between 0 and 1", why=f"it is {value:g}")
    conditions = parse_conditions(arguments.fail_on)
    comparison = compare_with(session, arguments.compare, level, share)
    broken = broken_by(comparison, conditions)
    folder = session.layout.results(session.id)
    write_comparison(folder, comparison, broken)
    _show(folder, NAME, arguments)
    return Exit.GROWN if broken else Exit.DONE
