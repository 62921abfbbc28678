"""``buran verify``: compare everything that was measured, and all that follows from it, with what the store says."""

from __future__ import annotations

import argparse
import json

from buran.cli.arguments import OF_RESULTS, add_campaign_file, add_loudness
from buran.cli.terminal import is_quiet
from buran.errors import Exit

HELP = "check a campaign's results against its store"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_campaign_file(parser, OF_RESULTS)
    parser.add_argument("--repair", action="store_true", help="rebuild from the store what can be rebuilt")
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_loudness(parser)


def run(arguments: argparse.Namespace) -> int:
    """Verify results; exit code 1 if anything is damaged and was not repaired."""
    from buran.campaign.results import campaign_file
    from buran.workflow.engine.controller import sole_controller
    from buran.workflow.session import open_session
    from buran.workflow.views.verify import differences, folders_of, repair

    layout = open_session(campaign_file(arguments.file)).layout
    problems, done = differences(layout), []
    if arguments.repair:
        with sole_controller(layout, print):
            done = repair(differences(layout))
        problems = differences(layout)
    number = len(folders_of(layout))
    if arguments.json:
        print(json.dumps({"folders": number, "problems": list(map(str, problems)), "repaired": done}, indent=2))
    else:
        for text in done:
            print(f"repaired: {text}")
        for problem in problems:
            print(problem)
        print(f"{number} builds and runs checked, {len(problems)} problems")
        if not arguments.repair and not is_quiet() and any(problem.repair for problem in problems):
            print("next: `buran verify --repair` rebuilds what the store records; then `buran run`")
        if not is_quiet() and any(problem.repair is None for problem in problems):
            print(
                "next: the store is not touched: move such a folder away, or measure again with `buran run --remeasure`"
            )
    return Exit.SOME_RUNS_FAILED if problems else Exit.DONE
