"""``buran verify``: compare the store of a campaign with its checksums, and the ledger with the store."""

from __future__ import annotations

import argparse
import json

from buran.cli.arguments import OF_RESULTS, add_campaign_file, add_loudness
from buran.cli.terminal import is_quiet
from buran.errors import Exit

HELP = "check that what was measured is as it was measured"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_campaign_file(parser, OF_RESULTS)
    parser.add_argument(
        "--repair",
        action="store_true",
        help="write the ledger again, and remove plans, models and reports; `buran run` makes them from the store",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_loudness(parser)


def run(arguments: argparse.Namespace) -> int:
    """Verify results; exit code 1 if anything is damaged and was not repaired."""
    from buran.campaign.layout import campaign_file
    from buran.workflow.engine.controller import sole_controller
    from buran.workflow.session import open_session
    from buran.workflow.views.verify import differences, folders_of, repair

    layout = open_session(campaign_file(arguments.file)).layout
    number, problems = len(folders_of(layout)), differences(layout)
    is_whole = all(problem.is_of_ledger for problem in problems)
    if arguments.repair and is_whole:  # what follows from a damaged store is no better
        with sole_controller(layout, print):
            repair(layout)
        problems = differences(layout)
    if arguments.json:
        print(json.dumps({"folders": number, "problems": list(map(str, problems))}, indent=2))
        return Exit.SOME_RUNS_FAILED if problems else Exit.DONE
    for problem in problems:
        print(problem)
    print(f"{number} builds and runs checked, {len(problems)} problems")
    if arguments.repair and is_whole and not is_quiet():
        print("next: `buran run` makes plans, models and reports again")
    elif any(problem.is_of_ledger for problem in problems) and not is_quiet():
        print("next: `buran verify --repair` writes the ledger again; then `buran run`")
    if not is_whole and not is_quiet():
        print("next: the store is not touched: move such a folder away, or measure again with `buran run --remeasure`")
    return Exit.SOME_RUNS_FAILED if problems else Exit.DONE
