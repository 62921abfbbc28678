"""``buran report --compare``: two finished campaigns side by side, and conditions that make a build server fail."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from buran.cli.arguments import open_to_read
from buran.cli.report import say_remarks, show_file
from buran.errors import Exit, UsageError
from buran.modeling.numerics.tuning import MATTERS

if TYPE_CHECKING:
    from buran.plugins.versions.difference import Comparison
    from buran.workflow.session import Session


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    group = parser.add_argument_group("comparison with an earlier campaign")
    earlier = "campaign file, folder of results or report.json of the earlier one"
    group.add_argument("--compare", type=Path, metavar="OTHER", help=earlier)
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
    from buran.workflow.views.changes import find_report

    session = open_to_read(arguments.file)
    say_remarks(find_report(session, earlier=False))
    return _compare(session, arguments)


def _compare(session: Session, arguments: argparse.Namespace) -> int:
    from buran.plugins.versions.condition import broken_by, parse_conditions
    from buran.plugins.versions.difference import LEVEL
    from buran.plugins.versions.page import NAME, write_comparison

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


def compare_with(session: Session, other: Path, level: float, share: float) -> Comparison:
    """Compare a finished campaign with an earlier one; raises `UsageError` if they are the same."""
    from buran.campaign.layout import REPORT, results_folder
    from buran.plugins.versions.compare import compare_sides
    from buran.plugins.versions.side import KEEP, read_side, side_of_results

    folder = session.layout.results(session.id)
    before = read_side(other)
    same = other.resolve() if other.suffix == ".json" else results_folder(other)
    if same in (folder.resolve(), (folder / REPORT).resolve(), (folder / "models.json").resolve()):
        siblings = sorted(
            results.name for results in folder.parent.iterdir() if results != folder and (results / REPORT).is_file()
        )
        lie = f"earlier results of this file lie in {folder.parent}: {', '.join(siblings)}" if siblings else KEEP
        raise UsageError("a campaign cannot be compared with itself", where=other, hint=lie)
    return compare_sides(before, side_of_results(folder, str(session.campaign.path)), level, share)
