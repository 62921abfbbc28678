"""``buran report --compare``: two finished campaigns side by side, and conditions that make a build server fail."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from buran.cli.arguments import open_to_read
from buran.cli.report import say_remarks, show_file
from buran.errors import Exit, UsageError
from buran.modeling.numerics.tuning import MATTERS
from buran.plugins.versions.tuning import LEVEL

if TYPE_CHECKING:
    from buran.workflow.session import Session

EARLIER = "campaign file, folder of results or report.json of the earlier one"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    group = parser.add_argument_group("comparison with an earlier campaign")
    group.add_argument(
        "--compare",
        type=Path,
        metavar="OTHER",
        help=EARLIER,
    )
    add_conditions(group)


def add_conditions(group: argparse._ActionsContainer) -> None:
    """Declare what makes a comparison fail, and what it calls different."""
    group.add_argument(
        "--fail-on",
        action="append",
        default=[],
        metavar="CONDITION,...",
        help="exit code 5 if one is certain: grown, runtime, effort (also with a tolerance: grown:10%%), class, "
        "counts, new, worse",
    )
    group.add_argument("--share", type=float, help="least share of a call path that matters (default 0.01)")
    group.add_argument("--level", type=float, help="probability of no false alarm (default 0.95)")


def run(arguments: argparse.Namespace) -> int | None:
    """Compare with the campaign that is named; without one, leave the rest to `buran report`."""
    if arguments.compare is None:
        for name in ("fail_on", "share", "level"):
            if getattr(arguments, name) not in (None, []):
                option = f"--{name.replace('_', '-')}"
                raise UsageError(f"{option} needs a campaign to compare with", hint="name it with --compare OTHER")
        return None
    from buran.workflow.views.latest import find_report

    session = open_to_read(arguments.file)
    say_remarks(find_report(session, earlier=False))
    return _compare(session, arguments)


def _compare(session: Session, arguments: argparse.Namespace) -> int:
    from buran.plugins.versions.condition import broken_by, parse_conditions
    from buran.plugins.versions.page import NAME, write_comparison
    from buran.plugins.versions.results import compare_with

    level = LEVEL if arguments.level is None else arguments.level
    share = MATTERS if arguments.share is None else arguments.share
    for option, value, fits in (("--level", level, 0 < level < 1), ("--share", share, 0 <= share < 1)):
        if not fits:
            raise UsageError(f"{option} is a share between 0 and 1", why=f"it is {value:g}")
    conditions = parse_conditions(arguments.fail_on)
    comparison = compare_with(session, arguments.compare, level, share)
    broken = broken_by(comparison, conditions)
    folder = session.layout.results(session.id)
    write_comparison(folder, comparison, broken)
    show_file(folder, NAME, arguments)
    return Exit.GROWN if broken else Exit.DONE
